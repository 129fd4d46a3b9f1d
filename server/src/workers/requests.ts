// Requests that wait for worker threads, in a bounded queue in which networks take turns, and the reply that each waits for.

import { Refusal } from '../base/refusal.js'
import { FairQueue, type Waiter } from './fair-queue.js'

export interface Waiting {
  /** the answers, one after the other; rejects with a Refusal */
  readonly answers: Promise<Uint8Array>
  /** The client has gone. */
  cancel(): void
}

/** How a request is answered. */
export interface Settles {
  resolve(answers: Uint8Array): void
  reject(error: Error): void
}

export abstract class Requests<T extends Waiter & Settles> {
  /** of those that wait */
  protected readonly queue: FairQueue<T>
  readonly #whenFull: string
  /** of those that are still to be answered */
  readonly #replies = new Set<Promise<unknown>>()
  /** why nothing is taken on any more */
  #closed: Refusal | undefined

  /** Has room for so much, as `weigh` has it. `whenFull`: what clients are told when there is none. */
  protected constructor(most: number, weigh: (request: T) => number, whenFull: string) {
    this.queue = new FairQueue(most, weigh)
    this.#whenFull = whenFull
  }

  /** What waits, weighed. */
  get waiting(): number {
    return this.queue.weight
  }

  /** Throws a Refusal if nothing is taken on any more. */
  protected assertOpen(): void {
    if (this.#closed !== undefined) throw this.#closed
  }

  /** Lets a request wait. Throws an `instant_full` Refusal if there is no room for it. */
  protected add(requestOf: (settles: Settles) => T): Waiting {
    this.assertOpen()
    let request: T | undefined
    const answers = new Promise<Uint8Array>((resolve, reject) => {
      request = requestOf({ resolve, reject })
    })
    const leaving = this.queue.add(request!)
    if (leaving === undefined) throw this.#full()
    for (const each of leaving) this.drop(each, this.#full())
    this.#replies.add(answers)
    const settled = () => void this.#replies.delete(answers)
    answers.then(settled, settled)
    // Called when each reply has left, too. To make an error, with its stack, takes a tenth of a millisecond.
    const cancel = () => {
      if (this.#replies.has(answers)) this.drop(request!, new Refusal('not_ready', 'the client has hung up'))
    }
    return { answers, cancel }
  }

  protected drop(request: T, error: Error): void {
    this.queue.remove(request)
    request.reject(error)
  }

  /** From now on nothing is taken on. Resolves once all that waits is answered. */
  async close(): Promise<void> {
    this.#closed ??= new Refusal('not_ready', 'this server is shutting down')
    while (this.#replies.size > 0) await Promise.allSettled(this.#replies)
  }

  /** From now on nothing is taken on, and what waits is dropped. */
  stop(): void {
    const refusal = new Refusal('not_ready', 'this server has failed and is restarting')
    this.#closed = refusal
    for (const request of this.queue.inTurn()) this.drop(request, refusal)
  }

  #full(): Refusal {
    return new Refusal('instant_full', this.#whenFull)
  }
}
