// What a watched key leaves for the next visit: where it was seen last, and what it was. It names the key.
//
//   version 1 (u8) ‖ database id (16) ‖ generation, epoch (u32 each) ‖ the manifest's hash (32) ‖ fingerprint (16) ‖ index (u32) ‖ record
//
// in hex. The index is 2³² − 1, and there is no record, if the key was absent.

import { equalBytes, FINGERPRINT_BYTES, fromHex, HASH_BYTES, type Manifest, toHex } from '@keyhush/protocol'
import { concatenated } from '../base/bytes.js'
import type { Place } from '../lookup/moved.js'
import type { Found } from '../lookup/question.js'

const VERSION = 1
const ABSENT = 0xffff_ffff
const AT = { database: 1, epoch: 17, hash: 25, print: 57, index: 73, record: 77 } as const

/** An epoch, and the hash of its manifest. */
export interface Hashed {
  readonly manifest: Pick<Manifest, 'databaseId' | 'generation' | 'epoch'>
  readonly hash: Uint8Array
}

/** Where a key was seen. */
export interface Mark extends Hashed {
  readonly place: Place
}

/** A key at an epoch. */
export interface Sighting extends Mark {
  readonly value: Found
}

export function writeMark({ manifest, hash, place }: Mark, print: Uint8Array): string {
  const { index = ABSENT, record } = place
  const [epoch, at] = [big(manifest.generation, manifest.epoch), big(index)]
  const stored = index === ABSENT ? [] : [record!]
  return toHex(concatenated([Uint8Array.of(VERSION), manifest.databaseId, epoch, hash, print, at, ...stored]))
}

function big(...numbers: readonly number[]): Uint8Array {
  return Uint8Array.from(numbers.flatMap(number => [24, 16, 8, 0].map(shift => number >>> shift)))
}

/** Undefined: it is none, or another key's. */
export function readMark(text: string, print: Uint8Array, recordBytes: number): Mark | undefined {
  if (!/^(?:[\da-f]{2})+$/.test(text)) return undefined
  const bytes = fromHex(text)
  if (bytes[0] !== VERSION || bytes.length < AT.record) return undefined
  const view = new DataView(bytes.buffer)
  const number = view.getUint32(AT.index)
  const index = number === ABSENT ? undefined : number
  if (bytes.length !== AT.record + (index === undefined ? 0 : recordBytes)) return undefined
  const record = index === undefined ? new Uint8Array(recordBytes) : bytes.slice(AT.record)
  const isOf = (fingerprint: Uint8Array) => equalBytes(fingerprint.subarray(0, FINGERPRINT_BYTES), print)
  if (!isOf(bytes.subarray(AT.print)) || (index !== undefined && !isOf(record))) return undefined
  return {
    manifest: {
      databaseId: bytes.slice(AT.database, AT.epoch),
      generation: view.getUint32(AT.epoch),
      epoch: view.getUint32(AT.epoch + 4),
    },
    hash: bytes.slice(AT.hash, AT.hash + HASH_BYTES),
    place: { index, record },
  }
}
