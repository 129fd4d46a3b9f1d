// Repeating what failed on the way, where nothing secret is sent: in the offline phase, and to the fence. Lookups have
// stricter rules of their own (lookup/exchange.ts).

import { onAbort } from '../base/abort.js'
import { ATTEMPTS, BACKOFF_MS } from '../base/constants.js'
import {
  joined,
  type KeyhushError,
  NetworkError,
  RateLimitedError,
  ServerError,
  TamperedError,
} from '../base/errors.js'
import type { Environment } from '../platform/environment.js'
import type { Link, Links } from './transport.js'

/** Resolves after `ms`, or as soon as `signal` aborts. */
export function sleep(clock: Environment['clock'], ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const wake = () => {
      clock.clearTimeout(timer)
      withdraw?.()
      resolve()
    }
    const timer = clock.setTimeout(wake, ms)
    const withdraw = signal && onAbort(signal, wake)
    if (signal?.aborted) wake()
  })
}

/**
 * Runs `work` again if its connection broke or was refused. A server that kept silent past its deadline has had its
 * time, unless `evenSilence`, and one that broke the protocol would do so again.
 */
export async function withRetry<T>(
  link: Link,
  signal: AbortSignal,
  work: () => Promise<T>,
  evenSilence = false,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const lost = error instanceof NetworkError && (evenSilence || !error.timedOut)
      const passing = lost || error instanceof RateLimitedError
      if (!passing || attempt === ATTEMPTS) throw error
    }
    await sleep(link.environment.clock, BACKOFF_MS, signal)
    signal.throwIfAborted()
  }
}

/** Asks all servers at the same time, and waits for all. What is thrown says how each of them has failed. */
export async function askAll<T>(links: Links, ask: (link: Link) => Promise<T>): Promise<readonly T[]> {
  const outcomes = await Promise.allSettled(links.map(ask))
  const errors: unknown[] = outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [outcome.reason] : []))
  if (errors.length === 0) return outcomes.map(outcome => (outcome as PromiseFulfilledResult<T>).value)
  const failures = errors.filter(error => error instanceof ServerError)
  throw failures.length < errors.length ? errors.find(error => !(error instanceof ServerError)) : worstOf(failures)
}

/** What servers have failed with, as one error. */
export function worstOf(errors: readonly ServerError[]): ServerError {
  const worst = errors.reduce(worseOf)
  const other = errors.find(error => error !== worst)
  return other === undefined ? worst : joined(worst, other)
}

/**
 * Of the failures of the two servers, the one to show: a lie before a silence, and either before what a server has not
 * (any more), which a client that asked in time would have had from it.
 */
function worseOf<T extends KeyhushError>(one: T, other: T): T {
  return gravity(other) > gravity(one) ? other : one
}

function gravity(error: KeyhushError): number {
  if (error instanceof TamperedError) return 2
  return error instanceof ServerError && error.refusal === 'not_found' ? 0 : 1
}
