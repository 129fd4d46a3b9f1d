// Makes keys of the distributed point function (Boyle, Gilboa, Ishai: Function Secret Sharing, CCS 2016, Fig. 1 `Gen`, with early
// termination). The format is that of rust-core/kernels/src/dpf.rs.

import { clean } from '@noble/hashes/utils.js'
import { SEED_BYTES, stretch } from './chacha.js'
import { isEqual, select } from './masks.js'

/** log₂ of the outputs of a leaf */
const LEAF_LOG = 7
const BLOCK_BYTES = 64

/** n: the smallest domain 2^n that has `points` points, and at least one leaf. */
export function domainLog(points: number): number {
  return Math.max(32 - Math.clz32(points - 1), LEAF_LOG)
}

/** Bytes of a key for a domain of 2^n: seed, a word a level, two bits a level, the last correction, the party. */
export function keyBytes(domainLog: number): number {
  const levels = domainLog - LEAF_LOG
  return SEED_BYTES + levels * SEED_BYTES + Math.ceil(levels / 4) + SEED_BYTES + 1
}

/**
 * Writes the keys of party 0 and party 1 for a point of a domain of 2^n. The seeds must be uniform and used only once; they are
 * overwritten. The steps are the same whatever the point is.
 */
export function generate(
  domainLog: number,
  point: number,
  nodes: readonly [Uint8Array, Uint8Array],
  keys: readonly [Uint8Array, Uint8Array],
): void {
  const levels = domainLog - LEAF_LOG
  const bitsAt = SEED_BYTES + levels * SEED_BYTES
  const lastAt = bitsAt + Math.ceil(levels / 4)
  const controls = Uint8Array.of(0, 1)
  const [zero, one] = [new Uint8Array(BLOCK_BYTES), new Uint8Array(BLOCK_BYTES)]
  const [key, other] = keys
  key.fill(0)
  key.set(nodes[0])
  other.set(nodes[1])
  const stretchBoth = () => {
    stretch(nodes[0], zero)
    stretch(nodes[1], one)
  }
  for (let level = 0; level < levels; level++) {
    const right = (point >>> (domainLog - 1 - level)) & 1
    stretchBoth()
    // On the side without the point, both parties' seeds become equal.
    const word = key.subarray(SEED_BYTES * (level + 1), SEED_BYTES * (level + 2))
    for (let i = 0; i < SEED_BYTES; i++) {
      word[i] = select(-right, zero[i]! ^ one[i]!, zero[SEED_BYTES + i]! ^ one[SEED_BYTES + i]!)
    }
    const differing = zero[2 * SEED_BYTES]! ^ one[2 * SEED_BYTES]!
    const bits = (differing & 3) ^ (right ^ 1) ^ (right << 1)
    key[bitsAt + (level >> 2)]! |= bits << (2 * (level & 3))
    for (const party of [0, 1] as const) {
      const children = party === 0 ? zero : one
      const control = controls[party]!
      for (let i = 0; i < SEED_BYTES; i++) {
        nodes[party][i] = select(-right, children[SEED_BYTES + i]!, children[i]!) ^ (-control & word[i]!)
      }
      controls[party] = ((children[2 * SEED_BYTES]! ^ (-control & bits)) >>> right) & 1
    }
  }
  stretchBoth()
  const output = point & (2 ** LEAF_LOG - 1)
  for (let i = 0; i < SEED_BYTES; i++) {
    key[lastAt + i] = zero[i]! ^ one[i]! ^ ((isEqual(i, output >> 3) & 1) << (output & 7))
  }
  // Only the seed and the party differ.
  other.set(key.subarray(SEED_BYTES), SEED_BYTES)
  other[other.length - 1] = 1
  clean(zero, one, controls, ...nodes)
}
