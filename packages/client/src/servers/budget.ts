// How long a call waits: for servers, or for another tab. Waiting is local: requests run on as if nobody counted (P5), and nothing that is
// counted depends on what was asked.
//
//   0 ──► SLOW_MS: event `slow` ──► timeoutMs: TimeoutError      Blobs give time back: as much as their bytes may take, and SILENCE_MS each.

import { SLOW_MS, WAIT_STEP_MS } from '../base/constants.js'
import { type KeyhushError, type ServerError, TimeoutError } from '../base/errors.js'
import type { Timers } from '../platform/clock.js'
import type { Connection } from '../platform/connection.js'

/** What is under way. */
export interface Awaited {
  /** the servers that are asked now: by a lookup, if one is under way */
  readonly asked: readonly string[]
  /** of the servers that are to be asked again after a pause, else of the filter; undefined: there are none */
  readonly lastFailure: KeyhushError | ServerError | undefined
  /** calls that wait for another tab */
  readonly waitingForTab: number
  /** … and for a filter, offline too: nothing else ends that */
  readonly waitingForFilter: number
  /** milliseconds that blobs have given back so far; they do not grow while a lookup is under way */
  readonly arrived: number
  /** all of them */
  readonly downloaded: number
}

export interface Budget {
  readonly clock: Timers
  readonly awaited: Awaited
  /** time offline does not count: a download waits for it (ask.ts), a lookup fails at once */
  readonly connection: Pick<Connection, 'isOffline'> | undefined
  readonly timeoutMs: number
  /** whether the call downloads: then blobs count, whatever lookups are under way beside it */
  readonly downloads?: boolean
  /** called once, after SLOW_MS */
  readonly slow: (servers: readonly string[]) => void
}

/** Runs `work` with a signal that aborts, with a TimeoutError, when the budget is spent. */
export async function within<T>(budget: Budget, work: (late: AbortSignal) => Promise<T>): Promise<T> {
  const { clock, awaited, connection, timeoutMs } = budget
  const late = new AbortController()
  const earned = () => (budget.downloads ? awaited.downloaded : awaited.arrived)
  let [waited, told, arrived] = [0, false, earned()]
  let timer: unknown
  const go = () => {
    const next = told || timeoutMs <= SLOW_MS ? timeoutMs : SLOW_MS
    if (next === Number.POSITIVE_INFINITY) return
    const step = Math.min(WAIT_STEP_MS, next - waited)
    timer = clock.setTimeout(() => {
      const servers = awaited.asked
      const waits = servers.length + awaited.waitingForTab > 0
      if (awaited.waitingForFilter > 0 || (waits && !connection?.isOffline)) waited += step // however late the timer is: a frozen page runs none
      const now = earned()
      waited = Math.max(0, waited - (now - arrived))
      arrived = now
      if (waited >= timeoutMs) return late.abort(new TimeoutError(servers, timeoutMs, awaited.lastFailure))
      if (waited >= SLOW_MS && !told) {
        told = true
        budget.slow(servers)
      }
      go()
    }, step)
  }
  go()
  try {
    return await work(late.signal)
  } finally {
    clock.clearTimeout(timer)
  }
}
