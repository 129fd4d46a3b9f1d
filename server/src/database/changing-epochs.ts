// A database that changes, as its clients know it: the epochs that are answered, their history and their signatures.

import {
  decodeManifest,
  type EpochInfo,
  type EpochStatus,
  type Manifest,
  type PostedSignature,
} from '@keyhush/protocol'
import { Refusal } from '../base/refusal.js'
import type { Base } from '../one-server/base.js'
import type { Storage } from '../storage/storage.js'
import { SIGNED } from './announcements.js'
import type { EpochStore, KeptSignature } from './epoch-store.js'
import { type Answering, type AnyEpoch, type Blob, type Epochs, infoOf, memoryBlob } from './epochs.js'
import { History } from './history.js'
import { Signatures } from './signatures.js'

export interface ChangingOptions {
  /** epochs before the newest whose manifests and update lists are kept; default 64 */
  readonly history?: number | undefined
  /** seconds since 1970; default: the system's */
  readonly now?: (() => number) | undefined
  /** takes up what a process that writes has stored, where several share a storage, and itself stores nothing but its fence's entries */
  readonly replica?: boolean | undefined
}

const DEFAULT_HISTORY = 64

export const systemClock = () => Date.now() / 1000

export abstract class ChangingEpochs<E extends AnyEpoch> implements Epochs<E> {
  readonly history: number
  /** what publishers have signed, and what clients are told for it */
  readonly signed: Signatures
  /** called when memory and disk have parted: nothing may be published here, and the process is to be replaced */
  onFailure: (error: Error) => void = () => {}
  protected readonly past: History
  readonly #storage: Storage
  readonly #answered: Answering<E>
  readonly #isReplica: boolean

  protected constructor(storage: Storage, store: EpochStore, answered: Answering<E>, options: ChangingOptions) {
    const { history = DEFAULT_HISTORY, now = systemClock, replica = false } = options
    // The epoch before is answered, so there is always that much history.
    this.history = Math.max(1, history)
    this.past = new History(answered.newest.core, store)
    this.signed = new Signatures(store, answered, now)
    this.#storage = storage
    this.#answered = answered
    this.#isReplica = replica
  }

  get databaseId(): Uint8Array {
    return this.newest.manifest.databaseId
  }

  get location(): string {
    return this.#storage.location
  }

  /** Why nothing can be kept at the moment, for people; undefined: it can. */
  get storageFailure(): string | undefined {
    return this.#storage.failure
  }

  /** Why other processes are ahead of this one, for people; undefined: they are not. */
  abstract readonly behind: string | undefined

  get newest(): E {
    return this.#answered.newest
  }

  find(generation: number, epoch: number): E | undefined {
    return this.#answered.find(generation, epoch)
  }

  get bases(): readonly Base[] {
    return []
  }

  answerable(): readonly E[] {
    return this.#answered.all
  }

  list(): EpochInfo[] {
    return this.#answered.shown.map(infoOf)
  }

  async manifestOf(generation: number, epoch: number): Promise<Uint8Array | undefined> {
    if (!this.#has(epoch)) return undefined
    const bytes = await this.past.manifest(epoch)
    return bytes !== undefined && decodeManifest(bytes).generation === generation ? bytes : undefined
  }

  remembers(epoch: number): boolean {
    return this.past.remembers(epoch, this.newest.manifest.epoch)
  }

  async since(epoch: number, reserve = (_bytes: number) => {}, goOn = () => {}): Promise<Uint8Array | undefined> {
    return this.#has(epoch) ? await this.past.since(epoch, this.newest.manifest.epoch, reserve, goOn) : undefined
  }

  /** What became of an epoch; undefined: it is not known, any more or yet. */
  status(epoch: number): EpochStatus | undefined {
    return this.#has(epoch) ? this.past.status(epoch) : undefined
  }

  /** Not one that is stored and still being taken up. */
  #has(epoch: number): boolean {
    return epoch <= this.#answered.latest.manifest.epoch
  }

  async findBlob(hash: string, _withholds?: boolean): Promise<Blob | undefined> {
    const proof = this.signed.proof(hash)
    return proof && memoryBlob(proof)
  }

  /** The signatures of any epoch that is kept, and their proofs. */
  signaturesOf(epoch: number): Promise<readonly KeptSignature[]> {
    return this.signed.of(epoch)
  }

  /** Keeps a publisher's signature. Throws a Refusal if it is none. */
  async addSignature(signature: PostedSignature): Promise<void> {
    this.checkWrites()
    if ((await this.signed.add(signature)) !== undefined) this.#storage.engine?.notify(SIGNED)
  }

  protected checkWrites(): void {
    if (this.#isReplica) throw new Refusal('not_ready', 'this is a replica; publish to the process without --replica')
  }

  /** Clients may know of another epoch. `old`: the last of the generation before, while that is answered. */
  protected shown({ manifest, manifestBytes }: E, old?: number): void {
    this.past.note(manifest)
    this.past.keep(manifest.epoch, manifestBytes)
    this.past.forgetBefore(oldestKept(manifest, manifest, this.history), old)
    this.signed.show(this.#isReplica)
  }
}

/**
 * Epochs before this one are not kept: `history` epochs are, and all since the base of the epoch `before` the newest, whose lists lead back
 * to it.
 */
export function oldestKept({ epoch }: Manifest, before: Manifest, history: number): number {
  return Math.min(epoch - history, before.oneServer?.baseEpoch ?? epoch)
}
