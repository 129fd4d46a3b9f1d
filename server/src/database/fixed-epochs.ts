// The one epoch of a dataset, for ever.

import type { EpochInfo } from '@keyhush/protocol'
import type { Dataset } from '../dataset/load.js'
import type { Base } from '../one-server/base.js'
import { type Blob, type Epochs, infoOf } from './epochs.js'
import { type EpochInMemory, Generation } from './generation.js'
import { baseBlob } from './one-server.js'
import { Preparing } from './preparing.js'
import { newQueue } from './queue.js'
import { SharedFile } from './shared-file.js'

export class FixedEpochs implements Epochs {
  readonly newest: EpochInMemory
  readonly #generation: Generation
  readonly #blobs: ReadonlyMap<string, Blob>
  readonly #queue = newQueue()
  readonly #preparing = new Preparing(true, this.#queue, () => (this.#isClosed ? undefined : this.#generation))
  #isClosed = false

  constructor(dataset: Dataset) {
    const { core, database, blocks, directory: directoryBytes, openings, manifest, manifestBytes: bytes } = dataset
    const generation = new Generation(core, { database, blocks }, openings)
    generation.base = dataset.base
    this.#generation = generation
    this.newest = generation.epochOf({ manifest, bytes }, directoryBytes)
    const blobs = [...dataset.blobs].map(([hash, { path, bytes }]): [string, Blob] => {
      const file = new SharedFile(path)
      return [hash, { bytes, open: (...range) => file.stream(...range) }]
    })
    this.#blobs = new Map(blobs)
  }

  /** Has it prepared for lookups with one server, if it has a public hint for them. Resolves once its records are copied. */
  prepare(): Promise<void> {
    return this.#queue(() => this.#preparing.prepare(this.newest.oneServer, this.#generation))
  }

  /** Ends what prepares. The dataset stays the caller's. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#queue(() => this.#preparing.end(...this.bases))
  }

  get databaseId(): Uint8Array {
    return this.newest.manifest.databaseId
  }

  find(generation: number, epoch: number): EpochInMemory | undefined {
    const { manifest } = this.newest
    return manifest.generation === generation && manifest.epoch === epoch ? this.newest : undefined
  }

  answerable(): readonly EpochInMemory[] {
    return [this.newest]
  }

  get bases(): readonly Base[] {
    return this.#preparing.bases
  }

  list(): EpochInfo[] {
    return [infoOf(this.newest)]
  }

  async manifestOf(generation: number, epoch: number): Promise<Uint8Array | undefined> {
    return this.find(generation, epoch)?.manifestBytes
  }

  remembers(): boolean {
    return true
  }

  async since(epoch: number, reserve: (bytes: number) => void = () => {}): Promise<Uint8Array | undefined> {
    const { manifest, manifestBytes } = this.newest
    if (epoch !== manifest.epoch - 1) return epoch === manifest.epoch ? new Uint8Array() : undefined
    reserve(manifestBytes.length)
    return manifestBytes
  }

  async findBlob(hash: string, withholds = false): Promise<Blob | undefined> {
    return baseBlob(this.bases, hash) ?? (withholds ? undefined : this.#blobs.get(hash))
  }
}
