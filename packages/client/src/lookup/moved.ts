// What updates did to a key between its query and the answer. A pending query's index never changes (docs/protocol.md,
// What a client must do). If an update has added, moved or deleted the key, the result comes from the update list. Another
// query would show that this key was asked for.

import { FINGERPRINT_BYTES, updateEntries } from '@keyhush/protocol'

/**
 * The stored record of a key after `lists`, in order; all zeros if they deleted it. Undefined: they neither added nor
 * deleted it, so the record at the index that was asked for counts.
 */
export function recordAfter(
  lists: readonly Uint8Array[],
  recordBytes: number,
  fingerprint: Uint8Array,
): Uint8Array | undefined {
  let at: number | undefined
  let record: Uint8Array | undefined
  for (const list of lists) {
    let added: { readonly index: number; readonly record: Uint8Array } | undefined
    for (const { index, kind, delta } of updateEntries(list, recordBytes)) {
      if (kind === 'edit') {
        if (index === at && record !== undefined) for (let i = 0; i < recordBytes; i++) record[i]! ^= delta[i]!
      } else if (startsWith(delta, fingerprint)) {
        // A batch may delete a key and add it again: the add counts, wherever in the list it stands.
        if (kind === 'add') added = { index, record: delta.slice() }
        at = undefined
        record = new Uint8Array(recordBytes)
      }
    }
    if (added !== undefined) {
      at = added.index
      record = added.record
    }
  }
  return record
}

function startsWith(delta: Uint8Array, fingerprint: Uint8Array): boolean {
  let difference = 0
  for (let i = 0; i < FINGERPRINT_BYTES; i++) difference |= delta[i]! ^ fingerprint[i]!
  return difference === 0
}
