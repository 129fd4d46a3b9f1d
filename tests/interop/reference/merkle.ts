// docs/protocol.md, Suite 1.

import { equalBytes } from '@noble/ciphers/utils.js'
import { leaf, node } from './hash.js'

const ABSENT = new Uint8Array(32)

/** A partition's tree: its levels, bottom up. The last one is the commitment alone. */
export function tree(records: readonly Uint8Array[]): Uint8Array[][] {
  let level = records.map(leaf)
  const levels = [level]
  while (level.length > 1) {
    const below = level
    level = Array.from({ length: Math.ceil(below.length / 2) }, (_, j) =>
      node(below[2 * j]!, below[2 * j + 1] ?? ABSENT),
    )
    levels.push(level)
  }
  return levels
}

export const commitment = (levels: readonly Uint8Array[][]) => levels.at(-1)![0]!

/** The siblings of offset m, bottom up. */
export function prove(levels: readonly Uint8Array[][], m: number): Uint8Array[] {
  return levels.slice(0, -1).map((level, k) => level[(m >> k) ^ 1] ?? ABSENT)
}

export function verify(root: Uint8Array, m: number, record: Uint8Array, proof: readonly Uint8Array[]): boolean {
  const computed = proof.reduce(
    (below, sibling, k) => ((m >> k) & 1 ? node(sibling, below) : node(below, sibling)),
    leaf(record),
  )
  return equalBytes(computed, root)
}
