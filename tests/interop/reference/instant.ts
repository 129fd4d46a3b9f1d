// docs/protocol.md, Instant lookups: keys of the distributed point function, evaluated point by point; a server's answer,
// group by group; and what a client accepts.

import { chacha20, chacha20orig } from '@noble/ciphers/chacha.js'
import { equalBytes } from '@noble/ciphers/utils.js'
import { concatBytes } from '@noble/hashes/utils.js'
import { isZero } from './bytes.js'
import { leaf, node } from './hash.js'
import { blocksOf, depth, type Layout, placeOf, split } from './layout.js'
import { tree } from './merkle.js'

/** The suites with two servers, which stand for the generator of `stretch`. */
export const SUITES = { records: 4, 'directory blocks': 5 } as const

const LEAF_BITS = 128
const ABSENT = new Uint8Array(32)

/** What follows from a. */
function grouped(layout: Layout, a: number) {
  const { recordBytes, partitions, partitionRecords } = blocksOf(layout)
  const [d, perPartition] = [depth(layout), Math.ceil(partitionRecords / 2 ** a)]
  const n = Math.max(7, Math.ceil(Math.log2(partitions * perPartition)))
  const groupBytes = recordBytes * 2 ** a
  return {
    a,
    d,
    perPartition,
    n,
    groupBytes,
    groups: partitions * perPartition,
    answerBytes: groupBytes + 32 * (d - a),
  }
}

export type Groups = ReturnType<typeof grouped>

/** The groups for two servers. */
export function groupsOf(layout: Layout): Groups {
  const { recordBytes } = blocksOf(layout)
  let a = 0
  while (recordBytes * 2 ** a < 256 && a < depth(layout)) a++
  return grouped(layout, a)
}

/** The groups for three servers or more: those for which all bodies together are shortest. */
export function groupsAmong(layout: Layout, servers: number): Groups {
  const bodies = ({ groups, answerBytes }: Groups) => 32 * (servers - 1) + Math.ceil(groups / 8) + servers * answerBytes
  const all = Array.from({ length: depth(layout) + 1 }, (_, a) => grouped(layout, a))
  return all.reduce((best, each) => (bodies(each) < bodies(best) ? each : best))
}

export function answerBytes(layout: Layout): number {
  return groupsOf(layout).answerBytes
}

/** The bits of the groups that a seed stands for. */
function seedBits({ groups }: Groups, seed: Uint8Array): boolean[] {
  return bitsOf(groups, chacha20(seed, new Uint8Array(12), new Uint8Array(Math.ceil(groups / 8))))
}

function bitsOf(groups: number, vector: Uint8Array): boolean[] {
  return Array.from({ length: groups }, (_, t) => ((vector[Math.floor(t / 8)]! >> (t % 8)) & 1) === 1)
}

/** The bits that a query stands for; throws for what is none. */
export function shareBits(groups: Groups, vectors: boolean, query: Uint8Array): boolean[] {
  if (query.length !== (vectors ? Math.ceil(groups.groups / 8) : 32)) throw new Error('another length')
  if (!vectors) return seedBits(groups, query)
  if (
    bitsOf(8 * query.length, query)
      .slice(groups.groups)
      .includes(true)
  )
    throw new Error('unused bits')
  return bitsOf(groups.groups, query)
}

/** The vector that, with the seeds' shares, adds up to one group. */
export function lastVector(groups: Groups, group: number, seeds: readonly Uint8Array[]): Uint8Array {
  const vector = new Uint8Array(Math.ceil(groups.groups / 8))
  const shares = seeds.map(seed => seedBits(groups, seed))
  for (let t = 0; t < groups.groups; t++) {
    const bit = shares.reduce((sum, share) => sum !== share[t], t === group)
    vector[Math.floor(t / 8)]! |= Number(bit) << (t % 8)
  }
  return vector
}

function queryBytes(layout: Layout): number {
  const { n } = groupsOf(layout)
  return 33 + 16 * (n - 7) + Math.ceil((n - 7) / 4)
}

/** One query and one answer. */
export const instantBytes = (layout: Layout) => queryBytes(layout) + answerBytes(layout)

/** 48 bytes of one block under a 16-byte seed. */
export function stretch(seed: Uint8Array) {
  const block = chacha20orig(seed, new Uint8Array(8), new Uint8Array(48))
  const children = [block.subarray(0, 16), block.subarray(16, 32)] as const
  return { children, controls: [block[32]! & 1, (block[32]! >> 1) & 1] as const }
}

export const xor = (a: Uint8Array, b: Uint8Array) => a.map((byte, i) => byte ^ b[i]!)

/** Both parties' keys for a group. */
export function generate(n: number, group: number, seeds: readonly [Uint8Array, Uint8Array]): [Uint8Array, Uint8Array] {
  const words: Uint8Array[] = []
  const bits = new Uint8Array(Math.ceil((n - 7) / 4))
  let nodes: readonly Uint8Array[] = seeds
  let controls = [0, 1]
  for (let level = 0; level < n - 7; level++) {
    const keep = Math.floor(group / 2 ** (n - 1 - level)) % 2
    const stretched = nodes.map(stretch)
    const [zero, one] = [stretched[0]!, stretched[1]!]
    const word = xor(zero.children[1 - keep]!, one.children[1 - keep]!)
    const correction = [0, 1].map(side => zero.controls[side]! ^ one.controls[side]! ^ (side === keep ? 1 : 0))
    words.push(word)
    correction.forEach((bit, side) => {
      const at = 2 * level + side
      bits[Math.floor(at / 8)]! |= bit << (at % 8)
    })
    nodes = stretched.map((of, party) => (controls[party] ? xor(of.children[keep]!, word) : of.children[keep]!))
    controls = stretched.map((of, party) => of.controls[keep]! ^ (controls[party]! & correction[keep]!))
  }
  const last = xor(stretch(nodes[0]!).children[0], stretch(nodes[1]!).children[0])
  last[Math.floor((group % LEAF_BITS) / 8)]! ^= 1 << (group % 8)
  const key = (party: 0 | 1) => concatBytes(seeds[party], ...words, bits, last, Uint8Array.of(party))
  return [key(0), key(1)]
}

/** Whether a group is in the key's sum. */
export function evaluate(n: number, key: Uint8Array, group: number): boolean {
  const levels = n - 7
  let seed = key.subarray(0, 16)
  let control = key.at(-1)! === 1
  for (let level = 0; level < levels; level++) {
    const side = Math.floor(group / 2 ** (n - 1 - level)) % 2
    const { children, controls } = stretch(seed)
    const at = 2 * level + side
    const bit = (key[16 + 16 * levels + Math.floor(at / 8)]! >> (at % 8)) & 1
    const next = controls[side]! ^ (control ? bit : 0)
    seed = control ? xor(children[side]!, key.subarray(16 + 16 * level, 32 + 16 * level)) : children[side]!
    control = next === 1
  }
  let outputs = stretch(seed).children[0]
  if (control) outputs = xor(outputs, key.subarray(-17, -1))
  return ((outputs[Math.floor((group % LEAF_BITS) / 8)]! >> (group % 8)) & 1) === 1
}

/** Of a request's body; throws for what are not such queries. */
export function splitQueries(layout: Layout, body: Uint8Array): Uint8Array[] {
  const levels = groupsOf(layout).n - 7
  const each = queryBytes(layout)
  if (body.length === 0 || body.length % each !== 0) throw new Error('no whole queries')
  const queries = split(body, each)
  for (const query of queries) {
    if (query.at(-1)! > 1) throw new Error('a third party')
    if (levels % 4 !== 0 && query.at(-18)! >> (2 * (levels % 4)) !== 0) throw new Error('unused bits')
  }
  return queries
}

/** `partitions`: Q times M·ℓ bytes. */
export function answer(layout: Layout, partitions: readonly Uint8Array[], key: Uint8Array): Uint8Array {
  const groups = groupsOf(layout)
  const share = Array.from({ length: groups.groups }, (_, group) => evaluate(groups.n, key, group))
  return answerTo(layout, groups, partitions, share)
}

/** `share`: a bit for each group. */
export function answerTo(
  layout: Layout,
  { a, d, perPartition, groupBytes }: Groups,
  partitions: readonly Uint8Array[],
  share: readonly boolean[],
): Uint8Array {
  const sum = new Uint8Array(groupBytes + 32 * (d - a))
  const add = (at: number, bytes: Uint8Array) => {
    for (const [i, byte] of bytes.entries()) sum[at + i]! ^= byte
  }
  partitions.forEach((partition, q) => {
    const levels = tree(split(partition, blocksOf(layout).recordBytes))
    let bits = share.slice(q * perPartition, (q + 1) * perPartition)
    bits.forEach((bit, t) => {
      if (bit) add(0, partition.subarray(t * groupBytes, (t + 1) * groupBytes))
    })
    for (let level = a; level < d; level++) {
      bits.forEach((bit, t) => {
        if (bit) add(groupBytes + 32 * (level - a), levels[level]![t ^ 1] ?? ABSENT)
      })
      bits = Array.from({ length: Math.ceil(bits.length / 2) }, (_, t) => bits[2 * t]! !== (bits[2 * t + 1] ?? false))
    }
  })
  return sum
}

/** The record at `index`; throws if one of the answers was changed. */
export function recon(
  layout: Layout,
  commitments: readonly Uint8Array[],
  index: number,
  answers: readonly Uint8Array[],
  { a, groupBytes } = groupsOf(layout),
): Uint8Array {
  const { recordBytes, partitionRecords } = blocksOf(layout)
  const sum = answers.reduce(xor)
  const { q, m, cut } = placeOf(layout, index)
  const t = Math.floor(m / 2 ** a)
  const size = Math.min(2 ** a, partitionRecords - t * 2 ** a)
  const inside = size * recordBytes
  let nodes = split(sum.subarray(0, inside), recordBytes).map(leaf)
  for (let level = 0; level < a; level++) {
    const below = nodes
    nodes = Array.from({ length: Math.ceil(below.length / 2) }, (_, i) =>
      node(below[2 * i]!, below[2 * i + 1] ?? ABSENT),
    )
  }
  const root = split(sum.subarray(groupBytes), 32).reduce(
    (digest, sibling, level) => ((t >> level) & 1 ? node(sibling, digest) : node(digest, sibling)),
    nodes[0]!,
  )
  if (!equalBytes(root, commitments[q]!) || !isZero(sum.subarray(inside, groupBytes))) throw new Error('a server lied')
  const at = (m % 2 ** a) * recordBytes
  return cut(sum.subarray(at, at + recordBytes))
}
