// A clock that stands still until a test moves it, and a way to let everything run that does not wait for it.

import type { Clock } from '../../src/testing.js'

/** More timers than that at one moment set each other. */
const MOST_AT_ONCE = 1_000

interface Timer {
  readonly due: number
  readonly callback: () => void
}

export class ManualClock implements Clock {
  #now = 0
  #next = 1
  readonly #timers = new Map<number, Timer>()
  /** timers that have run since time went by */
  #atOnce = 0

  now = (): number => this.#now

  /** November 2026, and on from there */
  date = (): number => Date.UTC(2026, 10, 20) + this.#now

  setTimeout = (callback: () => void, ms: number): number => {
    this.#timers.set(this.#next, { due: this.#now + ms, callback })
    return this.#next++
  }

  clearTimeout = (timer: unknown): void => {
    this.#timers.delete(timer as number)
  }

  get waiting(): number {
    return this.#timers.size
  }

  /** So much time goes by while somebody waits for something else: no timer runs before its turn. */
  pass(ms: number): void {
    this.#now += ms
  }

  /** Advances the time, and runs each timer when it is due. */
  sleep(ms: number): void {
    const until = this.#now + ms
    this.setTimeout(() => {}, ms)
    while (this.#now < until) this.advance()
  }

  /** Resolves when so much time has gone by. */
  wait = (ms: number): Promise<void> => new Promise(resolve => void this.setTimeout(resolve, ms))

  /** Moves on to the earliest timer and runs it. */
  advance(): void {
    let first: [number, Timer] | undefined
    for (const entry of this.#timers) if (first === undefined || entry[1].due < first[1].due) first = entry
    if (first === undefined) throw new Error('nothing waits for the clock')
    this.#timers.delete(first[0])
    this.#atOnce = first[1].due > this.#now ? 0 : this.#atOnce + 1
    if (this.#atOnce > MOST_AT_ONCE) throw new Error('timers run one after the other, and no time goes by')
    this.#now = Math.max(this.#now, first[1].due)
    first[1].callback()
  }
}

/** A promise that settles when a test says so. */
export function deferred(): { promise: Promise<void>; resolve: () => void; reject: (error: Error) => void } {
  let resolve = () => {}
  let reject: (error: Error) => void = () => {}
  const promise = new Promise<void>((...settled) => {
    ;[resolve, reject] = settled
  })
  return { promise, resolve, reject }
}

/** Lets everything run that is not waiting for the clock. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 8; i++) await new Promise<void>(resolve => void setImmediate(resolve))
}

/** Lets so many turns of promises go by. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await Promise.resolve()
}

/** Moves the clock on, and lets everything run, until that is so. */
export async function until(clock: ManualClock, isSo: () => boolean): Promise<void> {
  for (await settle(); !isSo(); await settle()) clock.advance()
}

/** What has become of a promise by now. */
export function watch(work: Promise<unknown>) {
  const watched: { value?: unknown; error?: Error & { code?: unknown } } = {}
  work.then(
    value => {
      watched.value = value ?? null
    },
    error => {
      watched.error = error
    },
  )
  return watched
}

/** Runs until `work` has settled, moving the clock only when nothing else can happen. */
export async function drive<T>(clock: ManualClock, work: Promise<T>): Promise<T> {
  let settled = false
  const done = () => {
    settled = true
  }
  work.then(done, done)
  for (let idle = 0; ; ) {
    for (let i = 0; i < 8 && !settled; i++) await new Promise<void>(resolve => void setImmediate(resolve))
    if (settled) return await work
    idle = clock.waiting === 0 ? idle + 1 : 0
    if (idle === 10) throw new Error('nothing waits for the clock, and nothing else goes on: deadlock')
    if (idle === 0) clock.advance()
  }
}

/** Whatever goes on by itself has gone on. */
export async function rest(): Promise<void> {
  for (let i = 0; i < 40; i++) await settle()
}
