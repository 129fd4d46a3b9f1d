// The epochs of one database as the routes see them: the ones this process answers, the history it can tell of, and
// the files that clients fetch. A dataset has one epoch for ever (`FixedEpochs`); living/database.ts has one that
// changes.

import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { EpochInfo, Manifest, Proofs } from '@pirouette/protocol'
import type { Dataset } from './dataset/load.js'

/** One epoch, ready to answer. */
export interface Epoch {
  readonly manifest: Manifest
  readonly manifestBytes: Uint8Array
  /** hex */
  readonly manifestHash: string
  /** count·Q offsets in, count·Q entries out, with a kind of proof the manifest has; throws the core's errors */
  answer(vectors: Uint8Array, proofs: Proofs): Uint8Array
}

/** What clients fetch under a hash. */
export interface Blob {
  readonly bytes: number
  /** bytes `first` to `last`, both included; rejects if they cannot be had at all */
  open(first: number, last: number): Promise<Readable>
}

export interface Epochs {
  /** 16 bytes, the same in every epoch */
  readonly databaseId: Uint8Array
  readonly newest: Epoch
  /** the newest or the one before it */
  find(generation: number, epoch: number): Epoch | undefined
  /** those of `find`, newest last */
  list(): EpochInfo[]
  /** a manifest's bytes, as far back as history goes */
  manifestOf(generation: number, epoch: number): Uint8Array | undefined
  /** the manifests after `epoch`, one after the other; undefined: not known that far back, or yet */
  since(epoch: number): Uint8Array | undefined
  /** by its hash in hex */
  findBlob(hash: string): Promise<Blob | undefined>
}

/** The one epoch of a dataset on disk. */
export class FixedEpochs implements Epochs {
  readonly newest: Epoch
  readonly #dataset: Dataset

  constructor(dataset: Dataset) {
    this.#dataset = dataset
    const { manifest, manifestBytes, manifestHash, database } = dataset
    this.newest = { manifest, manifestBytes, manifestHash, answer: (...query) => database.answer(...query) }
  }

  get databaseId(): Uint8Array {
    return this.newest.manifest.databaseId
  }

  find(generation: number, epoch: number): Epoch | undefined {
    const { manifest } = this.newest
    return manifest.generation === generation && manifest.epoch === epoch ? this.newest : undefined
  }

  list(): EpochInfo[] {
    return [infoOf(this.newest)]
  }

  manifestOf(generation: number, epoch: number): Uint8Array | undefined {
    return this.find(generation, epoch)?.manifestBytes
  }

  since(epoch: number): Uint8Array | undefined {
    const { manifest, manifestBytes } = this.newest
    if (epoch === manifest.epoch - 1) return manifestBytes
    return epoch === manifest.epoch ? new Uint8Array() : undefined
  }

  async findBlob(hash: string): Promise<Blob | undefined> {
    const file = this.#dataset.blobs.get(hash)
    if (file === undefined) return undefined
    return {
      bytes: file.bytes,
      async open(first, last) {
        // Opened before the reply begins, so that a file that is gone becomes an error reply. The stream closes it.
        const handle = await open(file.path)
        return handle.createReadStream({ start: first, end: last })
      },
    }
  }
}

export function infoOf({ manifest, manifestHash }: Epoch): EpochInfo {
  return { generation: manifest.generation, epoch: manifest.epoch, manifest: manifestHash }
}

/** A blob that is in memory and does not change. */
export function memoryBlob(bytes: Uint8Array): Blob {
  return { bytes: bytes.length, open: async (first, last) => Readable.from([bytes.subarray(first, last + 1)]) }
}
