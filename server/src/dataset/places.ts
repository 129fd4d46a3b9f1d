// Whether a key directory leads to the records there are.

import { FINGERPRINT_BYTES, isZero, type Manifest } from '@keyhush/protocol'
import type { Core, DatabaseHandle, ServerDirectoryHandle } from '@keyhush/wasm'
import { recordBytesView } from './view.js'

/** The fingerprints of all records, as they stand in memory; of an empty slot zero. */
export function storedFingerprints(core: Core, database: DatabaseHandle, manifest: Manifest): Uint8Array {
  const { records, recordBytes } = manifest
  const stored = recordBytesView(core, database, 0, records * recordBytes)
  const fingerprints = new Uint8Array(FINGERPRINT_BYTES * records)
  for (let i = 0; i < records; i++) {
    for (let k = 0; k < FINGERPRINT_BYTES; k++) fingerprints[FINGERPRINT_BYTES * i + k] = stored[i * recordBytes + k]!
  }
  return fingerprints
}

/** Whether some slot is empty. */
export function hasEmpty(fingerprints: Uint8Array): boolean {
  for (let at = 0; at < fingerprints.length; at += FINGERPRINT_BYTES) {
    if (isZero(fingerprints, at, at + FINGERPRINT_BYTES)) return true
  }
  return false
}

/** The first record to which its directory does not lead; undefined: there is none. Empty slots need no leading to. */
export function misplacedRecord(
  directory: ServerDirectoryHandle,
  fingerprints: Uint8Array,
  records: number,
): number | undefined {
  const indices = directory.indices(fingerprints, records)
  for (let i = 0; i < records; i++) {
    if (indices[i] !== i && !isZero(fingerprints, FINGERPRINT_BYTES * i, FINGERPRINT_BYTES * (i + 1))) return i
  }
  return undefined
}
