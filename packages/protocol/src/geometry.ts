// Sizes that follow from a manifest's layout (docs/protocol.md, Words). Nothing here is ever taken from a peer's
// message: a reader knows how long a body must be before it reads it.

import { HASH_BYTES, HEADER_BYTES, OFFSET_BYTES } from './constants.js'

/** The part of a manifest that decides sizes: ℓ, Q and M. */
export interface Geometry {
  /** ℓ: bytes of one stored record */
  readonly recordBytes: number
  /** Q */
  readonly partitions: number
  /** M */
  readonly partitionRecords: number
}

/** d = ⌈log2 M⌉: levels of a partition's tree above its leaves. */
export function depth(layout: Geometry): number {
  return 32 - Math.clz32(layout.partitionRecords - 1)
}

/** Bytes of one opening proof. */
export function proofBytes(layout: Geometry): number {
  return HASH_BYTES * depth(layout)
}

/** Bytes of one entry of an answer: a record and its opening proof. */
export function entryBytes(layout: Geometry): number {
  return layout.recordBytes + proofBytes(layout)
}

/** Bytes of one partition, M·ℓ. */
export function partitionBytes(layout: Geometry): number {
  return layout.partitionRecords * layout.recordBytes
}

/** Most queries that one request may carry: what fits 8 MiB of entries, from 1 to 64. */
export function maxBatch(layout: Geometry): number {
  const fitting = Math.floor(2 ** 23 / (layout.partitions * entryBytes(layout)))
  return Math.max(1, Math.min(64, fitting))
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
export function answerBytes(layout: Geometry, count: number): number {
  return HEADER_BYTES + count * layout.partitions * entryBytes(layout)
}
