// The epochs of one database that this process can answer, newest last. Format 1 datasets have one; the list is here
// so that a server stays answerable at the previous epoch while clients move on.

import type { EpochInfo } from '@pirouette/protocol'
import type { Blob, Dataset } from './dataset/load.js'

export class Epochs {
  readonly #epochs: readonly [Dataset, ...Dataset[]]

  constructor(...epochs: readonly [Dataset, ...Dataset[]]) {
    this.#epochs = epochs
  }

  get newest(): Dataset {
    return this.#epochs.at(-1)!
  }

  /** 16 bytes, the same in every epoch */
  get databaseId(): Uint8Array {
    return this.newest.manifest.databaseId
  }

  find(generation: number, epoch: number): Dataset | undefined {
    return this.#epochs.find(({ manifest }) => manifest.generation === generation && manifest.epoch === epoch)
  }

  /** The file that clients fetch under this hash (hex), of whichever epoch. */
  findBlob(hash: string): Blob | undefined {
    for (const { blobs } of this.#epochs) {
      const blob = blobs.get(hash)
      if (blob !== undefined) return blob
    }
    return undefined
  }

  list(): EpochInfo[] {
    return this.#epochs.map(({ manifest, manifestHash }) => ({
      generation: manifest.generation,
      epoch: manifest.epoch,
      manifest: manifestHash,
    }))
  }
}
