// Flat arrays that double when they are full.

import { BuildError } from '../../base/errors.js'

const MOST_BYTES = 2 ** 32 - 1 // positions in them are kept as u32

/** Bytes, appended in runs. */
export class GrowingBytes {
  #bytes = new Uint8Array(64 * 1024)
  #length = 0

  get length(): number {
    return this.#length
  }

  append(run: Uint8Array): void {
    const needed = this.#length + run.length
    if (needed > MOST_BYTES) throw new BuildError('the file holds more than 4 GiB of values')
    if (needed > this.#bytes.length) {
      const larger = new Uint8Array(Math.min(MOST_BYTES, Math.max(needed, 2 * this.#bytes.length)))
      larger.set(this.#bytes.subarray(0, this.#length))
      this.#bytes = larger
    }
    this.#bytes.set(run, this.#length)
    this.#length = needed
  }

  /** What was appended; valid until the next `append`. */
  view(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }
}

/** u32 numbers, appended one by one. */
export class GrowingUint32 {
  #numbers = new Uint32Array(16 * 1024)
  #length = 0

  get length(): number {
    return this.#length
  }

  append(value: number): void {
    if (this.#length === this.#numbers.length) {
      const larger = new Uint32Array(2 * this.#length)
      larger.set(this.#numbers)
      this.#numbers = larger
    }
    this.#numbers[this.#length++] = value
  }

  /** What was appended; valid until the next `append`. */
  view(): Uint32Array {
    return this.#numbers.subarray(0, this.#length)
  }
}
