// Publishers' signatures of the epochs that are answered, as `/v1/info` has them, and which epoch clients are told of for them. They are
// in memory, so that requests do not wait for the storage.

import {
  type EpochEvent,
  fromHex,
  LONGEST_PROOF_BYTES,
  type PostedSignature,
  type SignatureInfo,
  signedBytes,
  signedProofBytes,
  toHex,
} from '@keyhush/protocol'
import { verifies } from '../base/ed25519.js'
import { epochUnknown, Refusal } from '../base/refusal.js'
import type { Engine } from '../storage/storage.js'
import { SIGNED } from './announcements.js'
import type { EpochStore, KeptSignature } from './epoch-store.js'
import type { Answering, AnyEpoch } from './epochs.js'

export class Signatures {
  readonly #store: EpochStore
  readonly #answered: Answering
  readonly #now: () => number
  /** since when this process shows the newest epoch, in seconds since 1970 */
  #shownSince: number
  readonly #listeners = new Set<(event: EpochEvent) => void>()
  #known = new Map<number, KeptSignature[]>()
  #latest: Promise<unknown> = Promise.resolve()
  /** a reading that has not begun */
  #next: Promise<void> | undefined
  #isStale = false

  /** `now`: seconds since 1970. */
  constructor(store: EpochStore, answered: Answering, now: () => number) {
    this.#store = store
    this.#answered = answered
    this.#now = now
    this.#shownSince = now()
  }

  /**
   * The newest epoch that clients are told of. An epoch is told once it is signed by any key, or at once if the one before it is not
   * signed: then its publisher does not sign.
   */
  get told(): AnyEpoch {
    const { newest, shown } = this.#answered
    const { epoch } = newest.manifest
    const before = shown.find(({ manifest }) => manifest.epoch === epoch - 1)
    return before === undefined || this.#has(epoch) || !this.#has(epoch - 1) ? newest : before
  }

  /** How long the newest epoch has been shown here without a signature; 0: it has one. */
  get unsignedSeconds(): number {
    return this.#has(this.#answered.newest.manifest.epoch) ? 0 : Math.max(0, this.#now() - this.#shownSince)
  }

  /** The newest answered epoch that is signed; 0: none. */
  get signedEpoch(): number {
    return Math.max(0, ...this.list().map(({ epoch }) => epoch))
  }

  /** The newest answered epoch that has a proof of witnesses; 0: none. */
  get provedEpoch(): number {
    return Math.max(0, ...this.list().map(({ epoch, proof }) => (proof === undefined ? 0 : epoch)))
  }

  /** Calls `listener` for each epoch that clients are told of, and when it gets a further signature. Returns unsubscribe. */
  listen(listener: (event: EpochEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Clients may know of another epoch. A replica learns of its signatures from the store. */
  show(isReplica: boolean): void {
    this.#shownSince = this.#now()
    if (isReplica) void this.refresh().then(() => this.tell())
    else this.tell()
  }

  /** Tells of the newest epoch, if it is told. */
  tell(): void {
    const { newest } = this.#answered
    if (this.told !== newest) return
    const { generation, epoch } = newest.manifest
    for (const listener of this.#listeners) listener({ generation, epoch })
  }

  /** Keeps a signature. undefined: it is kept already. Throws a Refusal if it is none of an epoch that is answered. */
  async add(posted: PostedSignature): Promise<SignatureInfo | undefined> {
    const { publicKey, generation, epoch, signature, proof = '' } = posted
    const signed = this.#answered.find(generation, epoch)
    if (signed === undefined) throw epochUnknown(this.#answered.newest.manifest)
    // Anybody who has read it at /v1/info can send it again; it is written once.
    const kept = (await this.#store.signatures(epoch)).find(each => each.publicKey === publicKey)
    const isLonger = proof.length > (kept?.proofText?.length ?? 0)
    if (kept?.signature === signature && !isLonger) return undefined
    if (!verifies(fromHex(signature), signedBytes(signed.manifestBytes), fromHex(publicKey))) {
      throw new Refusal('bad_request', 'expected a signature of that epoch by that key, got one that does not verify')
    }
    const info = { publicKey, generation, epoch, signature, ...(isLonger && { proof: this.#hashOf(posted) }) }
    await this.#store.addSignature({ ...info, ...(isLonger && { proofText: proof }) })
    await this.read()
    if (signed === this.#answered.newest) this.tell()
    return info
  }

  /** The hash of a posted proof. Throws a Refusal unless this publisher has signed it. */
  #hashOf({ publicKey, epoch, proof = '', proofSignature = '' }: PostedSignature): string {
    const bytes = Buffer.from(proof)
    if (bytes.length > LONGEST_PROOF_BYTES) {
      throw new Refusal('too_large', `expected a proof of at most ${LONGEST_PROOF_BYTES} bytes, got ${bytes.length}`)
    }
    const { newest } = this.#answered
    const hash = newest.core.blake3(bytes)
    const message = signedProofBytes(newest.manifest.databaseId, epoch, hash)
    if (!verifies(fromHex(proofSignature), message, fromHex(publicKey))) {
      throw new Refusal('bad_request', 'expected a signature of that proof by that key, got one that does not verify')
    }
    return toHex(hash)
  }

  /** What is known of the epochs that clients may know of. What may be missing is read in the background: every client asks, also while the storage is away. */
  list(): SignatureInfo[] {
    const epochs = this.#answered.shown.map(({ manifest }) => manifest.epoch)
    if (this.#isStale || epochs.some(epoch => !this.#known.has(epoch))) void this.refresh()
    return epochs.flatMap(epoch => this.#known.get(epoch) ?? []).map(withoutText)
  }

  /** A proof by its hash in hex. */
  proof(hash: string): Uint8Array | undefined {
    const known = this.#answered.shown.flatMap(({ manifest }) => this.#known.get(manifest.epoch) ?? [])
    const text = known.find(({ proof }) => proof === hash)?.proofText
    return text === undefined ? undefined : Buffer.from(text)
  }

  /** Of an epoch that need not be answered any more, from the storage. Throws StorageError. */
  of(epoch: number): Promise<KeptSignature[]> {
    return this.#store.signatures(epoch)
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
  refresh(): Promise<void> {
    return this.read().catch(() => {})
  }

  /** Learns of what other processes keep. */
  follow(engine: Engine): void {
    engine.listen(message => {
      if (message !== SIGNED && message !== '') return
      void this.refresh().then(() => {
        if (message === SIGNED) this.tell()
      })
    })
  }

  /** Nobody is told any more. */
  close(): void {
    this.#listeners.clear()
  }

  /** Whether an answered epoch is known to be signed, by any key. */
  #has(epoch: number): boolean {
    return (this.#known.get(epoch)?.length ?? 0) > 0
  }

  async #read(): Promise<void> {
    this.#next = undefined
    this.#isStale = true
    const known = new Map<number, KeptSignature[]>()
    for (const { manifest } of this.#answered.all) {
      known.set(manifest.epoch, await this.#store.signatures(manifest.epoch))
    }
    this.#known = known
    this.#isStale = false
  }
}

/** As `/v1/info` has it. */
export function withoutText({ proofText: _, ...signature }: KeptSignature): SignatureInfo {
  return signature
}
