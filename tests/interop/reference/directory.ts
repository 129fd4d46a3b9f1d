// docs/protocol.md, Directory: its bytes and its blocks, their evaluation, and the builder that our operators share.

import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js'
import { isZero, Reader, Writer } from './bytes.js'
import { directorySeed } from './hash.js'
import { instantBytes } from './instant.js'
import { type Layout, split } from './layout.js'
import { tree } from './merkle.js'

const U64 = 2n ** 64n
const U32 = 2n ** 32n
const MOST_LEVELS = 31

interface Block {
  readonly base: number
  readonly keys: number
  /** of each level, as u64s */
  readonly levels: readonly (readonly bigint[])[]
  /** fingerprint in hex → index, in order */
  readonly overlay: ReadonlyMap<string, number>
}

/** What a manifest says of a directory: b, L and the seed. */
export interface Shape {
  readonly blockLog: number
  readonly blockBytes: number
  readonly seed: Uint8Array
}

export interface Directory extends Shape {
  readonly blocks: readonly Block[]
}

/** Of a database of N records, beyond which it must not lead. */
export function decodeDirectory(bytes: Uint8Array, records: number): Directory {
  const reader = new Reader(bytes)
  reader.expect('magic', 'PIRD')
  if (reader.u16() !== 1) throw new Error('unknown directory format')
  const shape = { blockLog: reader.u16(), blockBytes: reader.u32() }
  if (reader.u32() !== 0) throw new Error('reserved bytes')
  const seed = reader.take(16)
  checkShape(shape)
  const blocks: Block[] = []
  let keys = 0
  for (let number = 0; number < 2 ** shape.blockLog; number++) {
    const block = decodeBlock(reader)
    if (encodeBlock(block).length > shape.blockBytes) throw new Error('a block longer than L')
    if (block.base !== keys) throw new Error('a wrong base')
    keys += block.keys
    for (const [print, index] of block.overlay) {
      if (index >= records) throw new Error('overlay beyond the database')
      if (blockOf({ ...shape, seed }, hexToBytes(print)) !== number) throw new Error('an entry of another block')
    }
    blocks.push(block)
  }
  reader.end()
  if (keys < 1 || keys > records) throw new Error(`a directory of ${keys} keys`)
  return { ...shape, seed, blocks }
}

export function checkShape({ blockLog, blockBytes }: Pick<Shape, 'blockLog' | 'blockBytes'>): void {
  if (blockLog > 16) throw new Error(`2^${blockLog} blocks`)
  if (blockBytes < 32 || blockBytes > 65_536 || blockBytes % 32 !== 0) throw new Error(`blocks of ${blockBytes} bytes`)
}

function decodeBlock(reader: Reader): Block {
  const [base, keys, entries] = [reader.u32(), reader.u16(), reader.u16()]
  const levels: bigint[][] = []
  for (let left = keys; left > 0; ) {
    if (levels.length === MOST_LEVELS) throw new Error('too many levels')
    const level = Array.from({ length: Math.ceil(left / 32) }, () => reader.u64())
    left -= onesIn(level)
    if (left < 0) throw new Error('more keys than were left')
    levels.push(level)
  }
  const overlay = Array.from({ length: entries }, () => [bytesToHex(reader.take(16)), reader.u32()] as const)
  if (overlay.some(([print], i) => i > 0 && print <= overlay[i - 1]![0])) throw new Error('overlay out of order')
  return { base, keys, levels, overlay: new Map(overlay) }
}

function encodeBlock({ base, keys, levels, overlay }: Block): Uint8Array {
  const writer = new Writer().u32(base).u16(keys).u16(overlay.size)
  for (const word of levels.flat()) writer.u64(word)
  for (const [print, index] of overlay) writer.put(hexToBytes(print)).u32(index)
  return writer.bytes()
}

/** Overlays have to be in order. */
export function encodeDirectory({ blockLog, blockBytes, seed, blocks }: Directory): Uint8Array {
  const writer = new Writer().put('PIRD').u16(1).u16(blockLog).u32(blockBytes).u32(0).put(seed)
  return writer.put(...blocks.map(encodeBlock)).bytes()
}

/** The blocks as records of L bytes, in one partition. */
export function blockLayout({ blockLog, blockBytes }: Pick<Shape, 'blockLog' | 'blockBytes'>): Layout {
  const blocks = 2 ** blockLog
  return { records: blocks, recordBytes: blockBytes, partitions: 1, partitionRecords: blocks }
}

export function paddedBlocks(directory: Directory): Uint8Array {
  const padded = new Uint8Array(directory.blocks.length * directory.blockBytes)
  for (const [i, block] of directory.blocks.entries()) padded.set(encodeBlock(block), i * directory.blockBytes)
  return padded
}

export function directoryCommitment(directory: Directory): Uint8Array {
  return tree(split(paddedBlocks(directory), directory.blockBytes)).at(-1)![0]!
}

/** The number of a fingerprint's block. */
export function blockOf({ blockLog, seed }: Pick<Shape, 'blockLog' | 'seed'>, fingerprint: Uint8Array): number {
  return bitAt(31, 2 ** blockLog, fingerprint, seed)
}

/** The index that a fingerprint leads to in a database of N records. */
export function indexOf(directory: Directory, fingerprint: Uint8Array, records: number): number {
  return indexIn(directory.blocks[blockOf(directory, fingerprint)]!, directory.seed, fingerprint, records)
}

/** The same by its block alone, with the padding. */
export function indexByBlock(seed: Uint8Array, padded: Uint8Array, fingerprint: Uint8Array, records: number): number {
  const block = decodeBlock(new Reader(padded))
  if (!isZero(padded.subarray(encodeBlock(block).length))) throw new Error('padding')
  const index = indexIn(block, seed, fingerprint, records)
  if (index >= records) throw new Error('beyond the database')
  return index
}

function indexIn(block: Block, seed: Uint8Array, fingerprint: Uint8Array, records: number): number {
  const added = block.overlay.get(bytesToHex(fingerprint))
  if (added !== undefined) return added
  const { low, high } = halves(fingerprint)
  return perfectIndexIn(block, seed, fingerprint) ?? Number((high * U64 + low) % BigInt(records))
}

function perfectIndexIn({ base, levels }: Block, seed: Uint8Array, fingerprint: Uint8Array): number | undefined {
  let before = base
  for (const [i, level] of levels.entries()) {
    const bit = bitAt(i, 64 * level.length, fingerprint, seed)
    if (((level[Math.floor(bit / 64)]! >> BigInt(bit % 64)) & 1n) === 1n) {
      const whole = level.slice(0, Math.floor(bit / 64))
      return before + onesIn([...whole, level[whole.length]! % (1n << BigInt(bit % 64))])
    }
    before += onesIn(level)
  }
  return undefined
}

/** A directory block would be longer than L: of several, the first. */
export class Overfull extends Error {
  constructor(readonly block: number) {
    super(`directory block ${block} has no room`)
  }
}

/** Sets and removes entries of the overlay; one that says what a perfect hash says is left out. Throws Overfull. */
export function withOverlay(
  directory: Directory,
  changes: readonly (readonly [Uint8Array, number | undefined])[],
): Directory {
  const blocks = [...directory.blocks]
  for (const [print, index] of changes) {
    const number = blockOf(directory, print)
    const block = blocks[number]!
    const overlay = new Map(block.overlay)
    if (index === undefined || perfectIndexIn(block, directory.seed, print) === index) overlay.delete(bytesToHex(print))
    else overlay.set(bytesToHex(print), index)
    blocks[number] = { ...block, overlay: new Map([...overlay].sort(([a], [b]) => (a < b ? -1 : 1))) }
  }
  const overfull = blocks.findIndex(block => encodeBlock(block).length > directory.blockBytes)
  if (overfull !== -1) throw new Overfull(overfull)
  return { ...directory, blocks }
}

/** `slots`: Q·M */
export function buildDirectory(fingerprints: readonly Uint8Array[], slots: number): Directory {
  const sorted = [...fingerprints].sort((a, b) => (bytesToHex(a) < bytesToHex(b) ? -1 : 1))
  const seed = directorySeed(sorted)
  const { blockLog, room } = planBlocks(sorted.length, slots)
  const keys: Uint8Array[][] = Array.from({ length: 2 ** blockLog }, () => [])
  for (const print of sorted) keys[blockOf({ blockLog, seed }, print)]!.push(print)
  let base = 0
  const blocks = keys.map(prints => {
    const levels: bigint[][] = []
    for (let left = prints; left.length > 0; ) {
      if (levels.length === MOST_LEVELS) throw new Error('keys cannot be placed: one of them is there twice')
      const words = Array.from({ length: Math.ceil(left.length / 32) }, () => 0n)
      const bitOf = (print: Uint8Array) => bitAt(levels.length, 64 * words.length, print, seed)
      const wanted = new Map<number, number>()
      for (const bit of left.map(bitOf)) wanted.set(bit, (wanted.get(bit) ?? 0) + 1)
      for (const [bit, count] of wanted) if (count === 1) words[Math.floor(bit / 64)]! |= 1n << BigInt(bit % 64)
      left = left.filter(print => wanted.get(bitOf(print))! > 1)
      levels.push(words)
    }
    base += prints.length
    return { base: base - prints.length, keys: prints.length, levels, overlay: new Map<string, number>() }
  })
  const longest = Math.max(...blocks.map(block => encodeBlock(block).length))
  return { blockLog, blockBytes: 32 * Math.ceil((longest + 20 * room) / 32), seed, blocks }
}

/** b, and overlay entries a block. */
export function planBlocks(keys: number, slots: number): { blockLog: number; room: number } {
  const added = Math.max(slots - keys, Math.floor(keys / 16), 1024)
  const root = (n: number) => Math.ceil(Math.sqrt(n))
  const plans = Array.from({ length: 17 }, (_, blockLog) => {
    const [k, a] = [Math.ceil(keys / 2 ** blockLog), Math.ceil(added / 2 ** blockLog)]
    const room = a + 6 * root(a) + 4
    const blockBytes = 32 * Math.ceil((16 + Math.ceil((k + 4 * root(k)) / 2) + 20 * room) / 32)
    const traffic = blockBytes > 65_536 ? Number.POSITIVE_INFINITY : instantBytes(blockLayout({ blockLog, blockBytes }))
    return { blockLog, room, traffic }
  })
  const least = Math.min(...plans.map(({ traffic }) => traffic))
  return plans.find(({ traffic }) => traffic - least <= Math.floor(least / 2))!
}

export function bitAt(level: number, bits: number, fingerprint: Uint8Array, seed: Uint8Array): number {
  const { low, high } = halves(fingerprint.map((byte, i) => byte ^ seed[i]!))
  const levelSeed = 4n ** BigInt(level) % U64
  const a = rotate32(low) ^ levelSeed ^ 0xa0761d6478bd642fn
  const b = rotate32(high) ^ 0x8ebc6af09c88c6e3n
  const h = multiplyUnfolded(multiplyUnfolded(a, b), 16n ^ 0xeb44accab455d165n)
  return Number((((h % U32) ^ (h >> 32n)) * BigInt(bits)) >> 32n)
}

/** `mum`: the XOR of the two halves of the 128-bit product. */
function multiplyUnfolded(a: bigint, b: bigint): bigint {
  const product = a * b
  return (product % U64) ^ (product / U64)
}

const rotate32 = (x: bigint) => (x % U32) * U32 + x / U32

function halves(bytes: Uint8Array): { low: bigint; high: bigint } {
  const reader = new Reader(bytes)
  return { low: reader.u64(), high: reader.u64() }
}

function onesIn(words: readonly bigint[]): number {
  return words.reduce((sum, word) => sum + word.toString(2).replaceAll('0', '').length, 0)
}
