// docs/protocol.md, Light hints: what both servers compute, and what a client checks.

import { concatBytes } from '@noble/hashes/utils.js'
import { Writer } from './bytes.js'
import { type Layout, split } from './layout.js'
import { permutations, Words } from './random.js'
import { linearTag, multiply, wordOf, wordsOf } from './tags.js'

const U64 = 2n ** 64n

export interface Secrets {
  readonly hintId: Uint8Array
  /** s, for the refresh server */
  readonly seed: Uint8Array
  /** of the retrieve server's tags */
  readonly check: Check
  /** of the refresh server's, for a hint that keeps tags */
  readonly crosswise: Check
}

/** A key for one server's tags, and the seed of challenge words for the other's sum. */
interface Check {
  readonly point: Uint8Array
  readonly challenge: Uint8Array
}

export function secretsOf(root: Uint8Array): Secrets {
  const draw = (below: bigint, bytes: number) => {
    const words = new Words(root, U64 - below)
    const writer = new Writer()
    for (let i = 0; i < bytes / 4; i++) writer.u32(words.next())
    return writer.bytes()
  }
  return {
    hintId: draw(1n, 16),
    seed: draw(3n, 32),
    check: { point: draw(5n, 8), challenge: draw(4n, 32) },
    crosswise: { point: draw(7n, 8), challenge: draw(8n, 32) },
  }
}

/** What the refresh server is shown, and the retrieve server. */
export function requests({ seed, check, crosswise }: Secrets, keepsTags: boolean): [Uint8Array, Uint8Array] {
  return [
    concatBytes(seed, check.challenge, ...(keepsTags ? [crosswise.point] : [])),
    concatBytes(check.point, ...(keepsTags ? [crosswise.challenge] : [])),
  ]
}

/** What both reply: parities, the sum for `check` and perhaps tags; perhaps the other sum, and tags. `records`: all Q·M. */
export function replies(
  layout: Layout,
  records: readonly Uint8Array[],
  { seed, check, crosswise }: Secrets,
  keepsTags: boolean,
): [Uint8Array, Uint8Array] {
  const { partitions, partitionRecords: m, recordBytes } = layout
  const parities = Array.from({ length: m }, () => new Uint8Array(recordBytes))
  permutations(partitions, m, seed).forEach((permutation, q) => {
    permutation.forEach((offset, j) => {
      for (const [i, byte] of records[q * m + offset]!.entries()) parities[j]![i]! ^= byte
    })
  })
  const tags = (point: Uint8Array, of: readonly Uint8Array[]) => {
    const writer = new Writer()
    for (const record of of) writer.u64(linearTag(wordOf(point), record))
    return writer.bytes()
  }
  const sent = records.slice(0, (partitions - 1) * m)
  return [
    concatBytes(...parities, sum(layout, records, check), ...(keepsTags ? [tags(crosswise.point, sent)] : [])),
    concatBytes(...(keepsTags ? [sum(layout, records, crosswise)] : []), tags(check.point, records)),
  ]
}

/** ⊕ of all slots, each of their words times their challenge word. */
function sum(layout: Layout, records: readonly Uint8Array[], { challenge }: Check): Uint8Array {
  const words = challenges(layout, challenge)
  const sums = records
    .map((record, i) => wordsOf(record).map(word => multiply(word, words[i]!)))
    .reduce((sums, of) => sums.map((sum, i) => sum ^ of[i]!))
  const writer = new Writer()
  for (const sum of sums) writer.u64(sum)
  return writer.bytes()
}

/** Whether checks A and B hold, and A′ of a hint that keeps tags; and what such a hint keeps. */
export function checks(
  layout: Layout,
  secrets: Secrets,
  [hint, tags]: readonly [Uint8Array, Uint8Array],
  keepsTags: boolean,
): { readonly a: boolean; readonly b: boolean; readonly crosswise: boolean; readonly kept: Uint8Array } {
  const { partitions, partitionRecords: m, recordBytes } = layout
  const sumBytes = 8 * Math.ceil(recordBytes / 8)
  const parities = split(hint.subarray(0, m * recordBytes), recordBytes)
  const ownSum = hint.subarray(m * recordBytes, m * recordBytes + sumBytes)
  const one = split(tags.subarray(keepsTags ? sumBytes : 0), 8).map(wordOf)
  const columns = permutations(partitions, m, secrets.seed)
  // What the tags of a column have to add up to.
  const wanted = (point: Uint8Array) => parities.map(parity => linearTag(wordOf(point), parity))
  const column = (tags: readonly bigint[], j: number) =>
    columns.reduce((sum, permutation, q) => sum ^ (tags[q * m + permutation[j]!] ?? 0n), 0n)
  const b = wanted(secrets.check.point).every((tag, j) => tag === column(one, j))
  const a = agrees(layout, secrets.check, ownSum, one)
  if (!keepsTags) return { a, b, crosswise: true, kept: new Uint8Array() }

  const { point } = secrets.crosswise
  const other = split(hint.subarray(m * recordBytes + sumBytes), 8).map(wordOf)
  const last = new Map(wanted(point).map((tag, j) => [columns[partitions - 1]![j]!, tag ^ column(other, j)]))
  for (let offset = 0; offset < m; offset++) other.push(last.get(offset)!)
  const crosswise = agrees(layout, secrets.crosswise, tags.subarray(0, sumBytes), other)
  const writer = new Writer()
  writer.put(secrets.check.point, point)
  for (const [i, tag] of one.entries()) writer.u64(tag ^ other[i]!)
  return { a, b, crosswise, kept: writer.bytes() }
}

function agrees(layout: Layout, { point, challenge }: Check, sum: Uint8Array, tags: readonly bigint[]): boolean {
  const words = challenges(layout, challenge)
  return linearTag(wordOf(point), sum) === tags.reduce((sum, tag, i) => sum ^ multiply(tag, words[i]!), 0n)
}

function challenges({ partitions, partitionRecords }: Layout, challenge: Uint8Array): bigint[] {
  const words = new Words(challenge, 0)
  return Array.from({ length: partitions * partitionRecords }, () => {
    const low = BigInt(words.next())
    return low + (BigInt(words.next()) << 32n)
  })
}
