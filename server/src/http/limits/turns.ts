// Requests begin in turns, by network. In one iteration of the event loop Node would begin all that have come, and it accepts one
// connection: nine thousand busy connections would hold the loop for a second.

import { setImmediate } from 'node:timers'
import { Pace } from '../../base/pace.js'

/** Most callbacks in one iteration. A slice has no time for more; without a bound each request that waits would have one. */
const MOST_TOGETHER = 32

export class Turns {
  /** of each network, in the order of their turns; a connection has one at most */
  readonly #waiting = new Map<string, (() => void)[]>()
  #count = 0
  /** callbacks under way */
  #together = 0
  readonly #pace: Pace
  #isBegun = false
  /** whether none has begun in this slice */
  #isFirst = true

  /** `milliseconds` of a slice. Short, for what is begun waits for the storage, and goes on in later iterations. */
  constructor(milliseconds: number) {
    this.#pace = new Pace(milliseconds)
  }

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
    this.#count += 1
    if (this.#together === MOST_TOGETHER) return
    this.#together += 1
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
    this.#count -= 1
    if (this.#count < this.#together) this.#together -= 1
    else setImmediate(this.#turn)
    call()
  }
}
