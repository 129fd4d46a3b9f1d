// From the store to memory: catches up with the stored hint, reads it anew, or makes a new one where there is none. A stored state is
// used whole or not at all: if its parts do not fit together, that is a StateUnreadableError (S3).

import { equalBytes, type Manifest } from '@keyhush/protocol'
import type { Core, DirectoryHandle } from '@keyhush/wasm/client'
import { REPLACED_A_CALL, ROUNDS } from '../base/constants.js'
import { CondemnedError } from '../base/errors.js'
import { hintsOf, readBack, release } from '../platform/core.js'
import { isDirectoryOf } from '../scheme/download.js'
import type { SchemeState, StatefulScheme } from '../scheme/scheme.js'
import { type Agreed, readManifest } from '../servers/manifests.js'
import { OutdatedError } from '../servers/path.js'
import { assertRows } from '../store/rules.js'
import { isMoved } from '../store/storage.js'
import { type HintRecord, type StateHead, StateMovedError, StateUnreadableError } from '../store/store.js'
import { replay } from './applying.js'
import { catchUp, RolledBackError } from './catch-up.js'
import { assertNotCondemned, condemnForItself } from './condemnation.js'
import { assertMayDownload, begin, Draft } from './draft.js'
import { assertUnmoved, type Discarding, discard, isOf, readHead } from './head.js'
import { belongsTo, bindingOf, Hint } from './hint.js'
import { type Caller, type Machine, replacedTooOften, tooManyRestarts } from './machine.js'
import { recallVerifier } from './verifier.js'

/**
 * The hint, in step with the store. A lookup that was left pending is pending in it. Throws CondemnedError, StorageError,
 * and whatever a preparation throws.
 */
export async function current(machine: Machine, caller: Caller): Promise<Hint> {
  for (let round = 1; round <= ROUNDS; round++) {
    caller.signal.throwIfAborted()
    try {
      await machine.fallBackIfFailing()
      await assertNotCondemned(machine)
      return machine.live ?? (await inStep(machine, caller))
    } catch (error) {
      if (isMoved(error)) continue
      if (!machine.noteFailure(error)) throw error
      machine.retire()
      if (machine.failsForGood) throw error
    }
  }
  throw tooManyRestarts()
}

/** The same, after another tab has moved the state on. */
export async function currentAgain(machine: Machine, caller: Caller): Promise<Hint> {
  if (machine.durable) machine.doubt()
  return await current(machine, caller)
}

async function inStep(machine: Machine, caller: Caller): Promise<Hint> {
  await machine.settling
  const head = await readHead(machine, true)
  const hint = machine.known
  if (hint !== undefined) {
    if (head !== undefined && (await hasCaughtUp(machine, hint, head))) {
      machine.movedTo(hint.manifest)
      machine.adopt(hint, head.journalBytes)
      return hint
    }
    machine.retire()
    if (head === undefined) machine.parts.announce({ type: 'discarded', reason: 'missing' })
  }
  const recovered = await (head === undefined ? beginAnew(machine, undefined, caller) : recover(machine, head, caller))
  machine.adopt(recovered, isOf(head, recovered.record.hintId) ? head!.journalBytes : 0)
  return recovered
}

async function hasCaughtUp(machine: Machine, hint: Hint, head: StateHead): Promise<boolean> {
  if (head.condemned !== undefined) return false
  try {
    return await catchUp(machine.store, hint, head)
  } catch (error) {
    if (error instanceof RolledBackError) {
      await condemnForItself(machine, hint)
      throw new CondemnedError(undefined)
    }
    // Only this tab's memory may be wrong: the whole state is read from the store.
    if (error instanceof StateUnreadableError) return false
    throw error
  }
}

/** A new hint; again if the database is replaced or laid out anew during the download. */
async function beginAnew(machine: Machine, replaces: Uint8Array | undefined, caller: Caller): Promise<Hint> {
  for (let round = 0; ; round++) {
    try {
      return await begin(machine, round === 0 ? replaces : undefined, caller)
    } catch (error) {
      if (!(error instanceof OutdatedError)) throw error
      machine.parts.announce({ type: 'discarded', reason: error.reason })
      if (round === REPLACED_A_CALL) throw replacedTooOften()
    }
  }
}

async function recover(machine: Machine, head: StateHead, caller: Caller): Promise<Hint> {
  const { servers, announce } = machine.parts
  const { record, condemned, pending } = head
  const beginInstead = async (reason: Discarding) =>
    await beginAnew(machine, await discard(machine, head, reason, caller), caller)
  if (!belongsTo(record, servers)) return await beginInstead('servers')
  machine.remembers(readManifest(record.manifest))
  if (condemned !== undefined) {
    const { culprit } = condemned
    machine.condemn(record.hintId, culprit, true)
    announce({ type: 'condemned', server: culprit })
    throw new CondemnedError(culprit)
  }
  const { outdated } = machine
  const isOutdated = outdated !== undefined && isOf(head, outdated.record.hintId)
  if (isOutdated && equalBytes(record.manifest, outdated.record.manifest)) return await beginInstead(outdated.reason)
  const scheme = machine.schemeOf(record.scheme)
  // A store in memory keeps no checkpoints to read back.
  if (!machine.durable || scheme === undefined) return await beginInstead('unreadable')

  try {
    const readable = (what: 'download' | 'hint' | 'copy') =>
      announce({ type: 'resumed', what, pending: pending !== undefined })
    if (head.stage === 'partial') return await resume(machine, scheme, head, caller, () => readable('download'))
    const hint = await reopen(machine, scheme, head)
    readable(scheme.parties.length === 0 ? 'copy' : 'hint')
    return hint
  } catch (error) {
    if (error instanceof UnsuitedError) {
      // Before it is discarded: a map with other options may still want it.
      const manifest = storedManifest(record.manifest)
      await assertMayDownload(machine, machine.schemeFor(manifest), manifest, caller)
      return await beginInstead('mode')
    }
    const outdated = error instanceof OutdatedError
    if (!outdated && !(error instanceof StateUnreadableError)) throw error
    await assertUnmoved(machine, head)
    return await beginInstead(outdated ? error.reason : 'unreadable')
  }
}

/** The stored state can be read, and is not what the app demands. */
class UnsuitedError extends Error {}

/** Continues a stored half-made hint. `readable` is called once it was read. */
async function resume(
  machine: Machine,
  scheme: StatefulScheme,
  { record, version }: StateHead,
  caller: Caller,
  readable: () => void,
): Promise<Hint> {
  const { core } = machine.parts
  const agreed = agreedOn(record)
  const { partial, directory, version: read } = await machine.store.readPartial(record.hintId)
  if (read !== version) throw new StateMovedError('the half-made hint is not the one of its head')
  const handle = readDirectory(core, agreed.manifest, directory)
  let draft: Draft | undefined
  try {
    const preparation = await scheme.resume(machine.context, agreed.manifest, partial, bindingOf(core, agreed.bytes))
    const parts = { agreed, record, directory: { bytes: directory, handle } }
    draft = new Draft(machine, scheme, preparation, parts, { version })
    if (!equalBytes(preparation.id, record.hintId)) throw unreadable('the half-made hint is not the one on record')
    if (!machine.suits(scheme, preparation)) throw new UnsuitedError()
    readable()
    await assertMayDownload(machine, scheme, agreed.manifest, caller)
    await draft.follow(caller.signal)
    await draft.fetch(caller, true)
    return await draft.complete()
  } finally {
    if (draft) draft.free()
    else release(core, handle)
  }
}

/** Reads a whole hint, with its journal and pending lookup. Throws StateMovedError if `head` is not the newest. */
async function reopen(machine: Machine, scheme: StatefulScheme, head: StateHead): Promise<Hint> {
  const { core, environment } = machine.parts
  const { record, version, pending } = head
  const stored = await machine.store.readHint(record.hintId)
  const arrived = stored.version + stored.entries.length
  if (arrived > version) throw new StateMovedError('the hint is newer than its head')
  if (arrived < version) throw unreadable('entries are missing')
  const manifest = storedManifest(stored.manifest)
  let directory: DirectoryHandle | undefined
  let state: SchemeState | undefined
  let hint: Hint | undefined
  try {
    directory = readDirectory(core, manifest, stored.directory)
    await environment.pause()
    state = await scheme.reopen(machine.context, manifest, stored.checkpoint, bindingOf(core, stored.manifest))
    await environment.pause()
    const then = { ...record, manifest: stored.manifest }
    const checkpointVersion = stored.version
    hint = new Hint({ core, scheme, state, record: then, manifest, directory, checkpointVersion })
    if (!equalBytes(state.id, record.hintId)) throw unreadable('the stored hint is not the one on record')
    assertRows(state.rows ?? [], new Set(stored.rows))
    await replay(hint, stored.entries, agreedOn(record))
    if (hint.version !== version) throw unreadable('the journal is not the one that follows the checkpoint')
    if (pending !== undefined) {
      if (state.kind !== 'asked') throw unreadable('a lookup is pending where none can be')
      state.resume(pending)
    }
    if (!machine.suits(scheme, state)) throw new UnsuitedError()
    await recallVerifier(machine.store, hint)
    await environment.pause()
    return hint
  } catch (error) {
    if (hint !== undefined) hint.free()
    else {
      state?.free()
      release(core, directory)
    }
    throw error
  }
}

/** The stored directory; undefined in a keyless database. */
function readDirectory(core: Core, manifest: Manifest, bytes: Uint8Array): DirectoryHandle | undefined {
  if (!manifest.keyed) return undefined
  if (!isDirectoryOf(core, manifest, bytes)) throw unreadable('the stored directory is not the one of its manifest')
  return readBack(core, () => hintsOf(core).decodeDirectory(bytes, manifest.records))
}

/** The epoch of a stored state. */
function agreedOn({ manifest: bytes, signature }: HintRecord): Agreed {
  return { manifest: storedManifest(bytes), bytes, signature }
}

function storedManifest(bytes: Uint8Array): Manifest {
  const manifest = readManifest(bytes)
  if (manifest === undefined) throw unreadable('a stored manifest cannot be read')
  return manifest
}

function unreadable(message: string): StateUnreadableError {
  return new StateUnreadableError(message)
}
