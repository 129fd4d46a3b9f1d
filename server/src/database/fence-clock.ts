// The fence's time: entries live for hundreds of days, and a calendar that jumps must not end them all. It begins with the
// calendar, but not before where it was, and not far behind; from then on it goes by the monotonic clock.

import { crc32 } from 'node:zlib'
import type { Storage, Transaction } from '../storage/storage.js'

export const DAY_SECONDS = 24 * 60 * 60

/** How far a start may move it on: a server that was away for longer gives its entries that much more. */
const MOST_AWAY_DAYS = 30
const KEY = 'fence-day'

export interface FenceClockOptions {
  /** seconds since 1970, looked at once; default: the system's */
  readonly now?: (() => number) | undefined
  /** seconds that have passed, from anywhere; default: the monotonic clock */
  readonly elapsed?: (() => number) | undefined
}

export class FenceClock {
  readonly #start: number
  readonly #elapsed: () => number
  #stored: number

  constructor(storage: Storage, options: FenceClockOptions) {
    const now = (options.now ?? (() => Date.now() / 1000))()
    const elapsed = options.elapsed ?? (() => performance.now() / 1000)
    const begun = elapsed()
    this.#elapsed = () => elapsed() - begun
    const stored = readDay(storage.get(KEY))
    this.#stored = stored ?? 0
    const earliest = (stored ?? 0) * DAY_SECONDS
    const latest = stored === undefined ? now : earliest + MOST_AWAY_DAYS * DAY_SECONDS
    this.#start = Math.min(Math.max(now, earliest), latest)
  }

  /** Whole seconds since about 1970. */
  get seconds(): number {
    return Math.floor(this.#start + this.#elapsed())
  }

  /** Days since about 1970. */
  get today(): number {
    return Math.floor(this.seconds / DAY_SECONDS)
  }

  /** Makes a new day a part of what is written anyway. */
  keep(transaction: Transaction): void {
    const { today } = this
    if (today <= this.#stored) return
    const bytes = Buffer.alloc(8)
    bytes.writeUInt32LE(today)
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 4)), 4)
    transaction.put(KEY, bytes)
    this.#stored = today
  }
}

/** undefined: there is none, or it is damaged. */
function readDay(bytes: Uint8Array | undefined): number | undefined {
  if (bytes?.length !== 8) return undefined
  const buffer = Buffer.from(bytes)
  return crc32(buffer.subarray(0, 4)) === buffer.readUInt32LE(4) ? buffer.readUInt32LE() : undefined
}
