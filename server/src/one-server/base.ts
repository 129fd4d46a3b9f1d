// The base of epochs in memory: what lookups with one server are answered from, and the patch that leads from its records to the newest.

import {
  baseOf,
  encodePatch,
  equalBytes,
  FINGERPRINT_BYTES,
  HASH_BYTES,
  type Manifest,
  type OneServerFields,
  type PatchEntry,
  toHex,
  UPDATE_LIST_HEADER_BYTES,
  updateEntries,
} from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { type DatabaseInMemory, kindsOf, sizesFor, xor } from './contents.js'
import { Prepared } from './prepared.js'

const NO_HASH = new Uint8Array(HASH_BYTES)

export class Base {
  /** as lookups see its epoch */
  readonly manifest: Manifest
  /** of its directory; empty: keyless */
  readonly directoryBytes: Uint8Array
  /** of its public hint; undefined: that has yet to be made */
  hintHash: Uint8Array | undefined
  /** what answers; undefined: this process does not, or not any more */
  prepared: Prepared | undefined
  readonly #core: Core
  /** bytes that a patch may have */
  readonly #most: number
  /** base ⊕ newest, of the records that have changed */
  readonly #changes = new Map<number, Uint8Array>()
  #patch: Uint8Array = new Uint8Array()
  #patchHash: Uint8Array = NO_HASH
  /** lengths of all patches there have been, by their hashes in hex */
  readonly #lengths = new Map<string, number>()

  /** `manifest`: of any epoch that has this base, or of one that is to be its own. */
  constructor(core: Core, manifest: Manifest, directoryBytes: Uint8Array) {
    this.#core = core
    this.manifest = manifest.oneServer === undefined ? manifest : baseOf(manifest)
    this.directoryBytes = directoryBytes
    this.hintHash = manifest.oneServer?.hintHash
    const hints = kindsOf(manifest).map(of => sizesFor(core, this.manifest, of).hintBytes)
    this.#most = hints.reduce((sum, bytes) => sum + bytes, 0)
  }

  /** What the manifest of the newest epoch says of it. */
  get fields(): OneServerFields {
    return {
      hintHash: this.hintHash ?? NO_HASH,
      baseEpoch: this.manifest.epoch,
      baseRecords: this.manifest.records,
      patchBytes: this.#patch.length,
      patchHash: this.#patchHash,
    }
  }

  /** Whether a manifest says this of its base and patch. */
  isOf({ oneServer }: Manifest): boolean {
    const { hintHash, patchHash, ...numbers } = this.fields
    if (oneServer === undefined || !equalBytes(oneServer.hintHash, hintHash)) return false
    if (!equalBytes(oneServer.patchHash, patchHash)) return false
    return (Object.keys(numbers) as (keyof typeof numbers)[]).every(name => oneServer[name] === numbers[name])
  }

  /** A patch that leads or led from here, by its hash in hex. */
  patch(hash: string): Uint8Array | undefined {
    const length = this.#lengths.get(hash)
    return length === undefined ? undefined : this.#patch.subarray(0, length)
  }

  /**
   * Adds to the patch what a list changes. `recordAt`: records of the epoch that it leads to. false, and nothing has changed: the patch
   * would be longer than clients take.
   */
  grow(list: Uint8Array, recordAt: (index: number) => Uint8Array): boolean {
    const bytes = list.length - UPDATE_LIST_HEADER_BYTES
    if (this.#patch.length + bytes > this.#most) return false
    const { recordBytes } = this.manifest
    const entries = [...updateEntries(list, recordBytes)]
    if (entries.length === 0) return true
    const changed = entries.map(({ index, kind, delta }) => {
      return { index, kind, record: kind === 'delete' ? delta.subarray(0, FINGERPRINT_BYTES) : recordAt(index) }
    })
    const inOrder = [...changed.filter(isDelete), ...changed.filter(entry => !isDelete(entry))]
    const added = encodePatch(inOrder, recordBytes)
    this.leave(list)
    this.#patch = Buffer.concat([this.#patch, added])
    this.#patchHash = this.#core.blake3(this.#patch)
    this.#lengths.set(toHex(this.#patchHash), this.#patch.length)
    return true
  }

  /** Notes what a list has changed in memory, whether the patch says so or not. */
  leave(list: Uint8Array): void {
    for (const { index, delta } of updateEntries(list, this.manifest.recordBytes)) {
      this.#changes.set(index, xor(Uint8Array.from(delta), this.#changes.get(index)))
    }
  }

  /**
   * Has it prepared, of the newest epoch's records in memory, which must not change until this resolves. With `hintHash`, of that public
   * hint; else one is made.
   */
  async prepare(from: DatabaseInMemory, hintHash?: Uint8Array): Promise<Prepared> {
    const isChanged = this.#changes.size > 0 && this.directoryBytes.length > 0
    const directory = isChanged ? this.#core.decodeDirectory(this.directoryBytes, this.manifest.records) : undefined
    const blocks = directory?.database()
    directory?.free()
    try {
      const database = { ...from, core: this.#core, blocks: blocks ?? from.blocks }
      return await Prepared.begin(this.manifest, database, hintHash, this.#changes)
    } finally {
      blocks?.free()
    }
  }

  /** The public hint, made anew as its builder has to. Rejects with the core's reason if it can have none. */
  async hint(from: DatabaseInMemory): Promise<Uint8Array> {
    const prepared = await this.prepare(from)
    try {
      return await prepared.made
    } finally {
      await prepared.close()
    }
  }
}

const isDelete = ({ kind }: PatchEntry) => kind === 'delete'
