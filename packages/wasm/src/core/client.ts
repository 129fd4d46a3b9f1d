// What hints and copies of a database need besides.

import type { DirectoryHandle, LayoutHandle, Proofs, RoleNumber } from './base.js'
import type { DirectorySize, ModeCosts, Plan, Usage, Workload } from './costs.js'
import type { InstantCore } from './instant.js'

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
  /** checks about a MiB against the manifest it has come to, from partition `first` on; returns the next one, if any; throws `state` */
  arrive(contentHashes: Uint8Array, first: number): number | undefined
  /** its stored form, bound to its manifest's hash (32 bytes) */
  encode(binding: Uint8Array): StoredFormHandle
  free(): void
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
  /** `blockRecords`: g; without it, the planner's default, which `plan` has too */
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
