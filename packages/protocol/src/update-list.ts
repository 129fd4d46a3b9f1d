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

/** Offsets in the header. */
const AT = { recordBytes: 28, entries: 32 } as const

const KINDS = [undefined, 'add', 'edit', 'delete'] as const

/** The entries of a list of records of `recordBytes`, ascending by index. Throws WireError. */
export function* updateEntries(list: Uint8Array, recordBytes: number): Generator<UpdateEntry> {
  if (list.length < UPDATE_LIST_HEADER_BYTES) malformed('update list', 'a header', list.length)
  const view = viewOf(list)
  const entryBytes = UPDATE_ENTRY_HEADER_BYTES + recordBytes
  for (let at = UPDATE_LIST_HEADER_BYTES; at < list.length; at += entryBytes) {
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

/**
 * The two parts of a list of suite 6: the list as in other suites, and the commitments of touched rows, 48 bytes each. If it is
 * malformed, all of it becomes the list, and the core refuses that.
 */
export function splitUpdateList(bytes: Uint8Array): { readonly list: Uint8Array; readonly rows: Uint8Array } {
  if (bytes.length < UPDATE_LIST_HEADER_BYTES) return { list: bytes, rows: bytes.subarray(bytes.length) }
  const view = viewOf(bytes)
  const [recordBytes, entries] = [view.getUint32(AT.recordBytes, true), view.getUint32(AT.entries, true)]
  const end = UPDATE_LIST_HEADER_BYTES + entries * (UPDATE_ENTRY_HEADER_BYTES + recordBytes)
  return { list: bytes.subarray(0, end), rows: bytes.subarray(end) }
}
