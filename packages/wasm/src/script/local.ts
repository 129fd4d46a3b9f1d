// The records of a database in memory (rust-core/core/src/local.rs): received, checked, updated and read. Nothing here is secret.

import type { LayoutHandle } from '../core/base.js'
import type { LocalHandle } from '../core/client.js'
import { expectBelow, expectLength, expectList, layoutError, lengthError, phaseError, updateError } from './failure.js'
import { DIGEST_BYTES, hasher } from './hashes.js'
import { type Layout, own } from './layout.js'
import { readList } from './list.js'
import { add } from './masks.js'

const LANES = 2
const ID_BYTES = 16
/** Hashed in one step of an update: some milliseconds. */
const STEP_BYTES = 128 << 10

type Partitions = (Uint8Array | undefined)[]

interface Lane {
  readonly partition: number
  received: number
  readonly hash: ReturnType<typeof hasher>
}

export class Local implements Omit<LocalHandle, 'replay' | 'arrive' | 'encode'> {
  readonly id: Uint8Array
  memory: { readonly buffer: ArrayBuffer }
  readonly #lanes: (Lane | undefined)[] = Array(LANES).fill(undefined)
  #layout: Layout
  #version = 0
  #contentHashes: Uint8Array
  /** undefined: not there yet */
  #partitions: Partitions
  #foreseen: Foreseen | undefined

  /** Begins without partitions. Throws `length`, `layout`. */
  constructor(layout: Layout, contentHashes: Uint8Array, id: Uint8Array) {
    expectLength('id', id, ID_BYTES)
    expectLength('content hashes', contentHashes, layout.partitions * DIGEST_BYTES)
    this.id = id.slice()
    this.#layout = layout
    this.#contentHashes = contentHashes.slice()
    this.#partitions = Array(layout.partitions).fill(undefined)
    this.memory = { buffer: allocated(LANES * layout.partitionBytes).buffer }
  }

  get version(): number {
    return this.#version
  }

  get layout(): LayoutHandle {
    return this.#layout as Layout & LayoutHandle
  }

  lanePointer(lane: number): number {
    this.#underWay(lane)
    return (lane >>> 0) * this.#layout.partitionBytes
  }

  begin(lane: number, partition: number): void {
    const isThere = this.isFolded(partition)
    expectBelow('lane', lane >>> 0, LANES)
    if (isThere) throw phaseError('this partition was received already')
    if (this.#lanes.some((other, i) => i !== lane && other?.partition === partition)) {
      throw phaseError('the other lane is receiving this partition')
    }
    this.#lanes[lane] = { partition, received: 0, hash: hasher() }
  }

  absorb(lane: number, bytes: number): void {
    const under = this.#underWay(lane)
    const rest = this.#layout.partitionBytes - under.received
    if (bytes > rest) throw lengthError('rest of a partition', rest, bytes)
    under.hash.update(this.#bytesOf(lane).subarray(under.received, under.received + bytes))
    under.received += bytes
  }

  fold(lane: number): boolean {
    const { partition, received, hash } = this.#underWay(lane)
    const bytes = this.#bytesOf(lane)
    expectLength('partition', bytes.subarray(0, received), bytes.length)
    this.#lanes[lane] = undefined
    if (!equals(hash.digest(), digestOf(this.#contentHashes, partition))) return false
    this.#partitions[partition] = copied(bytes)
    this.#foreseen = undefined
    return true
  }

  abandon(lane: number): void {
    expectBelow('lane', lane >>> 0, LANES)
    this.#lanes[lane] = undefined
  }

  isFolded(partition: number): boolean {
    expectBelow('partition', partition >>> 0, this.#layout.partitions)
    return this.#partitions[partition] !== undefined
  }

  finish(version: number): void {
    this.#assertWhole()
    this.#version = version
    this.memory = { buffer: new ArrayBuffer(0) } // nothing more is received
  }

  records(indices: Uint32Array): Uint8Array {
    this.#assertWhole()
    const { records, recordBytes, partitionRecords } = this.#layout
    const found = new Uint8Array(indices.length * recordBytes)
    for (const [i, index] of indices.entries()) {
      expectBelow('record', index, records)
      const at = (index % partitionRecords) * recordBytes
      const partition = this.#partitions[Math.floor(index / partitionRecords)]!
      found.set(partition.subarray(at, at + recordBytes), i * recordBytes)
    }
    return found
  }

  foresee(...update: Parameters<LocalHandle['update']>): void {
    try {
      this.#foreseen = this.#begin(...update)
    } catch {
      this.#foreseen = undefined
    }
  }

  step(): boolean {
    return this.#foreseen?.step() === true
  }

  update(list: Uint8Array, after: LayoutHandle, contentHashes: Uint8Array): Uint8Array | undefined {
    const whole = this.#isWhole
    const known = this.#foreseen
    const isSame = known?.list === list && known.contentHashes === contentHashes
    this.#foreseen = undefined
    const foreseen = isSame ? known : this.#begin(list, after, contentHashes)
    while (foreseen.step());
    if (!foreseen.isRight) throw updateError('it does not lead to the contents of the next epoch')
    this.#partitions = foreseen.next
    this.#layout = own(after)
    this.#contentHashes = contentHashes.slice()
    if (!whole) return undefined
    this.#version++
    return new Uint8Array()
  }

  #begin(list: Uint8Array, after: LayoutHandle, contentHashes: Uint8Array): Foreseen {
    const next = this.#next(list, own(after), contentHashes)
    const isSame = (q: number) =>
      next[q] === this.#partitions[q] && equals(digestOf(contentHashes, q), digestOf(this.#contentHashes, q))
    return new Foreseen(list, contentHashes, next, isSame)
  }

  /** The partitions after a list; those that do not change are the same arrays. Downloads of changed ones are dropped. */
  #next(list: Uint8Array, after: Layout, contentHashes: Uint8Array): Partitions {
    const entries = expectList(readList(list, this.#layout, after))
    expectLength('content hashes', contentHashes, after.partitions * DIGEST_BYTES)
    const { recordBytes, partitionRecords, partitionBytes } = after
    // The list has all records of new partitions. If other partitions are missing, the new ones are downloaded too.
    const areNewThere = this.#isWhole
    const next = Array.from({ length: after.partitions }, (_, q) =>
      q < this.#layout.partitions ? this.#partitions[q] : areNewThere ? allocated(partitionBytes) : undefined,
    )
    const touched = new Set(entries.map(({ index }) => Math.floor(index / partitionRecords)))
    for (const q of touched) {
      const before = next[q]
      if (before !== undefined) next[q] = copied(before)
    }
    for (const { index, difference } of entries) {
      const at = (index % partitionRecords) * recordBytes
      const partition = next[Math.floor(index / partitionRecords)]
      if (partition !== undefined) add(partition.subarray(at, at + recordBytes), difference)
    }
    for (const [lane, under] of this.#lanes.entries()) {
      if (under !== undefined && touched.has(under.partition)) this.#lanes[lane] = undefined
    }
    return next
  }

  free(): void {}

  get #isWhole(): boolean {
    return !this.#partitions.includes(undefined)
  }

  #assertWhole(): void {
    if (!this.#isWhole) throw phaseError('partitions are missing; receive them first')
  }

  #underWay(lane: number): Lane {
    expectBelow('lane', lane >>> 0, LANES)
    const under = this.#lanes[lane]
    if (under === undefined) throw phaseError('begin a partition in this lane first')
    return under
  }

  #bytesOf(lane: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, this.lanePointer(lane), this.#layout.partitionBytes)
  }
}

/** The partitions that an update leads to. They are hashed step by step. */
class Foreseen {
  readonly list: Uint8Array
  readonly contentHashes: Uint8Array
  readonly next: Partitions
  isRight = true
  /** partitions that are still to be hashed, and how far the last of them is */
  readonly #due: number[]
  #hash = hasher()
  #at = 0

  constructor(list: Uint8Array, contentHashes: Uint8Array, next: Partitions, isSame: (q: number) => boolean) {
    this.list = list
    this.contentHashes = contentHashes
    this.next = next
    this.#due = [...next.keys()].filter(q => next[q] !== undefined && !isSame(q))
  }

  /** Hashes some. Returns whether there is more. */
  step(): boolean {
    for (let room = STEP_BYTES; room > 0; ) {
      const q = this.#due.at(-1)
      if (q === undefined) return false
      const piece = this.next[q]!.subarray(this.#at, this.#at + room)
      this.#hash.update(piece)
      this.#at += piece.length
      room -= piece.length
      if (this.#at < this.next[q]!.length) continue
      if (!equals(this.#hash.digest(), digestOf(this.contentHashes, q))) this.isRight = false
      this.#due.pop()
      this.#hash = hasher()
      this.#at = 0
    }
    return true
  }
}

/** Zero bytes. Throws `layout`. */
function allocated(bytes: number): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(bytes)
  } catch {
    throw layoutError(`${bytes} bytes of memory could not be had; close other pages, or use another mode`)
  }
}

function copied(bytes: Uint8Array): Uint8Array {
  const copy = allocated(bytes.length)
  copy.set(bytes)
  return copy
}

/** Of a partition; of no bytes if there is no such partition yet. */
function digestOf(contentHashes: Uint8Array, q: number): Uint8Array {
  return contentHashes.subarray(q * DIGEST_BYTES, (q + 1) * DIGEST_BYTES)
}

function equals(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i])
}
