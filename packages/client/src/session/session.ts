// The instance behind one or more KeyhushMaps of one identity: it answers their lookups and follows the database. With a
// stateful scheme it has a hint and its stored state, and does one thing at a time (stateful.ts). With a stateless scheme it
// has neither (stateless.ts).

import type { Manifest } from '@keyhush/protocol'
import type { Mode } from '@keyhush/wasm/client'
import type { Condemnation, FilterState, StorageKind } from '../base/events.js'
import type { OnProgress } from '../base/progress.js'
import type { Question } from '../lookup/question.js'
import type { Stats } from '../servers/stats.js'

/** A map's filter. */
export interface FilterInfo {
  /** the version of the database that it is of; 0 while it is loading */
  readonly epoch: number
  /** what it takes in memory, on the disk, and to download */
  readonly bytes: number
  readonly state: FilterState
}

export interface Session {
  /** whether its WebAssembly instance has crashed: every call is answered with UnsupportedError */
  readonly dead: boolean
  /** undefined: the map is condemned, and of its manifest nothing is known */
  readonly manifest: Manifest | undefined
  /** the scheme that answers; undefined: as above */
  readonly mode: Mode | 'filter' | undefined
  /** undefined: it has none */
  readonly filter?: FilterInfo | undefined
  /** whether a key is proved absent, without a request; missing: not in this mode */
  excludes?(key: Uint8Array): boolean
  /** most queries of a lookup, where they are fewer than the manifest says; undefined: they are not, or it is not known */
  readonly maxQueries?: number | undefined
  /** undefined: it is not condemned */
  readonly condemned: Condemnation | undefined
  readonly storage: StorageKind
  readonly stats: Stats
  /**
   * Answers a question. `signal` withdraws it until it has begun. After that it only rejects the promise: the requests run
   * on, so that a server cannot tell (P5). `late` aborts when the app has its TimeoutError, which changes nothing else.
   */
  ask<T>(question: Question<T>, signal?: AbortSignal, late?: AbortSignal): Promise<T>
  /** Brings the map to the newest version of the database that both servers have. */
  sync(signal?: AbortSignal): Promise<void>
  /** Begins anew, with nothing of the old state. The old state stays until the new one is whole. */
  reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void>
  /** Makes the state that mode `auto` would make sometime, now. Resolves when it answers, at once if one does. */
  prepare(onProgress: OnProgress, signal?: AbortSignal): Promise<void>
  /** Refuses further calls. A lookup under way runs to its end, which deadlines bound (P5). Then secrets are overwritten. */
  close(): Promise<void>
}
