// Publishers' signatures of the epochs that are answered, as `/v1/info` has them: in memory, so that nobody who asks waits for
// the storage.

import type { SignatureInfo } from '@keyhush/protocol'
import type { EpochStore } from './epoch-store.js'

export class Signatures {
  readonly #store: EpochStore
  /** those that may have signatures */
  readonly #epochs: () => readonly number[]
  #known = new Map<number, SignatureInfo[]>()
  #latest: Promise<unknown> = Promise.resolve()
  /** a reading that has not begun */
  #next: Promise<void> | undefined
  #isStale = false

  constructor(store: EpochStore, epochs: () => readonly number[]) {
    this.#store = store
    this.#epochs = epochs
  }

  /** What is known of these epochs. What may be missing is read behind. */
  of(epochs: readonly number[]): SignatureInfo[] {
    if (this.#isStale || epochs.some(epoch => !this.#known.has(epoch))) void this.readBehind()
    return epochs.flatMap(epoch => this.#known.get(epoch) ?? [])
  }

  /** Resolves once all that was stored before this call is known. Throws StorageError. */
  read(): Promise<void> {
    if (this.#next === undefined) {
      this.#next = this.#latest.then(() => this.#read())
      this.#latest = this.#next.catch(() => {})
    }
    return this.#next
  }

  /** Resolves when it is done, or has failed: then it is tried again when somebody asks. */
  readBehind(): Promise<void> {
    return this.read().catch(() => {})
  }

  async #read(): Promise<void> {
    this.#next = undefined
    this.#isStale = true
    const known = new Map<number, SignatureInfo[]>()
    for (const epoch of this.#epochs()) known.set(epoch, await this.#store.signatures(epoch))
    this.#known = known
    this.#isStale = false
  }
}
