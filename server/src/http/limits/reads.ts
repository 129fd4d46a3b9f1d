// How many requests of a process wait for manifests that the store has and memory has not: anybody may ask for them. (Update lists are
// read as they leave: unsent.ts bounds them.)

import type { FastifyRequest } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import { FairQueue } from '../../workers/fair-queue.js'
import { networkOfRequest } from './shares.js'

const MOST_WAITING = 256

interface WaitingRead {
  readonly network: string
  leave(): void
}

export class Reads {
  readonly #waiting = new FairQueue<WaitingRead>(MOST_WAITING)

  /**
   * Waits for what `read` resolves to. If too many wait, one of the network with most leaves: a `rate_limited` Refusal is thrown there,
   * and by `assertWaits`, which `read` calls before it goes on.
   */
  wait<T>(request: FastifyRequest, read: (assertWaits: () => void) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const full = new Refusal('rate_limited', 'too many requests wait for earlier epochs; try again later')
      let hasLeft = false
      const leave = () => {
        hasLeft = true
        reject(full)
      }
      const waiter = { network: networkOfRequest(request), leave }
      const leaving = this.#waiting.add(waiter) ?? [waiter]
      for (const each of leaving) each.leave()
      if (hasLeft) return
      const assertWaits = () => {
        if (hasLeft) throw full
      }
      // What `read` throws at once frees its place, too.
      Promise.resolve(assertWaits)
        .then(read)
        .then(resolve, reject)
        .finally(() => this.#waiting.remove(waiter))
    })
  }
}
