// Update lists, entry by entry (docs/protocol.md, Updates), in either form. Whether a list is well-formed and the one
// that a manifest speaks of is checked before, by its hash and by the core; this only reads one that is.

import { viewOf } from './bytes.js'
import { UPDATE_ENTRY_HEADER_BYTES, UPDATE_LIST_HEADER_BYTES } from './constants.js'
import { malformed } from './errors.js'

/** What happened to a record. */
export type UpdateKind = 'add' | 'edit' | 'delete'

export interface UpdateEntry {
  readonly index: number
  readonly kind: UpdateKind
  /** old ⊕ new, ℓ bytes: the record itself if it was added or deleted. Good until the next entry is read. */
  readonly delta: Uint8Array
}

const KINDS = [undefined, 'add', 'edit', 'delete'] as const
const FORM_AT = 6
const FORM_RECORD = 2

/** The entries of a list of records of `recordBytes`, ascending by index. Throws WireError. */
export function* updateEntries(list: Uint8Array, recordBytes: number): Generator<UpdateEntry> {
  if (list.length < UPDATE_LIST_HEADER_BYTES) malformed('update list', 'a header', list.length)
  const view = viewOf(list)
  const both = view.getUint16(FORM_AT, true) === FORM_RECORD
  const entryBytes = UPDATE_ENTRY_HEADER_BYTES + (both ? 2 : 1) * recordBytes
  const difference = new Uint8Array(recordBytes)
  for (let at = UPDATE_LIST_HEADER_BYTES; at < list.length; at += entryBytes) {
    if (at + entryBytes > list.length) malformed('update list', 'whole entries', list.length)
    const kind = KINDS[list[at + 4]!] ?? malformed('kind of update', '1, 2 or 3', list[at + 4]!)
    const first = at + UPDATE_ENTRY_HEADER_BYTES
    for (let i = 0; i < recordBytes; i++) {
      difference[i] = list[first + i]! ^ (both ? list[first + recordBytes + i]! : 0)
    }
    yield { index: view.getUint32(at, true), kind, delta: difference }
  }
}

/** Bytes of the longest list in delta form that can lead to N records of ℓ bytes: one that changes them all. */
export function longestUpdateList(records: number, recordBytes: number): number {
  return UPDATE_LIST_HEADER_BYTES + records * (UPDATE_ENTRY_HEADER_BYTES + recordBytes)
}
