// State that lives as long as the map does. The parities and permutations are in the core's own memory, where `recon`
// has already applied the effect; what is left to keep is the bookkeeping, held to the same rules as on disk.

import { equalBytes } from '@pirouette/protocol'
import { StorageError } from '../errors.js'
import type { HintRecord, StateStore } from './store.js'

export class MemoryStore implements StateStore {
  hint: HintRecord | undefined
  version = 0
  pending: Uint8Array | undefined
  condemned = false
  culprit: string | undefined

  async begin(hint: HintRecord): Promise<void> {
    this.hint = hint
    this.version = 0
    this.pending = undefined
    this.condemned = false
    this.culprit = undefined
  }

  async putPending(version: number, pending: Uint8Array): Promise<void> {
    this.#check(version)
    if (this.pending !== undefined && !equalBytes(this.pending, pending)) {
      throw new StorageError('another batch is pending already')
    }
    this.pending = pending.slice()
  }

  async commit({ version }: { readonly version: number; readonly effect: Uint8Array }): Promise<void> {
    this.#check(version)
    if (this.pending === undefined) throw new StorageError('an effect without a pending batch')
    this.pending = undefined
    this.version++
  }

  async condemn(culprit: string | undefined): Promise<void> {
    this.condemned = true
    this.culprit = culprit
    this.pending = undefined
  }

  async close(): Promise<void> {}

  #check(version: number): void {
    if (this.hint === undefined) throw new StorageError('no hint was begun')
    if (this.condemned) throw new StorageError('the hint is condemned')
    if (version !== this.version) {
      throw new StorageError(`the state is at version ${this.version}, not ${version}: someone else has moved it on`)
    }
  }
}
