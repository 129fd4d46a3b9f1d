// docs/protocol.md, Suite 2: linear tags, in schoolbook arithmetic.

import { Reader } from './bytes.js'
import { split } from './layout.js'
import { Words } from './random.js'

const U64 = 2n ** 64n

/** In GF(2^64). */
export function multiply(a: bigint, b: bigint): bigint {
  let product = 0n
  for (let i = 63n; i >= 0n; i--) {
    product = (product << 1n) ^ (product >> 63n ? 0x1bn : 0n)
    if ((b >> i) & 1n) product ^= a
    product %= U64
  }
  return product
}

export function linearTag(point: bigint, record: Uint8Array): bigint {
  return wordsOf(record).reduce((sum, word) => multiply(sum ^ word, point), 0n)
}

export const wordOf = (bytes: Uint8Array) => new Reader(bytes).u64()

/** The last one padded with zeros. */
export function wordsOf(record: Uint8Array): bigint[] {
  const padded = new Uint8Array(Math.ceil(record.length / 8) * 8)
  padded.set(record)
  return split(padded, 8).map(wordOf)
}

/** The point that our client draws for the tags of a hint. */
export function tagPoint(seed: Uint8Array): bigint {
  const words = new Words(seed, U64 - 2n)
  return BigInt(words.next()) + (BigInt(words.next()) << 32n)
}
