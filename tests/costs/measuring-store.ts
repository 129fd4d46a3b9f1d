import { MemoryStore, type StoredCheckpoint } from '@keyhush/client/environment'

/** A store that records the lengths of stored forms. */
export class MeasuringStore extends MemoryStore {
  readonly lengths: Record<'checkpoint' | 'pending' | 'effect', number[]> = { checkpoint: [], pending: [], effect: [] }
  longestJournal = 0
  constructor() {
    super({ durable: true })
  }
  override async complete(hintId: Uint8Array, version: number, checkpoint: Uint8Array): Promise<void> {
    this.lengths.checkpoint.push(checkpoint.length)
    await super.complete(hintId, version, checkpoint)
  }
  override async putCheckpoint(hintId: Uint8Array, version: number, stored: StoredCheckpoint): Promise<void> {
    this.lengths.checkpoint.push(stored.checkpoint.length)
    await super.putCheckpoint(hintId, version, stored)
  }
  override async putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    this.lengths.pending.push(pending.length)
    await super.putPending(hintId, version, pending)
  }
  override async commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ journalBytes: number }> {
    this.lengths.effect.push(effect.length)
    const { journalBytes } = await super.commit(hintId, version, effect)
    this.longestJournal = Math.max(this.longestJournal, journalBytes)
    return { journalBytes }
  }
}
