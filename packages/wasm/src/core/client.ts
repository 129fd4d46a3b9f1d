// What hints and copies of a database need in addition.

import type { DirectoryHandle, LayoutHandle, Proofs, RoleNumber } from './base.js'
import type { Advice, DirectorySize, ModeCosts, Plan, Usage, Workload } from './costs.js'
import type { InstantCore, Offers } from './instant.js'

/** Receives a database, partition by partition, in lanes: one for each download that runs at the same time. */
export interface Lanes {
  /** where lanes receive; missing: WASM memory */
  readonly memory?: { readonly buffer: ArrayBuffer }
  /** address in that memory of the M·ℓ bytes that a lane receives; read it again after any call that may allocate */
  lanePointer(lane: number): number
  /** begins to receive `partition` in `lane`; refused if it was received already, or the other lane receives it */
  begin(lane: number, partition: number): void
  /** hashes the lane's next `bytes` bytes, which were written at lanePointer + the bytes received so far */
  absorb(lane: number, bytes: number): void
  /** takes the partition if it has its content hash; false otherwise; the lane is free again either way */
  fold(lane: number): boolean
  /** drops what the lane has received so far */
  abandon(lane: number): void
  isFolded(partition: number): boolean
  /**
   * Does a part of the work, if partitions cause more of it than `fold` does. Returns whether there is more. Calls that need
   * it finished do the steps that are left.
   */
  step?(): boolean
}

/** The offline phase: it takes partitions and makes a hint. If the hint keeps tags, records are tagged as they are folded. */
export interface HintBuilderHandle extends Lanes {
  /**
   * Updates what is folded to the next epoch, and drops downloads of changed partitions. A hint with tags ignores
   * commitments.
   */
  update(
    list: Uint8Array,
    before: LayoutHandle,
    after: LayoutHandle,
    commitments: Uint8Array,
    contentHashes: Uint8Array,
  ): void
  /** the id of the hint in the making, 16 bytes */
  readonly hintId: Uint8Array
  /** the kind of proof that the hint's answers must have; a resumed hint keeps its own */
  readonly proofs: Proofs
  readonly folded: number
  /** the stored form of what is folded so far, bound to its manifest's hash (32 bytes) */
  partial(binding: Uint8Array): StoredFormHandle
  /** the client's state, when all partitions are folded; uses up this handle, even when it throws `phase` */
  finish(version?: number): ClientHandle
  free(): void
}

/** A state with which queries are made, and at most one pending lookup. */
export interface AskedHandle {
  /**
   * Makes a pending lookup for `indices` (1 to the manifest's maxQueries record indices) with 32 bytes of fresh OS entropy. The
   * state does not change before `recon`. Throws `phase` if a lookup is pending already, or the state is used up.
   */
  query(indices: Uint32Array, entropy: Uint8Array): void
  /** number of pending queries; 0 without a pending lookup */
  readonly pending: number
  /** the stored form of the pending lookup, to be made durable before anything is sent */
  pendingBytes(): Uint8Array
  /** reads a stored lookup, which becomes the pending one (after a crash) */
  resume(pending: Uint8Array): void
  /**
   * Drops the pending lookup. Only for a lookup that was provably neither stored nor sent: dropping any other, and asking
   * again, reveals its index.
   */
  withdraw(): void
  /** the name under which the rollback fence knows the pending lookup, 32 bytes; the same at every epoch (docs/protocol.md) */
  pendingName(): Uint8Array
  /**
   * When all answers are verified: recovers the records (count·ℓ bytes, in query order) and applies the lookup. With tags the
   * records are checked too. Throws `state`, with nothing changed, if the hint itself is corrupt.
   */
  recon(): Uint8Array
  /** the journal entry of the last `recon`; it can be taken once */
  takeEffect(): Uint8Array
  /** applies the next entry of a journal: an effect or an update */
  replay(entry: Uint8Array): void
  /** the stored form of the whole state, bound to its manifest's hash (32 bytes); `phase` while a lookup is pending */
  checkpoint(binding: Uint8Array): StoredFormHandle
  /** the layout at its epoch */
  readonly layout: LayoutHandle
  /** its random id, 16 bytes */
  readonly hintId: Uint8Array
  /** number of lookups and updates applied since it was made */
  readonly version: number
  condemn(): void
  readonly condemned: boolean
  /** bytes of parities, M·ℓ; or of hints and backups */
  readonly hintBytes: number
  /** bytes of tags in memory; 0 without tags */
  readonly tagBytes: number
  /** wipes secrets, then frees */
  free(): void
}

/** Permutations, parities and perhaps tags. After replaying an update, call `rebind` before the next query. */
export interface ClientHandle extends AskedHandle {
  /** the kind of proof that its answers must have, for life */
  readonly proofs: Proofs
  /** count·Q offsets, u16 little-endian: the bytes after a request's header */
  retrieveVectors(): Uint8Array
  refreshVectors(): Uint8Array
  /**
   * Verifies all count·Q entries of one server's answer (the bytes after the answer's header), without early exit, and keeps
   * them for `recon`. false: an entry is forged, and the handle is condemned.
   */
  verify(role: RoleNumber, entries: Uint8Array): boolean
  /**
   * With `pointproofs`, instead of `verify`: takes an answer (records and proof) that the caller has verified, and the
   * verdict, which it returns. false: the handle is condemned. Throws `phase` with other proofs.
   */
  judged(role: RoleNumber, answer: Uint8Array, genuine: boolean): boolean
  /**
   * Brings the hint and its pending lookup to the next epoch (Fig. 6, UpdateHint), with 32 bytes of fresh OS entropy. Returns
   * the journal entry. A hint with tags ignores commitments. If there are more partitions now, `retrieveVectors` and
   * `refreshVectors` are longer: store `pendingBytes` again, together with the entry, before anything is sent.
   */
  update(list: Uint8Array, after: LayoutHandle, commitments: Uint8Array, entropy: Uint8Array): Uint8Array
  /** sets the commitments of the epoch to which replayed updates have led; a hint with tags ignores them */
  rebind(commitments: Uint8Array): void
  /** bytes of permutations, 2·Q·M′ */
  readonly permutationBytes: number
}

/** A stored form without its checksum, which is made in slices. The original may change meanwhile. Secret. */
export interface StoredFormHandle {
  /** number of bytes left */
  left(): number
  /** the next piece, about 256 KiB, which is hashed first; empty after the last one */
  piece(): Uint8Array
  /** all bytes that are left; they can be taken once */
  take(): Uint8Array
  /** wipes it, then frees */
  free(): void
}

/** A stored form that arrives piece by piece. It can be read when it is complete. Secret. */
export interface ReceivedFormHandle {
  /** appends the next bytes, and hashes them; throws `length` if they are too many */
  take(piece: Uint8Array): void
  /** wipes it, then frees */
  free(): void
}

/** Memory that is requested from the system before it is used. When this is freed, allocations get it. */
export interface RoomHandle {
  /** requests some of it; returns whether there is more */
  step(): boolean
  free(): void
}

/** The records of a database: all partitions, or those received so far. They are checked, updated, and read. Not secret. */
export interface LocalHandle extends Lanes {
  /** 16 bytes */
  readonly id: Uint8Array
  /** number of updates applied */
  readonly version: number
  /** the layout at its epoch */
  readonly layout: LayoutHandle
  /** sets the version, when all partitions are there; throws `phase` otherwise */
  finish(version: number): void
  /** ℓ bytes for each index, in order; throws `index`, `phase` */
  records(indices: Uint32Array): Uint8Array
  /**
   * Begins the long part of an update: `step` does it, and `update` with the same bytes what is left. Missing: it is never long. Nothing
   * changes before `update`, which alone refuses a list.
   */
  foresee?(list: Uint8Array, after: LayoutHandle, contentHashes: Uint8Array): void
  /**
   * Brings it to the next epoch, and checks the content: throws `update`, with nothing changed. Returns the journal entry, of no bytes
   * without a ClientCore, if all partitions are there.
   */
  update(list: Uint8Array, after: LayoutHandle, contentHashes: Uint8Array): Uint8Array | undefined
  /** only with a ClientCore: applies the next entry of its journal */
  replay(entry: Uint8Array): void
  /** only with a ClientCore: checks about a MiB against the manifest of its epoch, from partition `first` on; returns the next one, if any; throws `state` */
  arrive(contentHashes: Uint8Array, first: number): number | undefined
  /** only with a ClientCore: the stored form, bound to its manifest's hash (32 bytes) */
  encode(binding: Uint8Array): StoredFormHandle
  free(): void
}

/** What copies of a database need in addition, in WebAssembly or in JavaScript. */
export interface LocalCore extends InstantCore {
  /** reads a stored form, for a database of `records`; refuses one that leads beyond them */
  decodeDirectory(bytes: Uint8Array, records: number): DirectoryHandle
  /** begins a copy of the database; `id`: 16 random bytes */
  newLocal(layout: LayoutHandle, contentHashes: Uint8Array, id: Uint8Array): LocalHandle
}

/** What hints and stored forms need in addition. Browsers load it when a map needs it: it is a module of its own. */
export interface ClientCore extends Required<LocalCore> {
  readonly memory: { readonly buffer: ArrayBuffer }
  /** the kind of proof for a client, if servers offer both: tags, if what it holds then fits into 64 MB */
  suitableProofs(layout: LayoutHandle, directoryBytes: number): Proofs
  /** the costs of each mode, for a manifest's layout and these kinds of proof */
  modeCosts(layout: LayoutHandle, directory: DirectorySize, proofs: readonly Proofs[], usage: Usage): ModeCosts[]
  /** the mode that serves so many lookups a day, and when a download pays; `offers` as in `chooseMode` */
  advise(
    layout: LayoutHandle,
    directory: DirectorySize,
    offers: Offers,
    mayDownload: boolean,
    lookupsPerDay: number,
  ): Advice
  /** costs and a recommendation; throws `layout` if there is no such database */
  plan(workload: Workload): Plan
  /** the bytes of journal after which a client that holds `heldBytes` of hint writes a new checkpoint */
  journalLimit(heldBytes: number): number
  /** `blockRecords`: g; without it, the planner's default, as in `plan` */
  planLayout(records: number, recordBytes: number, partitions?: number, blockRecords?: number): LayoutHandle
  /** an empty stored form that will have `bytes` bytes; throws `layout` */
  newReceivedForm(bytes: number): ReceivedFormHandle
  /** `bytes` bytes in one piece; none if memory does not suffice */
  newRoom(bytes: number): RoomHandle
  /** begins a hint; `proofs` (default `merkle`) is for its life; with tags commitments are ignored */
  newHintBuilder(
    layout: LayoutHandle,
    commitments: Uint8Array,
    contentHashes: Uint8Array,
    entropy: Uint8Array,
    proofs?: Proofs,
  ): HintBuilderHandle
  /** reads a stored hint in the making, of the manifest with these values; it keeps its kind of proof */
  resumeHintBuilder(
    partial: ReceivedFormHandle,
    layout: LayoutHandle,
    commitments: Uint8Array,
    contentHashes: Uint8Array,
    binding: Uint8Array,
  ): HintBuilderHandle
  /** reads the stored form of a copy, whole or partial, of the manifest with these values */
  resumeLocal(
    stored: ReceivedFormHandle,
    layout: LayoutHandle,
    contentHashes: Uint8Array,
    binding: Uint8Array,
  ): LocalHandle
  /** reads a stored hint, of the manifest with these values; it keeps its kind of proof */
  reopenClient(
    checkpoint: ReceivedFormHandle,
    layout: LayoutHandle,
    commitments: Uint8Array,
    binding: Uint8Array,
  ): ClientHandle
}
