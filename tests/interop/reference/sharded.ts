// docs/protocol/sharded.md: what a coordinator makes of a query and of its shards' answers, node by node, and its manifest.

import { concatBytes } from '@noble/hashes/utils.js'
import { isZero, Reader, readFields } from './bytes.js'
import { bitAt, type Shape } from './directory.js'
import { node } from './hash.js'
import { groupsOf, stretch, xor } from './instant.js'
import type { Layout } from './layout.js'
import { HEADER_FIELDS } from './manifest.js'

/** What lookups see of `shards` databases of one layout: one partition. */
export function joined({ partitions, partitionRecords, ...layout }: Layout, shards: number): Layout {
  const records = shards * partitions * partitionRecords
  return { ...layout, records, partitions: 1, partitionRecords: records }
}

/** The levels above the partitions, their commitments first and the root last. */
export function upperLevels(commitments: readonly Uint8Array[]): Uint8Array[][] {
  const levels = [[...commitments]]
  for (let below = levels[0]!; below.length > 1; below = levels.at(-1)!) {
    levels.push(Array.from({ length: below.length / 2 }, (_, j) => node(below[2 * j]!, below[2 * j + 1]!)))
  }
  return levels
}

/** The seed and the bit of node j, so many levels below a key's root. */
function nodeOf(n: number, key: Uint8Array, levels: number, j: number) {
  const words = n - 7
  let [seed, control] = [key.subarray(0, 16), key.at(-1)!]
  for (let level = 0; level < levels; level++) {
    const side = (j >> (levels - 1 - level)) & 1
    const { children, controls } = stretch(seed)
    const at = 2 * level + side
    const bit = (key[16 + 16 * words + Math.floor(at / 8)]! >> (at % 8)) & 1
    seed = control ? xor(children[side]!, key.subarray(16 + 16 * level, 32 + 16 * level)) : children[side]!
    control = controls[side]! ^ (control & bit)
  }
  return { seed, control }
}

/** The keys of the shards. */
export function keysOf(whole: Layout, shards: number, key: Uint8Array): Uint8Array[] {
  const { n } = groupsOf(whole)
  const above = Math.log2(shards)
  const [words, left] = [n - 7, n - 7 - above]
  const bits = new Uint8Array(Math.ceil(left / 4))
  for (let at = 0; at < 2 * left; at++) {
    const from = at + 2 * above
    bits[Math.floor(at / 8)]! |= ((key[16 + 16 * words + Math.floor(from / 8)]! >> (from % 8)) & 1) << (at % 8)
  }
  return Array.from({ length: shards }, (_, s) => {
    const { seed, control } = nodeOf(n, key, above, s)
    const ofLevels = key.subarray(16 + 16 * above, 16 + 16 * words)
    return concatBytes(seed, ofLevels, bits, key.subarray(-17, -1), Uint8Array.of(control))
  })
}

/** A bit for each partition, of a key. */
export function partitionBits(whole: Layout, partitions: number, key: Uint8Array): number[] {
  const { n } = groupsOf(whole)
  return Array.from({ length: partitions }, (_, p) => nodeOf(n, key, Math.log2(partitions), p).control)
}

/** A bit for each partition, of a share. */
export function parities(share: readonly boolean[], partitions: number): number[] {
  const each = share.length / partitions
  return Array.from({ length: partitions }, (_, p) => share.slice(p * each, (p + 1) * each).filter(Boolean).length % 2)
}

/** The sums of the siblings above the partitions. */
export function upperSiblings(levels: readonly Uint8Array[][], bits: readonly number[]): Uint8Array {
  return concatBytes(
    ...levels.slice(0, -1).map(level => {
      const chosen = level.filter((_, j) => bits[j ^ 1] === 1)
      bits = level.slice(level.length / 2).map((_, j) => bits[2 * j]! ^ bits[2 * j + 1]!)
      return chosen.reduce(xor, new Uint8Array(32))
    }),
  )
}

/** The number of a key's block among those of all shards. */
export function blockAmong(
  { blockLog, seed }: Pick<Shape, 'blockLog' | 'seed'>,
  shards: number,
  fingerprint: Uint8Array,
): number {
  return bitAt(32, shards, fingerprint, seed) * 2 ** blockLog + bitAt(31, 2 ** blockLog, fingerprint, seed)
}

/** Behind the header. */
const SHARDED_FIELDS = { root: 32, shards: 4, reserved: 28 } as const
const { magic: _, ...BEHIND_MAGIC } = HEADER_FIELDS

/** Root and S of a manifest; throws unless it is one of suite 11. */
export function readSharded(bytes: Uint8Array): { readonly root: Uint8Array; readonly shards: number } {
  const reader = new Reader(bytes)
  reader.expect('magic', 'PIRM')
  const { suite } = readFields(reader, BEHIND_MAGIC) as { suite: number }
  type Behind = Readonly<{ root: Uint8Array; shards: number; reserved: Uint8Array }>
  const { root, shards, reserved } = readFields(reader, SHARDED_FIELDS) as Behind
  reader.end()
  if (suite !== 11 || !isZero(reserved) || isZero(root)) throw new Error('another manifest')
  return { root, shards }
}
