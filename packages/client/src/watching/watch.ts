// What an app holds of a watched key, and what it is told.

import type { Found } from '../lookup/question.js'

/** What has happened to a watched key. */
export interface Change {
  /** its value from now on; undefined: the key is absent */
  readonly value: Found
  /** its value before; undefined: the key was absent, or what was saved could not be read */
  readonly before: Found
  /** the epoch that the change came with, or by which it has happened */
  readonly epoch: number
  /**
   * - `list`: an update list says so.
   * - `gap`: nobody saw the lists of some epochs. The key was looked up again. It is told even if both values are equal.
   * - `contradiction`: a lookup found what the lists do not lead to, or the database has two histories. Warn your user.
   */
  readonly how: 'list' | 'gap' | 'contradiction'
}

/**
 * Called with each change, in order, each in a task of its own. While it runs, its map's calls throw UsageError: a request that is made
 * because a key has changed shows whose key that was.
 */
export type OnChange = (change: Change) => void

/** A watched key. */
export interface Watch {
  /** the key's value at `epoch`; undefined: the key is absent */
  readonly value: Found
  readonly epoch: number
  /** Until when silence means that nothing has changed. Undefined: it means nothing yet. */
  readonly checked: Date | undefined
  /** Ends the calls of the listener. The map goes on as before, so that no server can tell; `save` is called until it closes. */
  stop(): void
}

/** Follows watched keys. */
export interface Watcher {
  /** Throws UsageError while a listener runs. */
  assertQuiet(): void
  /** Looks a key up, and follows it from `since` on. Throws as a lookup does. */
  watch(key: Uint8Array, onChange: OnChange, how: WatchedHow, ends: Ends): Promise<Watch>
  /** Follows to the newest epoch that servers have. */
  sync(signal: AbortSignal): Promise<void>
}

export interface Ends {
  /** Each ends the calls of the listener; before the watch has begun, also the call. */
  readonly stopped: readonly (AbortSignal | undefined)[]
  /** the map has closed, or the call has failed: nothing of the app is called any more, or a mark would pass what nobody was told */
  readonly over: readonly AbortSignal[]
}

export interface WatchedHow {
  /** what `save` was given in an earlier life */
  readonly since?: string | undefined
  /** called with what to pass as `since` in the next life */
  readonly save?: ((mark: string) => void) | undefined
}
