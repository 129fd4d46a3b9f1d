// Calls of an app's listeners. While one runs, the app cannot ask anything of the map: a request that is made because a key has changed
// shows whose key that was. What runs later, as after an `await`, cannot be held back.

import { UsageError } from '../base/errors.js'

export class Calls {
  #isUnderWay = false

  /** What the app's function throws is the platform's to report, and harms nobody else. */
  make<T>(call: ((of: T) => void) | undefined, of: T): void {
    this.#isUnderWay = true
    try {
      call?.(of)
    } catch (error) {
      queueMicrotask(() => {
        throw error
      })
    } finally {
      this.#isUnderWay = false
    }
  }

  /** Throws UsageError while a call runs. */
  assertNone(): void {
    if (!this.#isUnderWay) return
    throw new UsageError(
      'expected no call while a listener of watch() runs, got one: servers could tell by it whose key has changed; show the change, and ask nothing because of it',
    )
  }
}
