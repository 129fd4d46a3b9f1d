// The shape of the Rust core as JavaScript sees it: what `rust-core/wasm` exports, and nothing it does
// not. Everything crosses as flat bytes; no call is made per record. Handles own WASM memory: `free()`.
//
// Every method that can refuse its input throws an `Error` with a stable `code` (see CoreErrorCode).
// A thrown `WebAssembly.RuntimeError` is a trap: the whole instance is dead. Report it with `discardCore`, which
// makes every handle of that instance unusable and the next `loadCore()` start a fresh one.

// WebAssembly's own types, which TypeScript has for pages: without its library of those, what they have that is used.
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer M } } } ? M : object
export type WasmMemory = typeof globalThis extends { WebAssembly: { Memory: { prototype: infer M } } }
  ? M
  : { readonly buffer: ArrayBuffer }

/** Stable codes of errors thrown by the core. */
export type CoreErrorCode =
  | 'layout' // impossible (N, ℓ, Q, M, g), or too large for the address space
  | 'length' // a buffer has the wrong length
  | 'index' // a record index, partition or offset out of range, or a name there is not
  | 'directory' // directory bytes that are malformed, or keys that cannot be placed
  | 'update' // update list bytes that are malformed, or do not fit what they are to be applied to
  | 'refused' // a batch with an operation that cannot be; see RefusedError
  | 'query' // a query of the right length that no client makes
  | 'state' // state bytes that are torn, foreign or of another version
  | 'phase' // a call out of order, e.g. a query while another is pending
  | 'condemned' // the hint must never be used again

export interface CoreError extends Error {
  readonly code: CoreErrorCode
}

/** A publisher's batch was refused at one of its operations; nothing has changed. */
export interface RefusedError extends CoreError {
  readonly code: 'refused'
  /** its place in the batch, from 0 */
  readonly operation: number
  readonly reason: string
}

/**
 * What proves the entries of an answer. `merkle`: an opening proof beside each record, checked against the manifest's
 * commitments. `tags`: nothing; the client keeps a secret tag of every record, 8 bytes each, and entries are records alone.
 * `pointproofs`: one proof of 48 bytes behind all records, which the module of pointproofs.ts verifies.
 */
export type Proofs = EntryProofs | 'pointproofs'

/** What proves entries one by one. */
export type EntryProofs = 'merkle' | 'tags'

/** 0: the retrieve vector's answers (Fig. 5 qry_2); 1: the refresh vector's (qry_1). */
export type RoleNumber = 0 | 1

/** (N, ℓ, Q, M, g) and the sizes that follow from them. Immutable; holds no WASM memory worth freeing. */
export interface LayoutHandle {
  readonly records: number
  readonly recordBytes: number
  readonly partitions: number
  readonly partitionRecords: number
  /** g */
  readonly blockRecords: number
  /** M·ℓ */
  readonly partitionBytes: number
  /** with a ClientCore: one entry of an answer: ℓ′, and with `merkle` (the default) 32·⌈log2 M′⌉ of opening proof */
  entryBytes(proofs?: Proofs): number
  /** the same: most queries a request may carry with proofs of this kind (`merkle`), of a generation's limit */
  batchLimit(limit: number, proofs?: Proofs): number
  /** the same: most queries a request may carry in a generation that begins with this layout, whatever Q grows to */
  maxBatch(proofs?: Proofs): number
  /** one instant query, to either server */
  readonly instantRequestBytes: number
  /** the answer to one, from either server */
  readonly instantAnswerBytes: number
  /** most instant queries one request may carry */
  readonly instantMaxBatch: number
  free(): void
}

/** The public map from key fingerprint to record index. */
export interface DirectoryHandle {
  readonly keys: number
  encode(): Uint8Array
  /** index of a fingerprint (16 bytes) in a database of `records`; absent keys get a deterministic one */
  index(fingerprint: Uint8Array, records: number): number
  /** the directory of the next epoch, from the list */
  updated(list: Uint8Array, before: LayoutHandle, after: LayoutHandle): DirectoryHandle
  /** the directory after the next entry of a journal, made on a hint of layout `before`; undefined: the same */
  replayed(entry: Uint8Array, before: LayoutHandle): DirectoryHandle | undefined
  /** whether it is of this shape, as it says of itself */
  isOf(shape: DirectoryShapeHandle): boolean
  /** indices of many fingerprints, 16 bytes each, in order */
  indices(fingerprints: Uint8Array, records: number): Uint32Array
  free(): void
}

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

/** What the blocks of a directory have in common, as a manifest says it: for whoever looks single blocks up. */
export interface DirectoryShapeHandle {
  /** the blocks as a database of 2^b records in one partition */
  readonly layout: LayoutHandle
  /** the block that a fingerprint (16 bytes) falls into */
  number(fingerprint: Uint8Array): number
  /** where to look for a fingerprint, by its block; throws `directory` if it is no block, or leads beyond the database */
  index(block: Uint8Array, fingerprint: Uint8Array, records: number): number
  free(): void
}

/** Receives a database, partition by partition, in lanes: one for each that may be under way. */
export interface Lanes {
  /** address in WASM memory of the M·ℓ bytes that a lane receives; fetch it anew after any call that may allocate */
  lanePointer(lane: number): number
  /** starts receiving `partition` in `lane`; refused if it is there already or in the other lane */
  begin(lane: number, partition: number): void
  /** the next `bytes` bytes of the lane were written at lanePointer + received so far; hashes them */
  absorb(lane: number, bytes: number): void
  /** takes the partition if it has its content hash. false: it has not, nothing else has changed, and the lane is free */
  fold(lane: number): boolean
  /** gives the lane up */
  abandon(lane: number): void
  isFolded(partition: number): boolean
  /**
   * Where partitions bring more work than `fold` does: a piece of what is there to be done, and whether there is more. Calls
   * that need it done go the steps that are left themselves.
   */
  step?(): boolean
}

/** The offline phase: partitions in, hint out. Records are tagged as they are folded, if the hint keeps tags. */
export interface HintBuilderHandle extends Lanes {
  /**
   * Brings what is folded to the next epoch; gives up downloads under way of partitions that changed. With tags
   * commitments are not looked at.
   */
  update(
    list: Uint8Array,
    before: LayoutHandle,
    after: LayoutHandle,
    commitments: Uint8Array,
    contentHashes: Uint8Array,
  ): void
  /** the id of the hint to be, 16 bytes */
  readonly hintId: Uint8Array
  /** what will prove the answers that the hint takes; a resumed hint's own */
  readonly proofs: Proofs
  readonly folded: number
  /** stored form of what is folded so far, bound to its manifest's hash (32 bytes) */
  partial(binding: Uint8Array): StoredFormHandle
  /** all partitions folded: the client state. Consumes this handle, even when it throws `phase`. */
  finish(version?: number): ClientHandle
  free(): void
}

/** A state that is asked with, and at most one pending batch of queries. */
export interface AskedHandle {
  /**
   * Makes a pending batch for `indices` (1 to the manifest's maxBatch record indices), with 32 bytes of fresh OS entropy.
   * The state is unchanged until `recon`. Throws `phase` if a batch is pending already, or the state is used up.
   */
  query(indices: Uint32Array, entropy: Uint8Array): void
  /** number of queries in the pending batch; 0: none */
  readonly pending: number
  /** the pending batch in its stored form, to be made durable before anything is sent */
  pendingBytes(): Uint8Array
  /** takes up a stored pending batch again (after a crash) */
  resume(pending: Uint8Array): void
  /**
   * Forgets a pending batch. Only for one that was provably neither stored nor sent: dropping any other and asking
   * again gives its index away.
   */
  withdraw(): void
  /** what the rollback fence knows the pending batch by, 32 bytes: the same at every epoch (docs/protocol.md) */
  batchName(): Uint8Array
  /**
   * All answers verified: recovers the records (count·ℓ bytes, in query order) and applies the batch. With tags the
   * records are checked too: `state`, and nothing has changed, if the hint itself is corrupt.
   */
  recon(): Uint8Array
  /** stored form of what the last `recon` changed, for a journal; once */
  takeEffect(): Uint8Array
  /** applies the next entry of a journal, an effect or an update */
  replay(entry: Uint8Array): void
  /** stored form of the whole state, bound to its manifest's hash (32 bytes); `phase` while a batch is pending */
  checkpoint(binding: Uint8Array): StoredFormHandle
  /** of the epoch it is at */
  readonly layout: LayoutHandle
  /** its random id, 16 bytes */
  readonly hintId: Uint8Array
  /** batches and updates applied since it was made */
  readonly version: number
  condemn(): void
  readonly condemned: boolean
  /** bytes of parities, M·ℓ; or of hints and backups */
  readonly hintBytes: number
  /** bytes of tags; 0 without */
  readonly tagBytes: number
  /** overwrites secrets, then frees */
  free(): void
}

/** Permutations, parities and perhaps tags. After a replayed update call `rebind` before the next query. */
export interface ClientHandle extends AskedHandle {
  /** what proves the answers it takes, for life: says which answers to ask for */
  readonly proofs: Proofs
  /** count·Q offsets, u16 little-endian: the bytes after a request's header */
  retrieveVectors(): Uint8Array
  refreshVectors(): Uint8Array
  /**
   * Verifies all count·Q entries of one server's answer (the bytes after the answer's header), without
   * early exit, and keeps them for `recon`. false: at least one entry is forged; the handle is condemned.
   */
  verify(role: RoleNumber, entries: Uint8Array): boolean
  /**
   * With `pointproofs`, in place of `verify`: takes an answer (records and proof) that was verified elsewhere, and the
   * verdict, which it returns. false: the handle is condemned. Throws `phase` with other proofs.
   */
  judged(role: RoleNumber, answer: Uint8Array, genuine: boolean): boolean
  /**
   * Brings the hint and its pending batch to the next epoch (Fig. 6, UpdateHint), with 32 bytes of fresh OS entropy.
   * Returns the journal entry that does the same elsewhere. With tags commitments are
   * not looked at. `retrieveVectors` and `refreshVectors` have grown if
   * partitions have: store `pendingBytes` anew, together with the entry, before anything is sent.
   */
  update(list: Uint8Array, after: LayoutHandle, commitments: Uint8Array, entropy: Uint8Array): Uint8Array
  /** the commitments of the epoch that replayed updates led to; with tags, nothing is done */
  rebind(commitments: Uint8Array): void
  /** bytes of permutations, 2·Q·M′ */
  readonly permutationBytes: number
}

/** Instant queries whose answers are to come: secret, never stored, used once (docs/protocol.md, Instant lookups). */
export interface InstantQueryHandle {
  /** the body for server 0 or 1: the queries in order, `instantRequestBytes` each */
  request(server: 0 | 1): Uint8Array
  /**
   * The records asked for, ℓ bytes each in query order, from both servers' answers at the queries' epoch, whose Q
   * commitments these are. undefined: one of them was changed, and it cannot be told by whom. Throws `length`.
   */
  recon(commitments: Uint8Array, zero: Uint8Array, one: Uint8Array): Uint8Array | undefined
  /** overwrites secrets, then frees */
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

/** A stored form, written but for its checksum, which may be made in slices; what it was made of may change meanwhile. Secret. */
export interface StoredFormHandle {
  /** bytes that are left of it */
  left(): number
  /** its next piece, some hundred kilobytes, which is hashed first; empty: that was all of it */
  piece(): Uint8Array
  /** all that is left of it, once */
  take(): Uint8Array
  /** overwrites it, then frees */
  free(): void
}

/** A stored form that is handed over piece by piece, to be read when all of it is there. Secret. */
export interface ReceivedFormHandle {
  /** takes its next bytes, and hashes them; throws `length` if they are too many */
  take(piece: Uint8Array): void
  /** overwrites it, then frees */
  free(): void
}

/** Memory that comes from the system ahead of its use, for what is allocated once this is freed. */
export interface RoomHandle {
  /** has some of it come; whether there is more */
  step(): boolean
  free(): void
}

/** All records of a database, or those of some of its partitions: kept, checked, brought forward, read. Not secret. */
export interface LocalHandle extends Lanes {
  /** 16 bytes */
  readonly id: Uint8Array
  /** updates applied */
  readonly version: number
  /** at its epoch */
  readonly layout: LayoutHandle
  /** all partitions are there, and it is at this version; throws `phase` */
  finish(version: number): void
  /** ℓ bytes for each index, in order; throws `index`, `phase` */
  records(indices: Uint32Array): Uint8Array
  /**
   * Brings what is there to the next epoch, and checks its contents: throws `update`, with nothing changed. Gives the
   * journal's entry, if it is whole.
   */
  update(list: Uint8Array, after: LayoutHandle, contentHashes: Uint8Array): Uint8Array | undefined
  /** applies the next entry of its journal */
  replay(entry: Uint8Array): void
  /** checks all of it against the manifest it has come to; throws `state` */
  arrive(contentHashes: Uint8Array): void
  /** its stored form, bound to its manifest's hash (32 bytes) */
  encode(binding: Uint8Array): StoredFormHandle
  free(): void
}

/** Hints for lookups with one server, in the making (docs/protocol.md, One server). Secret. */
export interface SingleBuilderHandle extends Lanes {
  /** the id of the hint to be, 16 bytes */
  readonly hintId: Uint8Array
  step(): boolean
  /** the next row of tags that is to be kept outside, behind its name (16 bytes); empty: none is */
  row(): Uint8Array
  /** the row of a name has been kept */
  kept(name: Uint8Array): void
  /** brings it to the next epoch; throws `update` where the database outgrows its hints */
  update(list: Uint8Array, before: LayoutHandle, after: LayoutHandle, contentHashes: Uint8Array): void
  /** its stored form, bound to its manifest's hash (32 bytes) */
  partial(binding: Uint8Array): StoredFormHandle
  /** the client's state; `phase` if partitions are missing or rows were not kept, and the handle is gone */
  finish(version: number): SingleHandle
  /** overwrites secrets, then frees */
  free(): void
}

/** Hints, backups and tags for lookups with one server. */
export interface SingleHandle extends AskedHandle {
  /** the bytes after a request's header */
  request(): Uint8Array
  /** verifies both parities of every query, without early exit; false: forged, and the handle is condemned */
  verify(parities: Uint8Array): boolean
  /** names (16 bytes each) of rows of tags that judging the pending batch takes and that are not at hand: one a query */
  wants(): Uint8Array
  /** takes the first of them; throws `state` if it is another */
  hold(row: Uint8Array): void
  /** names of all rows that it consists of besides its checkpoint */
  rows(): Uint8Array
  /** the name of a row to be made anew before a checkpoint is written; empty: none is. `begun`: others were */
  stale(begun: boolean): Uint8Array
  /** what takes its place, behind its name: to be kept; throws `state` if these are not its bytes, `phase` while a batch is pending */
  renewed(row: Uint8Array): Uint8Array
  /** that has been kept; throws `phase`, with nothing changed, while a batch is pending */
  renew(): void
  /** queries of the last `recon` whose record no hint contained: those are zeros, and the call has failed */
  readonly missed: number
  /** by an update list; throws `update` where the database outgrows its hints */
  update(list: Uint8Array, after: LayoutHandle): Uint8Array
  /** does a piece of the work that an update has left, also one that was replayed; whether there is more. What needs it done does it */
  step(): boolean
  /** lookups that it was made for, and that it is good for still */
  readonly lookups: number
  readonly left: number
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

/** BLAKE3 of bytes that come in parts. */
export interface HasherHandle {
  update(bytes: Uint8Array): void
  /** 32 bytes, of all so far */
  hash(): Uint8Array
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

/** What a plan is made for. A lookup is one request to each server, with `batch` queries in it. Whole numbers. */
export interface Workload {
  /** N */
  readonly records: number
  /** length of a value; the longest, if lengths vary */
  readonly valueBytes: number
  /** looked up by key, not by index */
  readonly keyed?: boolean | undefined
  /** values have lengths of their own */
  readonly variable?: boolean | undefined
  /** Q; without it the planner decides */
  readonly partitions?: number | undefined
  /** g; 1 */
  readonly pack?: number | undefined
  /** queries a lookup; 1 */
  readonly batch?: number | undefined
  /** of one client; 20 */
  readonly lookupsPerDay?: number | undefined
  /** lookups that hints for one server are made for; what a client's are */
  readonly hintLookups?: number | undefined
  /** records, in one epoch a day; 0, a database that never changes, has neither updates nor fence */
  readonly changesPerDay?: number | undefined
  /** what a client may keep in memory; 64 MB */
  readonly memoryBytes?: number | undefined
  /** kbit/s from the client; 5000 */
  readonly uplinkKbit?: number | undefined
  /** kbit/s to the client; 20 000 */
  readonly downlinkKbit?: number | undefined
}

/** What one kind of proof costs (docs/costs.md). Traffic is of bodies, both servers together. */
export interface Costs {
  /** one entry of an answer */
  readonly entryBytes: number
  /** parities, M·ℓ */
  readonly hintBytes: number
  /** 2·Q·M */
  readonly permutationBytes: number
  /** 8·Q·M, or 0 */
  readonly tagBytes: number
  /** expected: it depends on the keys; 0 if keyless */
  readonly directoryBytes: number
  /** all of the above: what a client holds between lookups */
  readonly memoryBytes: number
  /** more during the offline phase */
  readonly downloadMemoryBytes: number
  /** one manifest */
  readonly manifestBytes: number
  /** Q·M·ℓ */
  readonly databaseBytes: number
  /** both manifests, directory, database; once */
  readonly offlineBytes: number
  /** its transfer alone, in microseconds */
  readonly offlineMicros: number
  readonly lookupBytesUp: number
  readonly lookupBytesDown: number
  /** its transfer alone, in microseconds, without latency */
  readonly lookupMicros: number
  /** hashes that check a lookup: BLAKE3 for proofs, linear ones for tags */
  readonly lookupHashes: number
  /** the rollback fence's part in a lookup */
  readonly fenceBytesUp: number
  readonly fenceBytesDown: number
  /** the list of a day's changes */
  readonly updateListBytes: number
  /** and both manifests */
  readonly updateBytes: number
  /** lookups and fence */
  readonly dayBytesUp: number
  /** lookups, fence and changes */
  readonly dayBytesDown: number
  /** a stored hint, unsealed */
  readonly checkpointBytes: number
  /** a stored pending batch, unsealed */
  readonly pendingBytes: number
  /** what a lookup adds to the journal, unsealed */
  readonly effectBytes: number
  /** most that lookups make of a journal, if there are pauses between them: a checkpoint waits for one, half a second */
  readonly journalBytes: number
  /** what a server keeps to open commitments */
  readonly treeBytes: number
  /** what it keeps so that an edit does not rehash a partition */
  readonly contentBytes: number
  /** a server's memory: database, trees, content hashes, directory */
  readonly serverBytes: number
  /** leaves and nodes a server hashes for its commitments, once; none if it offers tags alone */
  readonly digestHashes: number
}

/**
 * How lookups are answered: from a copy that is kept, without anything, from a hint that a server or the client made, or by
 * one server from hints that run out.
 */
export type Mode = 'local' | 'instant' | 'full' | 'single'

/** What one way of looking up costs (docs/costs.md). Bytes are of bodies, all servers together. */
export interface ModeCosts {
  readonly mode: Mode
  /** what proves answers; missing: nothing is asked */
  readonly proofs?: Proofs
  /** received to prepare, without manifests and directory */
  readonly prepareBytes: number
  /** both ways before the first lookup: manifests and directory, and preparing */
  readonly firstBytes: number
  readonly lookupBytesUp: number
  readonly lookupBytesDown: number
  /** both ways: lookups, their fence, changes */
  readonly dayBytes: number
  /** between lookups, by what they are, without the directory */
  readonly held: Readonly<
    Partial<Record<'records' | 'parities' | 'permutations' | 'hints' | 'tags' | 'verifier', number>>
  >
  /** all that is held, with the directory */
  readonly memoryBytes: number
  /** at most: state, manifest, directory, what is pending, journal */
  readonly diskBytes: number
  /** both servers' processors for a lookup: by a model that is right to within a factor of two */
  readonly serverLookupMicros: number
}

/** What a manifest says of the directory. `directoryBytes` 0: there is none; without the others: a new one is expected. */
export interface DirectorySize {
  readonly directoryBytes: number
  readonly directoryBlockLog?: number
  readonly directoryBlockBytes?: number
}

/** What is done with a database that there is. */
export type Usage = Pick<Workload, 'batch' | 'lookupsPerDay' | 'hintLookups' | 'changesPerDay'>

/** What a database will cost, computed before anything of it exists. */
export interface Plan {
  /** what it was made for, defaults included */
  readonly workload: {
    readonly [Name in keyof Omit<Workload, 'partitions' | 'pack' | 'hintLookups'>]-?: NonNullable<Workload[Name]>
  }
  /** (N, ℓ, Q, M, g) */
  readonly layout: {
    readonly records: number
    readonly recordBytes: number
    readonly partitions: number
    readonly partitionRecords: number
    readonly blockRecords: number
  }
  /** `local`, keeping it all, is the first, `single` the last; `full` is there with each kind of proof */
  readonly modes: readonly ModeCosts[]
  readonly merkle: Costs
  readonly tags: Costs
  /** tags, if the client has the memory */
  readonly recommended: EntryProofs
  /** why, in a sentence */
  readonly reason: string
}

/** One instance of the WASM module, as instant lookups and the choice of a mode need it: what every client has. */
export interface InstantCore {
  readonly memory: { readonly buffer: ArrayBuffer }
  /** of a manifest's numbers; `blockRecords`: g; 1 */
  layout(
    records: number,
    recordBytes: number,
    partitions: number,
    partitionRecords: number,
    blockRecords?: number,
  ): LayoutHandle
  /** BLAKE3, 32 bytes */
  blake3(bytes: Uint8Array): Uint8Array
  /** 16-byte key fingerprint (docs/protocol.md, Hashes) */
  fingerprint(key: Uint8Array): Uint8Array
  /** of 2^log blocks of so many bytes, under a seed of 16; throws `directory`, `layout`, `length` */
  directoryShape(log: number, blockBytes: number, seed: Uint8Array): DirectoryShapeHandle
  /** asks for 1 to `instantMaxBatch` records under 32 bytes of fresh OS entropy; throws `index`, `length` */
  newInstantQuery(layout: LayoutHandle, indices: Uint32Array, entropy: Uint8Array): InstantQueryHandle
  /**
   * The mode for a client that is free to choose and has made so many lookups: the planner's rule, from manifest, offers and
   * count alone. With the count it goes on, and never back.
   */
  chooseMode(
    layout: LayoutHandle,
    directory: DirectorySize,
    offers: { readonly instant: boolean },
    lookups: number,
  ): Mode
}

/** What hints and copies of a database need besides. Browsers load it when a map makes one: it is in a module of its own. */
export interface ClientCore extends InstantCore {
  /** the kind of proof for a client, where servers offer both: tags, if what it would hold fits 64 MB */
  suitableProofs(layout: LayoutHandle, directoryBytes: number): Proofs
  /** what each way of looking up costs under a manifest of a database with these kinds of proof */
  modeCosts(layout: LayoutHandle, directory: DirectorySize, proofs: readonly Proofs[], usage: Usage): ModeCosts[]
  /** costs and a recommendation; throws `layout` if there can be no such database */
  plan(workload: Workload): Plan
  /** bytes of journal at which a client that holds so many bytes of hint writes a new checkpoint */
  journalLimit(heldBytes: number): number
  /** `blockRecords`: g; 1 */
  planLayout(records: number, recordBytes: number, partitions?: number, blockRecords?: number): LayoutHandle
  /** from its stored form, for a database of `records`; refused if it leads beyond them */
  decodeDirectory(bytes: Uint8Array, records: number): DirectoryHandle
  /** a stored form of so many bytes, none of which are there yet; throws `layout` */
  newReceivedForm(bytes: number): ReceivedFormHandle
  /** of so many bytes, in one piece; of none if they cannot be had */
  newRoom(bytes: number): RoomHandle
  /** begins a hint; `proofs` (default `merkle`) is for its life, and with tags commitments are not looked at */
  newHintBuilder(
    layout: LayoutHandle,
    commitments: Uint8Array,
    contentHashes: Uint8Array,
    entropy: Uint8Array,
    proofs?: Proofs,
  ): HintBuilderHandle
  /** takes up a stored half-made hint under the manifest it was begun under, with its kind of proof */
  resumeHintBuilder(
    partial: ReceivedFormHandle,
    layout: LayoutHandle,
    commitments: Uint8Array,
    contentHashes: Uint8Array,
    binding: Uint8Array,
  ): HintBuilderHandle
  /** begins a copy of the database; `id`: 16 random bytes */
  newLocal(layout: LayoutHandle, contentHashes: Uint8Array, id: Uint8Array): LocalHandle
  /** takes up its stored form, whole or in part, under the manifest it was made under */
  resumeLocal(
    stored: ReceivedFormHandle,
    layout: LayoutHandle,
    contentHashes: Uint8Array,
    binding: Uint8Array,
  ): LocalHandle
  /** brings a stored hint back under the manifest it was made under, with its kind of proof */
  reopenClient(
    checkpoint: ReceivedFormHandle,
    layout: LayoutHandle,
    commitments: Uint8Array,
    binding: Uint8Array,
  ): ClientHandle
}

/** What lookups with one server need besides. Browsers load it for maps that have them: it is in a module of its own. */
export interface SingleCore extends ClientCore {
  /**
   * Bytes of a query to one server, and of its answer; most queries of a request; and lookups that hints are made for unless it
   * is said. Throws `layout` where one server cannot answer.
   */
  singleBytes(layout: LayoutHandle): Uint32Array
  /** whether hints made for one layout go on with another, of the same generation; throws `layout` where there are none */
  singleFollows(before: LayoutHandle, after: LayoutHandle): boolean
  /**
   * begins hints for so many lookups under 32 bytes of fresh OS entropy; throws `layout`, `index`. `inRows`: where tags are kept,
   * for tests; otherwise as many as there are say it
   */
  newSingleBuilder(
    layout: LayoutHandle,
    contentHashes: Uint8Array,
    entropy: Uint8Array,
    lookups?: number,
    inRows?: boolean,
  ): SingleBuilderHandle
  /** takes up what `partial` has given under the manifest it was begun under */
  resumeSingleBuilder(
    partial: ReceivedFormHandle,
    layout: LayoutHandle,
    contentHashes: Uint8Array,
    binding: Uint8Array,
  ): SingleBuilderHandle
  /** brings stored hints back under the manifest they were stored under */
  reopenSingle(checkpoint: ReceivedFormHandle, layout: LayoutHandle, binding: Uint8Array): SingleHandle
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
