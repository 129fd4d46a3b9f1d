// The rollback fence (docs/protocol.md, Rollback fence; architecture S8): how far each hint has come, durably. What is
// unknown is refused, so that losing these entries condemns hints and never lets a rewound one through.

import { equalBytes, type FenceRequest, type FenceVerdict, HASH_BYTES, isZero, toHex } from '@pirouette/protocol'
import { Refusal } from '../refusal.js'
import type { Storage, Transaction } from '../storage/storage.js'

export interface FenceOptions {
  /** an entry that no request has named for so long is gone; default 400 */
  readonly days?: number | undefined
  /** most entries that are kept; default 1 000 000 */
  readonly entries?: number | undefined
  /** seconds since 1970; default: the system's */
  readonly now?: (() => number) | undefined
}

const PREFIX = 'fence/'
const DAY_SECONDS = 24 * 60 * 60
const DEFAULT_DAYS = 400
const DEFAULT_ENTRIES = 1_000_000
const SWEPT_TOGETHER = 1000

/** version (u64) ‖ hash (32) ‖ day of the last request (u32) */
const ENTRY_BYTES = 8 + HASH_BYTES + 4

interface Entry {
  readonly version: number
  readonly requestHash: Uint8Array
  /** since 1970 */
  readonly day: number
}

export class Fence {
  readonly #storage: Storage
  readonly #days: number
  readonly #most: number
  readonly #now: () => number
  /** entries there are, or are about to be */
  #count: number
  /** the day of the last sweep */
  #swept = 0

  constructor(storage: Storage, options: FenceOptions = {}) {
    this.#storage = storage
    this.#days = options.days ?? DEFAULT_DAYS
    this.#most = options.entries ?? DEFAULT_ENTRIES
    this.#now = options.now ?? (() => Date.now() / 1000)
    this.#count = storage.count(PREFIX)
  }

  /** Resolves when what it says is on disk. Throws a `fence_full` Refusal if there is no room for another hint. */
  async judge(request: FenceRequest): Promise<FenceVerdict> {
    const today = Math.floor(this.#now() / DAY_SECONDS)
    if (request.kind === 'register' && this.#count >= this.#most) await this.#sweep(today)
    const key = PREFIX + toHex(request.hintId)
    const outcome = await this.#storage.transact(transaction => {
      const bytes = transaction.get(key)
      const stored = bytes === undefined ? undefined : decodeEntry(bytes)
      const kept = stored !== undefined && this.#isAlive(stored, today) ? stored : undefined
      if (kept === undefined && request.kind === 'register') {
        if (stored === undefined && this.#count >= this.#most) return 'full'
        if (stored === undefined) this.#count++
      }
      if (!isGranted(kept, request)) return 'refused'
      // Who has no request yet only asks.
      const { version, requestHash } = kept !== undefined && isZero(request.requestHash) ? kept : request
      // Written also when only the day is new, and then once a day.
      if (kept?.version !== version || !equalBytes(kept.requestHash, requestHash) || kept.day !== today) {
        put(transaction, key, { version, requestHash, day: today })
      }
      return 'granted'
    })
    if (outcome === 'full') throw new Refusal('fence_full', 'the fence takes no new hints at the moment')
    return outcome
  }

  #isAlive(entry: Entry, today: number): boolean {
    return today - entry.day <= this.#days
  }

  /** Removes what has expired, at most once a day. */
  async #sweep(today: number): Promise<void> {
    if (this.#swept === today) return
    this.#swept = today
    const expired: string[] = []
    for (const [key, bytes] of this.#storage.entries(PREFIX)) {
      if (!this.#isAlive(decodeEntry(bytes), today)) expired.push(key)
    }
    for (let i = 0; i < expired.length; i += SWEPT_TOGETHER) {
      await this.#storage.transact(transaction => {
        for (const key of expired.slice(i, i + SWEPT_TOGETHER)) {
          const bytes = transaction.get(key)
          if (bytes === undefined || this.#isAlive(decodeEntry(bytes), today)) continue
          transaction.remove(key)
          this.#count--
        }
      })
    }
  }
}

/** The table of docs/protocol.md. */
function isGranted(kept: Entry | undefined, request: FenceRequest): boolean {
  if (request.kind === 'register') return kept === undefined || (kept.version === 0 && isZero(kept.requestHash))
  if (kept === undefined || request.version < kept.version) return false
  if (request.version > kept.version) return true
  return isZero(kept.requestHash) || equalBytes(kept.requestHash, request.requestHash)
}

function put(transaction: Transaction, key: string, { version, requestHash, day }: Entry): void {
  const bytes = Buffer.alloc(ENTRY_BYTES)
  bytes.writeBigUInt64LE(BigInt(version), 0)
  bytes.set(requestHash, 8)
  bytes.writeUInt32LE(day, 8 + HASH_BYTES)
  transaction.put(key, bytes)
}

function decodeEntry(bytes: Uint8Array): Entry {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  return {
    version: Number(buffer.readBigUInt64LE(0)),
    requestHash: Uint8Array.prototype.slice.call(buffer, 8, 8 + HASH_BYTES),
    day: buffer.readUInt32LE(8 + HASH_BYTES),
  }
}
