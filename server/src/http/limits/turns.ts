// Requests begin in turns, by network. In one iteration of the event loop Node would begin all that have come, and it accepts one
// connection: nine thousand busy connections would hold the loop for a second.

import { setImmediate } from 'node:timers'
import { Pace } from '../../base/pace.js'

/** Short, for what is begun waits for the storage, and goes on in later iterations. */
const SLICE_MILLISECONDS = 2

export class Turns {
  /** of each network, in the order of their turns; a connection has one at most */
  readonly #waiting = new Map<string, Set<() => void>>()
  #count = 0
  /** callbacks under way */
  #together = 0
  readonly #most: number
  readonly #pace = new Pace(SLICE_MILLISECONDS)
  #isBegun = false
  /** how many have begun in this slice */
  #begun = 0

  /** `most` begin in a slice, however short they are. Each has a callback in every iteration, and not each that waits. */
  constructor(most: number) {
    this.#most = most
  }

  /** Calls at once if this iteration of the loop has time for it, or in a later one. */
  take(network: string, call: () => void): void {
    if (!this.#isBegun) this.#begin()
    if (this.#waiting.size === 0 && this.#begun < this.#most && !this.#pace.isOver) {
      this.#begun += 1
      call()
      return
    }
    const calls = this.#waiting.get(network) ?? new Set()
    this.#waiting.set(network, calls.add(call))
    this.#count += 1
    if (this.#together === this.#most) return
    this.#together += 1
    setImmediate(this.#turn)
  }

  /** Gives up the turn of a call that waits. */
  leave(network: string, call: () => void): void {
    const calls = this.#waiting.get(network)
    if (!calls?.delete(call)) return
    if (calls.size === 0) this.#waiting.delete(network)
    this.#count -= 1
  }

  #begin(): void {
    this.#isBegun = true
    this.#begun = 0
    this.#pace.begin()
    setImmediate(() => {
      this.#isBegun = false
      if (this.#waiting.size > 0) this.#begin()
    })
  }

  /** Begins one, unless this slice is over. A callback for each, since Node goes on with what one has begun before it calls the next. */
  readonly #turn = (): void => {
    if (this.#count === 0) {
      this.#together -= 1
      return
    }
    if (this.#begun === this.#most || (this.#begun > 0 && this.#pace.isOver)) {
      setImmediate(this.#turn)
      return
    }
    this.#begun += 1
    // A network that has more to begin comes last again.
    const [network, calls] = this.#waiting.entries().next().value!
    const call = calls.values().next().value!
    this.#waiting.delete(network)
    calls.delete(call)
    if (calls.size > 0) this.#waiting.set(network, calls)
    this.#count -= 1
    if (this.#count < this.#together) this.#together -= 1
    else setImmediate(this.#turn)
    call()
  }
}
