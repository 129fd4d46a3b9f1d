// Publishers' signatures of the epochs that are answered, as `/v1/info` has them: in memory, so that requests do not wait for
// the storage.

import { fromHex, type SignatureInfo, signedBytes } from '@keyhush/protocol'
import { verifies } from '../base/ed25519.js'
import { Refusal } from '../base/refusal.js'
import type { EpochStore } from './epoch-store.js'
import type { Epoch } from './epochs.js'

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

  /** Keeps a signature of an epoch. false: it is kept already. Throws a Refusal if it does not verify. */
  async add({ manifestBytes }: Epoch, added: SignatureInfo): Promise<boolean> {
    const { publicKey, generation, epoch, signature } = added
    // Anybody who has read it at /v1/info can send it again; it is written once.
    const kept = await this.#store.signatures(epoch)
    if (kept.some(other => other.publicKey === publicKey && other.signature === signature)) return false
    if (!verifies(fromHex(signature), signedBytes(manifestBytes), fromHex(publicKey))) {
      throw new Refusal('bad_request', 'expected a signature of that epoch by that key, got one that does not verify')
    }
    await this.#store.addSignature({ publicKey, generation, epoch, signature })
    await this.read()
    return true
  }

  /** Whether an answered epoch is known to be signed, by any key. */
  has(epoch: number): boolean {
    return (this.#known.get(epoch)?.length ?? 0) > 0
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

  /** Resolves when it is done, or has failed: then the next request tries again. */
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
