// The files of a dataset with Pointproofs: row lists and key, which clients download; the transcript that the key was made of; and the
// openings of all records.

import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setImmediate as nextTask } from 'node:timers/promises'
import {
  equalBytes,
  type Manifest,
  POINTPROOFS_ROW_RECORDS,
  type PointproofsFields,
  partitionBlocks,
  rowListsBytes,
} from '@keyhush/protocol'
import { blobPath, DatasetError, type Dated, manifestPath, proofPath } from '@keyhush/server/proofs'
import type { Core } from '@keyhush/wasm'
import { CeremonyError } from './errors.js'
import { OPENING_BYTES } from './module.js'
import { Openings, type Proved, recordsOf } from './openings.js'
import { type ProvedDatabase, readSealed, sealed, shapeOf } from './proving.js'
import { setupOf } from './setup.js'

const ENTROPY_BYTES = 32

/** Writes all these files. */
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
    await nextTask()
  }
}

/** Reads a dataset's files, and checks that the row lists commit to the records under the ceremony's key. */
export class ProofsLoader {
  readonly #core: Core
  readonly #dir: string
  readonly #manifest: Manifest
  readonly #proved: Proved
  readonly #rowLists: Uint8Array
  readonly #rows: Dated[] = []

  private constructor(core: Core, dir: string, manifest: Manifest, proved: Proved, rowLists: Uint8Array) {
    this.#core = core
    this.#dir = dir
    this.#manifest = manifest
    this.#proved = proved
    this.#rowLists = rowLists
  }

  /** Reads all but the openings, and compares the key with that of the transcript. Throws DatasetError. */
  static async begin(core: Core, dir: string, manifest: Manifest, fields: PointproofsFields): Promise<ProofsLoader> {
    const rowsPath = blobPath(dir, fields.rowsHash)
    const rowLists = await read(rowsPath)
    if (rowLists.length !== rowListsBytes(manifest) || !equalBytes(core.blake3(rowLists), fields.rowsHash)) {
      throw new DatasetError(rowsPath, 'its bytes are not those of the row lists that the manifest names')
    }
    const path = proofPath(dir, 'transcript')
    const proved = await provedWith(core, manifest, await read(path), path, manifestPath(dir))
    const keyPath = blobPath(dir, fields.keyHash)
    if (!equalBytes(await read(keyPath), proved.setup.key)) {
      throw new DatasetError(keyPath, 'its bytes are not those of the key')
    }
    return new ProofsLoader(core, dir, manifest, proved, rowLists)
  }

  /** Checks the row list of partition `q` against its records, and reads its openings. Throws DatasetError. */
  async check(q: number, partition: Uint8Array): Promise<void> {
    if (!commits(this.#proved, this.#manifest, this.#rowLists, q, partition)) {
      throw new DatasetError(manifestPath(this.#dir), `the rows of partition ${q} are not those of its records`)
    }
    const path = proofPath(this.#dir, q)
    const openings = await readSealed(this.#core, path, partitionBlocks(this.#manifest) * OPENING_BYTES)
    if (openings === undefined) throw new DatasetError(path, 'it is not there whole; build the dataset again')
    const { epoch } = this.#manifest
    for (let at = 0; at < openings.length; at += POINTPROOFS_ROW_RECORDS * OPENING_BYTES) {
      const bytes = openings.subarray(at, at + recordsOf(this.#manifest, this.#rows.length) * OPENING_BYTES)
      this.#rows.push({ epoch, bytes })
    }
  }

  /** Called once all partitions have been checked. */
  finish(): Openings {
    return new Openings(this.#core, this.#proved, this.#manifest, this.#rows, this.#rowLists)
  }

  /** Called instead of `finish`. */
  free(): void {
    this.#proved.prover.free()
  }
}

/**
 * The prover of a manifest's database, from a transcript. Throws DatasetError, which names the transcript's file or the manifest's.
 */
export async function provedWith(
  core: Core,
  manifest: Manifest,
  transcript: Uint8Array,
  file: string,
  manifestFile: string,
): Promise<Proved> {
  const fields = manifest.pointproofs!
  const setup = await setupOf(core, file, transcript).catch(error => {
    throw error instanceof CeremonyError ? new DatasetError(file, 'it is no transcript that holds') : error
  })
  const { transcriptHash, keyHash, development } = setup.fields
  if (!equalBytes(transcriptHash, fields.transcriptHash) || development !== fields.development) {
    throw new DatasetError(file, 'it is not the transcript that the manifest names')
  }
  if (!equalBytes(keyHash, fields.keyHash)) {
    throw new DatasetError(manifestFile, 'the key it names is not that of its transcript')
  }
  const { partitions, partitionRecords, recordBytes } = shapeOf(manifest)
  return { prover: setup.prover.shaped(partitions, partitionRecords, recordBytes), setup }
}

/** Whether the row list of partition `q` commits to its records. */
export function commits(
  { prover }: Proved,
  { partitions }: Manifest,
  rowLists: Uint8Array,
  q: number,
  partition: Uint8Array,
): boolean {
  const bytes = rowLists.length / partitions
  return prover.commits(q, partition, rowLists.subarray(q * bytes, (q + 1) * bytes), randomBytes(ENTROPY_BYTES))
}

async function read(path: string): Promise<Uint8Array> {
  return readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new DatasetError(path, `cannot be read (${error.code})`)
  })
}
