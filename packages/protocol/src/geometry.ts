// Sizes that follow from a manifest's layout (docs/protocol.md, Words). A reader knows a body's length before it reads the body,
// and takes no length from a message.

import { HASH_BYTES, HEADER_BYTES, OFFSET_BYTES, POINTPROOF_BYTES, POINTPROOFS_ROW_RECORDS } from './constants.js'
import { PROOF_KINDS, type Proofs, proofsOf } from './proofs.js'

/** The fields of a manifest that decide sizes. */
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

/** Bytes of proof behind one entry. */
export function proofBytes(layout: Geometry, proofs: Proofs = proofsOf(layout)[0]): number {
  return PROOF_KINDS[proofs].levelBytes * depth(layout)
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
export function answerBytes(layout: Geometry, count: number, proofs: Proofs = proofsOf(layout)[0]): number {
  return HEADER_BYTES + count * layout.partitions * entryBytes(layout, proofs) + PROOF_KINDS[proofs].answerBytes
}

/** Bytes of the row lists of all partitions, one behind the other: each the key's hash and a commitment for each row. */
export function rowListsBytes(layout: Geometry): number {
  const rows = Math.ceil(partitionBlocks(layout) / POINTPROOFS_ROW_RECORDS)
  return layout.partitions * (HASH_BYTES + rows * POINTPROOF_BYTES)
}
