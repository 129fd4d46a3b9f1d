// The mark of a record's place, by which most absent keys are known to be absent (docs/protocol.md, Slot marks).

import { FINGERPRINT_BYTES } from './constants.js'

const VALUES = 255

/** Of a key's fingerprint: from 1 to 255. An empty slot has 0. */
export function slotMark(fingerprint: Uint8Array): number {
  return 1 + (fingerprint[FINGERPRINT_BYTES - 1]! % VALUES)
}
