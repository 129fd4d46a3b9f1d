// What the client needs of a place to keep its state. A store moves opaque bytes, atomically; the core knows what they mean
// (rust-core/core/src/tapir/state). The rules are S1–S7 of docs/threat-model.md:
//
//   begin ─► putPartial … ─► complete ─► putPending ─► (traffic) ─► commit ─► putPending ─► …
//                                            └── again, the same bytes, before every resend
//                             putCheckpoint at any version, putVerifier;  condemn and discard at any time
//
// A state follows the database's epochs: updatePartial brings a half-made hint to the next one; advance brings a whole hint
// there, with its pending lookup if it has one. The head's manifest says at which epoch the state is.
//
// Every write names the hint's id and its version, which counts what was applied to it. That keeps tabs and crashes from
// contradicting each other: a caller that names another id or version has not seen the newest state, so the write fails
// with StateMovedError and changes nothing (S4).

/** Another tab or process has moved the state on: read it anew. */
export class StateMovedError extends Error {
  override readonly name = 'StateMovedError'
}

/** What is stored cannot be used: torn, foreign, sealed under a lost key, or of a newer version of this software (S3). */
export class StateUnreadableError extends Error {
  override readonly name = 'StateUnreadableError'
}

/**
 * There is no store, or no longer: IndexedDB is refused (a private window, blocked site data), the connection broke, or
 * another process holds the folder. It is not known whether a write under way has happened: read anew.
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
  /** the publisher's, 64 bytes, over that manifest; undefined: none was seen */
  readonly signature?: Uint8Array | undefined
}

/** What a hint is and what it belongs to. Parties are servers' names (S5). Only the epoch changes during its life. */
export interface HintRecord extends StoredEpoch {
  /** 16 bytes, random */
  readonly hintId: Uint8Array
  /** the name of its scheme (scheme/table.ts) */
  readonly scheme: string
  /** the servers' names, in the order of the scheme's parties; empty if lookups send nothing */
  readonly parties: readonly string[]
  /** servers whose rollback fences know this hint: they confirm its version before a lookup sends anything (S8) */
  readonly fenced: readonly string[]
}

/** The state's small part: which hint, at which version, and what is pending. */
export interface StateHead {
  readonly record: HintRecord
  /** partial: the offline phase is not finished */
  readonly stage: 'partial' | 'whole'
  /** whole: effects and updates applied to the hint; partial: updates applied to the half-made hint */
  readonly version: number
  /** bytes of entries since the newest checkpoint */
  readonly journalBytes: number
  /** the lookup that leads from `version` to the next, if one is pending */
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

/** A half-made hint at the next epoch. */
export interface PartialUpdate extends StoredEpoch {
  /** the core's partial hint, updated */
  readonly partial: Uint8Array
  /** the key directory of that epoch; empty in a keyless database */
  readonly directory: Uint8Array
}

/** A hint at one version, and its epoch then. */
export interface StoredCheckpoint {
  /** the core's checkpoint */
  readonly checkpoint: Uint8Array
  /** canonical bytes of the manifest the checkpoint was made under */
  readonly manifest: Uint8Array
  /** the key directory of that manifest's epoch; empty in a keyless database */
  readonly directory: Uint8Array
}

/** The state's large part: a whole hint, and what was applied since. */
export interface StoredHint extends StoredCheckpoint {
  /** the checkpoint's version */
  readonly version: number
  /** the names of its rows that are there */
  readonly rows: readonly string[]
  /** effects and updates from the checkpoint's version up to the head's, in order */
  readonly entries: readonly Uint8Array[]
}

/** An update of a whole hint to the next epoch. */
export interface Advance extends StoredEpoch {
  /** the update's journal entry */
  readonly entry: Uint8Array
  /** the pending lookup, extended; undefined if none is pending */
  readonly pending: Uint8Array | undefined
}

/** Any method may throw StoreUnavailableError; any that writes, StoreFullError. */
export interface StateStore {
  /** Whether what is stored outlives this object. If not, the client passes empty checkpoints and partial hints. */
  readonly durable: boolean

  /** The head, or undefined if nothing is stored. Throws StateUnreadableError. */
  read(): Promise<StateHead | undefined>

  /** The partial hint of a head whose stage is partial. Throws StateMovedError, StateUnreadableError. */
  readPartial(hintId: Uint8Array): Promise<StoredPartial>

  /** The hint of a head whose stage is whole, in one transaction. Throws StateMovedError, StateUnreadableError. */
  readHint(hintId: Uint8Array): Promise<StoredHint>

  /**
   * The effects and updates from version `from` up to the newest, in order; undefined if a newer checkpoint has replaced
   * some of them. Throws StateUnreadableError, and StateMovedError if `from` is beyond the newest: the store was set back.
   */
  readEntries(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined>

  /**
   * Begins a new hint, at stage partial and version 0. It replaces the state whose hint id is `replaces`; undefined: there
   * must be none, or an unreadable one. `rows` are the names of the rows that it has already. Removes the rows of all other
   * hints. Throws StateMovedError if the store holds another state, or if one of `rows` is missing, because another hint
   * has begun since.
   */
  begin(
    record: HintRecord,
    partial: Uint8Array,
    directory: Uint8Array,
    replaces: Uint8Array | undefined,
    rows?: readonly string[],
  ): Promise<void>

  /** Replaces the partial hint by one with more partitions. */
  putPartial(hintId: Uint8Array, version: number, partial: Uint8Array): Promise<void>

  /**
   * One transaction: manifest, partial and directory become those of the next epoch, and the version grows by one. It is
   * durable when the promise resolves: an empty partial hint takes the last one out of the store, and memory alone has it.
   */
  updatePartial(hintId: Uint8Array, version: number, update: PartialUpdate): Promise<void>

  /**
   * Makes the partial hint of `version` whole, at that version, with the same manifest and directory. (The version is kept
   * so that the fence can compare copies that become whole at different epochs.) `rows` are the names of its rows. Throws
   * StateUnreadableError if one is missing; removes its other rows.
   */
  complete(hintId: Uint8Array, version: number, checkpoint: Uint8Array, rows?: readonly string[]): Promise<void>

  /**
   * Stores the pending lookup that leads from `version` to the next. It is durable when the promise resolves: nothing is
   * sent before (S1). The same bytes again change nothing. Other bytes while a lookup is pending: throws StateMovedError.
   */
  putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void>

  /** One transaction: the effect of `version` is appended, its pending lookup removed, and the version grows by one (S2). */
  commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ readonly journalBytes: number }>

  /**
   * One transaction: the update's entry is appended, the manifest becomes the head's, the version grows by one, and the
   * pending lookup is replaced by its extension (S2). Throws StateMovedError if a lookup is pending and none is passed, or the
   * other way round. A power failure may undo this, so the client calls putPending with the same bytes before it sends (S1).
   */
  advance(hintId: Uint8Array, version: number, update: Advance): Promise<{ readonly journalBytes: number }>

  /**
   * Replaces checkpoint, manifest and directory in one step, and removes the entries before `version`, which lies between
   * the stored checkpoint's and the newest. Throws StateMovedError if `version` is the newest and its manifest is not the
   * head's. `rows` as for `complete`.
   */
  putCheckpoint(
    hintId: Uint8Array,
    version: number,
    checkpoint: StoredCheckpoint,
    rows?: readonly string[],
  ): Promise<void>

  /**
   * Stores a row of the stored hint, or of one that is prepared beside it and has not begun. Its name says what is in it. Rows
   * of a hint that never begins are removed when another begins, or by sweepRows. A row is durable once a checkpoint that
   * names it is.
   */
  putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void>

  /** Removes the rows of all hints but the stored one; `of`: of this one alone, unless it is stored. No tab prepares them any more. */
  sweepRows(of?: Uint8Array): Promise<void>

  /**
   * A row of the stored hint, which is whole. `since` is the version of the checkpoint that names it. If the row is missing,
   * throws StateUnreadableError if that checkpoint is still stored, else StateMovedError.
   */
  readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array>

  /**
   * Stores what verifies the answers to this whole hint. It is public, and servers have it too: it may be lost, or be of
   * another epoch than the head's. The client checks it when it reads it.
   */
  putVerifier(hintId: Uint8Array, verifier: Uint8Array): Promise<void>

  /** What putVerifier has stored for this whole hint; undefined: nothing, or nothing readable. Throws StateMovedError. */
  readVerifier(hintId: Uint8Array): Promise<Uint8Array | undefined>

  /**
   * Durable: this hint must never be used again (S7), at whatever version; its secrets are erased. Changes nothing if the
   * store holds another hint, or if this one is condemned already.
   */
  condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void>

  /**
   * Removes the state of this hint; undefined: an unreadable state. Throws StateMovedError if another is there, or if it is
   * condemned: only a new hint in its place ends a condemnation (S7).
   */
  discard(hintId: Uint8Array | undefined): Promise<void>

  /** Removes any state, even an unreadable or condemned one. Called only when the app demands it. */
  erase(): Promise<void>

  /** Closes files and connections, and releases locks. What is durable stays. */
  close(): Promise<void>
}

/** A store that outlives the page, and what it promises. */
export interface DurableStore {
  readonly store: StateStore
  /** secrets are encrypted at rest under a key that cannot be exported; sealed.ts says against what that protects */
  readonly sealed: boolean
  /** whether the platform has confirmed that what must be durable is flushed before a promise resolves (S1) */
  readonly durability: 'strict' | 'unconfirmed'
  /**
   * Removes the states of other sets of servers that share a server with this one (S5). Resolves to whether there was any.
   * Condemned states stay: they hold no secrets, and going to other servers and back must not end a condemnation. States
   * that another process has open stay too.
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
