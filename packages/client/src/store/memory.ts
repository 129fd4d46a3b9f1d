// State in memory. It lives as long as the map: permutations and parities are in the core's memory, so only the bookkeeping
// is kept here. With `durable`, for tests, it keeps everything and outlives its maps, which may share it as tabs do.

import { toHex } from '@keyhush/protocol'
import * as rules from './rules.js'
import type {
  Advance,
  HintRecord,
  PartialUpdate,
  StateHead,
  StateStore,
  StoredCheckpoint,
  StoredHint,
  StoredPartial,
} from './store.js'

type Half = Omit<StoredPartial, 'version'>

interface Kept {
  head: rules.StoredHead
  /** of a half-made hint */
  partial: Half | undefined
  /** of a whole one */
  checkpoint: StoredCheckpoint | undefined
  /** effects and updates from the checkpoint's version up to the head's */
  entries: readonly Uint8Array[]
  /** what verifies the answers to a whole one */
  verifier?: Uint8Array
}

export class MemoryStore implements StateStore {
  readonly durable: boolean
  #kept: Kept | undefined
  /** by hint and by name */
  #rows = new Map<string, Map<string, Uint8Array>>()

  constructor({ durable = false }: { readonly durable?: boolean } = {}) {
    this.durable = durable
  }

  /** Another store that holds what this one holds now, as a copied profile does. For tests. */
  copy(): MemoryStore {
    const copy = new MemoryStore({ durable: this.durable })
    if (this.#kept !== undefined) copy.#kept = { ...this.#kept } // its values are replaced, never changed
    copy.#rows = new Map(Array.from(this.#rows, ([hint, rows]) => [hint, new Map(rows)]))
    return copy
  }

  async read(): Promise<StateHead | undefined> {
    const head = this.#kept?.head
    return head && { ...head, pending: head.pending?.slice() }
  }

  async readPartial(hintId: Uint8Array): Promise<StoredPartial> {
    rules.usable(this.#kept?.head, hintId, 'partial')
    const { head, partial } = this.#kept!
    return { version: head.version, ...copyOfPartial(partial!) }
  }

  async readHint(hintId: Uint8Array): Promise<StoredHint> {
    rules.usable(this.#kept?.head, hintId, 'whole')
    const { head, checkpoint, entries } = this.#kept!
    const version = head.checkpointVersion
    const rows = [...this.#rowsOf(hintId).keys()]
    return { version, ...copyOfCheckpoint(checkpoint!), entries: entries.map(entry => entry.slice()), rows }
  }

  async readEntries(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined> {
    const { checkpointVersion } = rules.reaching(this.#kept?.head, hintId, from)
    if (from < checkpointVersion) return undefined
    return this.#kept!.entries.slice(from - checkpointVersion).map(entry => entry.slice())
  }

  async begin(
    record: HintRecord,
    partial: Uint8Array,
    directory: Uint8Array,
    replaces: Uint8Array | undefined,
    rows: readonly string[] = [],
  ): Promise<void> {
    const head = rules.begun(this.#kept?.head, record, replaces)
    const kept = this.#rowsOf(record.hintId)
    rules.assertRowsLeft(rows, new Set(kept.keys()))
    this.#rows = new Map([[toHex(record.hintId), kept]])
    this.#kept = { head, partial: copyOfPartial({ partial, directory }), checkpoint: undefined, entries: [] }
  }

  async putPartial(hintId: Uint8Array, version: number, partial: Uint8Array): Promise<void> {
    rules.halfMade(this.#kept?.head, hintId, version)
    const { directory } = this.#kept!.partial!
    this.#kept!.partial = { partial: partial.slice(), directory }
  }

  async updatePartial(hintId: Uint8Array, version: number, update: PartialUpdate): Promise<void> {
    const head = rules.updated(this.#kept?.head, hintId, version, update)
    Object.assign(this.#kept!, { head, partial: copyOfPartial(update) })
  }

  async complete(
    hintId: Uint8Array,
    version: number,
    checkpoint: Uint8Array,
    rows: readonly string[] = [],
  ): Promise<void> {
    const head = rules.completed(this.#kept?.head, hintId, version)
    this.#keepRows(hintId, rows)
    const { directory } = this.#kept!.partial!
    const { manifest } = head.record
    Object.assign(this.#kept!, {
      head,
      partial: undefined,
      checkpoint: copyOfCheckpoint({ checkpoint, manifest, directory }),
    })
  }

  async putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    const head = rules.withPending(this.#kept?.head, hintId, version, pending.slice())
    this.#kept!.head = head
  }

  async commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ journalBytes: number }> {
    const head = rules.committed(this.#kept?.head, hintId, version, effect.length)
    return this.#append(head, effect)
  }

  async advance(hintId: Uint8Array, version: number, update: Advance): Promise<{ journalBytes: number }> {
    const head = rules.advanced(this.#kept?.head, hintId, version, {
      ...update,
      pending: update.pending?.slice(),
    })
    return this.#append(head, update.entry)
  }

  #append(head: rules.StoredHead, entry: Uint8Array): { journalBytes: number } {
    const kept = this.#kept!
    if (this.durable) {
      kept.head = head
      kept.entries = [...kept.entries, entry.slice()]
    } else {
      // It is never replayed.
      kept.head = { ...head, checkpointVersion: head.version, journalBytes: 0 }
    }
    return { journalBytes: kept.head.journalBytes }
  }

  async putCheckpoint(
    hintId: Uint8Array,
    version: number,
    checkpoint: StoredCheckpoint,
    rows: readonly string[] = [],
  ): Promise<void> {
    const before = this.#kept?.head
    const head = rules.checkpointed(before, hintId, version, checkpoint.manifest)
    this.#keepRows(hintId, rows)
    const kept = this.#kept!
    kept.entries = kept.entries.slice(version - before!.checkpointVersion)
    kept.checkpoint = copyOfCheckpoint(checkpoint)
    kept.head = { ...head, journalBytes: rules.totalBytes(kept.entries) }
  }

  async putVerifier(hintId: Uint8Array, verifier: Uint8Array): Promise<void> {
    rules.usable(this.#kept?.head, hintId, 'whole')
    this.#kept!.verifier = verifier.slice()
  }

  async readVerifier(hintId: Uint8Array): Promise<Uint8Array | undefined> {
    rules.usable(this.#kept?.head, hintId, 'whole')
    return this.#kept!.verifier?.slice()
  }

  async condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    const head = rules.condemned(this.#kept?.head, hintId, culprit)
    if (head === undefined) return
    this.#kept = { head, partial: undefined, checkpoint: undefined, entries: [] }
    this.#rows.delete(toHex(hintId))
  }

  async discard(hintId: Uint8Array | undefined): Promise<void> {
    rules.assertDiscardable(this.#kept?.head, hintId)
    this.#kept = undefined
    if (hintId !== undefined) this.#rows.delete(toHex(hintId))
  }

  async erase(): Promise<void> {
    this.#kept = undefined
    this.#rows.clear()
  }

  async putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void> {
    this.#rows.set(toHex(hintId), this.#rowsOf(hintId).set(name, row.slice()))
  }

  async sweepRows(of?: Uint8Array): Promise<void> {
    const hintId = this.#kept?.head.record.hintId
    const swept = of === undefined ? [...this.#rows.keys()] : [toHex(of)]
    for (const hint of swept) if (hintId === undefined || hint !== toHex(hintId)) this.#rows.delete(hint)
  }

  async readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array> {
    const head = rules.usable(this.#kept?.head, hintId, 'whole')
    const row = this.#rowsOf(hintId).get(name)
    if (row === undefined) throw rules.missingRow(head, since)
    return row.slice()
  }

  /** Removes those rows of the hint that are not among these. */
  #keepRows(hintId: Uint8Array, names: readonly string[]): void {
    const rows = this.#rowsOf(hintId)
    rules.assertRows(names, new Set(rows.keys()))
    const named = new Set(names)
    for (const name of rows.keys()) if (!named.has(name)) rows.delete(name)
  }

  #rowsOf(hintId: Uint8Array): Map<string, Uint8Array> {
    return this.#rows.get(toHex(hintId)) ?? new Map<string, Uint8Array>()
  }

  async close(): Promise<void> {
    if (this.durable) return
    this.#kept = undefined
    this.#rows.clear()
  }
}

// Copies: callers may overwrite what they pass in, and what they get.

function copyOfPartial({ partial, directory }: Half): Half {
  return { partial: partial.slice(), directory: directory.slice() }
}

function copyOfCheckpoint({ checkpoint, manifest, directory }: StoredCheckpoint): StoredCheckpoint {
  return { checkpoint: checkpoint.slice(), manifest: manifest.slice(), directory: directory.slice() }
}
