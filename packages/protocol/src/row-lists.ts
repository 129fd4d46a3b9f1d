// The row lists of all partitions, one behind the other, and how updates change them (docs/protocol.md, Pointproofs).

import { checkLength } from './bytes.js'
import { HASH_BYTES, POINTPROOF_BYTES, POINTPROOFS_ROW_RECORDS } from './constants.js'
import { type Geometry, partitionBlocks, rowListsBytes } from './geometry.js'

/** The first of the identity's 48 bytes; the others are zero. */
const IDENTITY = 0xc0

/** R: rows of a partition. */
export function partitionRows(layout: Geometry): number {
  return Math.ceil(partitionBlocks(layout) / POINTPROOFS_ROW_RECORDS)
}

/** The number of a block's row: q·R + r. */
export function rowOfBlock(block: number, layout: Geometry): number {
  const blocks = partitionBlocks(layout)
  const row = Math.floor((block % blocks) / POINTPROOFS_ROW_RECORDS)
  return Math.floor(block / blocks) * partitionRows(layout) + row
}

/** Where a row's commitment begins. */
export function rowPlace(row: number, layout: Geometry): number {
  const rows = partitionRows(layout)
  const partition = Math.floor(row / rows)
  return partition * (HASH_BYTES + rows * POINTPROOF_BYTES) + HASH_BYTES + (row % rows) * POINTPROOF_BYTES
}

/** A copy, followed by the lists of new partitions, whose records are all zero. */
export function grownRowLists(lists: Uint8Array, layout: Geometry): Uint8Array {
  const grown = new Uint8Array(rowListsBytes(layout))
  grown.set(lists)
  const partitions = Math.round(lists.length / (grown.length / layout.partitions))
  for (let row = partitions * partitionRows(layout); row < layout.partitions * partitionRows(layout); row++) {
    const at = rowPlace(row, layout)
    if (row % partitionRows(layout) === 0) grown.set(lists.subarray(0, HASH_BYTES), at - HASH_BYTES)
    grown[at] = IDENTITY
  }
  return grown
}

/**
 * The lists after an update. `indices`: of the changed records, ascending. `rows`: the new commitments of the rows with such a
 * record, in the same order. `layout`: that of the epoch after. Throws WireError if `rows` are more or fewer.
 */
export function updatedRowLists(
  lists: Uint8Array,
  layout: Geometry,
  indices: Iterable<number>,
  rows: Uint8Array,
): Uint8Array {
  const { blockRecords = 1 } = layout
  const touched = new Set(Array.from(indices, index => rowOfBlock(Math.floor(index / blockRecords), layout)))
  checkLength('rows of an update list', rows, touched.size * POINTPROOF_BYTES)
  const updated = grownRowLists(lists, layout)
  let from = 0
  for (const row of touched) {
    updated.set(rows.subarray(from, from + POINTPROOF_BYTES), rowPlace(row, layout))
    from += POINTPROOF_BYTES
  }
  return updated
}
