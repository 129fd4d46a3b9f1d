// Events: what happens to a map's state outside of calls. They hold no secrets.

import type { Mode } from '@keyhush/wasm/client'
import type { KeyhushError } from './errors.js'

/** Where a map keeps its state. `persistent`: safe from eviction. `best-effort`: may be evicted. `memory`: not stored. */
export type StorageKind = 'persistent' | 'best-effort' | 'memory'

/**
 * What a map's filter does. `loading`: it is downloaded. `ready`: it answers. `behind`: a server has shown a newer epoch for a minute that
 * the filter could not reach, or its epoch has expired, or servers have another database, or have all gone back; it excludes nothing.
 */
export type FilterState = 'loading' | 'ready' | 'behind'

/** Why a map's state must not be used again. */
export interface Condemnation {
  /** The server that lied. Undefined: the state itself is wrong. */
  readonly server: string | undefined
}

/** What happened to a map's state. Events come after the fact, and hold no key, index or record. */
export type MapEvent =
  /**
   * The stored state is not used, and the map makes a new one:
   *
   * - `unreadable`: it is damaged, foreign, or of another version of the SDK.
   * - `servers`: it belongs to other servers.
   * - `missing`: it was deleted while the map was open.
   * - `history`: it is older than the update lists that the servers keep.
   * - `generation`: the database has a new layout.
   * - `manifest`: it is of another database.
   * - `mode`: it was made for another mode or kind of proof than your options ask for.
   * - `spent`: its lookups are used up.
   * - `offer`: the servers do not answer lookups of its mode any more.
   */
  | {
      readonly type: 'discarded'
      readonly reason:
        | 'unreadable'
        | 'servers'
        | 'missing'
        | 'history'
        | 'generation'
        | 'manifest'
        | 'mode'
        | 'spent'
        | 'offer'
    }
  /** The map answers from a newer version of the database: `map.epoch`. With a filter, once no call is answered from an older one. */
  | { readonly type: 'updated'; readonly generation: number; readonly epoch: number }
  /**
   * The publisher has signed a newer epoch, which another server shows and these servers lack. The map stays where it is until they show it.
   * The event comes once for each such epoch; `sync()` throws VersionError meanwhile.
   */
  | { readonly type: 'behind'; readonly epoch: number; readonly servers: readonly string[] }
  /**
   * The state needs a successor, for a reason as in `discarded`: mostly no update list leads to what the servers have now. With `spent`, few
   * lookups are left. The map downloads the database again. The old state answers as long as the servers take its queries and it has
   * lookups left. Then `updated` comes, if the epoch is another.
   */
  | { readonly type: 'outdated'; readonly reason: 'history' | 'generation' | 'manifest' | 'spent' | 'offer' }
  /**
   * In mode `auto` on a metered line: a download of so many bytes, for this mode, waits until the line is not metered, or until
   * `prepare()`. `open({ network: 'any' })` does not wait.
   */
  | { readonly type: 'postponed'; readonly mode: string; readonly bytes: number }
  /** The map makes a state in the background. `prepared`, `preparing-failed` or `postponed` follows. */
  | { readonly type: 'preparing' }
  /** The state is ready. `mode` follows. */
  | { readonly type: 'prepared' }
  /**
   * The state could not be made. Lookups go on as before. `error` is undefined if the app aborted. The map tries again after
   * `retryAfterLookups` more lookups; undefined: not before `prepare()`.
   */
  | {
      readonly type: 'preparing-failed'
      readonly error: KeyhushError | undefined
      readonly retryAfterLookups: number | undefined
    }
  /** Another mode answers from now on: `map.mode`. */
  | { readonly type: 'mode'; readonly mode: Mode | undefined }
  /** The filter has another state: `map.filter`. */
  | { readonly type: 'filter'; readonly state: FilterState }
  /** A call has waited for these servers for two seconds; none: for another tab. It comes once a call, and only to listeners of the map that was called. */
  | { readonly type: 'slow'; readonly servers: readonly string[] }
  /** Stored state is used: an unfinished download, a whole hint, or a copy of the database. `pending`: the map has to finish a lookup first. */
  | { readonly type: 'resumed'; readonly what: 'download' | 'hint' | 'copy'; readonly pending: boolean }
  /** WebAssembly gets no memory, or the page's content security policy refuses it (add `'wasm-unsafe-eval'` to its script-src): JavaScript answers, more slowly. */
  | { readonly type: 'without-webassembly' }
  /**
   * The server's rollback fence does not know the new hint, so a restored copy of the state is not detected. `none`: the server has no
   * fence. `full`: the fence has no room. `away`: it did not answer, and another server's does. `map.stats.fenced` stays false until
   * `reset()`.
   */
  | { readonly type: 'unfenced'; readonly server: string; readonly reason: 'none' | 'full' | 'away' }
  /** The server lied, now, on an earlier visit, or in another tab. Undefined `server`: the state itself is wrong. */
  | { readonly type: 'condemned'; readonly server: string | undefined }
  /**
   * The state is kept elsewhere than before, or than you preferred. `unavailable`: there is no durable storage, so it is kept in memory.
   * `failed`: the storage stopped working, so it is kept in memory now. `granted`: the browser has promised not to evict it.
   */
  | { readonly type: 'storage'; readonly storage: StorageKind; readonly reason: 'unavailable' | 'failed' | 'granted' }

/** A listener. It is called with each event, in a microtask of its own. */
export type OnEvent = (event: MapEvent) => void

const TYPES: Record<MapEvent['type'], true> = {
  discarded: true,
  updated: true,
  behind: true,
  outdated: true,
  postponed: true,
  preparing: true,
  prepared: true,
  'preparing-failed': true,
  mode: true,
  filter: true,
  slow: true,
  resumed: true,
  'without-webassembly': true,
  unfenced: true,
  condemned: true,
  storage: true,
}

/** The types of events. */
export const EVENTS: readonly string[] = Object.keys(TYPES)
