// Kinds of proof that a package of its own makes, and the core does not: a row each. It is loaded for databases that have such
// proofs, and for nobody else.

import { fileURLToPath } from 'node:url'
import type { Manifest, PointproofsFields, Proofs } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { MissingPackageError } from '../base/errors.js'
import type { ChangedBlocks } from './changed-blocks.js'
import type { proofPath } from './directory.js'

export interface ProofsPackage {
  /** Proves a database that is being built. Throws BuildError and CeremonyError. */
  prove(core: Core, database: Provable, options: ProvingOptions): Promise<ProvedDatabase>
  /** Reads what a dataset is proved with, but for the openings. Throws DatasetError. */
  load(core: Core, dir: string, manifest: Manifest): Promise<DatasetProofs>
  /** The same of a store, `location` of which errors name, out of the transcript in it. Throws DatasetError. */
  resume(core: Core, manifest: Manifest, transcript: Uint8Array, location: string): Promise<StoredProofs>
  /** The commands `keyhush ceremony`. Throw CeremonyError. */
  readonly ceremony: {
    init(options: { out: string; development?: true }): Promise<void>
    contribute(file: string, options: { name: string; out: string }): Promise<void>
    verify(file: string, options: { receipt?: string[] }): Promise<void>
  }
}

/** A database whose partitions have been hashed. */
export interface Provable {
  readonly layout: Pick<Manifest, 'partitions' | 'partitionRecords' | 'blockRecords' | 'recordBytes'>
  contentHash(q: number): Uint8Array
  /** a copy */
  partition(q: number): Uint8Array
}

export interface ProvingOptions {
  /** the dataset's directory: what is finished is kept beside it until all is */
  readonly out: string
  /** the ceremony's transcript, a file */
  readonly ceremony: string
  /** default: the transcript's name and `.receipt` */
  readonly receipt?: string | undefined
  /** a program that proves in place of threads */
  readonly command?: string | undefined
  readonly onProgress?:
    | ((progress: { stage: 'checking the ceremony' | 'proving'; done: number; total: number }) => void)
    | undefined
}

export interface ProvedDatabase {
  /** the manifest's */
  readonly fields: PointproofsFields
  write(
    writeBlob: (hash: Uint8Array, bytes: Uint8Array) => void,
    writeProof: (what: Parameters<typeof proofPath>[1], bytes: Uint8Array) => void,
  ): Promise<void>
  /** takes away what was kept in case of an interruption */
  forget(): Promise<void>
}

export interface DatasetProofs {
  /** Holds what proves partition `q` to its records, and reads its openings. Throws DatasetError. */
  check(q: number, partition: Uint8Array): Promise<void>
  /** All partitions have been checked. */
  finish(): RowProofs
  /** Instead of that. */
  free(): void
}

export interface StoredProofs {
  /** Whether the rows of partition `q` commit to its records. */
  commits(rowLists: Uint8Array, q: number, partition: Uint8Array): boolean
  /** All rows' openings, of records that are all zero. */
  emptyRows(): RowOpenings[]
  /** `rows` are all rows' of all partitions, `rowLists` as of an epoch no earlier than any of them. */
  finish(rows: readonly RowOpenings[], rowLists: Uint8Array): RowProofs
  /** Instead of that. */
  free(): void
}

/** Openings of a row, as of an epoch. */
export interface RowOpenings {
  readonly epoch: number
  readonly bytes: Uint8Array
}

/** The epoch an answer is for. */
export interface ProvedEpoch {
  readonly manifest: Manifest
  readonly manifestHash: Uint8Array
}

/** What is folded, as far as an epoch: for another thread, and later for `folded`. */
export interface Fold extends RowOpenings {
  readonly row: number
  readonly edits: Uint8Array
}

/** Does one thing at a time. */
export interface FoldingThread {
  do(task: Pick<Fold, 'edits'> & { readonly openings: Uint8Array }): Promise<Uint8Array>
  giveBack(): void
  end(): Promise<void>
}

/** What proves the answers of a database, as its epochs go by. */
export interface RowProofs {
  readonly transcript: Uint8Array
  readonly key: Uint8Array
  /** of the newest epoch, one behind the other */
  readonly rowLists: Uint8Array
  /** every epoch after this one that has edits which are not folded is told of by its list */
  readonly foldedTo: number
  /** By their number, q·R + r. */
  rows(): readonly RowOpenings[]
  /** The body of an answer, of its records with room for the proof. */
  prove(body: Uint8Array, queries: Uint8Array, epoch: ProvedEpoch): Uint8Array
  /** Follows to `epoch`, of so many partitions. Returns the commitments of the rows touched, ascending. */
  turn(epoch: number, partitions: number, changed: ChangedBlocks): Promise<Uint8Array>
  /** The row lists of the epoch before the newest, of so many partitions, from what it changed. */
  before(partitions: number, changed: ChangedBlocks): Promise<Uint8Array>
  /** What rows that are not as late as `epoch` lack of what it changed: epoch by epoch, ascending, after a start. */
  missed(epoch: number, changed: ChangedBlocks): void
  /** The row that is to be folded next, as far as the newest epoch. */
  next(newest: Manifest): Fold | undefined
  /** They may be answered from. */
  folded(row: number, openings: RowOpenings): void
  /** Folded openings no later than `epoch`, the earliest that is answered: they are to be on disk. */
  settled(epoch: number): Iterable<[row: number, RowOpenings]>
  /** They are on disk. */
  stored(row: number, openings: RowOpenings): void
  foldingThread(): FoldingThread
  free(): void
}

/** The package of each kind. */
const PACKAGES: Readonly<Partial<Record<Proofs, string>>> = { pointproofs: '@keyhush/pointproofs' }

/** Whether a package makes these proofs. */
export function isPackaged(proofs: Proofs | undefined): boolean {
  return proofs !== undefined && PACKAGES[proofs] !== undefined
}

/** The package of such a kind. Throws MissingPackageError where it is not installed. */
export async function proofsPackage(proofs: Proofs): Promise<ProofsPackage> {
  const name = PACKAGES[proofs]!
  const entry: string = `${name}/server`
  try {
    return (await import(entry)) as ProofsPackage
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes(fileURLToPath(import.meta.url))) throw error
    throw new MissingPackageError(`${proofs} need a package of their own: npm install ${name}, beside @keyhush/server`)
  }
}
