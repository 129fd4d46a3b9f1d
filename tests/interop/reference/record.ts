// docs/protocol.md, Stored records.

import { isZero, Reader, Writer } from './bytes.js'

export interface RecordShape {
  readonly recordBytes: number
  readonly valueBytes: number
  readonly keyed: boolean
  readonly variable: boolean
}

export interface StoredRecord {
  /** empty in a keyless database */
  readonly fingerprint: Uint8Array
  readonly value: Uint8Array
}

export function encodeRecord(shape: RecordShape, { fingerprint, value }: StoredRecord): Uint8Array {
  const writer = new Writer().put(fingerprint)
  if (shape.variable) writer.u16(value.length)
  const head = writer.put(value).bytes()
  const record = new Uint8Array(shape.recordBytes)
  record.set(head)
  return record
}

/** undefined: an empty slot */
export function decodeRecord(shape: RecordShape, record: Uint8Array): StoredRecord | undefined {
  if (record.length !== shape.recordBytes) throw new Error(`a record of ${record.length} bytes`)
  const reader = new Reader(record)
  const fingerprint = reader.take(shape.keyed ? 16 : 0)
  if (shape.keyed && isZero(fingerprint)) {
    if (!isZero(record)) throw new Error('an empty slot with something in it')
    return undefined
  }
  const length = shape.variable ? reader.u16() : shape.valueBytes
  if (length > shape.valueBytes) throw new Error(`a value of ${length} bytes`)
  const value = reader.take(length)
  reader.expect('zeros after the value', new Uint8Array(shape.valueBytes - length))
  reader.end()
  return { fingerprint, value }
}
