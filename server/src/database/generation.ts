// A generation of a database in the core's memory. The core answers its newest epoch and the one before.

import { toHex } from '@keyhush/protocol'
import type { Core, DatabaseHandle, ServerDirectoryHandle } from '@keyhush/wasm'
import type { KnownManifest } from '../base/known-manifest.js'
import type { RowProofs } from '../dataset/proof-kinds.js'
import type { Base } from '../one-server/base.js'
import { type Blob, type Epoch, memoryBlob } from './epochs.js'
import { partitionBlob } from './partitions.js'
import { Readers } from './readers.js'

/** What a generation has in memory. */
export interface InMemory {
  readonly database: DatabaseHandle
  /** the padded blocks of its directory; undefined if nobody can ask for one */
  readonly blocks: DatabaseHandle | undefined
  readonly directory?: ServerDirectoryHandle | undefined
  readonly slotMarks?: Uint8Array | undefined
}

/** The core's newest epoch of a generation, or the one before, or one that it had before that. */
export interface EpochInMemory extends Epoch {
  isCores: 'newest' | 'previous' | 'gone'
  /** empty: keyless */
  readonly directoryBytes: Uint8Array
  /** its directory, slot marks, or one of its partitions, by its hash in hex */
  blob(hash: string): Blob | undefined
}

export class Generation {
  readonly core: Core
  readonly database: DatabaseHandle
  readonly blocks: DatabaseHandle | undefined
  /** of both: they change, and are freed, when no thread reads them */
  readonly readers = new Readers()
  /** of the core's newest epoch */
  directory: ServerDirectoryHandle | undefined
  /** of the core's newest epoch, and never changed; undefined: the database is not marked */
  slotMarks: Uint8Array | undefined
  /** of the core's newest epoch; undefined: there are no lookups with one server */
  base: Base | undefined
  isFreed = false
  /** made here, and not gone from the core */
  epochs: readonly EpochInMemory[] = []
  readonly #proofs: RowProofs | undefined

  constructor(core: Core, { database, blocks, directory, slotMarks }: InMemory, proofs?: RowProofs) {
    this.core = core
    this.database = database
    this.blocks = blocks
    this.directory = directory
    this.slotMarks = slotMarks
    this.#proofs = proofs
  }

  /** Answers an epoch: the core's newest, until `isCores` says otherwise. */
  epochOf(
    { manifest, bytes }: KnownManifest,
    directoryBytes: Uint8Array,
    isCores: EpochInMemory['isCores'] = 'newest',
    slotMarks = this.slotMarks,
  ): EpochInMemory {
    const { core, database, blocks, readers } = this
    const manifestHash = core.blake3(bytes)
    const isPrevious = () => epoch.isCores === 'previous'
    const { base } = this
    const limits = new Map<number, Uint32Array>()
    const epoch: EpochInMemory = {
      core,
      manifest,
      manifestBytes: bytes,
      manifestHash: toHex(manifestHash),
      isCores,
      directoryBytes,
      oneServer: base?.manifest.epoch === manifest.oneServer?.baseEpoch ? base : undefined,
      suites: database.suites,
      queryLimits(suite) {
        const known = limits.get(suite) ?? database.queryLimits(suite, isPrevious())
        limits.set(suite, known)
        return known
      },
      answerBytes: (...query) => database.answerBytes(...query, isPrevious()),
      answer: (queries, suite) => {
        const body = isPrevious() ? database.answerPrevious(queries, suite) : database.answer(queries, suite)
        if (this.#proofs?.suite !== suite) return body
        return this.#proofs.unproved(body, queries, { manifest, manifestHash })
      },
      shared: () => ({ core, handle: database, readers, previous: isPrevious() }),
      blocks: () => blocks && { core, handle: blocks, readers, previous: isPrevious() },
      blob: hash => {
        const { keyed, directoryHash, slotMarksHash } = manifest
        if (keyed && hash === toHex(directoryHash)) return memoryBlob(directoryBytes)
        if (slotMarks !== undefined && slotMarksHash !== undefined && hash === toHex(slotMarksHash))
          return memoryBlob(slotMarks)
        return partitionBlob(this, manifest, hash)
      },
    }
    this.epochs = [...this.epochs.filter(({ isCores }) => isCores !== 'gone'), epoch]
    return epoch
  }

  /** Resolves once no thread reads it any more and its memory is given back. */
  async free(): Promise<void> {
    await this.readers.exclusively(() => {
      this.isFreed = true
      this.directory?.free()
      this.database.free()
      this.blocks?.free()
    })
  }
}
