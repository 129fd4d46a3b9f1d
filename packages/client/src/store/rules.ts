// What every write does to the head, and when it is refused: the laws of store.ts, once for all stores. Pure functions. A
// store reads its head, gets the next one here, and writes it with what belongs to it, in one transaction.

import { equalBytes } from '@keyhush/protocol'
import {
  type Advance,
  type HintRecord,
  type StateHead,
  StateMovedError,
  StateUnreadableError,
  type StoredEpoch,
} from './store.js'

/** A head as stores keep it. */
export interface StoredHead extends StateHead {
  /** the checkpoint's version, from which entries lead up to `version`; a half-made hint has neither: its own version */
  readonly checkpointVersion: number
}

/** The head, if it is of this hint and may be used. Throws StateMovedError. */
export function usable(head: StoredHead | undefined, hintId: Uint8Array, stage?: StateHead['stage']): StoredHead {
  if (head === undefined) throw new StateMovedError('no state is stored')
  if (!equalBytes(head.record.hintId, hintId)) throw new StateMovedError('the stored state is of another hint')
  if (head.condemned !== undefined) throw new StateMovedError('the stored hint is condemned')
  if (stage !== undefined && head.stage !== stage) throw new StateMovedError(`the stored hint is ${head.stage}`)
  return head
}

/** The head, if it has entries from version `from` on. Throws StateMovedError. */
export function reaching(head: StoredHead | undefined, hintId: Uint8Array, from: number): StoredHead {
  const whole = usable(head, hintId, 'whole')
  if (from > whole.version) {
    throw new StateMovedError(`the stored state is at version ${whole.version}, behind ${from}: it has been taken back`)
  }
  return whole
}

export function begun(head: StoredHead | undefined, record: HintRecord, replaces: Uint8Array | undefined): StoredHead {
  assertReplaces(head, replaces)
  return {
    record,
    stage: 'partial',
    version: 0,
    checkpointVersion: 0,
    journalBytes: 0,
    pending: undefined,
    condemned: undefined,
  }
}

/** The head, if it is of this half-made hint, at this version. Throws StateMovedError. */
export function halfMade(head: StoredHead | undefined, hintId: Uint8Array, version: number): StoredHead {
  const partial = usable(head, hintId, 'partial')
  assertVersion(partial, version)
  return partial
}

export function updated(
  head: StoredHead | undefined,
  hintId: Uint8Array,
  version: number,
  epoch: StoredEpoch,
): StoredHead {
  const partial = halfMade(head, hintId, version)
  const next = version + 1
  return { ...partial, record: movedTo(partial.record, epoch), version: next, checkpointVersion: next }
}

export function completed(head: StoredHead | undefined, hintId: Uint8Array, version: number): StoredHead {
  return { ...halfMade(head, hintId, version), stage: 'whole' }
}

export function withPending(
  head: StoredHead | undefined,
  hintId: Uint8Array,
  version: number,
  pending: Uint8Array,
): StoredHead {
  const whole = usable(head, hintId, 'whole')
  assertVersion(whole, version)
  if (whole.pending !== undefined && !equalBytes(whole.pending, pending)) {
    throw new StateMovedError('a lookup is pending')
  }
  return { ...whole, pending }
}

/** `effectBytes`: the effect's length as stored. */
export function committed(
  head: StoredHead | undefined,
  hintId: Uint8Array,
  version: number,
  effectBytes: number,
): StoredHead {
  const whole = usable(head, hintId, 'whole')
  assertVersion(whole, version)
  if (whole.pending === undefined) throw new StateMovedError('no lookup is pending')
  return { ...whole, pending: undefined, version: version + 1, journalBytes: whole.journalBytes + effectBytes }
}

export function advanced(
  head: StoredHead | undefined,
  hintId: Uint8Array,
  version: number,
  { entry, pending, ...epoch }: Advance,
): StoredHead {
  const whole = usable(head, hintId, 'whole')
  assertVersion(whole, version)
  if (whole.pending === undefined && pending !== undefined) throw new StateMovedError('no lookup is pending')
  if (whole.pending !== undefined && pending === undefined) throw new StateMovedError('a lookup is pending')
  return {
    ...whole,
    record: movedTo(whole.record, epoch),
    version: version + 1,
    journalBytes: whole.journalBytes + entry.length,
    pending,
  }
}

/** Before the entries that a checkpoint of `version` replaces are dropped: `journalBytes` is the store's to recount. */
export function checkpointed(
  head: StoredHead | undefined,
  hintId: Uint8Array,
  version: number,
  manifest: Uint8Array,
): StoredHead {
  const whole = usable(head, hintId, 'whole')
  if (version < whole.checkpointVersion || version > whole.version) {
    throw new StateMovedError(
      `a checkpoint of version ${version}, where versions ${whole.checkpointVersion} to ${whole.version} are stored`,
    )
  }
  if (version === whole.version && !equalBytes(manifest, whole.record.manifest)) {
    throw new StateMovedError('a checkpoint of the newest version, and of another epoch than that')
  }
  return { ...whole, checkpointVersion: version }
}

/** Undefined: nothing changes. */
export function condemned(
  head: StoredHead | undefined,
  hintId: Uint8Array,
  culprit: string | undefined,
): StoredHead | undefined {
  if (head === undefined || !equalBytes(head.record.hintId, hintId) || head.condemned !== undefined) return undefined
  // Its entries go with its checkpoint.
  return { ...head, checkpointVersion: head.version, journalBytes: 0, pending: undefined, condemned: { culprit } }
}

/** The error for a missing row that the checkpoint of version `since` names. */
export function missingRow({ checkpointVersion }: StoredHead, since: number | undefined): Error {
  if (since === checkpointVersion) return new StateUnreadableError('a stored row is lost')
  return new StateMovedError('another checkpoint has been stored')
}

/** Throws StateUnreadableError unless all rows that a checkpoint names are there. */
export function assertRows(named: readonly string[], there: ReadonlySet<string>): void {
  if (!named.every(name => there.has(name))) throw new StateUnreadableError('rows of the state are lost')
}

/** Throws StateMovedError unless all rows of a hint that begins are there. */
export function assertRowsLeft(named: readonly string[], there: ReadonlySet<string>): void {
  if (!named.every(name => there.has(name))) throw new StateMovedError('another state has begun meanwhile')
}

/** A condemned state stays until another is begun in its place: discarding it would forget the condemnation (S7). */
export function assertDiscardable(head: StoredHead | undefined, hintId: Uint8Array | undefined): void {
  if (head === undefined) return
  if (hintId === undefined) throw new StateMovedError('the stored state is readable')
  usable(head, hintId)
}

/** Copies, since the caller may overwrite its bytes. The old epoch's signature is dropped. */
function movedTo({ signature: _, ...record }: HintRecord, { manifest, signature }: StoredEpoch): HintRecord {
  return { ...record, manifest: manifest.slice(), ...(signature && { signature: signature.slice() }) }
}

/** What `reading` resolves to; undefined if it cannot be read. */
export async function unlessTorn<T>(reading: Promise<T>): Promise<T | undefined> {
  return await reading.catch((error: unknown) => {
    if (error instanceof StateUnreadableError) return undefined
    throw error
  })
}

export function totalBytes(values: readonly Uint8Array[]): number {
  return values.reduce((sum, { length }) => sum + length, 0)
}

function assertReplaces(head: StoredHead | undefined, replaces: Uint8Array | undefined): void {
  const [expected, found] = [replaces, head?.record.hintId]
  if (expected === undefined && found === undefined) return
  if (expected !== undefined && found !== undefined && equalBytes(expected, found)) return
  throw new StateMovedError(found === undefined ? 'no state is stored' : 'the stored state is of another hint')
}

function assertVersion(head: StoredHead, version: number): void {
  if (version !== head.version)
    throw new StateMovedError(`the stored state is at version ${head.version}, not ${version}`)
}
