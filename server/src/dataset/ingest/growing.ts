// A flat array that doubles when it is full.

import { BuildError } from '../../base/errors.js'

const MOST_BYTES = 2 ** 32 - 1 // the table keeps positions as u32
const FIRST_LENGTH = 64 * 1024

/** Bytes or u32 numbers. */
export class Growing<T extends Uint8Array | Uint32Array> {
  readonly #make: new (
    length: number,
  ) => T
  #items: T
  #length = 0

  constructor(make: new (length: number) => T) {
    this.#make = make
    this.#items = new make(FIRST_LENGTH)
  }

  get length(): number {
    return this.#length
  }

  append(run: ArrayLike<number>): void {
    const needed = this.#length + run.length
    if (needed > MOST_BYTES)
      throw new BuildError('expected at most 4 GiB of values, got more; split the list over several databases')
    if (needed > this.#items.length) {
      const larger = new this.#make(Math.min(MOST_BYTES, Math.max(needed, 2 * this.#items.length)))
      larger.set(this.view())
      this.#items = larger
    }
    this.#items.set(run, this.#length)
    this.#length = needed
  }

  /** All items; valid until the next `append`. */
  view(): T {
    return this.#items.subarray(0, this.#length) as T
  }
}
