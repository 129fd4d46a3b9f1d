// The server half: databases, their epochs and generations, answers.

import type { DirectoryHandle, LayoutHandle, Proofs, WasmMemory, WasmModule } from './base.js'
import type { SingleCore } from './single.js'

/** A directory as a server has it. */
export interface ServerDirectoryHandle extends DirectoryHandle {
  /** b: it has 2^b blocks */
  readonly blockLog: number
  /** L, of each block with its padding */
  readonly blockBytes: number
  /** 16 bytes that keys are hashed under */
  readonly seed: Uint8Array
  updated(list: Uint8Array, before: LayoutHandle, after: LayoutHandle): ServerDirectoryHandle
  replayed(entry: Uint8Array, before: LayoutHandle): ServerDirectoryHandle | undefined
  /** the directory of the epoch before, from the list that led to this one */
  undone(list: Uint8Array, before: LayoutHandle, after: LayoutHandle): ServerDirectoryHandle
  /** its padded blocks as a database of one partition, committed to: what instant lookups of blocks are answered from */
  database(): DatabaseHandle
  /** bytes of the stored form, and some of them, from one to before another; throws `index` */
  readonly encodedBytes: number
  encodePart(start: number, end: number): Uint8Array
  /** brings the blocks of the epoch before to this directory; throws `phase` for those of another generation */
  bring(blocks: DatabaseHandle): void
}

/** The server half: flat records, perhaps trees, answers. */
export interface DatabaseHandle {
  /** at the newest epoch */
  readonly layout: LayoutHandle
  /** most queries a request may carry, for the life of the generation */
  readonly maxBatch: number
  /** address in WASM memory of the Q·M·ℓ bytes of records, zeroed at first */
  recordsPointer(): number
  /** hashes partition `q` as it stands in memory and builds its tree, unless the database is for tags alone */
  commit(partition: number): void
  /** 32 bytes each, a commitment zero if the database is for tags alone; throws `phase` before `commit` */
  commitment(partition: number): Uint8Array
  contentHash(partition: number): Uint8Array
  /** those of all partitions, 32·Q bytes; throws `phase` before all are committed */
  commitments(): Uint8Array
  contentHashes(): Uint8Array
  /** the suites it answers, by number, ascending */
  readonly suites: Uint16Array
  /**
   * Answers the queries of a suite (1 if none is named), whose bytes are those of docs/protocol.md behind the header.
   * Refuses offsets ≥ M; throws `phase` for a suite that it does not answer.
   */
  answer(queries: Uint8Array, suite?: number): Uint8Array
  /** the same at the epoch before the last batch; throws `phase` if there was none */
  answerPrevious(queries: Uint8Array, suite?: number): Uint8Array
  /** bytes of what `answer`, or `answerPrevious`, gives for so many queries; throws `phase` as they do */
  answerBytes(queries: number, suite: number, previous: boolean): number
  /** bytes of one query of a suite, at the newest epoch or at the one before, and how many a request may carry */
  queryLimits(suite: number, previous: boolean): Uint32Array
  /**
   * Applies a batch of n operations whole or not at all: kinds (1 add, 2 edit, 3 delete), n·16 bytes of fingerprints
   * and n·ℓ bytes of stored records (a delete's record is not looked at). Throws RefusedError.
   */
  applyKeyed(directory: DirectoryHandle, kinds: Uint8Array, fingerprints: Uint8Array, records: Uint8Array): EpochHandle
  /** The same for a keyless database, by index; an add goes behind the last record whatever its index says. */
  applyKeyless(kinds: Uint8Array, indices: Uint32Array, records: Uint8Array): EpochHandle
  /** Applies the update list of an epoch that was made before, to the one before it. */
  applyList(list: Uint8Array, after: LayoutHandle): void
  free(): void
}

/** What a batch brought (Fig. 6, UpdateDB). */
export interface EpochHandle {
  /** the update list's canonical bytes */
  list(): Uint8Array
  /** records it changed */
  readonly changes: number
  /** their indices, ascending */
  indices(): Uint32Array
  /** the new directory of a keyed database; once, undefined for keyless ones */
  takeDirectory(): ServerDirectoryHandle | undefined
  free(): void
}

/** An update list, as a server keeps it. */
export interface UpdateListHandle {
  /** the layouts that its header names */
  readonly before: LayoutHandle
  readonly after: LayoutHandle
  /** the records it changes, ascending */
  indices(): Uint32Array
  /** old ⊕ new of each of them, ℓ bytes */
  differences(): Uint8Array
  free(): void
}

/**
 * The next epoch in the making, beside the database, which must not change meanwhile. After an error it is of no more use.
 */
export interface DraftHandle {
  /**
   * Some of a batch's operations, before the first step: kinds (1 add, 2 edit, 3 delete), for each 16 bytes of fingerprint in a
   * keyed database and an index in another, and ℓ bytes of stored record (an add's index and a delete's record are not looked
   * at). Throws `length`.
   */
  push(kinds: Uint8Array, fingerprints: Uint8Array, indices: Uint32Array, records: Uint8Array): void
  /** some milliseconds of work; whether there is more. Throws RefusedError; `update`, `layout` */
  stepKeyless(database: DatabaseHandle): boolean
  stepKeyed(database: DatabaseHandle, directory: DirectoryHandle): boolean
  /** BLAKE3 of the update list, and of the new directory's stored form; throw `phase` before all steps were made, as what follows */
  listHash(): Uint8Array
  directoryHash(): Uint8Array | undefined
  /** the new directory of a keyed database; once */
  takeDirectory(): ServerDirectoryHandle | undefined
  /** what is to be written into the database; ends this */
  intoWrite(): WriteHandle
  free(): void
}

/** The padded blocks of the next directory in the making, beside those of the one before. Neither may change meanwhile. */
export interface BringingHandle {
  /** some milliseconds of work; whether there is more */
  step(directory: ServerDirectoryHandle, blocks: DatabaseHandle): boolean
  /** what is to be written into the blocks, once all steps were made; ends this */
  intoWrite(): WriteHandle
  free(): void
}

/**
 * What is being written into a database. First it is made ready, which may fail and changes nothing; then it begins, and the
 * newest epoch is the previous one, which is answered after every step; after the last the newest epoch is there.
 */
export interface WriteHandle {
  /** of the update list */
  readonly listBytes: number
  /** some of them, from one to before another; throws `index` */
  listPart(start: number, end: number): Uint8Array
  /** records that it changes, ascending */
  indices(): Uint32Array
  /** nobody else may read the database's memory during the next step */
  readonly alone: boolean
  /** some milliseconds of work; whether there is more, before `begin` or after it. Throws `layout`, `update`, `phase` */
  step(database: DatabaseHandle): boolean
  /** nobody else may read the database's memory meanwhile; throws `phase` unless all is ready */
  begin(database: DatabaseHandle): void
  free(): void
}

/** A generation in the making, beside the database it is made of, which must not change meanwhile. */
export interface NextGenerationHandle {
  /** some milliseconds of work; whether there is more. Throws `layout` or `directory`, and then is of no more use. */
  step(old: DatabaseHandle): boolean
  /** once all steps were made, and once */
  finish(): GenerationHandle
  free(): void
}

export interface GenerationHandle {
  /** every partition of it is committed; once */
  takeDatabase(): DatabaseHandle | undefined
  /** once; undefined for keyless databases */
  takeDirectory(): ServerDirectoryHandle | undefined
  free(): void
}

/**
 * One pass over a database for up to eight instant queries of any clients. Either call `step` until it is false, or have a
 * worker thread go all steps (`@keyhush/wasm/worker`) and call `stepped` when it has reported; then `finish`, and `free`
 * in any case, but never while a worker is at it. A database that changes meanwhile must not do so under a worker's
 * hands; steps made here then throw `phase`, and the queries can be asked of another pass.
 */
export interface InstantPassHandle {
  /** about a MiB of records; whether there is more to do */
  step(database: DatabaseHandle): boolean
  /** address in WASM memory of what a worker thread is told */
  descriptor(database: DatabaseHandle): number
  stepped(): void
  /** the answers, `instantAnswerBytes` each in query order; once */
  finish(database: DatabaseHandle): Uint8Array
  free(): void
}

/** Memory for the stack of one worker thread, to be freed after the thread has ended. */
export interface WorkerStackHandle {
  /** address of its end */
  readonly end: number
  free(): void
}

/** BLAKE3 of bytes that come in parts. */
export interface HasherHandle {
  update(bytes: Uint8Array): void
  /** 32 bytes, of all so far */
  hash(): Uint8Array
  free(): void
}

/** One instance of the whole module: the server half as well. Node only; browsers get one of those before. */
export interface Core extends SingleCore {
  /** shared with worker threads: views of it are over a SharedArrayBuffer, whatever TypeScript's library says */
  readonly memory: WasmMemory
  /** fingerprints of many keys: `keys` concatenated, `ends[i]` the end of key i in it; 16 bytes each */
  fingerprints(keys: Uint8Array, ends: Uint32Array): Uint8Array
  newHasher(): HasherHandle
  /** 16-byte database id derived from the first manifest with a zero id, or from a name's UTF-8 */
  databaseId(seed: Uint8Array): Uint8Array
  /** of n fingerprints, 16 bytes each, for a database of so many slots, Q·M; throws `directory` */
  buildDirectory(fingerprints: Uint8Array, slots: number): ServerDirectoryHandle
  decodeDirectory(bytes: Uint8Array, records: number): ServerDirectoryHandle
  /** reads an update list; throws `update` */
  decodeUpdateList(bytes: Uint8Array): UpdateListHandle
  /**
   * All zero; with `tags` it keeps no trees and answers without proofs alone; with `pointproofs` it keeps trees, and answers
   * suite 6 too, with 48 zero bytes where the caller puts the proof. `maxBatch`: what its generation began with,
   * if this layout is not its first; refused if no generation with that limit has this layout.
   */
  newDatabase(layout: LayoutHandle, proofs?: Proofs, maxBatch?: number): DatabaseHandle
  /** Begins the next epoch, of a batch of so many operations. */
  newDraft(database: DatabaseHandle, keyed: boolean, count: number): DraftHandle
  /** The same of the list of an epoch that was made before. Throws `update`. */
  newDraftOfList(database: DatabaseHandle, list: Uint8Array, after: LayoutHandle): DraftHandle
  /** Begins bringing blocks of the directory before to this one. Throws `phase`. */
  newBringing(directory: ServerDirectoryHandle, blocks: DatabaseHandle): BringingHandle
  /** Begins the generation after `old`'s, with room for `headroom` records more. Throws `layout`. */
  nextGeneration(old: DatabaseHandle, keyed: boolean, headroom: number): NextGenerationHandle
  /**
   * A pass for up to eight instant queries that lie one after the other, each as long as its epoch has them; of each, a 0
   * if it asks at the newest epoch, a 1 at the one before. Throws `length`, `index`, `query`, `phase`.
   */
  newInstantPass(database: DatabaseHandle, queries: Uint8Array, previous: Uint8Array): InstantPassHandle
  /** checks one request's queries before they wait with others'; throws `length`, `query` */
  checkInstantQueries(layout: LayoutHandle, queries: Uint8Array): void
  newWorkerStack(): WorkerStackHandle
  /** the module that worker threads run on this instance's memory */
  workerModule(): Promise<WasmModule>
  /** All Q·M permutation entries that entropy leads to; for test vectors only, never for a live hint. */
  hazmatPermutations(layout: LayoutHandle, entropy: Uint8Array): Uint16Array
}
