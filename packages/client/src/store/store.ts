// What the client needs of a place to keep its state. A store moves opaque bytes, atomically; what they mean is the
// core's business (rust-core/core/src/tapir/state). The rules are S1–S7 of docs/threat-model.md:
//
//   begin ─► putPartial … ─► complete ─► putPending ─► (traffic) ─► commit ─► putPending ─► …
//                                            └── again, the same bytes, before every resend
//                             putCheckpoint at any version, putVerifier;  condemn and discard at any time
//
// A state follows the database's epochs: updatePartial takes a half-made hint to the next one, advance a whole hint,
// with its pending batch if there is one. The head's manifest says at which epoch the state is.
//
// Correctness across tabs and crashes rests on two things every write names: the hint's id and its version (what has
// been applied to it). A write that names another id or version than the store holds was made by someone who has not
// seen the newest state; it fails with StateMovedError and changes nothing (S4).

/** Someone else (another tab, another process) has moved the state on; read it anew. */
export class StateMovedError extends Error {
  override readonly name = 'StateMovedError'
}

/** What is stored cannot be used: torn, foreign, sealed under a lost key, or of a newer version of this software (S3). */
export class StateUnreadableError extends Error {
  override readonly name = 'StateUnreadableError'
}

/**
 * There is no store to be had, or it has gone: IndexedDB is refused (a private window, blocked site data), the connection
 * broke, another process holds the folder. Whether a write that was under way has happened is not known: read anew.
 */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError'
}

/** The write did not fit, on the disk or in the origin's quota. Nothing has changed. */
export class StoreFullError extends Error {
  override readonly name = 'StoreFullError'
}

/** The epoch a state is at. */
export interface StoredEpoch {
  /** canonical bytes of its manifest */
  readonly manifest: Uint8Array
  /** the publisher's, 64 bytes, over that manifest; undefined: who stored it has not seen one */
  readonly signature?: Uint8Array | undefined
}

/**
 * What a hint is and what it belongs to. Parties are bound to servers by name, never by position (S5). For life, all but
 * the epoch it is at.
 */
export interface HintRecord extends StoredEpoch {
  /** 16 bytes, random */
  readonly hintId: Uint8Array
  /** the scheme that it is of, by its name (scheme/table.ts) */
  readonly scheme: string
  /** the servers' names, in the order of the scheme's parties; none: nothing leaves for a lookup */
  readonly parties: readonly string[]
  /** servers whose rollback fences know this hint: its version is confirmed there before anything of a lookup leaves (S8) */
  readonly fenced: readonly string[]
}

/** The state's small part: who, when, and what is under way. */
export interface StateHead {
  readonly record: HintRecord
  /** partial: the offline phase is not finished */
  readonly stage: 'partial' | 'whole'
  /** whole: effects and updates applied to the hint; partial: updates applied to the half-made hint */
  readonly version: number
  /** bytes of entries since the newest checkpoint */
  readonly journalBytes: number
  /** the batch that leads from `version` to the next, if one is pending */
  readonly pending: Uint8Array | undefined
  /** never to be used again; `culprit` is the server that lied, undefined if the state itself was at fault */
  readonly condemned: { readonly culprit: string | undefined } | undefined
}

/** The large part of a half-made hint, as of the head's manifest. */
export interface StoredPartial {
  /** the head's version at that */
  readonly version: number
  /** the core's partial hint */
  readonly partial: Uint8Array
  /** the key directory of the manifest's epoch; empty in a keyless database */
  readonly directory: Uint8Array
}

/** What takes a half-made hint to the next epoch. */
export interface PartialUpdate extends StoredEpoch {
  /** the core's partial hint, updated */
  readonly partial: Uint8Array
  /** the key directory of that epoch; empty in a keyless database */
  readonly directory: Uint8Array
}

/** A hint as it was at one version, and the epoch it was at. */
export interface StoredCheckpoint {
  /** the core's checkpoint */
  readonly checkpoint: Uint8Array
  /** canonical bytes of the manifest the checkpoint was made under */
  readonly manifest: Uint8Array
  /** the key directory of that manifest's epoch; empty in a keyless database */
  readonly directory: Uint8Array
}

/** The state's large part: a hint, whole, and what came after it. */
export interface StoredHint extends StoredCheckpoint {
  /** the checkpoint's version */
  readonly version: number
  /** the names of its rows that are there */
  readonly rows: readonly string[]
  /** effects and updates from the checkpoint's version up to the head's, in order */
  readonly entries: readonly Uint8Array[]
}

/** What takes a whole hint to the next epoch. */
export interface Advance extends StoredEpoch {
  /** the update's journal entry */
  readonly entry: Uint8Array
  /** the pending batch, extended; undefined if none is pending */
  readonly pending: Uint8Array | undefined
}

/** Any method may throw StoreUnavailableError; any that writes, StoreFullError. */
export interface StateStore {
  /**
   * Whether what is stored outlives this object. If not, the client does not prepare checkpoints and partial hints for
   * it, and hands over empty bytes instead.
   */
  readonly durable: boolean

  /** The head, or undefined if nothing is stored. Throws StateUnreadableError. */
  read(): Promise<StateHead | undefined>

  /** The partial hint of a head whose stage is partial. Throws StateMovedError, StateUnreadableError. */
  readPartial(hintId: Uint8Array): Promise<StoredPartial>

  /** The hint of a head whose stage is whole, in one transaction. Throws StateMovedError, StateUnreadableError. */
  readHint(hintId: Uint8Array): Promise<StoredHint>

  /**
   * The effects and updates from version `from` up to the newest, in order; undefined if a newer checkpoint has replaced
   * some of them. Throws StateUnreadableError; StateMovedError, too, if `from` is beyond the newest: the store has gone back.
   */
  readEntries(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined>

  /**
   * A new hint's life, at stage partial and version 0. Replaces the state whose hint id is `replaces` (undefined:
   * there must be none, or an unreadable one). Throws StateMovedError if the store holds another, or if the rows that it has by
   * now, by their names, are not all there any more: another one has begun since. Rows of all others go.
   */
  begin(
    record: HintRecord,
    partial: Uint8Array,
    directory: Uint8Array,
    replaces: Uint8Array | undefined,
    rows?: readonly string[],
  ): Promise<void>

  /** A partial hint with more partitions folded. Parities and folded set change together: they are one value. */
  putPartial(hintId: Uint8Array, version: number, partial: Uint8Array): Promise<void>

  /**
   * One transaction: the half-made hint at the next epoch. Manifest, partial and directory change together, the version
   * grows by one.
   */
  updatePartial(hintId: Uint8Array, version: number, update: PartialUpdate): Promise<void>

  /**
   * The partial hint of `version` becomes whole, at that version, under the same manifest and with the same directory. (If
   * versions began anew, copies that become whole at different epochs would count their lookups from different numbers,
   * and the fence could not compare them.) `rows` are the names of those it consists of besides, all of which must be there:
   * throws StateUnreadableError if not. Others of this hint's go.
   */
  complete(hintId: Uint8Array, version: number, checkpoint: Uint8Array, rows?: readonly string[]): Promise<void>

  /**
   * Keeps the pending batch that leads from `version` to the next. Durable when the promise resolves: nothing is sent
   * before (S1). Storing the same bytes again is no change; other bytes while a batch is pending are refused with
   * StateMovedError.
   */
  putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void>

  /** One transaction: the pending batch of `version` goes, its effect comes, the version grows by one (S2). */
  commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ readonly journalBytes: number }>

  /**
   * One transaction: the whole hint at the next epoch. The update's entry is appended, the manifest becomes the head's,
   * the version grows by one, and the pending batch is replaced by its extension (S2). Refused with StateMovedError if
   * a batch is pending and none is handed over, or the other way round. It may be lost to a power failure; so what is
   * pending is sent only once putPending has stored the same bytes again (S1).
   */
  advance(hintId: Uint8Array, version: number, update: Advance): Promise<{ readonly journalBytes: number }>

  /**
   * A checkpoint of `version`, from the stored checkpoint's to the newest, with the manifest and directory it was made
   * under. All three replace the earlier ones in one step; entries before them go. Refused with StateMovedError if
   * `version` is the newest and its manifest is not the head's. Of rows as for `complete`.
   */
  putCheckpoint(
    hintId: Uint8Array,
    version: number,
    checkpoint: StoredCheckpoint,
    rows?: readonly string[],
  ): Promise<void>

  /**
   * A row of a hint's, whose name says what is in it: of the stored hint, or of one that is prepared beside it, before that
   * begins; what is left of one that never does goes when another begins, or when it is swept up. It is durable once a
   * checkpoint is that names it.
   */
  putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void>

  /** Removes the rows of all hints but the stored one, or those `of` one that is not stored: nobody prepares any of them any more. */
  sweepRows(of?: Uint8Array): Promise<void>

  /**
   * A row of the stored hint, which is whole. If it is not there: throws StateUnreadableError if the stored checkpoint is that of
   * version `since`, which names it; else, or if `since` is undefined, StateMovedError.
   */
  readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array>

  /**
   * Keeps what verifies the answers to this whole hint, in place of what there is. Public, and a copy of what servers have: it may
   * be lost, or be of another epoch than the head's. Whoever reads it checks it.
   */
  putVerifier(hintId: Uint8Array, verifier: Uint8Array): Promise<void>

  /** What putVerifier has kept for this whole hint; undefined: nothing, or nothing that can be read. Throws StateMovedError. */
  readVerifier(hintId: Uint8Array): Promise<Uint8Array | undefined>

  /**
   * Durable: this hint must never be used again (S7); its secrets are erased. Whatever version it is at. No change if
   * the store holds another hint by now, or if this one is condemned already.
   */
  condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void>

  /**
   * Removes a state that cannot be used; undefined: an unreadable one. Throws StateMovedError if another is there, or
   * if this one is condemned: only a new hint, begun in its place, ends a condemnation (S7).
   */
  discard(hintId: Uint8Array | undefined): Promise<void>

  /** Removes whatever is stored, readable or not, condemned or not: only when the app itself says so. */
  erase(): Promise<void>

  /** Lets go of files, locks and connections. What is durable stays. */
  close(): Promise<void>
}

/** A store that outlives the page, and what it is worth. */
export interface DurableStore {
  readonly store: StateStore
  /** secrets are encrypted at rest under a key that cannot be exported; see sealed.ts for what that buys */
  readonly sealed: boolean
  /** whether the platform has confirmed that what must be durable is flushed before a promise resolves (S1) */
  readonly durability: 'strict' | 'unconfirmed'
  /**
   * Removes what is stored for other sets of servers that have one in common with this one (S5); resolves to
   * whether there was any. Condemned states stay: they hold no secrets, and going to other servers and back must not end
   * a condemnation. So do states that another process has open.
   */
  discardOthers(): Promise<boolean>
}

/**
 * Whether this platform has IndexedDB. Reading its name throws where a page is refused it, as in some frames: there it exists, and
 * cannot be opened.
 */
export function hasIndexedDb(): boolean {
  try {
    return globalThis.indexedDB !== undefined
  } catch {
    return true
  }
}
