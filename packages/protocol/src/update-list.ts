// Update lists, entry by entry (docs/protocol.md, Updates). The hash in the manifest and the core check a list before it is read
// here.

import { viewOf } from './bytes.js'
import { POINTPROOF_BYTES, UPDATE_ENTRY_HEADER_BYTES, UPDATE_LIST_HEADER_BYTES } from './constants.js'
import { malformed } from './errors.js'

/** What happened to a record. */
export type UpdateKind = 'add' | 'edit' | 'delete'

export interface UpdateEntry {
  readonly index: number
  readonly kind: UpdateKind
  /** old ⊕ new, a view of ℓ bytes: the record itself if it was added or deleted */
  readonly delta: Uint8Array
}

/** By number. */
export const KINDS = [undefined, 'add', 'edit', 'delete'] as const

/** The entries of a list of records of `recordBytes`, ascending by index. Throws WireError. */
export function updateEntries(list: Uint8Array, recordBytes: number): Generator<UpdateEntry> {
  if (list.length < UPDATE_LIST_HEADER_BYTES) malformed('update list', 'a header', list.length)
  return entriesFrom(UPDATE_LIST_HEADER_BYTES, list, recordBytes)
}

/** The same from a byte on. */
export function* entriesFrom(first: number, list: Uint8Array, recordBytes: number): Generator<UpdateEntry> {
  const view = viewOf(list)
  const entryBytes = UPDATE_ENTRY_HEADER_BYTES + recordBytes
  for (let at = first; at < list.length; at += entryBytes) {
    if (at + entryBytes > list.length) malformed('update list', 'whole entries', list.length)
    const kind = KINDS[list[at + 4]!] ?? malformed('kind of update', '1, 2 or 3', list[at + 4]!)
    const delta = list.subarray(at + UPDATE_ENTRY_HEADER_BYTES, at + entryBytes)
    yield { index: view.getUint32(at, true), kind, delta }
  }
}

/** Bytes of the longest list that can lead to N records of ℓ bytes: it changes all of them. `withRows`: it has a row for each. */
export function longestUpdateList(records: number, recordBytes: number, withRows: boolean): number {
  const entryBytes = UPDATE_ENTRY_HEADER_BYTES + recordBytes + (withRows ? POINTPROOF_BYTES : 0)
  return UPDATE_LIST_HEADER_BYTES + records * entryBytes
}
