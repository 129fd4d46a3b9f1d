// Where the readers of keyed formats put what they read: fingerprints, and values one after the other, in flat
// buffers. No object is kept for a record.

import { FINGERPRINT_BYTES, MAX_KEY_BYTES, MAX_RECORD_BYTES } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { BuildError } from '../../base/errors.js'
import { Growing } from './growing.js'

/** Longest value that any layout can hold: a keyed record without a length of its own. */
const MAX_VALUE_BYTES = MAX_RECORD_BYTES - FINGERPRINT_BYTES

/** Keys wait in a buffer of about this size to be hashed in one call. */
const KEY_BATCH_BYTES = 256 * 1024
const KEY_BATCH_COUNT = 16 * 1024

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

/** Collects records one by one. */
export class Table {
  readonly #core: Core
  readonly #file: string
  readonly #longestValue: number

  readonly #keys = new Uint8Array(KEY_BATCH_BYTES + MAX_KEY_BYTES)
  readonly #keyEnds = new Uint32Array(KEY_BATCH_COUNT)
  #keysWaiting = 0
  #keyBytesWaiting = 0

  readonly #fingerprints = new Growing(Uint8Array)
  readonly #values = new Growing(Uint8Array)
  readonly #valueEnds = new Growing(Uint32Array)
  readonly #lines = new Growing(Uint32Array)

  /** `longestValue`: values beyond it are refused; undefined: only those that no layout can hold. */
  constructor(core: Core, file: string, longestValue = MAX_VALUE_BYTES) {
    this.#core = core
    this.#file = file
    this.#longestValue = longestValue
  }

  /** Takes a record over; `key` and `value` may be views that change afterwards. Throws BuildError. */
  add(key: Uint8Array, value: Uint8Array, line: number): void {
    if (key.length === 0) this.#refuse(line, 'the key is empty')
    if (key.length > MAX_KEY_BYTES) this.#refuse(line, `the key has ${key.length} bytes; at most ${MAX_KEY_BYTES} fit`)
    if (value.length > this.#longestValue) {
      this.#refuse(line, `the value has ${value.length} bytes; at most ${this.#longestValue} fit`)
    }
    this.#keys.set(key, this.#keyBytesWaiting)
    this.#keyBytesWaiting += key.length
    this.#keyEnds[this.#keysWaiting++] = this.#keyBytesWaiting
    if (this.#keyBytesWaiting >= KEY_BATCH_BYTES || this.#keysWaiting === KEY_BATCH_COUNT) this.#hashKeys()

    this.#values.append(value)
    this.#valueEnds.append([this.#values.length])
    this.#lines.append([line])
  }

  /** Everything that was added. Throws BuildError if that is nothing, or if a key was added twice. */
  finish(): KeyedRecords {
    this.#hashKeys()
    const records = this.#lines.length
    if (records === 0) throw new BuildError('the file holds no records', this.#file)
    const fingerprints = this.#fingerprints.view()
    const lines = this.#lines.view()
    const twins = findTwins(fingerprints)
    if (twins !== undefined) {
      this.#refuse(lines[twins.later]!, `the same key as on line ${lines[twins.earlier]!}`)
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

/**
 * The first record whose fingerprint an earlier one has already: an open-addressing table of record numbers.
 * Fingerprints are hashes, so their first bytes serve as the hash.
 */
function findTwins(fingerprints: Uint8Array): { earlier: number; later: number } | undefined {
  const records = fingerprints.length / FINGERPRINT_BYTES
  // Four words a fingerprint; Growing starts at a fresh buffer, so they are aligned.
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
