// The Merkle tree of a log (RFC 6962, section 2.1): roots, and the paths that prove an entry, or that one tree is the beginning of another.

import { sha256 } from '@noble/hashes/sha2.js'
import { equalBytes } from './errors.js'

/** From a leaf, or an old tree's end, up to the root: the last hash is that of a child of the root. */
export type Path = readonly Uint8Array[]

export function leafHash(entry: Uint8Array): Uint8Array {
  return sha256(Uint8Array.of(0, ...entry))
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  return sha256(Uint8Array.of(1, ...left, ...right))
}

/** Leaves on the left of a tree with two or more: the largest power of two below their number. */
function leftOf(size: number): number {
  let left = 1
  while (2 * left < size) left *= 2
  return left
}

/** The tree's root, of the hashes of its leaves. */
export function rootOf(leaves: Path): Uint8Array {
  if (leaves.length === 0) return sha256(new Uint8Array())
  if (leaves.length === 1) return leaves[0]!
  const left = leftOf(leaves.length)
  return nodeHash(rootOf(leaves.slice(0, left)), rootOf(leaves.slice(left)))
}

/** A tree without its leaves: the roots of the whole subtrees that it is made of, from the left. */
export interface RightEdge {
  readonly size: number
  readonly roots: Path
}

export const EMPTY_EDGE: RightEdge = { size: 0, roots: [] }

/** The tree with one more leaf. */
export function grown({ size, roots }: RightEdge, leaf: Uint8Array): RightEdge {
  const all = [...roots, leaf]
  for (let rest = size; rest % 2 === 1; rest = (rest - 1) / 2) {
    const right = all.pop()!
    all.push(nodeHash(all.pop()!, right))
  }
  return { size: size + 1, roots: all }
}

/** As `rootOf` its leaves. */
export function rootOfEdge({ roots }: RightEdge): Uint8Array {
  return roots.length === 0 ? rootOf([]) : roots.reduceRight((right, left) => nodeHash(left, right))
}

/** Proves the leaf at this index. */
export function inclusionPath(leaves: Path, index: number): Path {
  if (leaves.length === 1) return []
  const left = leftOf(leaves.length)
  const [before, after] = [leaves.slice(0, left), leaves.slice(left)]
  return index < left
    ? [...inclusionPath(before, index), rootOf(after)]
    : [...inclusionPath(after, index - left), rootOf(before)]
}

/** The root that a path leads to; undefined: it has another length than such a path. */
export function rootThrough(leaf: Uint8Array, index: number, size: number, path: Path): Uint8Array | undefined {
  if (size === 1) return path.length === 0 ? leaf : undefined
  const sibling = path.at(-1)
  if (sibling === undefined) return undefined
  const left = leftOf(size)
  const isLeft = index < left
  const child = rootThrough(leaf, isLeft ? index : index - left, isLeft ? left : size - left, path.slice(0, -1))
  return child && (isLeft ? nodeHash(child, sibling) : nodeHash(sibling, child))
}

/** Proves that the first `old` leaves (one at least) are a tree that this one continues. */
export function consistencyPath(leaves: Path, old: number, isWhole = true): Path {
  if (leaves.length === old) return isWhole ? [] : [rootOf(leaves)]
  const left = leftOf(leaves.length)
  const [before, after] = [leaves.slice(0, left), leaves.slice(left)]
  return old <= left
    ? [...consistencyPath(before, old, isWhole), rootOf(after)]
    : [...consistencyPath(after, old - left, false), rootOf(before)]
}

interface Tree {
  readonly size: number
  readonly root: Uint8Array
}

/** Whether a path proves that `tree` continues `old`. Every tree continues the empty one, with no path. */
export function continues(old: Tree, tree: Tree, path: Path): boolean {
  if (old.size === 0 || old.size > tree.size) return old.size === 0 && path.length === 0
  const roots = rootsThrough(old.size, tree.size, path, old.root)
  return roots !== undefined && equalBytes(roots[0], old.root) && equalBytes(roots[1], tree.root)
}

/** The old root and the new one that a path leads to. `known`: the old root, where the path leaves it out. */
function rootsThrough(
  old: number,
  size: number,
  path: Path,
  known: Uint8Array | undefined,
): readonly [Uint8Array, Uint8Array] | undefined {
  if (old === size) {
    const [root = known, ...more] = path
    return root === undefined || more.length > 0 || (known && path.length > 0) ? undefined : [root, root]
  }
  const sibling = path.at(-1)
  if (sibling === undefined) return undefined
  const left = leftOf(size)
  const rest = path.slice(0, -1)
  if (old <= left) {
    const roots = rootsThrough(old, left, rest, known)
    return roots && [roots[0], nodeHash(roots[1], sibling)]
  }
  const roots = rootsThrough(old - left, size - left, rest, undefined)
  return roots && [nodeHash(sibling, roots[0]), nodeHash(sibling, roots[1])]
}
