// What a server proves answers of suite 6 with, as it lies in a dataset: row lists and key, which clients fetch; the transcript
// they come from; and the openings of all records.

import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  equalBytes,
  HEADER_BYTES,
  type Manifest,
  POINTPROOF_BYTES,
  type PointproofsFields,
  rowListsBytes,
} from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm'
import type { Shape } from '@pirouette/wasm/pointproofs'
import { loadProving, OPENING_BYTES, type PointproofsProver, type Proving } from '@pirouette/wasm/prover'
import { CeremonyError } from '../ceremony/errors.js'
import { verifiedCeremony } from '../ceremony/transcript.js'
import { blobPath, manifestPath, proofPath } from './directory.js'
import { DatasetError } from './errors.js'
import { type ProvedDatabase, readSealed, sealed, shapeOf } from './proving.js'

const ENTROPY_BYTES = 32

/** Writes all of it. */
export async function writeProofs(
  core: Core,
  { setup, rowLists, openings }: ProvedDatabase,
  partitions: number,
  writeBlob: (hash: Uint8Array, bytes: Uint8Array) => void,
  writeProof: (what: Parameters<typeof proofPath>[1], bytes: Uint8Array) => void,
): Promise<void> {
  writeBlob(core.blake3(rowLists), rowLists)
  writeBlob(setup.fields.keyHash, setup.key)
  writeProof('transcript', setup.transcript)
  for (let q = 0; q < partitions; q++) {
    writeProof(q, sealed(core, await openings(q)))
    await nextTurn()
  }
}

/** Row lists and key of a dataset, found to be what they should: the rows commit to the records under this ceremony's key. */
export class ProofsLoader {
  readonly #core: Core
  readonly #dir: string
  readonly #shape: Shape
  readonly #prover: PointproofsProver
  readonly #proving: Proving
  readonly #rowLists: Uint8Array
  readonly #openings: Uint8Array[] = []

  private constructor(
    core: Core,
    dir: string,
    shape: Shape,
    of: { proving: Proving; prover: PointproofsProver; rowLists: Uint8Array },
  ) {
    this.#core = core
    this.#dir = dir
    this.#shape = shape
    this.#proving = of.proving
    this.#prover = of.prover
    this.#rowLists = of.rowLists
  }

  /** Reads all but the openings. The key is made of the transcript anew. Throws DatasetError. */
  static async begin(core: Core, dir: string, manifest: Manifest, fields: PointproofsFields): Promise<ProofsLoader> {
    const rowsPath = blobPath(dir, fields.rowsHash)
    const rowLists = await read(rowsPath)
    if (rowLists.length !== rowListsBytes(manifest) || !equalBytes(core.blake3(rowLists), fields.rowsHash)) {
      throw new DatasetError(rowsPath, 'its bytes are not those of the row lists that the manifest names')
    }
    const proving = await loadProving()
    const path = proofPath(dir, 'transcript')
    const ceremony = await verifiedCeremony(path, await read(path)).catch(error => {
      throw error instanceof CeremonyError ? new DatasetError(path, 'it is no transcript that holds') : error
    })
    try {
      const { hash, development } = ceremony
      if (!equalBytes(hash, fields.transcriptHash) || development !== fields.development) {
        throw new DatasetError(path, 'it is not the transcript that the manifest names')
      }
      const key = ceremony.key()
      const keyPath = blobPath(dir, fields.keyHash)
      if (!equalBytes(core.blake3(key), fields.keyHash)) {
        throw new DatasetError(manifestPath(dir), 'the key it names is not that of its transcript')
      }
      if (!equalBytes(await read(keyPath), key)) throw new DatasetError(keyPath, 'its bytes are not those of the key')
      const shape = shapeOf(manifest)
      return new ProofsLoader(core, dir, shape, {
        proving,
        prover: proving.prover(proving.setup(ceremony), shape),
        rowLists,
      })
    } finally {
      ceremony.free()
    }
  }

  /** Holds the row list of partition `q` to its records, and reads its openings. Throws DatasetError. */
  async check(q: number, partition: Uint8Array): Promise<void> {
    const { partitions, partitionRecords } = this.#shape
    const rowBytes = this.#rowLists.length / partitions
    const rowList = this.#rowLists.subarray(q * rowBytes, (q + 1) * rowBytes)
    if (!this.#prover.commits(q, partition, rowList, randomBytes(ENTROPY_BYTES))) {
      throw new DatasetError(manifestPath(this.#dir), `the rows of partition ${q} are not those of its records`)
    }
    const path = proofPath(this.#dir, q)
    const openings = await readSealed(this.#core, path, partitionRecords * OPENING_BYTES)
    if (openings === undefined) throw new DatasetError(path, 'it is not there whole; build the dataset again')
    this.#openings.push(openings)
  }

  /** All partitions have been checked. */
  finish(manifestHash: Uint8Array): Openings {
    this.#prover.free()
    return new Openings(this.#proving, this.#shape, manifestHash, this.#openings)
  }

  /** Instead of that. */
  free(): void {
    this.#prover.free()
  }
}

async function read(path: string): Promise<Uint8Array> {
  return readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new DatasetError(path, `cannot be read (${error.code})`)
  })
}

/** The openings of all records, out of which answers are proved. */
export class Openings {
  readonly #proving: Proving
  readonly #shape: Shape
  readonly #manifestHash: Uint8Array
  /** of each partition */
  readonly #openings: readonly Uint8Array[]

  constructor(proving: Proving, shape: Shape, manifestHash: Uint8Array, openings: readonly Uint8Array[]) {
    this.#proving = proving
    this.#shape = shape
    this.#manifestHash = manifestHash
    this.#openings = openings
  }

  /**
   * Puts the proof behind the records of an answer (header, records, 48 bytes for it), whose offsets (u16 each) have been
   * answered already. Throws the module's errors.
   */
  prove(answer: Uint8Array, queries: Uint8Array): void {
    const { partitions } = this.#shape
    const offsets = new Uint16Array(queries.length / 2)
    const openings = new Uint8Array(offsets.length * OPENING_BYTES)
    for (let n = 0; n < offsets.length; n++) {
      const offset = queries[2 * n]! | (queries[2 * n + 1]! << 8)
      offsets[n] = offset
      const from = this.#openings[n % partitions]!
      openings.set(from.subarray(offset * OPENING_BYTES, (offset + 1) * OPENING_BYTES), n * OPENING_BYTES)
    }
    const end = answer.length - POINTPROOF_BYTES
    const [header, records] = [answer.subarray(0, HEADER_BYTES), answer.subarray(HEADER_BYTES, end)]
    const { proveTogether } = this.#proving
    answer.set(proveTogether(this.#shape, this.#manifestHash, header, offsets, records, openings), end)
  }
}
