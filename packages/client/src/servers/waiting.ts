// How long a call waits for servers. Waiting is local: requests run on as if nobody counted (P5), and nothing that is counted depends
// on what was asked.
//
//   0 ──► SLOW_MS: event `slow` ──► timeoutMs: TimeoutError          counts while a server is asked; from 0 again with each piece
//                                                                    of a download

import { SLOW_MS, WAIT_STEP_MS } from '../base/constants.js'
import { TimeoutError } from '../base/errors.js'
import type { Clock } from '../platform/clock.js'
import type { Connection } from '../platform/connection.js'

/** What is under way at the servers. */
export interface Awaited {
  /** the servers that are asked now: by a lookup, if one is under way */
  readonly asked: readonly string[]
  /** bytes of downloads so far; they do not grow while a lookup is under way */
  readonly arrived: number
  /** all of them */
  readonly downloaded: number
}

export interface Wait {
  readonly clock: Pick<Clock, 'setTimeout' | 'clearTimeout'>
  readonly awaited: Awaited
  /** time offline does not count: a download waits for it (offline.ts), a lookup fails at once */
  readonly connection: Pick<Connection, 'isOffline'> | undefined
  readonly timeoutMs: number
  /** whether the call downloads: it then goes on with each piece, whatever lookups are under way beside it */
  readonly downloads?: boolean
  /** called once, after SLOW_MS */
  readonly slow: (servers: readonly string[]) => void
}

/** Runs `work` with a signal that aborts, with a TimeoutError, when the wait is over. */
export async function withPatience<T>(wait: Wait, work: (late: AbortSignal) => Promise<T>): Promise<T> {
  const { clock, awaited, connection, timeoutMs } = wait
  const late = new AbortController()
  const pieces = () => (wait.downloads ? awaited.downloaded : awaited.arrived)
  let [waited, told, arrived] = [0, false, pieces()]
  let timer: unknown
  const go = () => {
    const next = told || timeoutMs <= SLOW_MS ? timeoutMs : SLOW_MS
    if (next === Number.POSITIVE_INFINITY) return
    const step = Math.min(WAIT_STEP_MS, next - waited)
    timer = clock.setTimeout(() => {
      const servers = awaited.asked
      if (servers.length > 0 && !connection?.isOffline) waited += step // however late the timer is: a frozen page runs none
      const now = pieces()
      if (now > arrived) waited = 0
      arrived = now
      if (waited >= timeoutMs) return late.abort(new TimeoutError(servers, timeoutMs))
      if (waited >= SLOW_MS && !told) {
        told = true
        wait.slow(servers)
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
