// Epochs as clients that are behind ask for them: manifests, what became of batches, and where the update lists are. Anybody may ask:
// what is small is in memory, and few reads of the store are under way at once, so that fence and publisher do not wait for them.

import { decodeManifest, type EpochStatus, equalBytes, type Manifest, toHex } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { readingFrom } from '../base/errors.js'
import type { EpochStore } from './epoch-store.js'
import { type Blob, slicedBlob } from './epochs.js'
import { newQueue } from './queue.js'

/** Manifests in memory have no more bytes. */
const MOST_BYTES = 16 * 1024 * 1024

/** Most of one reply; a single manifest may be longer. */
export const CHAIN_MANIFESTS = 64
export const CHAIN_BYTES = 8 * 1024 * 1024

/** Reads for clients that are under way at once. A storage of several processes has ten connections. */
const READS_AT_ONCE = 4

export class History {
  readonly #core: Core
  readonly #store: EpochStore
  readonly #reads = newQueue(READS_AT_ONCE)
  /** what became of each epoch that the store has */
  readonly #statuses = new Map<number, EpochStatus>()
  readonly #lists = new Map<string, { readonly epoch: number; readonly bytes: number }>()
  /** each is read from the store once, however many requests there are */
  readonly #manifests = new Map<number, { readonly read: Promise<Uint8Array | undefined>; bytes: number }>()

  constructor(core: Core, store: EpochStore) {
    this.#core = core
    this.#store = store
  }

  manifest(epoch: number): Promise<Uint8Array | undefined> {
    const known = this.#manifests.get(epoch)
    if (known !== undefined) return known.read
    if (!this.#statuses.has(epoch)) return Promise.resolve(undefined)
    const read = this.#reads(() => this.#store.manifest(epoch))
    const entry = { read, bytes: 0 }
    this.#manifests.set(epoch, entry)
    const keep = (bytes: Uint8Array | undefined) => {
      if (bytes === undefined) this.#manifests.delete(epoch)
      else entry.bytes = bytes.length
      this.#makeRoom()
    }
    read.then(keep, () => keep(undefined))
    return read
  }

  /** Whether the manifests after `epoch` are in memory, as many as one reply has. */
  remembers(epoch: number, newest: number): boolean {
    for (let next = epoch + 1; next <= Math.min(newest, epoch + CHAIN_MANIFESTS); next++) {
      if (!this.#manifests.get(next)?.bytes) return false
    }
    return true
  }

  /** Keeps the manifest of an epoch that is new, for which clients come now. */
  keep(epoch: number, manifest: Uint8Array): void {
    this.#manifests.set(epoch, { read: Promise.resolve(manifest), bytes: manifest.length })
    this.#makeRoom()
  }

  /** Forgets manifests that were read, the first ones first. Those that are being read stay: nobody is to read them again meanwhile. */
  #makeRoom(): void {
    let total = [...this.#manifests.values()].reduce((sum, { bytes }) => sum + bytes, 0)
    for (const [epoch, { bytes }] of this.#manifests) {
      if (total <= MOST_BYTES) return
      if (bytes > 0) this.#manifests.delete(epoch)
      total -= bytes
    }
  }

  /** The manifests after `epoch` as far as `newest`, or some of them; undefined: not known that far back. */
  async since(
    epoch: number,
    newest: number,
    reserve: (bytes: number) => void,
    goOn: () => void,
  ): Promise<Uint8Array | undefined> {
    const chain: Uint8Array[] = []
    let bytes = 0
    for (let next = epoch + 1; next <= newest && chain.length < CHAIN_MANIFESTS; next++) {
      goOn()
      const manifest = await this.manifest(next)
      if (manifest === undefined) return undefined
      if (chain.length > 0 && bytes + manifest.length > CHAIN_BYTES) break
      chain.push(manifest)
      bytes += manifest.length
    }
    reserve(bytes)
    return Buffer.concat(chain)
  }

  /** What became of an epoch; undefined: it is not known any more. */
  status(epoch: number): EpochStatus | undefined {
    return this.#statuses.get(epoch)
  }

  /** An update list by its hash in hex. */
  list(hash: string): Blob | undefined {
    const known = this.#lists.get(hash)
    if (known === undefined) return undefined
    const { epoch, bytes } = known
    return slicedBlob(bytes, (first, last) => this.#reads(() => this.#store.lists.slice(epoch, first, last)))
  }

  /** Notes an epoch that the store has. */
  noteStatus(status: EpochStatus): void {
    this.#statuses.set(status.epoch, status)
  }

  /** Notes an epoch whose list, if it has one, is in the store. */
  note({ epoch, updateListHash, updateListBytes }: Manifest): void {
    if (updateListBytes > 0) this.#lists.set(toHex(updateListHash), { epoch, bytes: updateListBytes })
  }

  /** Forgets epochs before this one, but for the last of the old generation, while that is answered. */
  forgetBefore(oldest: number, old: number | undefined): void {
    for (const epoch of this.#statuses.keys()) if (epoch < oldest && epoch !== old) this.#statuses.delete(epoch)
    for (const epoch of this.#manifests.keys()) if (epoch < oldest) this.#manifests.delete(epoch)
    for (const [hash, { epoch }] of this.#lists) if (epoch < oldest) this.#lists.delete(hash)
  }

  /** Notes all that the store has, which must be whole. Throws DatasetError. */
  async index(): Promise<void> {
    await readingFrom(this.#store.location, async () => {
      for await (const epoch of this.#store.epochs()) {
        const batch = await this.#store.batch(epoch)
        if (batch === undefined) throw new Error(`expected the batch of epoch ${epoch}, got nothing; begin a new store`)
        await this.#store.signatures(epoch)
        const bytes = (await this.#store.manifest(epoch))!
        const manifest = decodeManifest(bytes)
        const { generation } = manifest
        this.noteStatus({ generation, epoch, manifest: toHex(this.#core.blake3(bytes)), ...batch })
        this.note(manifest)
        if (manifest.updateListBytes === 0) continue
        const list = await this.#store.lists.read(epoch)
        if (list === undefined || !equalBytes(this.#core.blake3(list), manifest.updateListHash)) {
          throw new Error(`expected the update list of epoch ${epoch}, got none or another; begin a new store`)
        }
      }
    })
  }
}
