// A publisher's batch (docs/protocol.md, Publishing): a header that names the epoch before and the epoch it makes, then operations
// as text.

import { checkInteger, checkMagic, isZero, viewOf, writeMagic } from './bytes.js'
import { DATABASE_ID_BYTES, FORMAT, HASH_BYTES } from './constants.js'
import { malformed, WireError } from './errors.js'
import { byteString, headerBytes, number, readFields, writeFields } from './fields.js'

/** How values are written in the operations. */
export const BATCH_ENCODINGS = ['utf8', 'base64', 'hex'] as const
export type BatchEncoding = (typeof BATCH_ENCODINGS)[number]

export interface Batch {
  readonly encoding: BatchEncoding
  /** 16 bytes */
  readonly databaseId: Uint8Array
  readonly generation: number
  /** the epoch this batch makes */
  readonly epoch: number
  /** of that epoch's manifest, seconds since 1970; 0: none */
  readonly expires: number
  /** hash of the manifest of the epoch before */
  readonly previousManifest: Uint8Array
  /** a JSON object a line */
  readonly operations: Uint8Array
}

const MAGIC = 'PIRB'
const FORMAT_AT = 4
const HEADER_AT = 6

/** The header behind magic and format. */
const HEADER = {
  encoding: number('value encoding', 1, { max: BATCH_ENCODINGS.length - 1 }),
  reserved: number('reserved', 1, { max: 0 }),
  databaseId: byteString('database id', DATABASE_ID_BYTES),
  generation: number('generation', 4, { min: 1 }),
  epoch: number('epoch', 4, { min: 2 }),
  expires: number('expiry', 8),
  previousManifest: byteString('previous manifest', HASH_BYTES),
}

export const BATCH_HEADER_BYTES = HEADER_AT + headerBytes(HEADER)

/** Throws WireError if a value is out of range. */
export function encodeBatch(batch: Batch): Uint8Array<ArrayBuffer> {
  const header = writeFields(HEADER, { ...batch, encoding: BATCH_ENCODINGS.indexOf(batch.encoding), reserved: 0 })
  checkRules(batch)
  const bytes = new Uint8Array(BATCH_HEADER_BYTES + batch.operations.length)
  writeMagic(bytes, MAGIC)
  viewOf(bytes).setUint16(FORMAT_AT, FORMAT, true)
  bytes.set(header, HEADER_AT)
  bytes.set(batch.operations, BATCH_HEADER_BYTES)
  return bytes
}

/** Throws WireError for any bytes that `encodeBatch` never writes. `operations` is a view, and is not checked. */
export function decodeBatch(bytes: Uint8Array): Batch {
  if (bytes.length < BATCH_HEADER_BYTES) malformed('batch', `at least ${BATCH_HEADER_BYTES} bytes`, bytes.length)
  checkMagic(bytes, MAGIC)
  const format = viewOf(bytes).getUint16(FORMAT_AT, true)
  if (format !== FORMAT) throw new WireError('version', `batch format: expected ${FORMAT}, got ${format}`)
  const { encoding, reserved, ...header } = readFields(HEADER, bytes.subarray(HEADER_AT))
  checkRules(header)
  return { ...header, encoding: BATCH_ENCODINGS[encoding]!, operations: bytes.subarray(BATCH_HEADER_BYTES) }
}

function checkRules({ generation, epoch, previousManifest }: Omit<Batch, 'encoding' | 'operations'>): void {
  checkInteger('generation', generation, 1, epoch)
  if (isZero(previousManifest)) malformed('previous manifest', 'a hash', 'zero')
}
