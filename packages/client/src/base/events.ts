// Events: what happens to a map's state outside of calls. They hold no secrets.

import type { Mode } from '@keyhush/wasm/client'
import type { KeyhushError } from './errors.js'

/** How safe stored state is: from eviction too, from restarts only, or from neither. */
export type StorageKind = 'persistent' | 'best-effort' | 'memory'

/** Why a map's state must not be used again. */
export interface Condemnation {
  /** the server that lied; undefined: the state itself is at fault */
  readonly server: string | undefined
}

export type MapEvent =
  /**
   * Stored state was not used, and a new hint is downloaded. `unreadable`: torn, foreign, or of another version of this
   * software; `servers`: it belongs to other servers; `missing`: it was deleted while the map was open; `history`: it is
   * older than the updates that the servers keep; `generation`: the database has a new layout; `manifest`: it is another
   * database; `mode`: it was made for another mode, or another kind of proof, than the app now insists on; `spent`: its lookups are used
   * up.
   */
  | {
      readonly type: 'discarded'
      readonly reason: 'unreadable' | 'servers' | 'missing' | 'history' | 'generation' | 'manifest' | 'mode' | 'spent'
    }
  /** The map answers from a newer version of the database. */
  | { readonly type: 'updated'; readonly generation: number; readonly epoch: number }
  /**
   * No update leads to what the servers have now (for the reasons, see `discarded`); or, `spent`, few lookups are left, or
   * none. A new hint is downloaded while the old one answers for as long as the servers still take its queries, or there are
   * lookups left; then `updated` follows if the epoch is another.
   */
  | { readonly type: 'outdated'; readonly reason: 'history' | 'generation' | 'manifest' | 'spent' }
  /** Lookups are answered without a state, and one is being made in the background. `prepared` or `preparing-failed` follows. */
  | { readonly type: 'preparing' }
  /** That state is there. `mode` follows. */
  | { readonly type: 'prepared' }
  /**
   * It could not be made; undefined `error`: the app has called it off. It is tried again once so many lookups more have ended;
   * undefined: not before `prepare()`. Lookups go on as before.
   */
  | {
      readonly type: 'preparing-failed'
      readonly error: KeyhushError | undefined
      readonly retryAfterLookups: number | undefined
    }
  /** Lookups are answered in another way from now on: `map.mode`. */
  | { readonly type: 'mode'; readonly mode: Mode | undefined }
  /** A call has waited for these servers for two seconds. Once a call, and only for listeners of the map that was called. */
  | { readonly type: 'slow'; readonly servers: readonly string[] }
  /** Stored state is used: a half-made hint, or a whole one. `pending`: with a lookup to be finished first. */
  | { readonly type: 'resumed'; readonly what: 'download' | 'hint'; readonly pending: boolean }
  /**
   * The rollback fence does not know the new hint, and never will: a restored copy of its state is not noticed. `none`: the
   * server has no fence; `full`: it has no room. Until `reset()`, `map.stats.fenced` says so.
   */
  | { readonly type: 'unfenced'; readonly server: string; readonly reason: 'none' | 'full' }
  /** A server lied, now or in an earlier life of this page or in another tab; undefined: the state itself is at fault. */
  | { readonly type: 'condemned'; readonly server: string | undefined }
  /**
   * Where the state is kept has changed, or is not what was preferred. `unavailable`: there is no durable storage here;
   * `failed`: it stopped working; `granted`: the browser has promised not to evict it.
   */
  | { readonly type: 'storage'; readonly storage: StorageKind; readonly reason: 'unavailable' | 'failed' | 'granted' }

export type OnEvent = (event: MapEvent) => void

const TYPES: Record<MapEvent['type'], true> = {
  discarded: true,
  updated: true,
  outdated: true,
  preparing: true,
  prepared: true,
  'preparing-failed': true,
  mode: true,
  slow: true,
  resumed: true,
  unfenced: true,
  condemned: true,
  storage: true,
}

/** The types of events. */
export const EVENTS: readonly string[] = Object.keys(TYPES)
