// The fence in a server's own storage, which no other process has. What is unknown is refused, so that losing these entries
// condemns hints and never lets a rewound one through. So is what is damaged.

import { crc32 } from 'node:zlib'
import { equalBytes, type FenceRequest, type FenceVerdict, HASH_BYTES, isZero, toHex } from '@keyhush/protocol'
import { AgingMap } from '../base/aging-map.js'
import { Pace } from '../base/pace.js'
import { Refusal } from '../base/refusal.js'
import { type Storage, StorageError, type Transaction } from '../storage/storage.js'
import {
  DEFAULT_DAYS,
  DEFAULT_ENTRIES,
  type Fence,
  type FenceOptions,
  FULL,
  mostNew,
  NEW_SECONDS,
  NetworkShares,
} from './fence.js'
import { FenceClock } from './fence-clock.js'

/** What keys begin with, before the hint's id in hex. */
export const CONFIRMED = 'fence/'
export const NEW = 'fence-new/'

/** Of each kind of entries, how many a request looks at besides, to see which have expired: it takes about a millisecond. */
const SWEPT_TOGETHER = 250

/**
 * version (u64) ‖ hash (32) ‖ day of the last request, or of a new one the second of its registration (u32) ‖ CRC-32 of the key
 * and what precedes (u32)
 */
const ENTRY_BYTES = 8 + HASH_BYTES + 4 + 4
const CHECKED_BYTES = ENTRY_BYTES - 4

interface Entry {
  readonly version: number
  readonly requestHash: Uint8Array
  /** since 1970: days, or of a new one seconds */
  readonly time: number
}

/** What takes back what memory already knows of a transaction, should that not be written. */
type Undo = (() => void)[]

export class StoredFence implements Fence {
  turnedAway = 0
  readonly #storage: Storage
  readonly #days: number
  readonly #most: number
  readonly #clock: FenceClock
  /** confirmed entries there are, or are about to be */
  #confirmed = 0
  /** the new ones, oldest first: when they were registered */
  readonly #new = new AgingMap<number>()
  /** the day on which the latest round over all confirmed ones began; … */
  #roundOf = 0
  /** … the last of them that it has seen; undefined: it is over */
  #seen: string | undefined
  #isSweeping = false
  #isExpiring = false
  readonly #shares: NetworkShares

  private constructor(storage: Storage, clock: FenceClock, options: FenceOptions) {
    this.#storage = storage
    this.#days = options.days ?? DEFAULT_DAYS
    this.#most = options.entries ?? DEFAULT_ENTRIES
    this.#clock = clock
    this.#shares = new NetworkShares(this.#most, clock)
  }

  static async open(storage: Storage, options: FenceOptions = {}): Promise<StoredFence> {
    const fence = new StoredFence(storage, await FenceClock.open(storage, options), options)
    await fence.#count()
    return fence
  }

  get hints(): number {
    return this.#confirmed + this.#new.size
  }

  get problem(): string | undefined {
    return this.#confirmed < this.#most ? undefined : FULL
  }

  get most(): number {
    return this.#most
  }

  async judge(request: FenceRequest, network = 'unknown'): Promise<FenceVerdict> {
    const id = toHex(request.hintId)
    await this.#expireNew()
    await this.#sweepOn()
    const { today, seconds } = this.#clock
    const undo: Undo = []
    try {
      const outcome = await this.#storage.transact([CONFIRMED + id, NEW + id], transaction => {
        const kept = this.#find(transaction, id, undo)
        // How far it has come is not known any more: not by registering again either.
        if (kept === 'damaged') return 'refused'
        if (kept === undefined && request.kind === 'register') {
          const room = this.#admit(transaction, network, undo)
          if (!room) return 'full'
          put(transaction, NEW + id, { version: 0, requestHash: request.requestHash, time: seconds })
          this.#new.delete(id) // the newest stands last
          this.#new.set(id, seconds)
          undo.push(() => this.#new.delete(id), this.#clock.keep(transaction))
          return 'granted'
        }
        if (!isGranted(kept, request)) return 'refused'
        if (request.kind === 'register') return 'granted' // its reply was lost
        const registered = this.#new.get(id)
        const isNew = registered !== undefined
        // Who has no request yet only asks.
        const { version, requestHash } = kept !== undefined && isZero(request.requestHash) ? kept : request
        // Written also when only the day is new, and then once a day.
        const same = kept?.version === version && equalBytes(kept.requestHash, requestHash) && kept.time === today
        if (isNew || !same) put(transaction, CONFIRMED + id, { version, requestHash, time: today })
        if (isNew) {
          transaction.remove(NEW + id)
          this.#new.delete(id)
          this.#confirmed++
          undo.push(() => {
            this.#new.set(id, registered)
            this.#confirmed--
          })
        }
        undo.push(this.#clock.keep(transaction))
        return 'granted'
      })
      if (outcome !== 'full') return outcome
    } catch (error) {
      for (const takeBack of undo.reverse()) takeBack() // nothing was written
      throw error
    }
    this.turnedAway++
    throw new Refusal('fence_full', 'the fence takes no new hints from there at the moment')
  }

  /** What is kept of a hint and has not expired. */
  #find(transaction: Transaction, id: string, undo: Undo): Entry | 'damaged' | undefined {
    const confirmed = transaction.get(CONFIRMED + id)
    if (confirmed !== undefined) {
      const entry = decodeEntry(CONFIRMED + id, confirmed)
      if (entry === 'damaged' || this.#isAlive(entry)) return entry
      transaction.remove(CONFIRMED + id)
      this.#confirmed--
      undo.push(() => this.#confirmed++)
      return undefined
    }
    const bytes = transaction.get(NEW + id)
    const registered = bytes && decodeEntry(NEW + id, bytes)
    if (registered === 'damaged') return registered
    return registered !== undefined && this.#isFresh(registered.time) ? registered : undefined
  }

  /** Whether a network may register another hint; makes room for it among the new ones. */
  #admit(transaction: Transaction, network: string, undo: Undo): boolean {
    if (!this.#shares.take(network)) return false
    if (this.#new.size >= mostNew(this.#most) || this.#new.size + this.#confirmed >= this.#most) {
      const { oldest } = this.#new
      if (oldest === undefined) return false
      const registered = this.#new.get(oldest)!
      transaction.remove(NEW + oldest)
      this.#new.delete(oldest)
      undo.push(() => this.#new.set(oldest, registered))
    }
    return true
  }

  #isAlive(entry: Entry): boolean {
    return this.#clock.today - entry.time <= this.#days
  }

  /** A damaged one has no age, and stays: without it the hint could be registered again. */
  #isOver(key: string, bytes: Uint8Array): boolean {
    const entry = decodeEntry(key, bytes)
    return entry !== 'damaged' && !this.#isAlive(entry)
  }

  #isFresh(registered: number): boolean {
    return this.#clock.seconds - registered <= NEW_SECONDS
  }

  /** Removes new ones whose time is over, so many at a time. */
  async #expireNew(): Promise<void> {
    const { oldest } = this.#new
    if (this.#isExpiring || oldest === undefined || this.#isFresh(this.#new.get(oldest)!)) return
    const expired: string[] = []
    for (const [id, registered] of this.#new) {
      if (this.#isFresh(registered) || expired.length === SWEPT_TOGETHER) break
      expired.push(id)
    }
    this.#isExpiring = true
    try {
      await this.#storage.transact([], transaction => {
        for (const id of expired) if (this.#new.has(id)) transaction.remove(NEW + id)
      })
      for (const id of expired) this.#new.delete(id)
    } finally {
      this.#isExpiring = false
    }
  }

  /** Removes confirmed ones that have expired: some in each request, all in a round, of which one begins a day at most. */
  async #sweepOn(): Promise<void> {
    const { today } = this.#clock
    if (this.#isSweeping || (this.#seen === undefined && this.#roundOf === today)) return
    this.#isSweeping = true
    if (this.#seen === undefined) this.#roundOf = today
    try {
      const expired: string[] = []
      let seen = 0
      for await (const [key, bytes] of this.#storage.entries(CONFIRMED, this.#seen)) {
        if (this.#isOver(key, bytes)) expired.push(key)
        this.#seen = key
        if (++seen === SWEPT_TOGETHER) break
      }
      if (seen < SWEPT_TOGETHER) this.#seen = undefined
      if (expired.length > 0) await this.#removeExpired(expired)
    } catch (error) {
      if (!(error instanceof StorageError)) throw error // else they stay for another day, and this request is not concerned
    } finally {
      this.#isSweeping = false
    }
  }

  async #removeExpired(keys: readonly string[]): Promise<void> {
    let removed = 0
    await this.#storage.transact(keys, transaction => {
      for (const key of keys) {
        const bytes = transaction.get(key)
        if (bytes === undefined || !this.#isOver(key, bytes)) continue
        transaction.remove(key)
        removed++
      }
    })
    this.#confirmed -= removed
  }

  /** What there is on disk. */
  async #count(): Promise<void> {
    this.#confirmed = await this.#storage.count(CONFIRMED)
    const [pace, registered] = [new Pace(), new Map<number, string[]>()]
    for await (const [key, bytes] of this.#storage.entries(NEW)) {
      const entry = decodeEntry(key, bytes)
      const time = entry === 'damaged' ? 0 : entry.time // no loss: it has no lookups yet
      const ids = registered.get(time) ?? []
      if (ids.push(Buffer.from(key).toString('latin1', NEW.length)) === 1) registered.set(time, ids) // a slice would keep the whole key
      await pace.turn()
    }
    // Those of one second are many: there are no more seconds than are in NEW_SECONDS.
    for (const time of [...registered.keys()].sort((a, b) => a - b)) {
      for (const id of registered.get(time)!) {
        this.#new.set(id, time)
        await pace.turn()
      }
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

function put(transaction: Transaction, key: string, entry: Entry): void {
  transaction.put(key, encodeEntry(key, entry))
}

/** What is stored of a hint under this key. */
export function encodeEntry(key: string, { version, requestHash, time }: Entry): Uint8Array {
  const bytes = Buffer.alloc(ENTRY_BYTES)
  bytes.writeBigUInt64LE(BigInt(version), 0)
  bytes.set(requestHash, 8)
  bytes.writeUInt32LE(time, 8 + HASH_BYTES)
  bytes.writeUInt32LE(checksum(key, bytes), CHECKED_BYTES)
  return bytes
}

function checksum(key: string, entry: Buffer): number {
  return crc32(entry.subarray(0, CHECKED_BYTES), crc32(key))
}

function decodeEntry(key: string, bytes: Uint8Array): Entry | 'damaged' {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (buffer.length !== ENTRY_BYTES || buffer.readUInt32LE(CHECKED_BYTES) !== checksum(key, buffer)) return 'damaged'
  return {
    version: Number(buffer.readBigUInt64LE(0)),
    requestHash: Uint8Array.prototype.slice.call(buffer, 8, 8 + HASH_BYTES),
    time: buffer.readUInt32LE(8 + HASH_BYTES),
  }
}
