// Requests begin in turns, by network. In one iteration of the event loop Node would begin all that have come, and it accepts one
// connection: nine thousand busy connections would hold the loop for a second.

import { setImmediate } from 'node:timers'
import { Pace } from '../../base/pace.js'

/** Short, for what is begun waits for the storage, and goes on in later iterations. */
const SLICE_MILLISECONDS = 2

export class Turns {
  /** of each network, in the order of their turns; a connection has one at most */
  readonly #waiting = new Map<string, (() => void)[]>()
  readonly #pace = new Pace(SLICE_MILLISECONDS)
  #isBegun = false
  /** whether none has begun in this slice */
  #isFirst = true

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
    setImmediate(this.#turn)
  }

  #begin(): void {
    this.#isBegun = true
    this.#isFirst = true
    this.#pace.begin()
    setImmediate(() => {
      this.#isBegun = false
      if (this.#waiting.size > 0) this.#begin()
    })
  }

  /** Begins one, unless this slice is over. A callback for each, since Node goes on with what one has begun before it calls the next. */
  readonly #turn = (): void => {
    if (this.#pace.isOver && !this.#isFirst) {
      setImmediate(this.#turn)
      return
    }
    this.#isFirst = false
    // A network that has more to begin comes last again.
    const [network, calls] = this.#waiting.entries().next().value!
    const call = calls.shift()!
    this.#waiting.delete(network)
    if (calls.length > 0) this.#waiting.set(network, calls)
    call()
  }
}
