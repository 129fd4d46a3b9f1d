// The fence in the storage of one process. It refuses hints that it does not know, or whose entry is damaged: losing entries
// condemns hints, and never lets a rewound one through.
//
// New entries lie in buckets: one for each hour, and another when one is full. A bucket goes as a whole, when its time is
// over or its room is needed. Memory holds the number of entries of each bucket, not the entries.

import { crc32 } from 'node:zlib'
import { equalBytes, type FenceRequest, type FenceVerdict, HASH_BYTES, isZero, toHex } from '@keyhush/protocol'
import { type Storage, StorageError, type Transaction } from '../storage/storage.js'
import { Fence, type FenceOptions, NEW_SECONDS } from './fence.js'
import { FenceClock } from './fence-clock.js'

/** What keys begin with, before the hint's id in hex; of new ones, before the bucket's number. */
export const CONFIRMED = 'fence/'
const NEW = 'fence-new/'

const BUCKET_SECONDS = 60 * 60
/** A full bucket has this part of all new entries there may be. */
const BUCKETS = 8

/** How many entries a request removes, or reads to see which have expired: about a millisecond. */
const SWEPT_TOGETHER = 250

/** version (u64) ‖ hash (32) ‖ day of the last request (u32) ‖ CRC-32 of the key and what precedes (u32) */
const ENTRY_BYTES = 8 + HASH_BYTES + 4 + 4
const CHECKED_BYTES = ENTRY_BYTES - 4

interface FenceEntry {
  readonly version: number
  readonly requestHash: Uint8Array
  /** since 1970 */
  readonly day: number
}

interface Bucket {
  /** seconds since 1970; no two have the same */
  readonly began: number
  entries: number
}

interface KeptEntry {
  readonly entry: FenceEntry
  /** undefined: the entry is confirmed */
  readonly bucket: Bucket | undefined
}

/** Takes back what memory has noted of a transaction that then could not be written. */
type Undo = (() => void)[]

export class StoredFence extends Fence {
  readonly #storage: Storage
  /** of new ones, oldest first */
  #buckets: Bucket[] = []
  /** keys of buckets that have gone, whose entries the storage may still have */
  readonly #gone = new Set<string>()
  /** the day on which the latest round over all confirmed entries began; … */
  #roundOf = 0
  /** … the last of them that it has seen; undefined: it is over */
  #seen: string | undefined
  #isSweeping = false

  private constructor(storage: Storage, clock: FenceClock, options: FenceOptions) {
    super(clock, options)
    this.#storage = storage
  }

  static async open(storage: Storage, options: FenceOptions = {}): Promise<StoredFence> {
    const fence = new StoredFence(storage, await FenceClock.open(storage, options), options)
    await fence.#count()
    return fence
  }

  protected get registered(): number {
    return this.#buckets.reduce((sum, { entries }) => sum + entries, 0)
  }

  async judge(request: FenceRequest, network = 'unknown'): Promise<FenceVerdict> {
    const id = toHex(request.hintId)
    this.#forgetOld()
    await this.#sweep()
    const buckets = [...this.#buckets]
    const keys = [CONFIRMED + id, ...buckets.map(bucket => bucketKey(bucket) + id)]
    const undo: Undo = []
    try {
      const outcome = await this.#storage.transact(keys, transaction => {
        const kept = this.#find(transaction, id, buckets, undo)
        // Nobody knows any more how far it has come, so it cannot register again either.
        if (kept === 'damaged') return 'refused'
        if (kept === undefined && request.kind === 'register')
          return this.#register(transaction, request, network, undo)
        if (!isGranted(kept?.entry, request)) return 'refused'
        if (kept === undefined || request.kind === 'register') return 'granted' // its reply was lost
        this.#confirm(transaction, request, kept, undo)
        return 'granted'
      })
      if (outcome !== 'full') return outcome
    } catch (error) {
      for (const takeBack of undo.reverse()) takeBack() // nothing was written
      throw error
    }
    return this.turnAway()
  }

  /** What is kept of a hint and has not expired. */
  #find(
    transaction: Transaction,
    id: string,
    buckets: readonly Bucket[],
    undo: Undo,
  ): KeptEntry | 'damaged' | undefined {
    const confirmed = transaction.get(CONFIRMED + id)
    if (confirmed !== undefined) {
      const entry = decodeEntry(CONFIRMED + id, confirmed)
      if (entry === 'damaged') return entry
      if (this.#isAlive(entry)) return { entry, bucket: undefined }
      transaction.remove(CONFIRMED + id)
      this.confirmed--
      undo.push(() => this.confirmed++)
      return undefined
    }
    for (const bucket of buckets) {
      const key = bucketKey(bucket) + id
      const bytes = transaction.get(key)
      if (bytes === undefined) continue
      const entry = decodeEntry(key, bytes)
      return entry === 'damaged' ? entry : { entry, bucket }
    }
    return undefined
  }

  #register(
    transaction: Transaction,
    { hintId, requestHash }: FenceRequest,
    network: string,
    undo: Undo,
  ): 'granted' | 'full' {
    if (this.confirmed >= this.most || !this.shares.take(network)) return 'full'
    undo.push(() => this.shares.giveBack(network))
    while (this.registered >= this.mostNew || this.hints >= this.most) undo.push(this.#forgetOldest())
    const bucket = this.#bucketOfNow()
    put(transaction, bucketKey(bucket) + toHex(hintId), { version: 0, requestHash, day: this.clock.today })
    bucket.entries++
    undo.push(() => bucket.entries--, this.clock.keep(transaction))
    return 'granted'
  }

  #confirm(transaction: Transaction, request: FenceRequest, { entry, bucket }: KeptEntry, undo: Undo): void {
    const { today } = this.clock
    const id = toHex(request.hintId)
    // A client that has no request yet only asks.
    const { version, requestHash } = isZero(request.requestHash) ? entry : request
    // A new day is written too, once a day.
    const same = entry.version === version && equalBytes(entry.requestHash, requestHash) && entry.day === today
    if (bucket !== undefined || !same) put(transaction, CONFIRMED + id, { version, requestHash, day: today })
    if (bucket !== undefined) {
      transaction.remove(bucketKey(bucket) + id)
      bucket.entries--
      this.confirmed++
      undo.push(() => {
        bucket.entries++
        this.confirmed--
      })
    }
    undo.push(this.clock.keep(transaction))
  }

  /** The bucket for new entries. */
  #bucketOfNow(): Bucket {
    const { seconds } = this.clock
    const latest = this.#buckets.at(-1)
    const room = Math.max(1, Math.floor(this.mostNew / BUCKETS))
    if (latest !== undefined && seconds - latest.began < BUCKET_SECONDS && latest.entries < room) return latest
    const bucket = { began: Math.max(seconds, (latest?.began ?? 0) + 1), entries: 0 }
    this.#buckets.push(bucket)
    return bucket
  }

  /** Forgets buckets whose youngest entries have expired. */
  #forgetOld(): void {
    const { seconds } = this.clock
    while (this.#buckets[0] !== undefined && seconds - this.#buckets[0].began > BUCKET_SECONDS + NEW_SECONDS) {
      this.#forgetOldest()
    }
  }

  /** Returns what takes it back. */
  #forgetOldest(): () => void {
    const bucket = this.#buckets.shift()!
    const key = bucketKey(bucket)
    this.#gone.add(key)
    return () => {
      this.#buckets.unshift(bucket)
      this.#gone.delete(key)
    }
  }

  #isAlive(entry: FenceEntry): boolean {
    return this.clock.today - entry.day <= this.days
  }

  /** Whether an entry has expired. A damaged entry stays: without it the hint could be registered again. */
  #isOver(key: string, bytes: Uint8Array): boolean {
    const entry = decodeEntry(key, bytes)
    return entry !== 'damaged' && !this.#isAlive(entry)
  }

  /** Removes some of what has expired. If the storage fails, a later request tries again: this one does not fail. */
  async #sweep(): Promise<void> {
    if (this.#isSweeping) return
    this.#isSweeping = true
    try {
      await this.#sweepGone()
      await this.#sweepConfirmed()
    } catch (error) {
      if (!(error instanceof StorageError)) throw error
    } finally {
      this.#isSweeping = false
    }
  }

  async #sweepGone(): Promise<void> {
    const [prefix] = this.#gone
    if (prefix === undefined) return
    const keys: string[] = []
    for await (const [key] of this.#storage.entries(prefix)) {
      if (keys.push(key) === SWEPT_TOGETHER) break
    }
    if (keys.length < SWEPT_TOGETHER) this.#gone.delete(prefix)
    await this.#storage.transact([], transaction => {
      for (const key of keys) transaction.remove(key)
    })
  }

  /** Removes confirmed entries that have expired: some in each request, all in a round. One round begins a day at most. */
  async #sweepConfirmed(): Promise<void> {
    const { today } = this.clock
    if (this.#seen === undefined && this.#roundOf === today) return
    if (this.#seen === undefined) this.#roundOf = today
    const expired: string[] = []
    let seen = 0
    for await (const [key, bytes] of this.#storage.entries(CONFIRMED, this.#seen)) {
      if (this.#isOver(key, bytes)) expired.push(key)
      this.#seen = key
      if (++seen === SWEPT_TOGETHER) break
    }
    if (seen < SWEPT_TOGETHER) this.#seen = undefined
    if (expired.length > 0) await this.#removeExpired(expired)
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
    this.confirmed -= removed
  }

  /** Counts the entries on disk. */
  async #count(): Promise<void> {
    this.confirmed = await this.#storage.count(CONFIRMED)
    for (let after: string | undefined; ; ) {
      const bucket = await this.#bucketAfter(after)
      if (bucket === undefined) return
      this.#buckets.push(bucket)
      after = `${bucketKey(bucket)}~`
    }
  }

  /** The first bucket behind the key `after`. */
  async #bucketAfter(after: string | undefined): Promise<Bucket | undefined> {
    for await (const [key] of this.#storage.entries(NEW, after)) {
      const bucket = { began: Number.parseInt(key.slice(NEW.length), 16), entries: 0 }
      bucket.entries = await this.#storage.count(bucketKey(bucket))
      return bucket
    }
    return undefined
  }
}

/** The table of docs/protocol.md. */
function isGranted(kept: FenceEntry | undefined, request: FenceRequest): boolean {
  if (request.kind === 'register') return kept === undefined || (kept.version === 0 && isZero(kept.requestHash))
  if (kept === undefined || request.version < kept.version) return false
  if (request.version > kept.version) return true
  return isZero(kept.requestHash) || equalBytes(kept.requestHash, request.requestHash)
}

function put(transaction: Transaction, key: string, entry: FenceEntry): void {
  transaction.put(key, encodeEntry(key, entry))
}

/** What the keys of a bucket's entries begin with, before the hint's id in hex. */
export function bucketKey({ began }: Pick<Bucket, 'began'>): string {
  return `${NEW}${began.toString(16).padStart(8, '0')}/`
}

/** What is stored of a hint under this key. */
export function encodeEntry(key: string, { version, requestHash, day }: FenceEntry): Uint8Array {
  const bytes = Buffer.alloc(ENTRY_BYTES)
  bytes.writeBigUInt64LE(BigInt(version), 0)
  bytes.set(requestHash, 8)
  bytes.writeUInt32LE(day, 8 + HASH_BYTES)
  bytes.writeUInt32LE(checksum(key, bytes), CHECKED_BYTES)
  return bytes
}

function checksum(key: string, entry: Buffer): number {
  return crc32(entry.subarray(0, CHECKED_BYTES), crc32(key))
}

function decodeEntry(key: string, bytes: Uint8Array): FenceEntry | 'damaged' {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (buffer.length !== ENTRY_BYTES || buffer.readUInt32LE(CHECKED_BYTES) !== checksum(key, buffer)) return 'damaged'
  return {
    version: Number(buffer.readBigUInt64LE(0)),
    requestHash: Uint8Array.prototype.slice.call(buffer, 8, 8 + HASH_BYTES),
    day: buffer.readUInt32LE(8 + HASH_BYTES),
  }
}
