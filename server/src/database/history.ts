// Epochs as clients that are behind ask for them: manifests, and where the update lists are.

import { decodeManifest, equalBytes, type Manifest, toHex } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { DatasetError } from '../base/errors.js'
import type { EpochStore } from './epoch-store.js'
import { type Blob, slicedBlob } from './epochs.js'
import { readingFrom } from './loading.js'

/** Of manifests in memory. */
const MOST_BYTES = 16 * 1024 * 1024

export class History {
  readonly #core: Core
  readonly #store: EpochStore
  readonly #lists = new Map<string, { readonly epoch: number; readonly bytes: number }>()
  /** each is read from the store once, however many ask for it */
  #manifests = new Map<number, Promise<Uint8Array | undefined>>()
  #manifestBytes = 0
  #oldest = 0

  constructor(core: Core, store: EpochStore) {
    this.#core = core
    this.#store = store
  }

  manifest(epoch: number): Promise<Uint8Array | undefined> {
    const known = this.#manifests.get(epoch)
    if (known !== undefined) return known
    const read = this.#store.manifest(epoch)
    if (epoch < this.#oldest) return read
    this.#manifests.set(epoch, read)
    read.then(
      bytes => this.#keep(epoch, bytes),
      () => this.#manifests.delete(epoch),
    )
    return read
  }

  #keep(epoch: number, bytes: Uint8Array | undefined): void {
    if (bytes === undefined) this.#manifests.delete(epoch)
    else this.#manifestBytes += bytes.length
    if (this.#manifestBytes <= MOST_BYTES) return
    this.#manifests = new Map()
    this.#manifestBytes = 0
  }

  /** An update list by its hash in hex. */
  list(hash: string): Blob | undefined {
    const known = this.#lists.get(hash)
    if (known === undefined) return undefined
    const { epoch, bytes } = known
    return slicedBlob(bytes, (first, last) => this.#store.listSlice(epoch, first, last))
  }

  /** An epoch whose list is in the store. */
  note({ epoch, updateListHash, updateListBytes }: Manifest): void {
    this.#lists.set(toHex(updateListHash), { epoch, bytes: updateListBytes })
  }

  /** What came before this epoch goes. */
  forgetBefore(oldest: number): void {
    this.#oldest = oldest
    for (const epoch of this.#manifests.keys()) if (epoch < oldest) this.#manifests.delete(epoch)
    for (const [hash, { epoch }] of this.#lists) if (epoch < oldest) this.#lists.delete(hash)
  }

  /** Notes all that the store has, which must be whole. Throws DatasetError. */
  async index(): Promise<void> {
    const { location } = this.#store
    for await (const epoch of this.#store.epochs()) {
      const manifest = await readingFrom(location, async () => {
        if ((await this.#store.batch(epoch)) === undefined) throw new Error(`what became of epoch ${epoch} is missing`)
        await this.#store.signatures(epoch)
        return decodeManifest((await this.#store.manifest(epoch))!)
      })
      if (manifest.updateListBytes === 0) continue
      const list = await readingFrom(location, () => this.#store.list(epoch))
      if (list === undefined || !equalBytes(this.#core.blake3(list), manifest.updateListHash)) {
        throw new DatasetError(location, `the update list of epoch ${epoch} is missing or damaged`)
      }
      this.note(manifest)
    }
  }
}
