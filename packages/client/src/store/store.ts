// What the client needs of a place to keep its state, and the order in which it uses it. A store moves opaque bytes,
// atomically; what they mean is the core's business (core/src/state). The rules are S1, S2 and S7 of the architecture:
//
//   begin  ─►  putPending ─► (traffic) ─► commit  ─►  putPending ─► …
//                  └── again, the same bytes, before every resend
//              condemn at any time; after it only `begin`
//
// `version` counts the effects applied since `begin`. A write that names another version than the store's was made by
// someone who has not seen the newest state, and must fail without changing anything (S4).

import { StorageError } from '../errors.js'

/** The start of a hint's life. Roles are bound to servers by name, never by position (S5). */
export interface HintRecord {
  readonly retrieveServer: string
  readonly refreshServer: string
  /** canonical bytes of the manifest the hint was made under */
  readonly manifest: Uint8Array
}

export interface StateStore {
  /** Replaces whatever is there, a condemned state included, by a new hint at version 0. */
  begin(hint: HintRecord): Promise<void>

  /**
   * Keeps the pending batch that leads from `version` to the next. Durable when the promise resolves: nothing is sent
   * before (S1). Storing the same bytes again is no change; other bytes while a batch is pending are refused.
   */
  putPending(version: number, pending: Uint8Array): Promise<void>

  /** One transaction: the pending batch goes, its effect comes, the version grows by one (S2). */
  commit(change: { readonly version: number; readonly effect: Uint8Array }): Promise<void>

  /** Durable: this hint must never be used again (S7). `culprit`: the server that lied, if one did. */
  condemn(culprit: string | undefined): Promise<void>

  /** Lets go of files and connections. What is durable stays. */
  close(): Promise<void>
}

/** Waits for a store's work; whatever it fails with becomes a StorageError. */
export async function stored<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    throw cause instanceof StorageError ? cause : new StorageError('the state could not be stored', { cause })
  }
}
