// docs/protocol.md, Directory: its bytes, its evaluation, and the builder that our operators share.

import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js'
import { Reader, Writer } from './bytes.js'
import { directorySeed } from './hash.js'

const U64 = 2n ** 64n
const U32 = 2n ** 32n

/** Bits of one level; `words` has ⌈bits/64⌉ u64s. */
interface Level {
  readonly bits: number
  readonly words: readonly bigint[]
}

export interface Directory {
  readonly keys: number
  readonly seed: Uint8Array
  readonly levels: readonly Level[]
  /** fingerprint in hex → index */
  readonly overlay: ReadonlyMap<string, number>
}

/** Of a database of N records, beyond which it must not lead. */
export function decodeDirectory(bytes: Uint8Array, records: number): Directory {
  const reader = new Reader(bytes)
  reader.expect('magic', 'PIRD')
  if (reader.u16() !== 1) throw new Error('unknown directory format')
  const levelCount = reader.u16()
  if (levelCount < 1 || levelCount > 32) throw new Error(`${levelCount} levels`)
  const keys = reader.u32()
  if (keys < 1 || keys > records) throw new Error(`a directory of ${keys} keys`)
  const overlayCount = reader.u32()
  const seed = reader.take(16)
  const sizes = Array.from({ length: levelCount }, () => reader.u32())
  if (sizes.includes(0)) throw new Error('a level of no bits')
  const levels = sizes.map(bits => ({
    bits,
    words: Array.from({ length: Math.ceil(bits / 64) }, () => reader.u64()),
  }))
  for (const { bits, words } of levels) {
    if (bits % 64 !== 0 && words.at(-1)! >> BigInt(bits % 64) !== 0n) throw new Error('bits beyond a level')
  }
  if (levels.reduce((sum, level) => sum + onesBefore(level, level.bits), 0) !== keys) throw new Error('wrong n')
  const overlay = Array.from({ length: overlayCount }, () => [bytesToHex(reader.take(16)), reader.u32()] as const)
  if (overlay.some(([print], i) => i > 0 && print <= overlay[i - 1]![0])) throw new Error('overlay out of order')
  if (overlay.some(([, index]) => index >= records)) throw new Error('overlay beyond the database')
  reader.end()
  return { keys, seed, levels, overlay: new Map(overlay) }
}

/** The overlay has to be in order. */
export function encodeDirectory({ keys, seed, levels, overlay }: Directory): Uint8Array {
  const writer = new Writer().put('PIRD').u16(1).u16(levels.length).u32(keys).u32(overlay.size).put(seed)
  for (const { bits } of levels) writer.u32(bits)
  for (const word of levels.flatMap(level => level.words)) writer.u64(word)
  for (const [print, index] of overlay) writer.put(hexToBytes(print)).u32(index)
  return writer.bytes()
}

/** The index that a fingerprint leads to in a database of N records. */
export function indexOf(directory: Directory, fingerprint: Uint8Array, records: number): number {
  const added = directory.overlay.get(bytesToHex(fingerprint))
  if (added !== undefined) return added
  const { low, high } = halves(fingerprint)
  return perfectIndex(directory, fingerprint) ?? Number((high * U64 + low) % BigInt(records))
}

/** The index that a level has for a fingerprint; undefined: none has. */
export function perfectIndex(directory: Directory, fingerprint: Uint8Array): number | undefined {
  let before = 0
  for (const [i, level] of directory.levels.entries()) {
    const bit = bitAt(i, level.bits, fingerprint, directory.seed)
    if (isSet(level, bit)) return before + onesBefore(level, bit)
    before += onesBefore(level, level.bits)
  }
  return undefined
}

export function buildDirectory(fingerprints: readonly Uint8Array[]): Directory {
  const sorted = [...fingerprints].sort((a, b) => (bytesToHex(a) < bytesToHex(b) ? -1 : 1))
  const seed = directorySeed(sorted)
  const levels: Level[] = []
  for (let left = sorted; left.length > 0; ) {
    if (levels.length === 32) throw new Error('keys cannot be placed: one of them is there twice')
    const bits = Math.max(255, 2 * left.length)
    const bitOf = (print: Uint8Array) => bitAt(levels.length, bits, print, seed)
    const wanted = new Map<number, number>()
    for (const bit of left.map(bitOf)) wanted.set(bit, (wanted.get(bit) ?? 0) + 1)

    const words = Array.from({ length: Math.ceil(bits / 64) }, () => 0n)
    for (const [bit, count] of wanted) if (count === 1) words[Math.floor(bit / 64)]! |= 1n << BigInt(bit % 64)
    left = left.filter(print => wanted.get(bitOf(print))! > 1)
    levels.push({ bits, words })
  }
  return { keys: sorted.length, seed, levels, overlay: new Map() }
}

function bitAt(level: number, bits: number, fingerprint: Uint8Array, seed: Uint8Array): number {
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

function isSet({ words }: Level, bit: number): boolean {
  return ((words[Math.floor(bit / 64)]! >> BigInt(bit % 64)) & 1n) === 1n
}

function onesBefore({ words }: Level, bit: number): number {
  const whole = words.slice(0, Math.floor(bit / 64))
  const rest = bit % 64 === 0 ? 0n : words[whole.length]! % (1n << BigInt(bit % 64))
  return [...whole, rest].reduce((sum, word) => sum + ones(word), 0)
}

function ones(word: bigint): number {
  return word.toString(2).replaceAll('0', '').length
}
