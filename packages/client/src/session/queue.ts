// Turns and the lock. At most one operation on a state is under way: a queue ensures it in this session, a lock in other
// tabs, and the store's refusal where a lock was missing or taken away (state/). The lock is kept until the last effect is
// stored, and then for a while unless another tab asks for it, so that the next lookup waits for neither.

import { abortable, onAbort, scoped } from '../base/abort.js'
import { LOCK_KEPT_MS, LOCK_LEASE_MS, LOCK_PATIENCE_MS } from '../base/constants.js'
import type { Environment } from '../platform/environment.js'

/** What operations work on. */
export interface Guarded {
  /** whether other tabs may share it: then there is a lock */
  readonly durable: boolean
  /** the lock is waited for, or no longer */
  waitsForLock(waits: boolean): void
  /** an operation is over */
  tidy(): void
  /** all operations of a lease are over: resolves when the work they have left is done, or an operation waits */
  rest(isWaitedFor: () => boolean): Promise<void>
}

interface Operation {
  /** settles when it is over; never rejects */
  run(): Promise<void>
  refuse(error: unknown): void
}

export class Queue {
  readonly #environment: Pick<Environment, 'clock' | 'pause' | 'locks'>
  readonly #lockName: string
  readonly #guarded: Guarded
  readonly #closing: AbortSignal
  /** in the order of their calls */
  readonly #waiting: Operation[] = []
  /** ends the wait of a lock that is kept */
  #wake: () => void = () => {}
  #working: Promise<void> | undefined

  /** `closing`: from then on operations do not wait for a lock that another tab holds. */
  constructor(
    environment: Pick<Environment, 'clock' | 'pause' | 'locks'>,
    lockName: string,
    guarded: Guarded,
    closing: AbortSignal,
  ) {
    this.#environment = environment
    this.#lockName = lockName
    this.#guarded = guarded
    this.#closing = closing
  }

  /** Resolves when nothing is under way. */
  get idle(): Promise<void> {
    return this.#working ?? Promise.resolve()
  }

  /** Runs `work` in its turn and under the lock. */
  take<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = async () => {
        try {
          resolve(await work())
        } catch (error) {
          reject(error)
        }
      }
      this.#waiting.push({ run, refuse: reject })
      this.#wake()
      this.#working ??= this.#work()
    })
  }

  async #work(): Promise<void> {
    await undefined // a call that is aborted in the same task has not begun
    while (this.#waiting.length > 0) {
      try {
        await this.#locked(async wanted => {
          // Another tab asks for the lock, or the map is closed: it is no longer kept.
          const withdraw = [wanted, this.#closing].map(signal => signal && onAbort(signal, () => this.#wake()))
          try {
            do await this.#workOff(wanted)
            while (await this.#hasMore(wanted))
          } finally {
            for (const each of withdraw) each?.()
          }
        })
      } catch (error) {
        this.#waiting.shift()?.refuse(error) // no lock could be had
      }
    }
    this.#working = undefined // in one step with finding the queue empty
  }

  /** Runs operations for as long as other tabs may be kept waiting; then does the work that is due. */
  async #workOff(wanted?: AbortSignal): Promise<void> {
    const { clock, pause } = this.#environment
    const until = clock.now() + LOCK_LEASE_MS
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await next.run()
      this.#guarded.tidy()
      if (!this.#guarded.durable) continue
      if (this.#waiting.length === 0) await pause() // the caller may ask again
      if (!isFree(wanted) && clock.now() >= until) break
    }
    await this.#guarded.rest(() => this.#waiting.length > 0)
  }

  /** Whether another operation comes while the lock is held. The lock is kept for a while, unless another tab asks for it. */
  async #hasMore(wanted?: AbortSignal): Promise<boolean> {
    const mayKeep = () => isFree(wanted) && !this.#closing.aborted && this.#guarded.durable
    if (this.#waiting.length === 0 && mayKeep()) {
      const { clock } = this.#environment
      let timer: unknown
      await new Promise<void>(resolve => {
        this.#wake = resolve
        timer = clock.setTimeout(resolve, LOCK_KEPT_MS)
      })
      clock.clearTimeout(timer)
    }
    return this.#waiting.length > 0 && mayKeep()
  }

  async #locked(work: (wanted?: AbortSignal) => Promise<void>): Promise<void> {
    if (!this.#guarded.durable) return await work()
    await scoped([this.#closing], async closing => {
      let hasBegun = false
      let begin = () => {}
      const begun = new Promise<void>(resolve => {
        begin = () => {
          hasBegun = true
          resolve()
        }
      })
      this.#guarded.waitsForLock(true)
      const held = this.#environment.locks.hold(this.#lockName, LOCK_PATIENCE_MS, async wanted => {
        closing.throwIfAborted()
        begin()
        return await work(wanted)
      })
      // close() does not wait for a lock that another tab holds. It does wait for work that has begun.
      await abortable(Promise.race([held, begun]), closing)
        .catch(error => {
          if (!hasBegun) throw error
        })
        .finally(() => this.#guarded.waitsForLock(false))
      await held
    })
  }
}

/** Whether it is known that no other tab asks for the lock. */
function isFree(wanted: AbortSignal | undefined): boolean {
  return wanted !== undefined && !wanted.aborted
}
