// Patches, entry by entry (docs/protocol/one-server.md): what has changed since the base, in the order in which it changed. Of the entries of
// a key, or of an index, the last counts.

import { viewOf } from './bytes.js'
import { UPDATE_ENTRY_HEADER_BYTES } from './constants.js'
import { entriesFrom, KINDS, type UpdateKind } from './update-list.js'

export interface PatchEntry {
  readonly index: number
  readonly kind: UpdateKind
  /** ℓ bytes: the new record; of one that was deleted its fingerprint, then zeros */
  readonly record: Uint8Array
}

/** The entries of a patch of records of `recordBytes`; `record` is a view. Throws WireError. */
export function* patchEntries(patch: Uint8Array, recordBytes: number): Generator<PatchEntry> {
  for (const { delta: record, ...entry } of entriesFrom(0, patch, recordBytes)) yield { ...entry, record }
}

/** A patch of these entries, in their order. */
export function encodePatch(entries: readonly PatchEntry[], recordBytes: number): Uint8Array<ArrayBuffer> {
  const length = UPDATE_ENTRY_HEADER_BYTES + recordBytes
  const bytes = new Uint8Array(entries.length * length)
  const view = viewOf(bytes)
  for (const [i, { index, kind, record }] of entries.entries()) {
    view.setUint32(i * length, index, true)
    bytes[i * length + 4] = KINDS.indexOf(kind)
    bytes.set(record, i * length + UPDATE_ENTRY_HEADER_BYTES)
  }
  return bytes
}
