// A map that knows which of its keys came first. A Map has them in that order, but moves all of them at once when it has no
// room left, and passes over those that were removed to find its first: with a million, for tens of milliseconds. Here are no
// large arrays, and no step touches more than a few keys: a table by linear hashing (Litwin, VLDB 1980), which grows by
// a bucket with each key. Room for keys that were removed is for others, and goes when all are removed at once.

import { randomBytes } from 'node:crypto'

/** Slots or buckets in one piece of memory: a power of two. */
const PIECE = 2 ** 10
const IN_PIECE = PIECE - 1
const BITS = 10

/** Of so many keys; slot 0 of all is none, and stands between the newest and the oldest. */
class Slots<Value> {
  readonly keys = new Array<string>(PIECE)
  readonly values = new Array<Value | undefined>(PIECE)
  /** the slot of the key that came before, and after; of a free one, the next free one comes after */
  readonly older = new Int32Array(PIECE)
  readonly newer = new Int32Array(PIECE)
  /** the next slot of the same bucket */
  readonly next = new Int32Array(PIECE)
}

export class AgingMap<Value> {
  readonly #hash: (key: string) => number
  #slots!: Slots<Value>[]
  /** slots that have been used, the one that is none among them */
  #used!: number
  /** the first of those that were, and are free */
  #free!: number
  /** of each bucket, its first slot */
  #firsts!: Int32Array[]
  #buckets!: number
  /** buckets are at most one more than this, and more than half as many: 2^k - 1 */
  #mask!: number
  #size!: number

  /** `hash`: 32 bits of a key. By default nobody outside knows which keys are in one bucket. */
  constructor(hash: (key: string) => number = secretHash()) {
    this.#hash = hash
    this.clear()
  }

  get size(): number {
    return this.#size
  }

  /** The key that has been there for the longest; setting it again does not make it younger. */
  get oldest(): string | undefined {
    const slot = this.#slots[0]!.newer[0]!
    return slot === 0 ? undefined : this.#keyOf(slot)
  }

  get(key: string): Value | undefined {
    const slot = this.#find(key, this.#bucketOf(key))
    return this.#slots[slot >>> BITS]!.values[slot & IN_PIECE]
  }

  has(key: string): boolean {
    return this.#find(key, this.#bucketOf(key)) !== 0
  }

  set(key: string, value: Value): this {
    const bucket = this.#bucketOf(key)
    const slot = this.#find(key, bucket) || this.#add(key, bucket)
    this.#slots[slot >>> BITS]!.values[slot & IN_PIECE] = value
    return this
  }

  delete(key: string): boolean {
    const bucket = this.#bucketOf(key)
    const slot = this.#find(key, bucket)
    if (slot === 0) return false
    const [slots, i] = [this.#slots[slot >>> BITS]!, slot & IN_PIECE]
    const before = this.#before(slot, bucket)
    if (before === 0) this.#setFirst(bucket, slots.next[i]!)
    else this.#setNext(before, slots.next[i]!)
    this.#follow(slots.older[i]!, slots.newer[i]!)
    slots.keys[i] = ''
    slots.values[i] = undefined
    slots.newer[i] = this.#free
    this.#free = slot
    this.#size--
    return true
  }

  clear(): void {
    this.#slots = [new Slots()]
    this.#used = 1
    this.#free = 0
    this.#firsts = [new Int32Array(PIECE)]
    this.#buckets = 1
    this.#mask = 0
    this.#size = 0
  }

  /** Oldest first. Nothing may be removed meanwhile. */
  *[Symbol.iterator](): IterableIterator<[string, Value]> {
    for (let slot = 0; ; ) {
      slot = this.#slots[slot >>> BITS]!.newer[slot & IN_PIECE]!
      if (slot === 0) return
      yield [this.#keyOf(slot), this.#slots[slot >>> BITS]!.values[slot & IN_PIECE]!]
    }
  }

  /** As the newest. Returns its slot. */
  #add(key: string, bucket: number): number {
    const slot = this.#free || this.#used++
    if (slot >>> BITS === this.#slots.length) this.#slots.push(new Slots())
    const [slots, i] = [this.#slots[slot >>> BITS]!, slot & IN_PIECE]
    if (slot === this.#free) this.#free = slots.newer[i]!
    slots.keys[i] = key
    this.#follow(this.#slots[0]!.older[0]!, slot)
    this.#follow(slot, 0)
    this.#put(slot, bucket)
    if (++this.#size > this.#buckets) this.#grow()
    return slot
  }

  /** `newer` comes right after `older`. */
  #follow(older: number, newer: number): void {
    this.#slots[older >>> BITS]!.newer[older & IN_PIECE] = newer
    this.#slots[newer >>> BITS]!.older[newer & IN_PIECE] = older
  }

  /** By one bucket, which takes its keys from one other. */
  #grow(): void {
    const added = this.#buckets++
    if (added > this.#mask) this.#mask = 2 * this.#mask + 1
    if (added >>> BITS === this.#firsts.length) this.#firsts.push(new Int32Array(PIECE))
    const from = added & (this.#mask >>> 1)
    let slot = this.#first(from)
    this.#setFirst(from, 0)
    while (slot !== 0) {
      const next = this.#next(slot)
      this.#put(slot, this.#bucketOf(this.#keyOf(slot)))
      slot = next
    }
  }

  #bucketOf(key: string): number {
    const bucket = this.#hash(key) & this.#mask
    return bucket < this.#buckets ? bucket : bucket & (this.#mask >>> 1)
  }

  #find(key: string, bucket: number): number {
    let slot = this.#first(bucket)
    while (slot !== 0 && this.#keyOf(slot) !== key) slot = this.#next(slot)
    return slot
  }

  #put(slot: number, bucket: number): void {
    this.#setNext(slot, this.#first(bucket))
    this.#setFirst(bucket, slot)
  }

  /** The slot before another of the same bucket; 0: that is its first. */
  #before(slot: number, bucket: number): number {
    let before = 0
    for (let each = this.#first(bucket); each !== slot; each = this.#next(each)) before = each
    return before
  }

  #first(bucket: number): number {
    return this.#firsts[bucket >>> BITS]![bucket & IN_PIECE]!
  }

  #setFirst(bucket: number, slot: number): void {
    this.#firsts[bucket >>> BITS]![bucket & IN_PIECE] = slot
  }

  #next(slot: number): number {
    return this.#slots[slot >>> BITS]!.next[slot & IN_PIECE]!
  }

  #setNext(slot: number, next: number): void {
    this.#slots[slot >>> BITS]!.next[slot & IN_PIECE] = next
  }

  #keyOf(slot: number): string {
    return this.#slots[slot >>> BITS]!.keys[slot & IN_PIECE]!
  }
}

/** Who chooses keys does not know its numbers, and so no keys that meet in one bucket. */
function secretHash(): (key: string) => number {
  const [start, factor] = new Int32Array(new Uint8Array(randomBytes(8)).buffer) as unknown as [number, number]
  return key => {
    let hash = start
    for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), factor | 1)
    return hash ^ (hash >>> 16)
  }
}
