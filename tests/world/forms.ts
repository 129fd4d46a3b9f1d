// Decoders of the core's stored forms for the model, written from their description (rust-core/core/src/tapir/state) and
// independent of the core.

import { Reader } from '../interop/reference/bytes.js'
import { blocksOf, type Layout, partitionBytes } from '../interop/reference/layout.js'
import type { Vectors } from '../interop/reference/message.js'
import { geometryOf, queryBytes } from '../interop/reference/single.js'

const CHECKSUM_BYTES = 16

/** A pending lookup. */
export interface PendingForm {
  readonly hintId: Uint8Array
  readonly version: number
  readonly indices: readonly number[]
  readonly retrieve: Vectors
  readonly refresh: Vectors
  /** the hash that the rollback fence knows, 32 bytes */
  readonly name: Uint8Array
}

/** A whole hint. */
export interface CheckpointForm {
  readonly hintId: Uint8Array
  readonly version: number
  readonly permutations: readonly (readonly number[])[]
  /** M·ℓ bytes */
  readonly parities: Uint8Array
}

export function decodePending(bytes: Uint8Array, layout: Layout): PendingForm {
  const { reader, hintId, version } = openFrame(bytes, 'PIRp', layout)
  const count = reader.u32()
  const indices = times(count, reader.u32)
  times(count + count * layout.partitions, reader.u16) // columns, refresh columns
  const vectors = () => times(count, () => times(layout.partitions, reader.u16))
  const form = { hintId, version, indices, retrieve: vectors(), refresh: vectors(), name: reader.take(32) }
  reader.end()
  return form
}

/** A pending lookup for one server. */
export interface SinglePendingForm {
  readonly hintId: Uint8Array
  readonly version: number
  readonly indices: readonly number[]
  /** one a query, as it is sent */
  readonly queries: readonly Uint8Array[]
  readonly name: Uint8Array
}

export function decodeSinglePending(bytes: Uint8Array, layout: Layout): SinglePendingForm {
  const { reader, hintId, version } = openFrame(bytes, 'PISp', layout)
  const numbers = times(reader.u32(), () => times(3, reader.u32)) // index, slot, pair
  reader.take(numbers.length) // sides
  const each = queryBytes(geometryOf(layout))
  const queries = numbers.map(() => reader.take(each))
  const form = { hintId, version, indices: numbers.map(([index]) => index!), queries, name: reader.take(32) }
  reader.end()
  return form
}

/** `tags`: the hint keeps tags, which are skipped. */
export function decodeCheckpoint(bytes: Uint8Array, layout: Layout, tags = false): CheckpointForm {
  const { reader, hintId, version } = openFrame(bytes, 'PIRc', layout)
  reader.take(64) // what it is bound to, and its secret
  const permutations = times(layout.partitions, () => times(blocksOf(layout).partitionRecords, reader.u16))
  const parities = reader.take(partitionBytes(layout))
  if (tags) reader.take(8 + 8 * layout.partitions * blocksOf(layout).partitionRecords)
  reader.end()
  return { hintId, version, permutations, parities }
}

function openFrame(bytes: Uint8Array, kind: string, layout: Layout) {
  const reader = new Reader(bytes.subarray(0, -CHECKSUM_BYTES))
  reader.expect('kind', kind)
  if (reader.u16() !== 1 || reader.u16() !== 0) throw new Error('another version of the form')
  const hintId = reader.take(16)
  const version = Number(reader.u64())
  for (const name of ['records', 'recordBytes', 'partitions', 'partitionRecords'] as const) {
    if (reader.u32() !== layout[name]) throw new Error('another layout')
  }
  return { reader, hintId, version }
}

function times<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make)
}
