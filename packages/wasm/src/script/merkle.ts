// Verifies a group of blocks against its partition's commitment (rust-core/core/src/commitment/merkle.rs).

import { clean } from '@noble/hashes/utils.js'
import { DIGEST_BYTES, leaf, node } from './hashes.js'
import type { Layout } from './layout.js'
import { isBelow, isEqual, select } from './masks.js'

/**
 * −1 if the partition with this commitment has group number t, which is the 2^a blocks in `group`; else 0. Blocks beyond the
 * partition's end must be zeros. As many hashes are computed for the last group, which may have fewer blocks, as for any other.
 */
export function isGenuine(
  { blockBytes, partitionBlocks }: Layout,
  commitment: Uint8Array,
  groupLog: number,
  t: number,
  group: Uint8Array,
  siblings: Uint8Array,
): number {
  const whole = 2 ** groupLog
  const rest = partitionBlocks - t * whole
  let inside = select(isBelow(rest, whole), rest, whole)
  let beyond = 0
  const digests = new Uint8Array(whole * DIGEST_BYTES)
  for (let i = 0; i < whole; i++) {
    const block = group.subarray(i * blockBytes, (i + 1) * blockBytes)
    const mask = isBelow(i, inside)
    for (let at = 0; at < blockBytes; at++) beyond |= ~mask & block[at]!
    setMasked(digests, i, leaf(block), mask)
  }
  for (let width = whole / 2; width >= 1; width /= 2) {
    inside = (inside + 1) >> 1
    for (let i = 0; i < width; i++) {
      setMasked(
        digests,
        i,
        node(digests.subarray(2 * i * DIGEST_BYTES, 2 * (i + 1) * DIGEST_BYTES)),
        isBelow(i, inside),
      )
    }
  }
  let digest: Uint8Array = digests.slice(0, DIGEST_BYTES)
  const children = new Uint8Array(2 * DIGEST_BYTES)
  for (let above = 0, at = 0; at < siblings.length; above++, at += DIGEST_BYTES) {
    const isRight = -((t >>> above) & 1)
    for (let i = 0; i < DIGEST_BYTES; i++) {
      const difference = isRight & (digest[i]! ^ siblings[at + i]!)
      children[i] = digest[i]! ^ difference
      children[DIGEST_BYTES + i] = siblings[at + i]! ^ difference
    }
    digest = node(children)
  }
  let differing = beyond
  for (let i = 0; i < DIGEST_BYTES; i++) differing |= digest[i]! ^ commitment[i]!
  clean(digests, digest, children)
  return isEqual(differing, 0)
}

/** Writes the digest, or zeros if the mask is 0, as number `i` of `digests`. */
function setMasked(digests: Uint8Array, i: number, digest: Uint8Array, mask: number): void {
  for (let at = 0; at < DIGEST_BYTES; at++) digests[i * DIGEST_BYTES + at] = mask & digest[at]!
}
