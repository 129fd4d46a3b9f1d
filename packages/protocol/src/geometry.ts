// Sizes that follow from a manifest's layout (docs/protocol.md, Words). Nothing here is ever taken from a peer's
// message: a reader knows how long a body must be before it reads it.

import {
  HASH_BYTES,
  HEADER_BYTES,
  OFFSET_BYTES,
  POINTPROOF_BYTES,
  POINTPROOFS_ROW_RECORDS,
  SUITE_MERKLE_BLAKE3,
  SUITE_POINTPROOFS,
  SUITE_TAGS,
} from './constants.js'

/** The part of a manifest that decides sizes: ℓ, Q, M and g, and whether there are commitments. */
export interface Geometry {
  /** ℓ: bytes of one stored record */
  readonly recordBytes: number
  /** Q */
  readonly partitions: number
  /** M */
  readonly partitionRecords: number
  /** g; missing: 1 */
  readonly blockRecords?: number
  /** missing: 1 */
  readonly suite?: number
}

/**
 * What proves the entries of an answer: an opening proof beside each record, tags that the client keeps, or one proof behind
 * all records.
 */
export type Proofs = 'merkle' | 'tags' | 'pointproofs'

/** What proves entries one by one. */
export type EntryProofs = Exclude<Proofs, 'pointproofs'>

const SUITES = { merkle: SUITE_MERKLE_BLAKE3, tags: SUITE_TAGS, pointproofs: SUITE_POINTPROOFS } as const

/** The kinds of proof a database can be asked for, the one meant where none is named first. */
export function proofsOf({ suite }: Pick<Geometry, 'suite'>): readonly [Proofs, ...Proofs[]] {
  if (suite === SUITE_TAGS) return ['tags']
  return suite === SUITE_POINTPROOFS ? ['merkle', 'tags', 'pointproofs'] : ['merkle', 'tags']
}

/** The suite that queries and answers of a kind name, and the manifests of databases that were built for it. */
export function suiteOf(proofs: Proofs): number {
  return SUITES[proofs]
}

/** The kind of proof that a database was built for: what its manifest's suite says. */
export function builtFor({ suite = SUITE_MERKLE_BLAKE3 }: Pick<Geometry, 'suite'>): Proofs {
  return proofsOf({ suite }).find(proofs => SUITES[proofs] === suite) ?? 'merkle'
}

/** M′ = M/g: the blocks of a partition, and the bound of offsets. */
export function partitionBlocks({ partitionRecords, blockRecords = 1 }: Geometry): number {
  return partitionRecords / blockRecords
}

/** ℓ′ = g·ℓ: bytes of a block. */
export function blockBytes({ recordBytes, blockRecords = 1 }: Geometry): number {
  return recordBytes * blockRecords
}

/** d = ⌈log2 M′⌉: levels of a partition's tree above its leaves. */
export function depth(layout: Geometry): number {
  return 32 - Math.clz32(partitionBlocks(layout) - 1)
}

/** Bytes of what proves one entry. */
export function proofBytes(layout: Geometry, proofs: Proofs = proofsOf(layout)[0]): number {
  return proofs === 'merkle' ? HASH_BYTES * depth(layout) : 0
}

/** Bytes of one entry of an answer: a block and its opening proof, if it has one. */
export function entryBytes(layout: Geometry, proofs?: Proofs): number {
  return blockBytes(layout) + proofBytes(layout, proofs)
}

/** Bytes of one partition, M·ℓ. */
export function partitionBytes(layout: Geometry): number {
  return layout.partitionRecords * layout.recordBytes
}

/** Bytes of `count` query vectors: count·Q offsets. */
export function vectorBytes(layout: Geometry, count: number): number {
  return count * layout.partitions * OFFSET_BYTES
}

/** Bytes of a whole query of `count` vectors. */
export function queryBytes(layout: Geometry, count: number): number {
  return HEADER_BYTES + vectorBytes(layout, count)
}

/** Bytes of a whole answer to `count` vectors. */
export function answerBytes(layout: Geometry, count: number, proofs?: Proofs): number {
  const together = proofs === 'pointproofs' ? POINTPROOF_BYTES : 0
  return HEADER_BYTES + count * layout.partitions * entryBytes(layout, proofs) + together
}

/** Bytes of the row lists of all partitions, one behind the other: each the key's hash and a commitment for each row. */
export function rowListsBytes(layout: Geometry): number {
  const rows = Math.ceil(partitionBlocks(layout) / POINTPROOFS_ROW_RECORDS)
  return layout.partitions * (HASH_BYTES + rows * POINTPROOF_BYTES)
}
