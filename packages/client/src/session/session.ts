// The instance behind one or more KeyhushMaps of one identity: what answers their lookups, and what brings that up to
// date. Stateful schemes have a hint, and the state it is kept in, and do one thing at a time (stateful.ts); stateless
// ones have neither (stateless.ts).

import type { Manifest } from '@keyhush/protocol'
import type { Condemnation, StorageKind } from '../base/events.js'
import type { OnProgress } from '../base/progress.js'
import type { Question } from '../lookup/question.js'
import type { Stats } from '../servers/stats.js'

export interface Session {
  /** whether its WebAssembly instance has crashed: every call is answered with UnsupportedError */
  readonly dead: boolean
  /** undefined: the map is condemned, and of its manifest nothing is known */
  readonly manifest: Manifest | undefined
  /** the scheme that answers; undefined: as above */
  readonly mode: string | undefined
  /** undefined: it is not */
  readonly condemned: Condemnation | undefined
  readonly storage: StorageKind
  readonly stats: Stats
  /**
   * Looks a question up. `signal` withdraws it until it has begun; afterwards it rejects the promise and no more: the
   * requests run on, so that a server cannot tell (P5).
   */
  ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T>
  /** Brings the map to the newest version of the database that both servers have. */
  sync(signal?: AbortSignal): Promise<void>
  /** Begins anew, of which nothing before is used again. Until the new state is whole the old one stays. */
  reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void>
  /** No further calls; a lookup under way runs to its end, which deadlines bound (P5). Then secrets are overwritten. */
  close(): Promise<void>
}
