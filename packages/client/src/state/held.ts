// What a map has already of what it is about to download: partitions of its copy that have not changed.

import { contentHash, equalBytes, type Manifest } from '@keyhush/protocol'
import type { Caller, Machine } from './machine.js'

/** A partition of the copy in use, if this manifest has the same, to be hashed again. None for reset(), which reuses nothing (S7). */
export function heldPartition(
  { known }: Machine,
  { demanded }: Caller,
  next: Manifest,
  q: number,
): Uint8Array | undefined {
  if (demanded || known?.state.kind !== 'held') return undefined
  const { records, recordBytes, partitions, partitionRecords } = known.manifest
  if (q >= partitions || !equalBytes(contentHash(known.manifest, q), contentHash(next, q))) return undefined
  const first = q * partitionRecords
  const count = Math.max(0, Math.min(partitionRecords, records - first)) // what is beyond is zero
  const partition = new Uint8Array(partitionRecords * recordBytes)
  partition.set(known.state.records(Uint32Array.from({ length: count }, (_, i) => first + i)))
  return partition
}
