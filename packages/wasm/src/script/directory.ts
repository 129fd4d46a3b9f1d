// The shape of a directory, and single blocks of it (rust-core/core/src/directory). All levels are hashed and the whole overlay is
// read, whether the key is there or not. How a block divides into levels, overlay and padding decides a few steps: that depends on
// the block, not on which of its keys is asked for.

import { clean } from '@noble/hashes/utils.js'
import type { DirectoryShapeHandle, LayoutHandle } from '../core/base.js'
import { directoryError, expectLength } from './failure.js'
import { FINGERPRINT_BYTES } from './hashes.js'
import { Layout } from './layout.js'
import { isEqual, select } from './masks.js'
import { bitOf, hashOf } from './wyhash.js'

const MAX_LOG = 16
const MAX_BLOCK_BYTES = 65_536
const UNIT_BYTES = 32
export const HEADER_BYTES = 8
const WORD_BYTES = 8
const WORD_BITS = 64
const MAX_LEVELS = 31
/** The numbers of the hash functions that decide a key's block, and its shard. */
const NUMBER_LEVEL = 31
const SHARD_LEVEL = 32
export const ENTRY_BYTES = FINGERPRINT_BYTES + 4
const NONE = 2 ** 32

export class DirectoryShape implements DirectoryShapeHandle {
  readonly layout: Layout & LayoutHandle
  readonly seed: Uint8Array

  /** Throws `directory`, `layout`, `length`. */
  constructor(log: number, blockBytes: number, seed: Uint8Array) {
    expectLength('seed', seed, FINGERPRINT_BYTES)
    const [logOf, bytes] = [log >>> 0, blockBytes >>> 0]
    if (logOf > MAX_LOG || bytes < 1 || bytes > MAX_BLOCK_BYTES || bytes % UNIT_BYTES !== 0) {
      throw directoryError('expected at most 2^16 blocks, each a multiple of 32 bytes, up to 65536 bytes')
    }
    this.layout = new Layout(2 ** logOf, bytes, 1, 2 ** logOf) as Layout & LayoutHandle
    this.seed = seed.slice()
  }

  number(fingerprint: Uint8Array, shards = 1): number {
    const seeded = this.seeded(fingerprint)
    const { records } = this.layout
    const number = bitOf(hashOf(seeded, SHARD_LEVEL), shards) * records + bitOf(hashOf(seeded, NUMBER_LEVEL), records)
    seeded.fill(0)
    return number
  }

  index(bytes: Uint8Array, fingerprint: Uint8Array, records: number): number {
    const seeded = this.seeded(fingerprint)
    const hashes = Uint32Array.from({ length: MAX_LEVELS }, (_, level) => hashOf(seeded, level))
    try {
      expectLength('block of the directory', bytes, this.layout.recordBytes)
      return indexIn(bytes, fingerprint, level => hashes[level]!, records >>> 0)
    } finally {
      clean(seeded, hashes)
    }
  }

  seeded(fingerprint: Uint8Array): Uint8Array {
    expectLength('fingerprint', fingerprint, FINGERPRINT_BYTES)
    return fingerprint.map((byte, i) => byte ^ this.seed[i]!)
  }

  free(): void {}
}

/** The hash of a seeded fingerprint for a level. */
type HashOf = (level: number) => number

/** The hashes' place among the keys that a block has from the beginning, −1 if it is one of them, and where the overlay begins. */
export function perfectIn(block: DataView, hashOf: HashOf): { perfect: number; found: number; at: number } {
  const keys = block.getUint16(4, true)
  let [at, left, found, perfect] = [HEADER_BYTES, keys, 0, 0]
  for (let level = 0; left > 0; level++) {
    if (level === MAX_LEVELS) throw directoryError('a block has more than 31 levels')
    const words = Math.ceil((2 * left) / WORD_BITS)
    if (at + words * WORD_BYTES > block.byteLength) throw tooShort()
    const bit = bitOf(hashOf(level), words * WORD_BITS)
    const { ones, below, isSet } = countOnes(block, at, 2 * words, bit)
    if (ones > left) throw directoryError('a level has more keys than were left for it')
    perfect = select(found | ~isSet, perfect, keys - left + below)
    found |= isSet
    left -= ones
    at += words * WORD_BYTES
  }
  return { perfect, found, at }
}

/** The index of a fingerprint with these hashes, from its padded block. Throws `directory`. */
function indexIn(bytes: Uint8Array, fingerprint: Uint8Array, hashOf: HashOf, records: number): number {
  const block = viewOf(bytes)
  const entries = block.getUint16(6, true)
  let { perfect, found, at } = perfectIn(block, hashOf)
  // An index beyond u32 counts as none.
  const sum = block.getUint32(0, true) + perfect
  found &= -Number(sum < NONE)
  let index = select(found, sum, remainder(fingerprint, Math.max(records, 1)))

  if (at + entries * ENTRY_BYTES > bytes.length) throw tooShort()
  let previous = -1
  for (let entry = 0; entry < entries; entry++, at += ENTRY_BYTES) {
    const print = bytes.subarray(at, at + FINGERPRINT_BYTES)
    if (previous >= 0 && !isAscending(bytes.subarray(previous, previous + FINGERPRINT_BYTES), print)) {
      throw directoryError('an overlay is not strictly ascending')
    }
    previous = at
    let differing = 0
    for (let i = 0; i < FINGERPRINT_BYTES; i++) differing |= print[i]! ^ fingerprint[i]!
    index = select(isEqual(differing, 0), block.getUint32(at + FINGERPRINT_BYTES, true), index)
  }
  let padding = 0
  for (; at < bytes.length; at++) padding |= bytes[at]!
  if (padding !== 0) throw directoryError("a block's padding is not zero")
  if (index >>> 0 >= records) throw directoryError('it leads beyond the database')
  return index >>> 0
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
}

export function tooShort() {
  return directoryError('the bytes end too early')
}

/** The bits that are set in some words of 32 bits, those of them below a bit, and whether that bit is set. */
function countOnes(block: DataView, at: number, words: number, bit: number) {
  let [ones, below, isSet] = [0, 0, 0]
  for (let word = 0; word < words; word++) {
    const value = block.getUint32(at + 4 * word, true)
    const isHere = isEqual(word, bit >> 5)
    // Of this word: none if it is after the bit's, those below the bit if it is the bit's, or all.
    const lower = select(isHere, (1 << (bit & 31)) - 1, (word - (bit >> 5)) >> 31)
    ones += popcount(value)
    below += popcount(value & lower)
    isSet |= isHere & -((value >>> (bit & 31)) & 1)
  }
  return { ones, below, isSet }
}

function popcount(word: number): number {
  const pairs = word - ((word >>> 1) & 0x5555_5555)
  const fours = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24
}

/** Whether a < b, as bytes. Reads all of them. */
export function isAscending(a: Uint8Array, b: Uint8Array): boolean {
  let order = 0
  for (let i = FINGERPRINT_BYTES - 1; i >= 0; i--) {
    const difference = a[i]! - b[i]!
    order = select(isEqual(difference, 0), order, difference)
  }
  return order < 0
}

/** The fingerprint, a number of 128 bits, modulo `bound`: bit by bit, in the same steps for every fingerprint. */
function remainder(fingerprint: Uint8Array, bound: number): number {
  let rest = 0
  for (let bit = 8 * FINGERPRINT_BYTES - 1; bit >= 0; bit--) {
    rest = 2 * rest + ((fingerprint[bit >> 3]! >> (bit & 7)) & 1)
    rest -= bound * Number(rest >= bound)
  }
  return rest
}
