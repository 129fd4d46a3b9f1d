// A log that is not read must not fill the memory: beyond a bound, lines are dropped and counted.

import type { Writable } from 'node:stream'

const MOST_UNREAD_BYTES = 256 * 1024

export class BoundedLog {
  readonly #to: Writable
  #dropped = 0

  constructor(to: Writable) {
    this.#to = to
  }

  write(line: string): void {
    if (this.#to.writableLength > MOST_UNREAD_BYTES) {
      this.#dropped++
      return
    }
    if (this.#dropped > 0) {
      const told = { level: 40, time: Date.now(), dropped: this.#dropped, msg: 'dropped: stderr is read too slowly' }
      this.#to.write(`${JSON.stringify(told)}\n`)
      this.#dropped = 0
    }
    this.#to.write(line)
  }
}
