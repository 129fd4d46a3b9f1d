// Whether an update list can lead from one epoch to the next (docs/protocol.md, Updates). Cores check lists themselves; here one is only
// read.

import {
  FORMAT,
  type Manifest,
  UPDATE_ENTRY_HEADER_BYTES,
  UPDATE_LIST_HEADER_BYTES,
  updateEntries,
  WireError,
} from '@keyhush/protocol'

/** 'PIRU' */
const MAGIC = 0x5552_4950

/** `list`: without rows. `before`: undefined: it is not known. */
export function isWellFormed(
  list: Uint8Array,
  before: Pick<Manifest, 'records' | 'partitions'> | undefined,
  after: Manifest,
): boolean {
  const each = UPDATE_ENTRY_HEADER_BYTES + after.recordBytes
  const entries = (list.length - UPDATE_LIST_HEADER_BYTES) / each
  if (!Number.isInteger(entries) || entries < 0) return false
  const view = new DataView(list.buffer, list.byteOffset, list.length)
  const numbers = Array.from({ length: UPDATE_LIST_HEADER_BYTES / 4 }, (_, i) => view.getUint32(4 * i, true))
  const { records, partitions } = before ?? { records: numbers[2]!, partitions: numbers[3]! }
  const expected = [
    ...[MAGIC, FORMAT, records, partitions, after.records, after.partitions],
    ...[after.partitionRecords, after.recordBytes, entries, Math.log2(after.blockRecords)],
  ]
  if (!expected.every((number, i) => number === numbers[i])) return false
  if (records > after.records || partitions > after.partitions) return false
  let previous = -1
  try {
    for (const { index, kind, delta } of updateEntries(list, after.recordBytes)) {
      const isInOrder = index > previous && index < after.records
      const wasThere = index < records || kind === 'add'
      if (!isInOrder || !wasThere || delta.every(byte => byte === 0)) return false
      previous = index
    }
    return true
  } catch (error) {
    if (error instanceof WireError) return false // a kind that there is not
    throw error
  }
}
