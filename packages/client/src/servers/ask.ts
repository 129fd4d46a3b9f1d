// Asks servers for what is public: which replies suffice, who is asked when another is late, and who is asked again. Lookups have
// stricter rules (wire.ts).
//
//   askAll   all at once; once enough have replied, the others get until SLOW_MS from the start, or as long again
//   askOne   one after the other: the next as well, once one is late or fails

import { abortable, onAbort, scoped } from '../base/abort.js'
import { ATTEMPTS, BACKOFF_MS, OFFLINE_TRIES, OFFLINE_TRY_MS, SLOW_MS, slowestMs, WIRE_MS } from '../base/constants.js'
import { NetworkError, RateLimitedError, ServerError, TamperedError } from '../base/errors.js'
import type { Timers } from '../platform/clock.js'
import { worstOf } from './failures.js'
import type { Link, Links } from './transport.js'

/** A timer that fires so late was held up here, by a frozen or busy page: it says nothing of a server. */
const HELD_UP_MS = 1_000

/** Resolves after `ms`, or as soon as `signal` aborts. */
export function sleep(clock: Timers, ms: number, signal?: AbortSignal): Promise<void> {
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

/** What `work` resolves to; undefined if that takes longer than `ms`, or if `signal` aborts. */
export function inTime<T>(
  clock: Timers,
  ms: number,
  work: T | Promise<T>,
  signal?: AbortSignal,
): Promise<T | undefined> {
  return scoped([signal], over => Promise.race([work, sleep(clock, ms, over)])) as Promise<T | undefined>
}

/** The pause before a server that has failed is asked again. */
export async function sleepAfter(failure: unknown, link: Link, ms: number, signal?: AbortSignal): Promise<void> {
  if (failure instanceof ServerError) link.meter.failure = failure
  await sleep(link.environment.clock, ms, signal)
  link.meter.failure = undefined
}

/** How a server is asked. */
interface Asking {
  /** No request is repeated. */
  readonly once?: boolean
  /** how much longer a server is asked again that says when; missing: no longer */
  readonly unreadyMs?: number
  /** A time offline is outlasted: what breaks meanwhile says nothing of the server. */
  readonly outlasts?: boolean
  /** called when a server has failed */
  readonly onFailed?: (link: Link, error: ServerError) => void
}

/** `told` is called with the number of bytes in each chunk of a long reply: as long as they come fast enough, the server is in time. */
type Work<T> = (link: Link, signal: AbortSignal, told: (bytes: number) => void) => Promise<T>

/**
 * The replies, in the order of `links`; undefined: none in time. `enough`: how many suffice. Servers that were late before get twice what
 * the others have taken; `patient`: as much as these, or (false) no other gets more. Throws the failures as one ServerError if too few reply.
 */
export async function askAll<T>(
  links: Links,
  { enough, patient, ...asking }: Asking & { readonly enough: number; readonly patient?: boolean | undefined },
  signal: AbortSignal,
  work: Work<T>,
): Promise<readonly (T | undefined)[]> {
  const { clock } = links[0]!.environment
  const start = clock.now()
  const waiting = new Set(links)
  const replies = new Map<Link, T>()
  const failures: ServerError[] = []
  const gather = (signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const ask = async (link: Link) => {
        try {
          replies.set(link, await asked(link, asking, new Pace(link), signal, work))
        } catch (error) {
          if (!(error instanceof ServerError)) return reject(error)
          failures.push(error)
        }
        waiting.delete(link)
        const mayStillDo = replies.size < enough && replies.size + waiting.size >= enough
        if (waiting.size === 0) resolve()
        else if (!mayStillDo) onAbort(signal, after(link, grace(), resolve))
      }
      const grace = () => {
        const taken = clock.now() - start
        const isWaitedFor = patient ?? [...waiting].some(link => !link.standing.isLate(link))
        return isWaitedFor ? Math.max(SLOW_MS - taken, taken) : taken
      }
      onAbort(signal, () => reject(signal.reason))
      for (const link of links) void ask(link)
    })
  await scoped([signal], gather)
  for (const link of waiting) link.standing.note(link, 'late')
  if (replies.size < enough) throw worstOf(failures)
  return links.map(link => replies.get(link))
}

/** The first reply; servers that were late are asked last. Throws as `askAll`. */
export async function askOne<T>(links: Links, asking: Asking, signal: AbortSignal, work: Work<T>): Promise<T> {
  const left = links[0]!.standing.order(links)
  return await scoped([signal], async signal => {
    const next = (giveWay: () => void): Try<T> | undefined => {
      const link = left.shift()
      if (link === undefined) return undefined
      const pace = new Pace(link)
      const late = () => link.standing.note(link, 'late')
      return { pace, late, work: asked(link, asking, pace, signal, work, giveWay) }
    }
    return await abortable(
      firstOf(links[0]!, next, () => !signal.aborted),
      signal,
    )
  })
}

/** Of a reply, whatever it is. */
const HEAD_BYTES = 64

/** How long a server may take for a reply: SLOW_MS, and what the bytes that have come take at 256 kbit/s. */
export class Pace {
  readonly #clock: Link['environment']['clock']
  readonly #begun: number
  #bytes: number

  /** `bytes`: of a reply that is not watched, all of them */
  constructor({ environment: { clock } }: Link, bytes = HEAD_BYTES) {
    this.#clock = clock
    this.#begun = clock.now()
    this.#bytes = bytes
  }

  readonly told = (bytes: number) => {
    this.#bytes += bytes
  }

  /** Milliseconds until it is late, if no more comes. */
  get left(): number {
    return this.#begun + SLOW_MS + slowestMs(this.#bytes) - this.#clock.now()
  }
}

/** A try among several. */
export interface Try<T> {
  readonly work: Promise<T>
  /** how long it may take before the next begins as well, … */
  readonly pace: Pace
  /** … and what is called then */
  readonly late: () => void
}

/**
 * Begins one try, and the next as well when that one fails, is late or gives way. The first that succeeds counts; the others run on, and no
 * more begin. Rejects at once with what is no server's failure, or one that is not `passing`; else, when no try is left, with `none` of them.
 */
export function firstOf<T>(
  link: Link,
  next: (giveWay: () => void) => Try<T> | undefined,
  isPassing: (error: ServerError) => boolean,
  none = worstOf,
): Promise<T> {
  const failures: ServerError[] = []
  return new Promise((resolve, reject) => {
    let running = 0
    let isOver = false
    const begin = () => {
      let hasGivenWay = false
      const giveWay = () => {
        if (isOver) return
        if (!hasGivenWay) begin()
        else if (running === 0) reject(none(failures))
        hasGivenWay = true
      }
      const one = next(giveWay)
      if (one === undefined) {
        if (running === 0) reject(none(failures))
        return
      }
      running++
      const clear = whenLate(link, one.pace, () => {
        one.late()
        giveWay()
      })
      const succeeded = (value: T) => {
        isOver = true
        resolve(value)
      }
      const failed = (error: unknown) => {
        running--
        if (error instanceof ServerError && isPassing(error)) {
          failures.push(error)
          return giveWay()
        }
        isOver = true
        reject(error)
      }
      one.work.then(succeeded, failed).finally(clear)
    }
    begin()
  })
}

/** Calls `call` when a try is late. Returns how to call that off. */
function whenLate(link: Link, pace: Pace, call: () => void): () => void {
  const look = () => {
    if (pace.left > 0) clear = after(link, pace.left, look)
    else call()
  }
  let clear = after(link, pace.left, look)
  return () => clear()
}

/** Calls `call` after `ms`; later if the page was held up meanwhile, or the device is offline. Returns how to call that off. */
function after({ environment: { clock, connection } }: Link, ms: number, call: () => void): () => void {
  let [again, timer]: [boolean, unknown] = [true, undefined]
  const wait = (ms: number) => {
    const due = clock.now() + ms
    timer = clock.setTimeout(() => {
      const isHeldUp = again && clock.now() - due > HELD_UP_MS
      again &&= !isHeldUp
      if (isHeldUp || connection?.isOffline)
        wait(Math.max(ms, HELD_UP_MS)) // `ms` may be 0
      else call()
    }, ms)
  }
  wait(ms)
  return () => clock.clearTimeout(timer)
}

/** Asks one server, and notes how it did. */
async function asked<T>(
  link: Link,
  asking: Asking,
  pace: Pace,
  signal: AbortSignal,
  work: Work<T>,
  giveWay?: () => void,
): Promise<T> {
  try {
    const reply = await repeated(link, asking, signal, (link, signal) => work(link, signal, pace.told), giveWay)
    if (pace.left >= 0) link.standing.note(link, 'in time')
    return reply
  } catch (error) {
    if (!(error instanceof ServerError) || signal.aborted) throw error
    const brokeOff = error instanceof TamperedError || (error instanceof NetworkError && error.refusal === undefined)
    if (brokeOff) link.standing.note(link, 'late')
    asking.onFailed?.(link, error)
    throw error
  }
}

/**
 * Runs `work`, and again if the connection was refused or broke before a byte had come, or as soon as a busy server has asked for. Not
 * again if the server let its deadline pass, dripped, or broke the protocol. Settles when `work` has. `giveWay` is called before each pause.
 */
export async function repeated<T>(
  link: Link,
  { outlasts, once, unreadyMs = 0 }: Pick<Asking, 'outlasts' | 'once' | 'unreadyMs'>,
  signal: AbortSignal,
  work: (link: Link, signal: AbortSignal) => Promise<T>,
  giveWay: () => void = () => {},
): Promise<T> {
  const { clock, connection } = link.environment
  const until = clock.now() + WIRE_MS + unreadyMs
  return await link.meter.asking(async () => {
    for (let [attempt, tries] = [1, 1]; ; ) {
      const losses = connection?.losses
      try {
        return await work(link, signal)
      } catch (error) {
        if (signal.aborted || once || !(error instanceof ServerError)) throw error
        const wasOffline = outlasts && (connection?.isOffline || connection?.losses !== losses)
        if (wasOffline && error instanceof NetworkError && tries++ <= OFFLINE_TRIES) {
          await online(link, signal)
        } else {
          const pause = error.retryAfterMs ?? BACKOFF_MS
          const isOver = error.retryAfterMs === undefined ? attempt++ === ATTEMPTS : clock.now() + pause > until
          if (isOver || !isPassing(error)) throw error
          giveWay()
          await sleepAfter(error, link, pause, signal)
        }
        signal.throwIfAborted()
      }
    }
  })
}

/** Whether the connection was refused, broke at once, or the server is busy: it may be there again in a moment. */
export function isPassing(error: unknown): boolean {
  const isLost = error instanceof NetworkError && error.retryable && !error.timedOut && !error.begun
  return isLost || error instanceof RateLimitedError
}

/** Resolves when the device is online; and now and then before, since some devices do not know. */
async function online({ environment: { clock, connection } }: Link, signal: AbortSignal): Promise<void> {
  if (!connection?.isOffline) return await sleep(clock, BACKOFF_MS, signal)
  const found = new AbortController()
  const withdraw = connection.whenOnline(() => found.abort())
  await scoped([signal, found.signal], either => sleep(clock, OFFLINE_TRY_MS, either)).finally(withdraw)
}
