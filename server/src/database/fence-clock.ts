// The fence's time: entries live for hundreds of days, and a calendar that jumps must not end them all. A start moves it on by as
// many days as the calendar has since it was stored, but by few at most. From then on the monotonic clock moves it.

import { crc32 } from 'node:zlib'
import type { Storage, Transaction } from '../storage/storage.js'

const DAY_SECONDS = 24 * 60 * 60

/** How far a start may move it on. If a server was away for longer, its entries live for longer. */
const MOST_AWAY_DAYS = 30
const KEY = 'fence-day'

/** day (u32) ‖ the calendar's then (u32) ‖ CRC-32 of both (u32) */
const STORED_BYTES = 12

/** Days since 1970, the fence's and the calendar's. */
export interface StoredDay {
  readonly day: number
  readonly calendar: number
}

export interface FenceClockOptions {
  /** seconds since 1970, read once; default: the system's */
  readonly now?: (() => number) | undefined
  /** seconds since any moment; default: the monotonic clock */
  readonly elapsed?: (() => number) | undefined
}

export class FenceClock {
  #start: number
  readonly #elapsed: () => number
  /** what is on disk, or about to be */
  #stored: StoredDay | undefined
  /** how many days the calendar is ahead of this */
  #ahead: number

  static async open(storage: Storage, options: FenceClockOptions): Promise<FenceClock> {
    return new FenceClock(readStored(await storage.get(KEY)), options)
  }

  /** `stored`: what was written last; undefined: nothing yet. */
  constructor(stored: StoredDay | undefined, options: FenceClockOptions) {
    const now = (options.now ?? (() => Date.now() / 1000))()
    const elapsed = options.elapsed ?? (() => performance.now() / 1000)
    const begun = elapsed()
    this.#elapsed = () => elapsed() - begun
    const calendar = Math.max(0, Math.floor(now / DAY_SECONDS))
    this.#stored = stored
    const away = Math.min(Math.max(0, calendar - (this.#stored?.calendar ?? calendar)), MOST_AWAY_DAYS)
    const today = (this.#stored?.day ?? calendar) + away
    this.#ahead = calendar - today
    this.#start = today * DAY_SECONDS + Math.max(0, now - calendar * DAY_SECONDS)
  }

  /** Whole seconds since about 1970. */
  get seconds(): number {
    return Math.floor(this.#start + this.#elapsed())
  }

  /** Days since about 1970. */
  get today(): number {
    return Math.floor(this.seconds / DAY_SECONDS)
  }

  /** What is to be written. */
  get now(): StoredDay {
    return { day: this.today, calendar: this.today + this.#ahead }
  }

  /** Moves on to this day, which another process has reached. */
  advance(day: number): void {
    const { today } = this
    if (day <= today) return
    this.#start += day * DAY_SECONDS - this.seconds // to the day's beginning
    this.#ahead -= day - today
  }

  /** Writes a new day along with a transaction. Returns what takes that back if the transaction fails. */
  keep(transaction: Transaction): () => void {
    const { day, calendar } = this.now
    const before = this.#stored
    if (before?.day === day && before.calendar === calendar) return () => {}
    const bytes = Buffer.alloc(STORED_BYTES)
    bytes.writeUInt32LE(day, 0)
    bytes.writeUInt32LE(calendar, 4)
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 8)), 8)
    transaction.put(KEY, bytes)
    this.#stored = { day, calendar }
    return () => {
      this.#stored = before
    }
  }
}

/** undefined: there is none, or it is damaged. */
function readStored(bytes: Uint8Array | undefined): StoredDay | undefined {
  if (bytes?.length !== STORED_BYTES) return undefined
  const buffer = Buffer.from(bytes)
  if (crc32(buffer.subarray(0, 8)) !== buffer.readUInt32LE(8)) return undefined
  return { day: buffer.readUInt32LE(0), calendar: buffer.readUInt32LE(4) }
}
