// docs/protocol.md, Suite 2: SipHash-2-4 as its authors describe it (Aumasson, Bernstein: SipHash: a fast short-input PRF),
// word by word, and the tags that a client keeps of records.

import { concatBytes } from '@noble/hashes/utils.js'
import { Writer } from './bytes.js'
import { Words } from './random.js'

const MASK = 2n ** 64n - 1n
const rotate = (word: bigint, by: bigint) => ((word << by) | (word >> (64n - by))) & MASK

/** The number whose little-endian bytes these are. */
const word = (bytes: Uint8Array) => bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n)

export function sipHash24(key: Uint8Array, message: Uint8Array): bigint {
  const [k0, k1] = [word(key.subarray(0, 8)), word(key.subarray(8, 16))]
  let v0 = k0 ^ 0x736f6d6570736575n
  let v1 = k1 ^ 0x646f72616e646f6dn
  let v2 = k0 ^ 0x6c7967656e657261n
  let v3 = k1 ^ 0x7465646279746573n
  const round = () => {
    v0 = (v0 + v1) & MASK
    v2 = (v2 + v3) & MASK
    v1 = rotate(v1, 13n) ^ v0
    v3 = rotate(v3, 16n) ^ v2
    v0 = rotate(v0, 32n)
    v2 = (v2 + v1) & MASK
    v0 = (v0 + v3) & MASK
    v1 = rotate(v1, 17n) ^ v2
    v3 = rotate(v3, 21n) ^ v0
    v2 = rotate(v2, 32n)
  }
  const whole = message.length - (message.length % 8)
  for (let at = 0; at <= whole; at += 8) {
    const last = at === whole ? BigInt(message.length % 256) << 56n : 0n
    const m = word(message.subarray(at, Math.min(at + 8, message.length))) | last
    v3 ^= m
    round()
    round()
    v0 ^= m
  }
  v2 ^= 0xffn
  for (let i = 0; i < 4; i++) round()
  return v0 ^ v1 ^ v2 ^ v3
}

/** The key that our client draws for the tags of a hint. */
export function tagKey(seed: Uint8Array): Uint8Array {
  const words = new Words(seed, 2n ** 64n - 2n)
  const writer = new Writer()
  for (let i = 0; i < 4; i++) writer.u32(words.next())
  return writer.bytes()
}

export function tag(key: Uint8Array, index: number, record: Uint8Array): bigint {
  return sipHash24(key, concatBytes(new Writer().u64(BigInt(index)).bytes(), record))
}
