// Update lists, entry by entry (docs/protocol.md, Updates). Whether a list is well-formed and the one that a manifest
// speaks of is checked before, by its hash and by the core; this only reads one that is.

import { viewOf } from './bytes.js'
import { UPDATE_LIST_HEADER_BYTES } from './constants.js'
import { malformed } from './errors.js'

/** What happened to a record. */
export type UpdateKind = 'add' | 'edit' | 'delete'

export interface UpdateEntry {
  readonly index: number
  readonly kind: UpdateKind
  /** old ⊕ new, ℓ bytes: the record itself if it was added or deleted. A view. */
  readonly delta: Uint8Array
}

const KINDS = [undefined, 'add', 'edit', 'delete'] as const
const ENTRY_HEAD_BYTES = 5

/** The entries of a list in delta form, ascending by index, of records of `recordBytes`. Throws WireError. */
export function* updateEntries(list: Uint8Array, recordBytes: number): Generator<UpdateEntry> {
  const view = viewOf(list)
  for (let at = UPDATE_LIST_HEADER_BYTES; at < list.length; at += ENTRY_HEAD_BYTES + recordBytes) {
    const end = at + ENTRY_HEAD_BYTES + recordBytes
    if (end > list.length) malformed('update list', 'whole entries', list.length)
    const kind = KINDS[list[at + 4]!] ?? malformed('kind of update', '1, 2 or 3', list[at + 4]!)
    yield { index: view.getUint32(at, true), kind, delta: list.subarray(at + ENTRY_HEAD_BYTES, end) }
  }
}

/** Bytes of the longest list that can lead to a database of N records of ℓ bytes: one that changes them all. */
export function longestUpdateList(records: number, recordBytes: number): number {
  return UPDATE_LIST_HEADER_BYTES + records * (ENTRY_HEAD_BYTES + recordBytes)
}
