// State in memory. Not durable, it lives as long as the map does: permutations and parities are in the core's own
// memory, where `recon` has applied the effect already, and only the bookkeeping is kept. Durable, it keeps everything
// and outlives its maps; several may share it as tabs share a database. That is for tests.

import * as rules from './rules.js'
import type { HintRecord, StateHead, StateStore, StoredHint } from './store.js'

interface Kept {
  head: rules.StoredHead
  partial: Uint8Array | undefined
  checkpoint: Uint8Array | undefined
  directory: Uint8Array
  /** effects from the checkpoint's version up to the head's */
  effects: readonly Uint8Array[]
}

export class MemoryStore implements StateStore {
  readonly durable: boolean
  #kept: Kept | undefined

  constructor({ durable = false }: { readonly durable?: boolean } = {}) {
    this.durable = durable
  }

  async read(): Promise<StateHead | undefined> {
    const head = this.#kept?.head
    return head && { ...head, pending: head.pending?.slice() }
  }

  async readPartial(hintId: Uint8Array): Promise<{ partial: Uint8Array; directory: Uint8Array }> {
    rules.usable(this.#kept?.head, hintId, 'partial')
    const { partial, directory } = this.#kept!
    return { partial: partial!.slice(), directory: directory.slice() }
  }

  async readHint(hintId: Uint8Array): Promise<StoredHint> {
    rules.usable(this.#kept?.head, hintId, 'whole')
    const { head, checkpoint, directory, effects } = this.#kept!
    return {
      version: head.checkpointVersion,
      checkpoint: checkpoint!.slice(),
      effects: effects.map(effect => effect.slice()),
      directory: directory.slice(),
    }
  }

  async readEffects(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined> {
    const { checkpointVersion } = rules.reaching(this.#kept?.head, hintId, from)
    if (from < checkpointVersion) return undefined
    return this.#kept!.effects.slice(from - checkpointVersion).map(effect => effect.slice())
  }

  async begin(
    record: HintRecord,
    partial: Uint8Array,
    directory: Uint8Array,
    replaces: Uint8Array | undefined,
  ): Promise<void> {
    const head = rules.begun(this.#kept?.head, record, replaces)
    this.#kept = { head, partial: partial.slice(), checkpoint: undefined, directory: directory.slice(), effects: [] }
  }

  async putPartial(hintId: Uint8Array, partial: Uint8Array): Promise<void> {
    rules.usable(this.#kept?.head, hintId, 'partial')
    this.#kept!.partial = partial.slice()
  }

  async complete(hintId: Uint8Array, checkpoint: Uint8Array): Promise<void> {
    const head = rules.completed(this.#kept?.head, hintId)
    Object.assign(this.#kept!, { head, partial: undefined, checkpoint: checkpoint.slice() })
  }

  async putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    const head = rules.withPending(this.#kept?.head, hintId, version, pending.slice())
    this.#kept!.head = head
  }

  async commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ journalBytes: number }> {
    const head = rules.committed(this.#kept?.head, hintId, version, effect.length)
    const kept = this.#kept!
    if (this.durable) {
      kept.head = head
      kept.effects = [...kept.effects, effect.slice()]
    } else {
      // Nobody will replay it.
      kept.head = { ...head, checkpointVersion: head.version, journalBytes: 0 }
    }
    return { journalBytes: kept.head.journalBytes }
  }

  async putCheckpoint(hintId: Uint8Array, version: number, checkpoint: Uint8Array): Promise<void> {
    const before = this.#kept?.head
    const head = rules.checkpointed(before, hintId, version)
    const kept = this.#kept!
    kept.effects = kept.effects.slice(version - before!.checkpointVersion)
    kept.checkpoint = checkpoint.slice()
    kept.head = { ...head, journalBytes: rules.totalBytes(kept.effects) }
  }

  async condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    const head = rules.condemned(this.#kept?.head, hintId, culprit)
    if (head === undefined) return
    this.#kept = { head, partial: undefined, checkpoint: undefined, directory: new Uint8Array(), effects: [] }
  }

  async discard(hintId: Uint8Array | undefined): Promise<void> {
    rules.assertDiscardable(this.#kept?.head, hintId)
    this.#kept = undefined
  }

  async close(): Promise<void> {
    if (!this.durable) this.#kept = undefined
  }
}
