// Repeats requests that failed on the way, in the offline phase and to the fence, where nothing secret is sent. Lookups have stricter
// rules (lookup/exchange.ts).

import { onAbort, scoped } from '../base/abort.js'
import { ATTEMPTS, BACKOFF_MS, SILENCE_MS } from '../base/constants.js'
import { NetworkError, RateLimitedError, ServerError, TamperedError } from '../base/errors.js'
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
 * Runs `work`, and again if the connection broke or was refused. Not again if the server let the deadline pass, unless
 * `evenSilence`, or if it broke the protocol.
 */
export function withRetry<T>(link: Link, signal: AbortSignal, work: () => Promise<T>, evenSilence = false): Promise<T> {
  return link.meter.asking(() => retried(link, signal, work, evenSilence))
}

async function retried<T>(link: Link, signal: AbortSignal, work: () => Promise<T>, evenSilence: boolean): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const silent = evenSilence && error instanceof NetworkError && error.timedOut
      if (!(silent || isPassing(error)) || attempt === ATTEMPTS) throw error
    }
    await sleep(link.environment.clock, BACKOFF_MS, signal)
    signal.throwIfAborted()
  }
}

/** Whether the connection broke or was refused: it may be there again in a moment. */
export function isPassing(error: unknown): boolean {
  const lost = error instanceof NetworkError && error.retryable && !error.timedOut
  return lost || error instanceof RateLimitedError
}

/** Asks all servers at the same time, and waits for all. The error names every server that failed. */
export async function askAll<T>(links: Links, ask: (link: Link) => Promise<T>): Promise<readonly T[]> {
  const outcomes = await Promise.allSettled(links.map(ask))
  const errors: unknown[] = outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [outcome.reason] : []))
  if (errors.length === 0) return outcomes.map(outcome => (outcome as PromiseFulfilledResult<T>).value)
  const failures = errors.filter(error => error instanceof ServerError)
  throw failures.length < errors.length ? errors.find(error => !(error instanceof ServerError)) : worstOf(failures)
}

/**
 * As `askAll`, but only `atLeast` of them have to reply: undefined for those that did not. Once so many have, the others get ten seconds
 * from the start, or as long again. Who has not replied by then is called off.
 */
export async function askSome<T>(
  links: Links,
  atLeast: number,
  signal: AbortSignal,
  ask: (link: Link, signal: AbortSignal) => Promise<T>,
): Promise<readonly (T | undefined)[]> {
  if (atLeast === links.length) return await askAll(links, link => ask(link, signal))
  const failures: ServerError[] = []
  const replies: (T | undefined)[] = links.map(() => undefined)
  let replied = 0
  let isEnough = () => {}
  const enough = new Promise<void>(resolve => {
    isEnough = resolve
  })
  await scoped([signal], async signal => {
    const { clock } = links[0]!.environment
    const start = clock.now()
    const one = async (link: Link, i: number) => {
      try {
        replies[i] = await ask(link, signal)
        if (++replied === atLeast) isEnough()
      } catch (error) {
        if (!(error instanceof ServerError)) throw error
        failures.push(error)
      }
    }
    const others = async () => {
      await enough
      const taken = clock.now() - start
      await sleep(clock, Math.max(SILENCE_MS - taken, taken), signal)
    }
    await Promise.race([Promise.all(links.map(one)), others()])
  })
  if (replied < atLeast) throw worstOf(failures)
  return [...replies]
}

/** The servers' failures as one error. */
export function worstOf(errors: readonly ServerError[]): ServerError {
  const worst = errors.reduce(worseOf)
  const other = errors.find(error => error !== worst)
  return other === undefined ? worst : joined(worst, other)
}

/** Adds the other server's error to `error`. */
export function joined<E extends ServerError>(error: E, other: ServerError): E {
  if (error.other !== undefined) return error
  error.message += `; and ${other.message}`
  return Object.assign(error, { other })
}

/** The failure to show: first a lie, then any other, last `not_found`, which a client that asked earlier would not have had. */
function worseOf(one: ServerError, other: ServerError): ServerError {
  return gravity(other) > gravity(one) ? other : one
}

function gravity(error: ServerError): number {
  if (error instanceof TamperedError) return 2
  return error.refusal === 'not_found' ? 0 : 1
}
