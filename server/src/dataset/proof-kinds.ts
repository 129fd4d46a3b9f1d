// What a package that makes proofs of its own kind gives to the server. It is loaded for databases that have such proofs alone.

import { fileURLToPath } from 'node:url'
import { type Manifest, type PointproofsFields, PROOF_KINDS, type Proofs } from '@keyhush/protocol'
import type { Core, DatabaseHandle } from '@keyhush/wasm'
import { MissingPackageError } from '../base/errors.js'
import type { proofPath } from './directory.js'

export interface ProofsPackage {
  /** Proves a database that is being built. Throws BuildError and CeremonyError. */
  prove(core: Core, database: Provable, options: ProvingOptions): Promise<ProvedDatabase>
  /** Reads what a dataset is proved with, but for the openings. Throws DatasetError. */
  load(core: Core, dir: string, manifest: Manifest): Promise<DatasetProofs>
  /** Holds what a store has to the records of its newest epoch. Throws DatasetError, and the errors of `openings`. */
  resume(core: Core, stored: StoredProofs): Promise<RowProofs>
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

/** Bytes as they were at an epoch. */
export interface Dated {
  readonly epoch: number
  readonly bytes: Uint8Array
}

/** A store's newest epoch in memory, and what answers of it are proved with. */
export interface StoredProofs {
  /** of the store, for errors */
  readonly location: string
  readonly database: DatabaseHandle
  readonly newest: Manifest
  /** of the epoch before, if that is answered too */
  readonly previous: Manifest | undefined
  /** by epoch, ascending: what each epoch's list changes in records, and the rows behind it */
  readonly lists: ReadonlyMap<number, { readonly list: Uint8Array; readonly rows?: Uint8Array | undefined }>
  readonly transcript: Uint8Array
  readonly rowLists: Dated
  /** of rows, by their number; a row that is missing has records that are all zero */
  readonly openings: AsyncIterable<readonly [number, Dated]>
}

/** The epoch an answer is for. */
export interface ProvedEpoch {
  readonly manifest: Manifest
  readonly manifestHash: Uint8Array
}

/** An answer that a thread is to prove. */
export interface Unproved {
  /** openings that are put together: what it costs */
  readonly entries: number
  /** Its body. Rejects if the thread fails. */
  prove(): Promise<Uint8Array>
}

/** Brings openings up to date with edits, in a thread, in the background. */
export interface Folding {
  /** called when a thread or the disk has failed */
  onFailure: (error: Error) => void
  /** why edits are not folded at the moment, for people; answers stay right, and take longer */
  readonly failure: string | undefined
  /** Folds rows that have many edits, or old ones. */
  catchUp(): void
  /** Resolves once nothing is being folded. */
  settled(): Promise<void>
  /** Resolves after the row that is being folded. Nothing is written afterwards. */
  stop(): Promise<void>
}

/** What an epoch changes in what answers are proved with. */
export interface ChangedRows {
  /** what stands behind the epoch's update list */
  readonly rows: Uint8Array
  /** of the row lists, for its manifest */
  readonly rowsHash: Uint8Array
}

/** What proves the answers of a database, as its epochs go by. */
export interface RowProofs {
  /** of the answers that it proves */
  readonly suite: number
  readonly transcript: Uint8Array
  /** of the newest epoch, one behind the other */
  readonly rowLists: Uint8Array
  /** every epoch after this one that has edits which are not folded is told of by its list */
  readonly foldedTo: number
  /** By their number, q·R + r. */
  rows(): readonly Dated[]
  /** The key, or the row lists of an epoch that is answered, by their hash in hex. */
  blob(hash: string): Uint8Array | undefined
  /** What proves an answer. `body`: its records, with room for the proof. What that takes is copied: epochs may go by before its turn. */
  unproved(body: Uint8Array, queries: Uint8Array, epoch: ProvedEpoch): Unproved
  /** Applies a list, to the epoch that `database` is at. */
  advance(epoch: number, list: Uint8Array, database: DatabaseHandle): Promise<ChangedRows>
  /** `write` puts a row's openings on disk; false: that is not possible any more. */
  folding(newest: () => Manifest, write: (row: number, openings: Dated) => Promise<boolean>): Folding
  free(): void
}

/** The package of such a kind. Throws MissingPackageError where it is not installed. */
export async function proofsPackage(proofs: Proofs): Promise<ProofsPackage> {
  const name = PROOF_KINDS[proofs].package!
  const entry: string = `${name}/server`
  try {
    return (await import(/* @vite-ignore */ entry)) as ProofsPackage
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes(fileURLToPath(import.meta.url))) throw error
    throw new MissingPackageError(`${proofs} need a package of their own: npm install ${name}, beside @keyhush/server`)
  }
}
