// The hash of a directory's keys: wyhash of 16 bytes, with seed 4^level, folded to 32 bits (docs/protocol.md, Directory). Numbers of
// 64 bits are four limbs of 16 bits, low first. (BigInt would leave copies of the key in memory that nobody can overwrite.)

import { clean } from '@noble/hashes/utils.js'

const LIMBS = 4
const BASE = 0x1_0000
const MASK = 0xffff

const FIRST = limbs(0xa076_1d64, 0x78bd_642f)
const SECOND = limbs(0x8ebc_6af0, 0x9c88_c6e3)
const LAST = limbs(0xeb44_acca, 0xb455_d165 ^ 16)

function limbs(high: number, low: number): Uint16Array {
  return Uint16Array.of(low & MASK, low >>> 16, high & MASK, high >>> 16)
}

/** The 32-bit hash of a seeded fingerprint for a level. The seed of level 32 has no bit within 64: there is no fifth limb. */
export function hashOf(seeded: Uint8Array, level: number): number {
  const limb = (number: number) => seeded[2 * number]! | (seeded[2 * number + 1]! << 8)
  // Both halves are rotated by 32 bits.
  const first = FIRST.map((constant, i) => limb((i + 2) % LIMBS) ^ constant)
  const second = SECOND.map((constant, i) => limb(LIMBS + ((i + 2) % LIMBS)) ^ constant)
  first[level >> 3]! ^= 1 << (2 * (level & 7))
  const inner = multiplied(first, second)
  const hash = multiplied(inner, LAST)
  clean(first, second, inner)
  return ((hash[0]! ^ hash[2]!) | ((hash[1]! ^ hash[3]!) << 16)) >>> 0
}

/** A hash scaled to a number of bits. */
export function bitOf(hash: number, bits: number): number {
  return Math.floor((hash * bits) / 2 ** 32)
}

/** The product's two halves, XORed. */
function multiplied(a: Uint16Array, b: Uint16Array): Uint16Array {
  const product = new Uint16Array(2 * LIMBS)
  for (let i = 0; i < LIMBS; i++) {
    let carry = 0
    for (let j = 0; j < LIMBS; j++) {
      const sum = a[i]! * b[j]! + product[i + j]! + carry // below 2^32
      product[i + j] = sum
      carry = Math.floor(sum / BASE)
    }
    product[i + LIMBS] = carry
  }
  return product.subarray(0, LIMBS).map((limb, i) => limb ^ product[LIMBS + i]!)
}
