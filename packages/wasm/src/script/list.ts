// Update lists (rust-core/core/src/database/list.rs), checked whole. Clients that watch keys read lists by the same rule.

import type { Layout } from './layout.js'

type ListSizes = Pick<Layout, 'records' | 'recordBytes' | 'partitions' | 'partitionRecords' | 'blockRecords'>

const MAGIC = 0x5552_4950 // 'PIRU'
const FORMAT = 1
const HEADER_BYTES = 40
/** of an entry, before its difference */
const PREFIX_BYTES = 5

export const ADD = 1
export const DELETE = 3

export interface Entry {
  readonly index: number
  /** an add, an edit (2) or a delete */
  readonly kind: number
  /** old ⊕ new, ℓ bytes */
  readonly difference: Uint8Array
}

/** The entries of a list from one layout to the next; text: what is wrong with it. */
export function readList(list: Uint8Array, before: ListSizes, after: ListSizes): Entry[] | string {
  const sameShape =
    before.recordBytes === after.recordBytes &&
    before.partitionRecords === after.partitionRecords &&
    before.blockRecords === after.blockRecords &&
    before.partitions <= after.partitions &&
    before.records <= after.records
  if (!sameShape) {
    return 'expected partitions of the same size, and no fewer than before; a new generation is needed'
  }
  if (list.length < HEADER_BYTES) return 'the bytes end too early'
  const view = new DataView(list.buffer, list.byteOffset, list.length)
  const each = PREFIX_BYTES + after.recordBytes
  const count = Math.floor((list.length - HEADER_BYTES) / each)
  const expected = [
    ...[MAGIC, FORMAT, before.records, before.partitions, after.records, after.partitions],
    ...[after.partitionRecords, after.recordBytes, count, Math.log2(after.blockRecords)],
  ]
  const isHeader = expected.every((number, i) => view.getUint32(4 * i, true) === number)
  if (!isHeader || list.length !== HEADER_BYTES + count * each) {
    return 'its header does not match the layouts before and after'
  }
  const entries: Entry[] = []
  for (let at = HEADER_BYTES, previous = -1; at < list.length; at += each) {
    const [index, kind] = [view.getUint32(at, true), view.getUint8(at + 4)]
    const difference = list.subarray(at + PREFIX_BYTES, at + each)
    if (kind < ADD || kind > DELETE) return 'an entry is neither add, edit nor delete'
    if (index >= after.records || index <= previous) {
      return 'its entries are not in ascending order within the database'
    }
    if (index >= before.records && kind !== ADD) return 'a record that did not exist is edited or deleted'
    if (difference.every(byte => byte === 0)) return 'an entry changes nothing'
    entries.push({ index, kind, difference })
    previous = index
  }
  return entries
}
