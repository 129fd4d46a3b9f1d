// Repeating what failed on the way. Only for the offline phase, in which nothing secret is sent; lookups have stricter
// rules of their own (lookup.ts).

import { abortable } from './abort.js'
import { ATTEMPTS, BACKOFF_MS } from './constants.js'
import type { Environment } from './environment.js'
import { NetworkError, RateLimitedError } from './errors.js'
import type { Link } from './transport.js'

/** Resolves after `ms`. */
export function sleep(clock: Environment['clock'], ms: number): Promise<void> {
  return new Promise(resolve => void clock.setTimeout(resolve, ms))
}

/**
 * Runs `work` again if its connection broke or was refused. A server that kept silent past its deadline has had its
 * time, and one that broke the protocol would do so again.
 */
export async function patiently<T>(link: Link, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const passing = (error instanceof NetworkError && !error.timedOut) || error instanceof RateLimitedError
      if (!passing || attempt === ATTEMPTS) throw error
    }
    await abortable(sleep(link.environment.clock, BACKOFF_MS), signal)
  }
}
