// A publisher's batch (docs/protocol.md, Publishing): a header that says what it is made on and makes, then operations
// as text.

import { checkInteger, checkLength, checkMagic, copyOf, isZero, viewOf, writeMagic } from './bytes.js'
import { DATABASE_ID_BYTES, FORMAT, HASH_BYTES } from './constants.js'
import { malformed, WireError } from './errors.js'

export const BATCH_HEADER_BYTES = 72

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
  /** hash of the manifest it is made on */
  readonly previousManifest: Uint8Array
  /** a JSON object a line */
  readonly operations: Uint8Array
}

const MAGIC = 'PIRB'
const MAX_U32 = 0xffff_ffff
const AT = {
  format: 4,
  encoding: 6,
  reserved: 7,
  databaseId: 8,
  generation: 24,
  epoch: 28,
  expires: 32,
  previousManifest: 40,
} as const

/** Throws WireError if a value is out of range. */
export function encodeBatch(batch: Batch): Uint8Array<ArrayBuffer> {
  checkBatch(batch)
  const bytes = new Uint8Array(BATCH_HEADER_BYTES + batch.operations.length)
  const view = viewOf(bytes)
  writeMagic(bytes, MAGIC)
  view.setUint16(AT.format, FORMAT, true)
  bytes[AT.encoding] = BATCH_ENCODINGS.indexOf(batch.encoding)
  bytes.set(batch.databaseId, AT.databaseId)
  view.setUint32(AT.generation, batch.generation, true)
  view.setUint32(AT.epoch, batch.epoch, true)
  view.setBigUint64(AT.expires, BigInt(batch.expires), true)
  bytes.set(batch.previousManifest, AT.previousManifest)
  bytes.set(batch.operations, BATCH_HEADER_BYTES)
  return bytes
}

/** Throws WireError for any bytes that `encodeBatch` would not have written. `operations` is a view, not looked at. */
export function decodeBatch(bytes: Uint8Array): Batch {
  if (bytes.length < BATCH_HEADER_BYTES) malformed('batch', `at least ${BATCH_HEADER_BYTES} bytes`, bytes.length)
  checkMagic(bytes, MAGIC)
  const view = viewOf(bytes)
  const format = view.getUint16(AT.format, true)
  if (format !== FORMAT) throw new WireError('version', `batch format: expected ${FORMAT}, got ${format}`)
  if (!isZero(bytes, AT.reserved, AT.databaseId)) malformed('reserved bytes', 'zero', 'others')
  const batch = {
    encoding: BATCH_ENCODINGS[bytes[AT.encoding]!] ?? malformed('value encoding', '0, 1 or 2', bytes[AT.encoding]!),
    databaseId: copyOf(bytes, AT.databaseId, AT.databaseId + DATABASE_ID_BYTES),
    generation: view.getUint32(AT.generation, true),
    epoch: view.getUint32(AT.epoch, true),
    expires: Number(view.getBigUint64(AT.expires, true)),
    previousManifest: copyOf(bytes, AT.previousManifest, AT.previousManifest + HASH_BYTES),
    operations: bytes.subarray(BATCH_HEADER_BYTES),
  }
  checkBatch(batch)
  return batch
}

function checkBatch(batch: Batch): void {
  checkLength('database id', batch.databaseId, DATABASE_ID_BYTES)
  checkInteger('epoch', batch.epoch, 2, MAX_U32)
  checkInteger('generation', batch.generation, 1, batch.epoch)
  checkInteger('expiry', batch.expires, 0, Number.MAX_SAFE_INTEGER)
  checkLength('previous manifest', batch.previousManifest, HASH_BYTES)
  if (isZero(batch.previousManifest)) malformed('previous manifest', 'a hash', 'zero')
}
