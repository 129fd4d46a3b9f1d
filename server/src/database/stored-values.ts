// How values are stored: under which key, behind which checksum, and as of which epoch; and a store's head, from which all else
// is found. An epoch number in a key has eight hex digits, so that keys sort by it.

import { crc32 } from 'node:zlib'
import { BYTES_AT_ONCE, Pace } from '../base/pace.js'
import type { Dated } from '../dataset/proof-kinds.js'
import type { Transaction } from '../storage/storage.js'

/** Raised with every change of what is stored, manifests included (test/stored-form.test.ts). */
export const FORMAT = 7

export const HEAD = 'head'
/** before a value: the CRC-32 of its key and of what follows (u32); … */
export const SEAL_BYTES = 4
/** … and then, of a dated one, its epoch (u32) */
export const DATE_BYTES = SEAL_BYTES + 4

export const ANOTHER_PROCESS = 'another process has published into this store; restart this process'
const DAMAGED = 'expected a stored value as it was written, got a damaged one; begin a new store'

/** Where a store stands. */
export interface Head {
  /** the newest epoch, … */
  readonly epoch: number
  /** … and its generation; each has chunks of its own */
  readonly generation: number
  /** the epoch that the store was begun with, if a list led there: earlier epochs are not known here */
  readonly first?: number | undefined
  /** no chunk has changed between its own epoch and this one: the lists since lead from any chunk to any epoch */
  readonly base: number
  /** the generation before, while it is answered; its chunks are those of its last epoch */
  readonly old?: OldEpoch | undefined
}

/** A generation that has ended, and is still answered. */
export interface OldEpoch {
  readonly generation: number
  /** its last */
  readonly epoch: number
  /** seconds since 1970 */
  readonly until: number
}

export function putDated(transaction: Transaction, key: string, epoch: number, bytes: Uint8Array): void {
  const date = Buffer.alloc(DATE_BYTES - SEAL_BYTES)
  date.writeUInt32LE(epoch)
  putSealed(transaction, key, date, bytes)
}

export function dated(key: string, value: Uint8Array): Dated {
  const bytes = unsealed(key, value)
  const epoch = new DataView(bytes.buffer, bytes.byteOffset, bytes.length).getUint32(0, true)
  return { epoch, bytes: bytes.subarray(DATE_BYTES - SEAL_BYTES) }
}

export function putSealed(transaction: Transaction, key: string, ...parts: readonly Uint8Array[]): void {
  const value = Buffer.concat([Buffer.alloc(SEAL_BYTES), ...parts])
  value.writeUInt32LE(crc32(value.subarray(SEAL_BYTES), crc32(key)))
  transaction.put(key, value)
}

/** What `putDated` puts, of many bytes: made in slices. */
export async function datedValue(key: string, epoch: number, bytes: Uint8Array): Promise<Uint8Array> {
  const [value, pace] = [Buffer.allocUnsafe(DATE_BYTES + bytes.length), new Pace()]
  value.writeUInt32LE(epoch, SEAL_BYTES)
  let checksum = crc32(value.subarray(SEAL_BYTES, DATE_BYTES), crc32(key))
  for (let start = 0; start < bytes.length; start += BYTES_AT_ONCE) {
    const part = bytes.subarray(start, start + BYTES_AT_ONCE)
    checksum = crc32(part, checksum)
    value.set(part, DATE_BYTES + start)
    await pace.yield()
  }
  value.writeUInt32LE(checksum)
  return value
}

export function unsealed(key: string, value: Uint8Array): Uint8Array {
  const bytes = value.subarray(SEAL_BYTES)
  const view = new DataView(value.buffer, value.byteOffset, value.length)
  if (value.length < SEAL_BYTES || crc32(bytes, crc32(key)) !== view.getUint32(0, true)) throw new Error(DAMAGED)
  return bytes
}

export function readHead(from: Transaction): Head | undefined {
  return decodeHead(from.get(HEAD))
}

export function decodeHead(bytes: Uint8Array | undefined): Head | undefined {
  if (bytes === undefined) return undefined
  const { format, ...head } = parse(HEAD, bytes) as Head & { format: number }
  if (format !== FORMAT)
    throw new Error(`expected format ${FORMAT}, but the store has format ${format}; begin a new store`)
  return head
}

/** SQL for the newest epoch of a store that is in a schema. */
export function headEpoch(schema: string): string {
  return `SELECT (left(convert_from(value, 'UTF8'), -8)::json ->> 'epoch')::int FROM ${schema}.entries WHERE key = '${HEAD}'`
}

export function putHead(transaction: Transaction, head: Head): void {
  putJson(transaction, HEAD, { format: FORMAT, ...head })
}

export function hex(number: number): string {
  return number.toString(16).padStart(8, '0')
}

export function putJson(transaction: Transaction, key: string, value: object): void {
  transaction.put(key, json(key, value))
}

/** Text, so that SQL can read it, and behind it, in hex, the CRC-32 of its key and of it. */
export function json(key: string, value: object): Uint8Array {
  const text = JSON.stringify(value)
  return Buffer.from(text + checksum(key, text))
}

/** The head names the format, so its checksum is the same in all formats. */
function checksum(key: string, text: string): string {
  return hex(crc32(text, key === HEAD ? 0 : crc32(key)))
}

export function parse(key: string, bytes: Uint8Array): unknown {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()
  const value = text.slice(0, -8)
  if (checksum(key, value) !== text.slice(-8)) throw new Error(DAMAGED)
  return JSON.parse(value)
}
