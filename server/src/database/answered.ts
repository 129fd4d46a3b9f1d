// The epochs of a database that this process answers: the newest, the one before, one that clients do not know yet, and the last of the
// generation before.

import type { EpochInMemory, Generation } from './generation.js'
import type { Lingering } from './lingering.js'
import type { Loaded } from './loading.js'
import type { Preparing } from './preparing.js'

/** An epoch that is stored and in memory, and what changes with it once clients may know. */
export interface StoredEpoch {
  readonly epoch: EpochInMemory
  /** the epoch before, if the core answers it */
  readonly previous: EpochInMemory | undefined
  readonly generation: Generation
  /** of another generation: until when the one before is answered, in seconds since 1970 */
  readonly until: number
}

export class Answered {
  /** of the newest epoch */
  generation: Generation
  /** the newest epoch that clients may know of */
  newest: EpochInMemory
  /** on disk, and answered if asked; clients may know of it once other processes have it too */
  staged: StoredEpoch | undefined
  /** memory and disk have parted, for good */
  hasFailed = false
  /** called when clients may know of another epoch */
  onShown: (epoch: EpochInMemory) => void = () => {}
  /** called when memory and disk have parted */
  onFailure: (error: Error) => void = () => {}
  readonly preparing: Preparing
  readonly lingering: Lingering
  #previous: EpochInMemory | undefined

  constructor({ generation, epoch, previous }: Loaded, preparing: Preparing, lingering: Lingering) {
    this.generation = generation
    this.newest = epoch
    this.#previous = previous
    this.preparing = preparing
    this.lingering = lingering
  }

  /** The newest epoch that can be answered. */
  get latest(): EpochInMemory {
    return this.staged?.epoch ?? this.newest
  }

  /** Those that clients may know of, newest last. */
  get shown(): EpochInMemory[] {
    return [this.lingering.epoch, this.#previous, this.newest].filter(epoch => epoch !== undefined)
  }

  /** All, newest last. */
  get all(): EpochInMemory[] {
    return this.staged === undefined ? this.shown : [...this.shown, this.staged.epoch]
  }

  find(generation: number, epoch: number): EpochInMemory | undefined {
    return this.all.find(({ manifest }) => manifest.generation === generation && manifest.epoch === epoch)
  }

  /** The core begins to write the next epoch. */
  begun(): void {
    this.newest.isCores = 'previous'
    if (this.#previous !== undefined) this.#previous.isCores = 'gone'
    this.#previous = undefined
  }

  /** Clients may know of the staged epoch, if there is one. */
  show(): void {
    if (this.staged === undefined) return
    const { epoch, generation, previous, until } = this.staged
    this.staged = undefined
    if (generation !== this.generation) this.lingering.begin(this.newest, this.generation, until)
    this.generation = generation
    this.#previous = previous
    this.newest = epoch
    this.onShown(epoch)
  }

  fail(error: Error): void {
    this.show() // it is on disk
    this.hasFailed = true
    this.onFailure(error)
  }
}
