// What the client needs of a place to keep its state. A store moves opaque bytes, atomically; what they mean is the
// core's business (rust-core/core/src/state). The rules are S1–S7 of the architecture:
//
//   begin ─► putPartial … ─► complete ─► putPending ─► (traffic) ─► commit ─► putPending ─► …
//                                            └── again, the same bytes, before every resend
//                             putCheckpoint at any version;  condemn and discard at any time
//
// Correctness across tabs and crashes rests on two things every write names: the hint's id and its version (the number
// of effects applied). A write that names another id or version than the store holds was made by someone who has not
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

/** What a hint is and what it belongs to. Roles are bound to servers by name, never by position (S5). */
export interface HintRecord {
  /** 16 bytes, random */
  readonly hintId: Uint8Array
  readonly retrieveServer: string
  readonly refreshServer: string
  /** canonical bytes of the manifest the hint is made under */
  readonly manifest: Uint8Array
}

/** The state's small part: who, when, and what is under way. */
export interface StateHead {
  readonly record: HintRecord
  /** partial: the offline phase is not finished */
  readonly stage: 'partial' | 'whole'
  /** effects applied */
  readonly version: number
  /** bytes of effects since the newest checkpoint */
  readonly journalBytes: number
  /** the batch that leads from `version` to the next, if one is pending */
  readonly pending: Uint8Array | undefined
  /** never to be used again; `culprit` is the server that lied, undefined if the state itself was at fault */
  readonly condemned: { readonly culprit: string | undefined } | undefined
}

/** The state's large part: a hint, whole, and what came after it. */
export interface StoredHint {
  /** the checkpoint's version */
  readonly version: number
  /** the core's checkpoint */
  readonly checkpoint: Uint8Array
  /** effects from the checkpoint's version up to the head's, in order */
  readonly effects: readonly Uint8Array[]
  /** the key directory as downloaded; empty in a keyless database */
  readonly directory: Uint8Array
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
  readPartial(hintId: Uint8Array): Promise<{ readonly partial: Uint8Array; readonly directory: Uint8Array }>

  /** The hint of a head whose stage is whole, in one transaction. Throws StateMovedError, StateUnreadableError. */
  readHint(hintId: Uint8Array): Promise<StoredHint>

  /**
   * The effects from version `from` up to the newest, in order; undefined if a newer checkpoint has replaced some of
   * them. Throws StateUnreadableError; StateMovedError, too, if `from` is beyond the newest: the store has gone back.
   */
  readEffects(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined>

  /**
   * A new hint's life, at stage partial and version 0. Replaces the state whose hint id is `replaces` (undefined:
   * there must be none, or an unreadable one). Throws StateMovedError if the store holds another.
   */
  begin(record: HintRecord, partial: Uint8Array, directory: Uint8Array, replaces: Uint8Array | undefined): Promise<void>

  /** A partial hint with more partitions folded. Parities, folded set and manifest change together: they are one value. */
  putPartial(hintId: Uint8Array, partial: Uint8Array): Promise<void>

  /** Stage partial becomes whole, at version 0. */
  complete(hintId: Uint8Array, checkpoint: Uint8Array): Promise<void>

  /**
   * Keeps the pending batch that leads from `version` to the next. Durable when the promise resolves: nothing is sent
   * before (S1). Storing the same bytes again is no change; other bytes while a batch is pending are refused with
   * StateMovedError.
   */
  putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void>

  /** One transaction: the pending batch of `version` goes, its effect comes, the version grows by one (S2). */
  commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ readonly journalBytes: number }>

  /**
   * A checkpoint of `version`, from the stored checkpoint's to the newest. It is written whole and then swapped in by one
   * row, last; effects before it go.
   */
  putCheckpoint(hintId: Uint8Array, version: number, checkpoint: Uint8Array): Promise<void>

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
   * Removes what is stored for other pairs of servers that have one server in common with this pair (S5); resolves to
   * whether there was any. Condemned states stay: they hold no secrets, and going to other servers and back must not end
   * a condemnation. So do states that another process has open.
   */
  discardOthers(): Promise<boolean>
}
