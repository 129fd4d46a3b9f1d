// The server's part: databases, their epochs and generations, answers.

import type { DirectoryHandle, LayoutHandle, Proofs, WasmMemory, WasmModule } from './base.js'
import type {
  OneServerContext,
  OneServerCore,
  OneServerDatabase,
  OneServerHandle,
  OneServerNormHandle,
} from './one-server.js'
import type { SingleCore } from './single.js'

/** A server's directory. */
export interface ServerDirectoryHandle extends DirectoryHandle {
  /** b: it has 2^b blocks */
  readonly blockLog: number
  /** L: the bytes of each padded block */
  readonly blockBytes: number
  /** the seed, 16 bytes, that is XORed into fingerprints before they are hashed */
  readonly seed: Uint8Array
  updated(list: Uint8Array, before: LayoutHandle, after: LayoutHandle): ServerDirectoryHandle
  replayed(entry: Uint8Array, before: LayoutHandle): ServerDirectoryHandle | undefined
  /** the previous epoch's directory, from the list that led to this one */
  undone(list: Uint8Array, before: LayoutHandle, after: LayoutHandle): ServerDirectoryHandle
  /** its padded blocks as a committed database of one partition, from which instant lookups of blocks are answered */
  database(): DatabaseHandle
  /** the length of the stored form, and a part of it, from `start` to before `end`; throws `index` */
  readonly encodedBytes: number
  encodePart(start: number, end: number): Uint8Array
  /** updates the previous epoch's blocks to this directory; throws `phase` for blocks of another generation */
  bring(blocks: DatabaseHandle): void
}

/** A server's database: flat records, perhaps trees; it answers. */
export interface DatabaseHandle {
  /** the layout at the newest epoch */
  readonly layout: LayoutHandle
  /** the most queries of a request, for the life of the generation */
  readonly maxQueries: number
  /** address in WASM memory of the Q·M·ℓ bytes of records, which are zeros at first */
  recordsPointer(): number
  /** bytes of the records at the previous epoch, also while the newest is being written; throws `phase`, `index` */
  previousBytes(start: number, length: number): Uint8Array
  /** hashes a partition and builds its tree, unless the database is for tags only */
  commit(partition: number): void
  /** 32 bytes; a commitment is zeros if the database is for tags only; throws `phase` before `commit` */
  commitment(partition: number): Uint8Array
  contentHash(partition: number): Uint8Array
  /** of all partitions, 32·Q bytes; throws `phase` unless all are committed */
  commitments(): Uint8Array
  contentHashes(): Uint8Array
  /** the numbers of the suites that it answers, ascending */
  readonly suites: Uint16Array
  /**
   * Answers the queries of a suite (default 1): the bytes after the header in docs/protocol.md. Refuses offsets ≥ M; throws
   * `phase` for a suite that it does not answer.
   */
  answer(queries: Uint8Array, suite?: number): Uint8Array
  /** answers at the epoch before the last batch; throws `phase` if there was none */
  answerPrevious(queries: Uint8Array, suite?: number): Uint8Array
  /** the bytes of an answer to `queries` queries of a suite, at the newest or the previous epoch; throws `phase` as `answer` */
  answerBytes(queries: number, suite: number, previous: boolean): number
  /** the bytes of a query of a suite and the most queries of a request, at the newest or the previous epoch */
  queryLimits(suite: number, previous: boolean): Uint32Array
  /**
   * Applies a batch of n operations, all or nothing: kinds (1 add, 2 edit, 3 delete), n·16 bytes of fingerprints and n·ℓ bytes
   * of stored records (a delete's record is ignored). Throws RefusedError.
   */
  applyKeyed(directory: DirectoryHandle, kinds: Uint8Array, fingerprints: Uint8Array, records: Uint8Array): EpochHandle
  /** Applies a batch to a keyless database, by index. An add goes after the last record; its index is ignored. */
  applyKeyless(kinds: Uint8Array, indices: Uint32Array, records: Uint8Array): EpochHandle
  /** Applies an update list that was made before. */
  applyList(list: Uint8Array, after: LayoutHandle): void
  free(): void
}

/** A new epoch (Fig. 6, UpdateDB). */
export interface EpochHandle {
  /** the update list's canonical bytes */
  list(): Uint8Array
  /** number of records that it changed */
  readonly changes: number
  /** their indices, ascending */
  indices(): Uint32Array
  /** the new directory of a keyed database, undefined without keys; it can be taken once */
  takeDirectory(): ServerDirectoryHandle | undefined
  free(): void
}

/** An update list, as a server stores it. */
export interface UpdateListHandle {
  /** the layouts in its header */
  readonly before: LayoutHandle
  readonly after: LayoutHandle
  /** the indices of the records that it changes, ascending */
  indices(): Uint32Array
  /** old ⊕ new of each record, ℓ bytes */
  differences(): Uint8Array
  free(): void
}

/**
 * The next epoch in the making. It does not change the database, which must not change meanwhile. After an error it cannot
 * be used any more.
 */
export interface DraftHandle {
  /**
   * Appends operations of a batch. Call it before the first step. Each has a kind (1 add, 2 edit, 3 delete), 16 bytes of
   * fingerprint in a keyed database or an index in another, and ℓ bytes of stored record. An add's index and a delete's
   * record are ignored. Throws `length`.
   */
  push(kinds: Uint8Array, fingerprints: Uint8Array, indices: Uint32Array, records: Uint8Array): void
  /** does some milliseconds of work; returns whether there is more. Throws RefusedError; `update`, `layout` */
  stepKeyless(database: DatabaseHandle): boolean
  stepKeyed(database: DatabaseHandle, directory: DirectoryHandle): boolean
  /** BLAKE3 of the update list, and of the new directory's stored form; these and the following throw `phase` before the end */
  listHash(): Uint8Array
  directoryHash(): Uint8Array | undefined
  /** the new directory of a keyed database; it can be taken once */
  takeDirectory(): ServerDirectoryHandle | undefined
  /** the write that applies the epoch; uses up this handle */
  intoWrite(): WriteHandle
  free(): void
}

/** An update of padded blocks to the next directory, in the making. Neither blocks nor directory may change meanwhile. */
export interface BringingHandle {
  /** does some milliseconds of work; returns whether there is more */
  step(directory: ServerDirectoryHandle, blocks: DatabaseHandle): boolean
  /** the write into the blocks, after the last step; uses up this handle */
  intoWrite(): WriteHandle
  free(): void
}

/**
 * An update list that is being written into a database. First, steps make it ready; they may fail, and change nothing. Then
 * `begin` makes the newest epoch the previous one, which is answered after every step. After the last step, the new epoch is
 * answered.
 */
export interface WriteHandle {
  /** the length of the update list */
  readonly listBytes: number
  /** a part of it, from `start` to before `end`; throws `index` */
  listPart(start: number, end: number): Uint8Array
  /** the indices of the records that it changes, ascending */
  indices(): Uint32Array
  /** whether no other thread may read the database's memory during the next step */
  readonly alone: boolean
  /** does some milliseconds of work; returns whether there is more, before or after `begin`. Throws `layout`, `update`, `phase` */
  step(database: DatabaseHandle): boolean
  /** no other thread may read the database's memory meanwhile; throws `phase` unless all is ready */
  begin(database: DatabaseHandle): void
  free(): void
}

/** A generation in the making. The old database must not change meanwhile. */
export interface NextGenerationHandle {
  /** does some milliseconds of work; returns whether there is more. After `layout` or `directory` it cannot be used any more. */
  step(old: DatabaseHandle): boolean
  /** the generation, after the last step; it can be taken once */
  finish(): GenerationHandle
  free(): void
}

export interface GenerationHandle {
  /** the database, with all partitions committed; it can be taken once */
  takeDatabase(): DatabaseHandle | undefined
  /** the directory, undefined without keys; it can be taken once */
  takeDirectory(): ServerDirectoryHandle | undefined
  free(): void
}

/**
 * One pass over a database for up to sixteen instant queries, of any clients. Either call `step` until it is false, or let a
 * worker thread do all steps (`@keyhush/wasm/worker`) and call `stepped` when it has reported. Then call `finish`. Call
 * `free` in any case, but never while a worker runs. The database must not change while a worker runs. If it changes between
 * steps made here, they throw `phase`; make another pass for the queries.
 */
export interface InstantPassHandle {
  /** reads about a MiB of records; returns whether there is more to do */
  step(database: DatabaseHandle): boolean
  /** address in WASM memory of the descriptor for a worker thread */
  descriptor(database: DatabaseHandle): number
  stepped(): void
  /** the answers, `instantAnswerBytes` each in query order; they can be taken once */
  finish(database: DatabaseHandle): Uint8Array
  free(): void
}

/** The tree above the partitions of a sharded database at one epoch, or above its shards' directories. */
export interface UpperTreeHandle {
  /** the one that clients see, of a single partition: for sizes, and for `instantGroupLog` */
  readonly layout: LayoutHandle
  /** 32 bytes, as the manifest has it */
  readonly root: Uint8Array
  /** of the siblings behind each query's sum: 32·log₂ P */
  readonly siblingBytes: number
  /**
   * Splits queries of a request of the whole, which lie one after the other. `servers`: 2 to 8, default 2; `vectors`: whether they are
   * vectors, and not seeds. Returns S·count queries for the shards, shard 0's first, and behind them count·siblingBytes of upper
   * siblings. Throws `length`, `query`, `index`.
   */
  split(queries: Uint8Array, servers?: number, vectors?: boolean): Uint8Array
  free(): void
}

/** Memory for the stack of one worker thread. Free it after the thread has ended. */
export interface WorkerStackHandle {
  /** the address of its end */
  readonly end: number
  free(): void
}

/** Computes the BLAKE3 of bytes that come in parts. */
export interface HasherHandle {
  update(bytes: Uint8Array): void
  /** the hash of all bytes so far, 32 bytes */
  hash(): Uint8Array
  free(): void
}

/** An instance of the whole module, with the server's part: for Node, or a browser's worker that is a server. */
export interface Core extends SingleCore, OneServerCore {
  /** shared with worker threads: its `buffer` is a SharedArrayBuffer, whatever TypeScript's library says */
  readonly memory: WasmMemory
  /** fingerprints of many keys, 16 bytes each: `keys` are concatenated, and key i ends at `ends[i]` */
  fingerprints(keys: Uint8Array, ends: Uint32Array): Uint8Array
  newHasher(): HasherHandle
  /** 16-byte database id derived from the first manifest with a zero id, or from a name's UTF-8 */
  databaseId(seed: Uint8Array): Uint8Array
  /** the directory of n fingerprints, 16 bytes each, for a database of `slots` slots (Q·M); throws `directory` */
  buildDirectory(fingerprints: Uint8Array, slots: number): ServerDirectoryHandle
  /**
   * Of a shape that was decided before, whose blocks have room for `room` added keys each. Fingerprints of empty slots are left out. Throws
   * `directory`.
   */
  buildShapedDirectory(
    fingerprints: Uint8Array,
    log: number,
    blockBytes: number,
    seed: Uint8Array,
    room: number,
  ): ServerDirectoryHandle
  decodeDirectory(bytes: Uint8Array, records: number): ServerDirectoryHandle
  /** the shard of each fingerprint, 16 bytes each, among 2 to 256; throws `length` */
  shardsOf(fingerprints: Uint8Array, seed: Uint8Array, shards: number): Uint8Array
  /**
   * What each shard of so many records in all has: Q, M, g, b, L, and the added keys that a block of the directory has room for. Throws
   * `layout`.
   */
  planShards(records: number, recordBytes: number, shards: number): Uint32Array
  /** reads an update list; throws `update` */
  decodeUpdateList(bytes: Uint8Array): UpdateListHandle
  /**
   * An all-zero database. With `tags` it keeps no trees, and answers without proofs only. With `pointproofs` it keeps trees, and
   * answers suite 6 too, with 48 zero bytes where the caller puts the proof. `maxQueries` is the limit with which its generation
   * began, if this layout is not its first. Refused if no generation with that limit has this layout.
   */
  newDatabase(layout: LayoutHandle, proofs?: Proofs, maxQueries?: number): DatabaseHandle
  /** Begins the next epoch, with a batch of `count` operations. */
  newDraft(database: DatabaseHandle, keyed: boolean, count: number): DraftHandle
  /** Begins the next epoch, with an update list that was made before. Throws `update`. */
  newDraftOfList(database: DatabaseHandle, list: Uint8Array, after: LayoutHandle): DraftHandle
  /** Begins to update the previous directory's blocks to this directory. Throws `phase`. */
  newBringing(directory: ServerDirectoryHandle, blocks: DatabaseHandle): BringingHandle
  /** Begins the generation after that of `old`, with room for `headroom` more records. Throws `layout`. */
  nextGeneration(old: DatabaseHandle, keyed: boolean, headroom: number): NextGenerationHandle
  /**
   * A pass for up to sixteen queries of lookups with 2 to 8 servers (default 2), which lie one after the other, each of its epoch's
   * length. `kinds` has a byte for each: bit 0 is set for the previous epoch, bit 1 for a vector. With more than two servers the
   * queries of both epochs need a pass each. With `groupLog` all queries are parts of vectors, for groups of 2^groupLog blocks. Throws
   * `length`, `index`, `query`, `phase`.
   */
  newInstantPass(
    database: DatabaseHandle,
    queries: Uint8Array,
    kinds: Uint8Array,
    servers?: number,
    groupLog?: number,
  ): InstantPassHandle
  /**
   * Checks the queries of a request, before they wait for a pass with others. Default: keys of a lookup with two servers. Throws
   * `length`, `query`, `index`. With `groupLog` they are parts of vectors.
   */
  checkInstantQueries(
    layout: LayoutHandle,
    queries: Uint8Array,
    servers?: number,
    vectors?: boolean,
    groupLog?: number,
  ): void
  /** The a of lookups with 3 to 8 servers. Throws `index`. */
  instantGroupLog(layout: LayoutHandle, servers: number): number
  /** Bytes of a shard's part of a vector, for groups of 2^groupLog blocks, and of an answer to it. Throws `index`, `query`. */
  instantPartSizes(layout: LayoutHandle, servers: number, groupLog: number): Uint32Array
  /**
   * The tree above a sharded database's partitions. `shard`: the layout of each shard, or of its directory's blocks. `commitments`: 32·P
   * bytes, of all shards' partitions in order; of directories 32·S. Throws `length`, `layout`.
   */
  newUpperTree(shard: LayoutHandle, shards: number, commitments: Uint8Array): UpperTreeHandle
  newWorkerStack(): WorkerStackHandle
  /**
   * Begins to prepare a database for instant lookups with one server. The same records, context and attempt always give the same hint.
   * `attempt` (default 0): the next one if the check of norms fails; a server takes the signed hint's. Throws `layout`, `length`.
   */
  newOneServer(database: OneServerDatabase, context: OneServerContext, attempt?: number): OneServerHandle
  /** Begins the check of norms, which whoever signs a hint must make. Throws `phase` before the database is prepared. */
  newOneServerNorm(database: OneServerHandle): OneServerNormHandle
  /** the module that worker threads run on this instance's memory */
  workerModule(): Promise<WasmModule>
  /** For test vectors only, never for a live hint: all Q·M permutation entries drawn from entropy. */
  hazmatPermutations(layout: LayoutHandle, entropy: Uint8Array): Uint16Array
}
