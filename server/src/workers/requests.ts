// Requests that wait for worker threads, of one kind: whether more are taken on, and what is still to come.

import { Refusal } from '../base/refusal.js'

export class Requests {
  readonly #replies = new Set<Promise<unknown>>()
  #closed: Refusal | undefined

  /** Throws a Refusal if nothing is taken on any more. */
  assertOpen(): void {
    if (this.#closed !== undefined) throw this.#closed
  }

  add(reply: Promise<unknown>): void {
    this.#replies.add(reply)
    const settled = () => void this.#replies.delete(reply)
    reply.then(settled, settled)
  }

  /** From now on nothing is taken on. What waits is answered. */
  async close(): Promise<void> {
    this.#closed ??= new Refusal('not_ready', 'this server is shutting down')
    while (this.#replies.size > 0) await Promise.allSettled(this.#replies)
  }

  /** Nothing will be answered any more; what waits is to be refused with this. */
  stop(): Refusal {
    this.#closed = new Refusal('not_ready', 'this server has failed and is restarting')
    return this.#closed
  }
}

export function clientGone(): Refusal {
  return new Refusal('not_ready', 'the client has gone')
}
