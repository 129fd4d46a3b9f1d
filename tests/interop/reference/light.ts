// docs/protocol.md, Linear tags and Light hints: what both servers compute, and what a client checks.

import { Reader, Writer } from './bytes.js'
import { type Layout, split } from './layout.js'
import { permutations, Words } from './random.js'

const U64 = 2n ** 64n

/** In GF(2^64). */
function multiply(a: bigint, b: bigint): bigint {
  let product = 0n
  for (let i = 63n; i >= 0n; i--) {
    product = (product << 1n) ^ (product >> 63n ? 0x1bn : 0n)
    if ((b >> i) & 1n) product ^= a
    product %= U64
  }
  return product
}

export function linearTag(point: bigint, record: Uint8Array): bigint {
  const padded = new Uint8Array(Math.ceil(record.length / 8) * 8)
  padded.set(record)
  return split(padded, 8).reduce((sum, word) => multiply(sum ^ new Reader(word).u64(), point), 0n)
}

export interface Secrets {
  readonly hintId: Uint8Array
  readonly seed: Uint8Array
  readonly challenge: Uint8Array
  readonly point: Uint8Array
}

export function secretsOf(root: Uint8Array): Secrets {
  const draw = (below: bigint, bytes: number) => {
    const words = new Words(root, U64 - below)
    const writer = new Writer()
    for (let i = 0; i < bytes / 4; i++) writer.u32(words.next())
    return writer.bytes()
  }
  return { hintId: draw(1n, 16), seed: draw(3n, 32), challenge: draw(4n, 32), point: draw(5n, 8) }
}

const pointOf = ({ point }: Secrets) => new Reader(point).u64()

/** The refresh server's reply: parities, then challenge sums. `records`: all Q·M. */
export function parities(layout: Layout, records: readonly Uint8Array[], { seed, challenge }: Secrets): Uint8Array {
  const { partitions, partitionRecords: m, recordBytes } = layout
  const reply = new Uint8Array((m + 64) * recordBytes)
  const add = (at: number, record: Uint8Array) => {
    for (const [i, byte] of record.entries()) reply[at * recordBytes + i]! ^= byte
  }
  permutations(partitions, m, seed).forEach((permutation, q) => {
    permutation.forEach((offset, j) => void add(j, records[q * m + offset]!))
  })
  for (const [i, word] of challenges(layout, challenge).entries()) {
    for (let bit = 0; bit < 64; bit++) if ((word >> BigInt(bit)) & 1n) add(m + bit, records[i]!)
  }
  return reply
}

/** The retrieve server's. */
export function tags(records: readonly Uint8Array[], secrets: Secrets): Uint8Array {
  const writer = new Writer()
  for (const record of records) writer.u64(linearTag(pointOf(secrets), record))
  return writer.bytes()
}

/** Whether checks A and B hold. */
export function checks(layout: Layout, secrets: Secrets, reply: Uint8Array, tagBytes: Uint8Array) {
  const { partitions, partitionRecords: m, recordBytes } = layout
  const hashes = split(reply, recordBytes).map(sum => linearTag(pointOf(secrets), sum))
  const streamed = split(tagBytes, 8).map(tag => new Reader(tag).u64())
  const words = challenges(layout, secrets.challenge)
  const columns = permutations(partitions, m, secrets.seed)
    .map((permutation, q) => permutation.map(offset => streamed[q * m + offset]!))
    .reduce((columns, of) => columns.map((sum, j) => sum ^ of[j]!))
  const sums = Array.from({ length: 64 }, (_, bit) =>
    streamed.reduce((sum, tag, i) => ((words[i]! >> BigInt(bit)) & 1n ? sum ^ tag : sum), 0n),
  )
  return {
    a: sums.every((sum, bit) => sum === hashes[m + bit]),
    b: columns.every((sum, j) => sum === hashes[j]),
  }
}

function challenges({ partitions, partitionRecords }: Layout, challenge: Uint8Array): bigint[] {
  const words = new Words(challenge, 0)
  return Array.from({ length: partitions * partitionRecords }, () => {
    const low = BigInt(words.next())
    return low + (BigInt(words.next()) << 32n)
  })
}
