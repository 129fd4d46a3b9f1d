// Stored records: fingerprint ‖ value length ‖ value ‖ zeros (docs/protocol.md, Stored records). Only keyed databases have the
// fingerprint, and only those with variable lengths the value length.

import { checkInteger, checkLength, isZero, viewOf } from './bytes.js'
import { FINGERPRINT_BYTES } from './constants.js'
import { malformed } from './errors.js'
import type { Manifest } from './manifest.js'

/** The fields of a manifest that decide the form of records. */
export type RecordShape = Pick<Manifest, 'recordBytes' | 'valueBytes' | 'keyed' | 'variable'>

/** What a stored record says. */
export interface StoredRecord {
  /** 16 bytes; undefined in a keyless database. A view. */
  readonly fingerprint: Uint8Array | undefined
  /** a keyed slot that holds nothing */
  readonly empty: boolean
  /** a view; of length 0 for an empty slot */
  readonly value: Uint8Array
  /** all of it, ℓ bytes */
  readonly bytes: Uint8Array
}

/**
 * One stored record of ℓ bytes. `fingerprint` is required in a keyed database and refused in a keyless one.
 * Throws WireError if it or the value does not fit the shape.
 */
export function encodeRecord(shape: RecordShape, fingerprint: Uint8Array | undefined, value: Uint8Array): Uint8Array {
  const record = new Uint8Array(shape.recordBytes)
  writeRecord(shape, record, 0, fingerprint, value)
  return record
}

/** As `encodeRecord`, written into `into` at byte `at`, where ℓ bytes are zero. */
export function writeRecord(
  shape: RecordShape,
  into: Uint8Array,
  at: number,
  fingerprint: Uint8Array | undefined,
  value: Uint8Array,
): void {
  if (shape.keyed !== (fingerprint !== undefined)) {
    const [wanted, came] = shape.keyed ? ['a fingerprint', 'none'] : ['no fingerprint without keys', 'one']
    malformed('record', wanted, came)
  }
  const shortest = shape.variable ? 0 : shape.valueBytes
  checkInteger('value length', value.length, shortest, shape.valueBytes)
  let next = at
  if (fingerprint !== undefined) {
    checkLength('fingerprint', fingerprint, FINGERPRINT_BYTES)
    // An all-zero fingerprint marks an empty slot, so no key may have it.
    if (isZero(fingerprint)) malformed('fingerprint', 'one that is not zero', 'zero')
    into.set(fingerprint, next)
    next += FINGERPRINT_BYTES
  }
  if (shape.variable) {
    into[next] = value.length & 0xff
    into[next + 1] = value.length >>> 8
    next += 2
  }
  into.set(value, next)
}

/**
 * Reads a stored record of ℓ bytes; the result's parts are views into it. Throws WireError if it is malformed: of
 * another length, a value longer than allowed, padding or an empty slot that is not zero.
 */
export function decodeRecord(shape: RecordShape, record: Uint8Array): StoredRecord {
  checkLength('record', record, shape.recordBytes)
  let at = 0
  let fingerprint: Uint8Array | undefined
  if (shape.keyed) {
    at = FINGERPRINT_BYTES
    fingerprint = record.subarray(0, at)
    if (isZero(fingerprint)) {
      if (!isZero(record)) malformed('empty slot', 'zero bytes', 'others')
      return { fingerprint, empty: true, value: record.subarray(0, 0), bytes: record }
    }
  }
  let length = shape.valueBytes
  if (shape.variable) {
    length = viewOf(record).getUint16(at, true)
    checkInteger('value length', length, 0, shape.valueBytes)
    at += 2
  }
  if (!isZero(record, at + length)) malformed('record padding', 'zero bytes', 'others')
  return { fingerprint, empty: false, value: record.subarray(at, at + length), bytes: record }
}
