// The rows that a state keeps in the store beside its stored form.

import type { Rows } from '../scheme/scheme.js'
import type { StateStore } from '../store/store.js'
import type { Hint } from './hint.js'

/** `since`: the version of the checkpoint that names what is read. */
export function rowsIn(store: StateStore, hintId: Uint8Array, since?: () => number): Rows {
  return {
    read: name => store.readRow(hintId, name, since?.()),
    put: (name, row) => store.putRow(hintId, name, row),
  }
}

export function rowsOf(store: StateStore, hint: Hint): Rows {
  return rowsIn(store, hint.record.hintId, () => hint.checkpointVersion)
}
