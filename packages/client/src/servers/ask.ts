// Asks servers for what is public: which replies suffice, who is asked when another is late, and who is asked again. Lookups have
// stricter rules (wire.ts).
//
//   one after the other   the first is asked; the next too, once that one is late or fails
//   all at once           once enough have replied, the others get as long again (GRACE)

import { onAbort, scoped } from '../base/abort.js'
import { ATTEMPTS, BACKOFF_MS, OFFLINE_TRIES, OFFLINE_TRY_MS, SLOW_MS, slowestMs, WIRE_MS } from '../base/constants.js'
import { NetworkError, RateLimitedError, ServerError, TamperedError } from '../base/errors.js'
import type { Timers } from '../platform/clock.js'
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

/** How servers are asked. */
export interface Asking {
  /** how many replies suffice */
  readonly enough: number
  /** All are asked at once. Else as many as suffice, and the next when one is late or fails. */
  readonly all?: boolean
  /** Those that were late before get as much time as the others. Else twice what the others have taken. */
  readonly patient?: boolean
  /** a reply's length, if it is known */
  readonly bytes?: number
  /** No request is repeated. */
  readonly once?: boolean
  /** A time offline is outlasted: what breaks meanwhile says nothing of the server. */
  readonly outlasts?: boolean
  /** called when a server has failed */
  readonly onFailed?: (link: Link, error: ServerError) => void
}

type Work<T> = (link: Link, signal: AbortSignal) => Promise<T>

/** The replies, in the order of `links`; undefined: none in time. Throws the failures as one ServerError if too few have replied. */
export async function ask<T>(
  links: Links,
  asking: Asking,
  signal: AbortSignal,
  work: Work<T>,
): Promise<readonly (T | undefined)[]> {
  return await scoped([signal], signal => new Round(links, asking, signal, work).over)
}

/** The first reply. */
export async function askOne<T>(
  links: Links,
  asking: Omit<Asking, 'enough' | 'all'>,
  signal: AbortSignal,
  work: Work<T>,
): Promise<T> {
  const replies = await ask(links, { ...asking, enough: 1 }, signal, async (...one) => ({ reply: await work(...one) }))
  return replies.find(found => found !== undefined)!.reply
}

class Round<T> {
  readonly over: Promise<readonly (T | undefined)[]>
  readonly #links: Links
  readonly #asking: Asking
  readonly #signal: AbortSignal
  readonly #work: Work<T>
  readonly #start: number
  readonly #waiting: Link[]
  readonly #asked = new Set<Link>()
  readonly #replies = new Map<Link, T>()
  readonly #failures: ServerError[] = []
  #resolve: (replies: readonly (T | undefined)[]) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor(links: Links, asking: Asking, signal: AbortSignal, work: Work<T>) {
    this.#links = links
    this.#asking = asking
    this.#signal = signal
    this.#work = work
    this.#start = this.#now
    this.#waiting = links[0]!.standing.order(links)
    this.over = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      onAbort(signal, () => reject(signal.reason))
    })
    const first = asking.all ? links.length : Math.min(asking.enough, links.length)
    for (let i = 0; i < first; i++) this.#next()
  }

  get #now(): number {
    return this.#links[0]!.environment.clock.now()
  }

  #next(): void {
    const link = this.#waiting.shift()
    if (link !== undefined) void this.#ask(link)
  }

  async #ask(link: Link): Promise<void> {
    const { standing } = link
    let hasGivenWay = false
    const giveWay = () => {
      if (!hasGivenWay) this.#next()
      hasGivenWay = true
    }
    const isLate = () => {
      standing.note(link, 'late')
      giveWay()
    }
    this.#asked.add(link)
    const clear = after(link, SLOW_MS + slowestMs(this.#asking.bytes ?? 0), isLate)
    const begun = this.#now
    try {
      const reply = await repeated(link, this.#asking, this.#signal, this.#work, giveWay)
      if (this.#now - begun <= SLOW_MS + slowestMs(this.#asking.bytes ?? 0)) standing.note(link, 'in time')
      this.#replies.set(link, reply)
    } catch (error) {
      if (this.#signal.aborted) return
      if (!(error instanceof ServerError)) return this.#reject(error)
      if (breaksOff(error)) standing.note(link, 'late')
      this.#failures.push(error)
      this.#asking.onFailed?.(link, error)
      giveWay()
    } finally {
      clear()
      this.#asked.delete(link)
    }
    this.#look()
  }

  /** Ends when nobody else is waited for. */
  #look(): void {
    const { enough, all } = this.#asking
    if (this.#asked.size === 0 && this.#waiting.length === 0) return this.#end()
    if (this.#replies.size >= enough) {
      if (!all || this.#asked.size === 0) return this.#end()
      this.#endAfter(this.#grace())
    } else if (this.#replies.size + this.#asked.size + this.#waiting.length < enough) this.#endAfter(this.#grace())
  }

  /** How long those still asked are waited for from now on. */
  #grace(): number {
    const taken = this.#now - this.#start
    const { patient = false } = this.#asking
    const isWaitedFor = [...this.#asked].some(link => patient || !link.standing.isLate(link))
    return isWaitedFor ? Math.max(SLOW_MS - taken, taken) : taken
  }

  #endAfter(ms: number): void {
    const end = () => {
      for (const link of this.#asked) link.standing.note(link, 'late')
      this.#end()
    }
    const clear = after(this.#links[0]!, ms, end)
    onAbort(this.#signal, clear)
  }

  #end(): void {
    if (this.#replies.size >= this.#asking.enough) this.#resolve(this.#links.map(link => this.#replies.get(link)))
    else this.#reject(worstOf(this.#failures))
  }
}

/** A try among several, and how long it may take before the next begins as well. */
export interface Try<T> {
  readonly work: Promise<T>
  readonly ms: number
}

/**
 * Begins one try, and the next as well when that one fails or takes its time. The first that succeeds counts; the others run on. Rejects at
 * once with a failure that is not `passing`, else with the last one when none is left.
 */
export function firstOf<T>(
  link: Link,
  next: () => Try<T> | undefined,
  isPassing: (error: unknown) => boolean,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let running = 0
    const begin = (failure?: unknown) => {
      const one = next()
      if (one === undefined) {
        if (running === 0) reject(failure)
        return
      }
      running++
      let hasGivenWay = false
      const giveWay = (failure?: unknown) => {
        if (!hasGivenWay || running === 0) begin(failure)
        hasGivenWay = true
      }
      const clear = after(link, one.ms, giveWay)
      one.work
        .then(resolve, error => {
          running--
          if (isPassing(error)) giveWay(error)
          else reject(error)
        })
        .finally(clear)
    }
    begin()
  })
}

/** Calls `call` after `ms`; later if the page was held up meanwhile, or the device is offline. Returns how to call that off. */
function after({ environment: { clock, connection } }: Link, ms: number, call: () => void): () => void {
  let again = true
  let timer: unknown
  const wait = () => {
    const due = clock.now() + ms
    timer = clock.setTimeout(() => {
      const isHeldUp = again && clock.now() - due > HELD_UP_MS
      if (isHeldUp) again = false
      if (isHeldUp || connection?.isOffline) wait()
      else call()
    }, ms)
  }
  wait()
  return () => clock.clearTimeout(timer)
}

/** Whether a server has broken off, kept silent or lied: others are asked before it next time. */
function breaksOff(error: ServerError): boolean {
  return error instanceof TamperedError || (error instanceof NetworkError && error.refusal === undefined)
}

/**
 * Runs `work`, and again if the connection was refused or broke before a byte had come, or as soon as a busy server has asked for. Not
 * again if the server let its deadline pass, dripped, or broke the protocol. Settles when `work` has. `giveWay` is called before each pause.
 */
export async function repeated<T>(
  link: Link,
  { outlasts, once }: Pick<Asking, 'outlasts' | 'once'>,
  signal: AbortSignal,
  work: Work<T>,
  giveWay: () => void = () => {},
): Promise<T> {
  const { clock, connection } = link.environment
  const start = clock.now()
  return await link.meter.asking(async () => {
    let [attempts, tries] = [0, 0]
    for (;;) {
      const losses = connection?.losses
      try {
        return await work(link, signal)
      } catch (error) {
        if (signal.aborted) throw error
        const pause = pauseAfter(error)
        const isBusy = error instanceof ServerError && error.retryAfterMs !== undefined
        const wasOffline = outlasts && (connection?.isOffline || connection?.losses !== losses)
        if (wasOffline && error instanceof NetworkError && tries++ < OFFLINE_TRIES) {
          await online(link, signal)
        } else {
          const isOver = clock.now() + (pause ?? 0) - start > WIRE_MS
          if (once || pause === undefined || isOver || (!isBusy && ++attempts === ATTEMPTS)) throw error
          giveWay()
          await sleep(clock, pause, signal)
        }
        signal.throwIfAborted()
      }
    }
  })
}

/** How long to wait before the same request may succeed; undefined: it would not. */
export function pauseAfter(error: unknown): number | undefined {
  return error instanceof ServerError && isPassing(error) ? (error.retryAfterMs ?? BACKOFF_MS) : undefined
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
