// Requests begin in turns, by network. In one iteration of the event loop Node would begin all that have come, and it accepts one
// connection: nine thousand busy connections would hold the loop for a second.

import { setImmediate } from 'node:timers'
import { Pace } from '../../base/pace.js'

export class Turns {
  /** of each network, in the order of their turns; a connection has one at most */
  readonly #waiting = new Map<string, (() => void)[]>()
  readonly #pace = new Pace()
  #isBegun = false

  /** Calls at once if this iteration of the loop has time for it, or in a later one. */
  take(network: string, call: () => void): void {
    if (!this.#isBegun) this.#begin()
    if (this.#waiting.size === 0 && !this.#pace.isOver) {
      call()
      return
    }
    const others = this.#waiting.get(network)
    if (others === undefined) this.#waiting.set(network, [call])
    else others.push(call)
  }

  #begin(): void {
    this.#isBegun = true
    this.#pace.begin()
    setImmediate(() => this.#go())
  }

  /** Begins one at least, however short slices are. */
  #go(): void {
    this.#isBegun = false
    if (this.#waiting.size > 0) this.#begin()
    // A network that has more to begin comes last again.
    for (const [network, calls] of this.#waiting) {
      const call = calls.shift()!
      this.#waiting.delete(network)
      if (calls.length > 0) this.#waiting.set(network, calls)
      call()
      if (this.#pace.isOver) return
    }
  }
}
