// The mark of a record's place, by which most absent keys are known to be absent (docs/protocol.md, Slot marks).

import { FINGERPRINT_BYTES } from './constants.js'

const VALUES = 255

/** Of keys that are not listed, so many have the mark of the place to which the directory leads: 2 of 256 last bytes have one mark. */
export const MARK_PASSES = 1 / 254

/** Of a key's fingerprint: from 1 to 255. An empty slot has 0. */
export function slotMark(fingerprint: Uint8Array): number {
  return 1 + (fingerprint[FINGERPRINT_BYTES - 1]! % VALUES)
}
