// docs/protocol.md, Slot marks.

import { isZero } from './bytes.js'
import { split } from './layout.js'

/** `records`: N·ℓ bytes of a database with keys. */
export function slotMarks(records: Uint8Array, recordBytes: number): Uint8Array {
  return Uint8Array.from(split(records, recordBytes), record => (isZero(record) ? 0 : markOf(record)))
}

/** `index`: where the directory leads from this fingerprint. */
export function isExcluded(marks: Uint8Array, index: number, fingerprint: Uint8Array): boolean {
  return marks[index] !== markOf(fingerprint)
}

function markOf(fingerprint: Uint8Array): number {
  return 1 + (fingerprint[15]! % 255)
}
