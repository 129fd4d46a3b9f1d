// The epochs of one database as routes see them: those that this process answers, their history, and the blobs that
// clients fetch. A dataset has one epoch for ever (fixed-epochs.ts), other databases have one after the other (changing-epochs.ts).

import { Readable } from 'node:stream'
import type { EpochInfo, Manifest } from '@keyhush/protocol'
import type { Core, DatabaseHandle } from '@keyhush/wasm'
import type { Unproved } from '../dataset/proof-kinds.js'
import type { Base } from '../one-server/base.js'
import type { Readers } from './readers.js'

/** A database in the core's memory, for other threads to read. */
export interface SharedDatabase {
  readonly core: Core
  readonly handle: DatabaseHandle
  readonly readers: Readers
  /** the epoch asked for is the one before the core's newest */
  readonly previous: boolean
}

/** One epoch, wherever its records are. */
export interface AnyEpoch {
  readonly core: Core
  readonly manifest: Manifest
  readonly manifestBytes: Uint8Array
  /** hex */
  readonly manifestHash: string
}

/** One epoch, ready to answer here. */
export interface Epoch extends AnyEpoch {
  /** the suites it answers, by number */
  readonly suites: Uint16Array
  /** bytes of one query of a suite, and how many a request may carry; throws the core's errors */
  queryLimits(suite: number): Uint32Array
  /** Bytes of what `answer` gives for so many queries; throws the core's errors. */
  answerBytes(queries: number, suite: number): number
  /** Answers the queries of a suite, but for a proof that takes long; throws the core's errors. */
  answer(queries: Uint8Array, suite: number): Uint8Array | Unproved
  /** where its records are, at the moment */
  shared(): SharedDatabase
  /** where the padded blocks of its directory are; undefined if nobody can ask for one */
  blocks(): SharedDatabase | undefined
  /** what lookups with one server are answered from; undefined: there are none, or that is not in memory any more */
  readonly oneServer?: Base | undefined
}

/** What clients fetch under a hash. */
export interface Blob {
  readonly bytes: number
  /** bytes `first` to `last`, both included; rejects if they cannot be read at all. `turn`: waited for before each slice of them */
  open(first: number, last: number, turn?: () => Promise<void>): Promise<Readable>
}

export interface Epochs<E extends AnyEpoch = Epoch> {
  /** 16 bytes, the same in every epoch */
  readonly databaseId: Uint8Array
  readonly newest: E
  /** the newest or the one before it */
  find(generation: number, epoch: number): E | undefined
  /** the epochs that `find` finds, newest last; clients may not know the last one yet */
  answerable(): readonly E[]
  /** what lookups with one server are answered from here, oldest first */
  readonly bases: readonly Base[]
  /** those that clients may know of */
  list(): EpochInfo[]
  /** a manifest's bytes, as far back as history goes */
  manifestOf(generation: number, epoch: number): Promise<Uint8Array | undefined>
  /** whether the manifests after `epoch` are in memory, as many as `since` gives at a time */
  remembers(epoch: number): boolean
  /**
   * The manifests after `epoch`, one behind the other; undefined: not known that far back, or yet. `reserve`: as for answers;
   * `goOn`: called before each is read, and may throw.
   */
  since(epoch: number, reserve?: (bytes: number) => void, goOn?: () => void): Promise<Uint8Array | undefined>
  /** By its hash in hex. `withholds`: only public hints and patches for lookups with one server, and proofs of signatures. */
  findBlob(hash: string, withholds?: boolean): Promise<Blob | undefined>
}

/** The epochs of a database that a process answers. */
export interface Answering<E extends AnyEpoch = AnyEpoch> {
  /** the newest that clients may know of */
  readonly newest: E
  /** the newest that is answered */
  readonly latest: E
  /** those that clients may know of, newest last */
  readonly shown: readonly E[]
  /** all, newest last */
  readonly all: readonly E[]
  find(generation: number, epoch: number): E | undefined
}

export function infoOf({ manifest, manifestHash }: AnyEpoch): EpochInfo {
  return { generation: manifest.generation, epoch: manifest.epoch, manifest: manifestHash }
}

/** A blob is read in slices of so many bytes. */
export const SLICE_BYTES = 64 * 1024

/** A blob that is read as it is sent: `slice` gives bytes `first` to `last`, both included, at most SLICE_BYTES of them. */
export function slicedBlob(
  bytes: number,
  slice: (first: number, last: number) => Uint8Array | Promise<Uint8Array>,
): Blob {
  async function* slices(first: number, last: number, turn?: () => Promise<void>) {
    for (let at = first; at <= last; at += SLICE_BYTES) {
      const piece = await slice(at, Math.min(last, at + SLICE_BYTES - 1))
      await turn?.()
      yield piece
    }
  }
  // In bytes: of objects 16 would be read ahead.
  const options = { objectMode: false, highWaterMark: SLICE_BYTES }
  return { bytes, open: async (first, last, turn) => Readable.from(slices(first, last, turn), options) }
}

/** A blob that is in memory and does not change. */
export function memoryBlob(bytes: Uint8Array): Blob {
  return slicedBlob(bytes.length, (first, last) => bytes.subarray(first, last + 1))
}
