// Long work on the event loop, in slices: other requests are served between them.

import { setImmediate as nextTask } from 'node:timers/promises'

/** A request waits for a slice when it comes, and for another whenever its work goes on. Tests take shorter ones. */
export const slice = { milliseconds: 5 }

export class Pace {
  readonly #most: number
  #until = 0

  /** `most`: milliseconds of a slice, if they are fewer than others' */
  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most
    this.begin()
  }

  /** Whether the slice has lasted long enough. */
  get isOver(): boolean {
    return performance.now() >= this.#until
  }

  /** A slice begins, whatever became of the one before. */
  begin(): void {
    this.#until = performance.now() + Math.min(this.#most, slice.milliseconds)
  }

  /** Gives the event loop back if it is time. */
  async yield(): Promise<void> {
    if (!this.isOver) return
    await nextTask()
    this.begin()
  }
}

/** Bytes that `part` gives piece by piece, each from a place to before another. */
export async function gathered(
  length: number,
  part: (start: number, end: number) => Uint8Array,
  pace: Pace,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(length)
  for (let start = 0; start < length; start += BYTES_AT_ONCE) {
    bytes.set(part(start, Math.min(length, start + BYTES_AT_ONCE)), start)
    await pace.yield()
  }
  return bytes
}

/** What of many bytes is looked at or copied at a time. */
export const BYTES_AT_ONCE = 1024 * 1024
