// Collects the records of keyed formats in flat buffers, without an object for each record.

import { FINGERPRINT_BYTES, MAX_KEY_BYTES, MAX_RECORD_BYTES } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { BuildError } from '../../base/errors.js'
import { Growing } from './growing.js'

/** Longest value that a layout can hold: in a keyed record without a length field. */
const MAX_VALUE_BYTES = MAX_RECORD_BYTES - FINGERPRINT_BYTES

/** The core hashes keys in pieces of this size. */
const KEYS_BYTES = 256 * 1024
const KEYS_COUNT = 16 * 1024

/** All records of a keyed data file, in the file's order. */
export interface KeyedRecords {
  readonly records: number
  /** 16 bytes a record */
  readonly fingerprints: Uint8Array
  /** all values, one after the other */
  readonly values: Uint8Array
  /** where the value of record i ends in `values` */
  readonly valueEnds: Uint32Array
  /** the line of the file on which record i begins */
  readonly lines: Uint32Array
}

export class Table {
  readonly #core: Core
  readonly #file: string
  readonly #longestValue: number

  readonly #keys = new Uint8Array(KEYS_BYTES + MAX_KEY_BYTES)
  readonly #keyEnds = new Uint32Array(KEYS_COUNT)
  #keysWaiting = 0
  #keyBytesWaiting = 0

  readonly #fingerprints = new Growing(Uint8Array)
  readonly #values = new Growing(Uint8Array)
  readonly #valueEnds = new Growing(Uint32Array)
  readonly #lines = new Growing(Uint32Array)

  /** `longestValue` in bytes; default: what a layout can hold */
  constructor(core: Core, file: string, longestValue = MAX_VALUE_BYTES) {
    this.#core = core
    this.#file = file
    this.#longestValue = longestValue
  }

  /** Copies a record. Throws BuildError. */
  add(key: Uint8Array, value: Uint8Array, line: number): void {
    if (key.length === 0) this.#refuse(line, 'expected a key, but the key is empty; delete the line')
    if (key.length > MAX_KEY_BYTES) this.#refuse(line, tooLong('key', MAX_KEY_BYTES, key.length))
    if (value.length > this.#longestValue) {
      this.#refuse(line, tooLong('value', this.#longestValue, value.length))
    }
    this.#keys.set(key, this.#keyBytesWaiting)
    this.#keyBytesWaiting += key.length
    this.#keyEnds[this.#keysWaiting++] = this.#keyBytesWaiting
    if (this.#keyBytesWaiting >= KEYS_BYTES || this.#keysWaiting === KEYS_COUNT) this.#hashKeys()

    this.#values.append(value)
    this.#valueEnds.append([this.#values.length])
    this.#lines.append([line])
  }

  /** Returns all records. Throws BuildError if there are none, or if a key stands twice. */
  finish(): KeyedRecords {
    this.#hashKeys()
    const records = this.#lines.length
    if (records === 0) throw new BuildError('expected records, but the file holds no records; name another', this.#file)
    const fingerprints = this.#fingerprints.view()
    const lines = this.#lines.view()
    const twins = findTwins(fingerprints)
    if (twins !== undefined) {
      this.#refuse(lines[twins.later]!, `the same key as on line ${lines[twins.earlier]!}; delete one of them`)
    }
    return { records, fingerprints, values: this.#values.view(), valueEnds: this.#valueEnds.view(), lines }
  }

  #hashKeys(): void {
    if (this.#keysWaiting === 0) return
    const keys = this.#keys.subarray(0, this.#keyBytesWaiting)
    this.#fingerprints.append(this.#core.fingerprints(keys, this.#keyEnds.subarray(0, this.#keysWaiting)))
    this.#keysWaiting = 0
    this.#keyBytesWaiting = 0
  }

  #refuse(line: number, reason: string): never {
    throw new BuildError(reason, this.#file, line)
  }
}

/** Why a key or value is refused. */
export function tooLong(what: string, most: number, got: number): string {
  return `expected a ${what} of at most ${most} bytes, got ${got}; shorten it`
}

/** Finds the first record with the fingerprint of an earlier one, by an open-addressing table of record numbers. */
function findTwins(fingerprints: Uint8Array): { earlier: number; later: number } | undefined {
  const records = fingerprints.length / FINGERPRINT_BYTES
  // Four aligned words a fingerprint. Fingerprints are hashes, so the first word chooses the slot.
  const words = new Uint32Array(fingerprints.buffer, fingerprints.byteOffset, records * 4)
  const slots = new Uint32Array(2 ** Math.ceil(Math.log2(records * 2 + 1))) // record + 1; 0: free
  const mask = slots.length - 1
  for (let later = 0; later < records; later++) {
    let slot = words[4 * later]! & mask
    for (; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const earlier = slots[slot]! - 1
      if (
        words[4 * earlier] === words[4 * later] &&
        words[4 * earlier + 1] === words[4 * later + 1] &&
        words[4 * earlier + 2] === words[4 * later + 2] &&
        words[4 * earlier + 3] === words[4 * later + 3]
      ) {
        return { earlier, later }
      }
    }
    slots[slot] = later + 1
  }
  return undefined
}
