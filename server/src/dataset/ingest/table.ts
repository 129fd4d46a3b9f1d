// Collects the records of keyed formats in flat buffers, without an object for each record.

import { FINGERPRINT_BYTES, MAX_KEY_BYTES, MAX_RECORD_BYTES } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { BuildError } from '../../base/errors.js'
import { Growing } from './growing.js'
import { FingerprintIndex } from './prints.js'

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
  /** the keys themselves, one after the other, and where each ends; empty unless they were to be kept */
  readonly keys: Uint8Array
  readonly keyEnds: Uint32Array
}

/** What readers give their records to. */
export interface Records {
  /** The bytes are a reader's own: they change after the call. Throws BuildError. */
  add(key: Uint8Array, value: Uint8Array, line: number): void
}

export class Table implements Records {
  readonly #core: Core
  readonly #file: string
  readonly #longestValue: number
  readonly #keepsKeys: boolean

  readonly #keys = new Uint8Array(KEYS_BYTES + MAX_KEY_BYTES)
  readonly #keyEnds = new Uint32Array(KEYS_COUNT)
  #keysWaiting = 0
  #keyBytesWaiting = 0

  readonly #fingerprints = new Growing(Uint8Array)
  readonly #values = new Growing(Uint8Array)
  readonly #valueEnds = new Growing(Uint32Array)
  readonly #lines = new Growing(Uint32Array)
  readonly #kept = { keys: new Growing(Uint8Array), ends: new Growing(Uint32Array) }

  /** `longestValue` in bytes; default: what a layout can hold */
  constructor(core: Core, file: string, longestValue = MAX_VALUE_BYTES, keepsKeys = false) {
    this.#core = core
    this.#file = file
    this.#longestValue = longestValue
    this.#keepsKeys = keepsKeys
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

    if (this.#keepsKeys) {
      this.#kept.keys.append(key)
      this.#kept.ends.append([this.#kept.keys.length])
    }
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
    const [values, valueEnds] = [this.#values.view(), this.#valueEnds.view()]
    const [keys, keyEnds] = [this.#kept.keys.view(), this.#kept.ends.view()]
    return { records, fingerprints, values, valueEnds, lines, keys, keyEnds }
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

/** The first record with the fingerprint of an earlier one. */
function findTwins(fingerprints: Uint8Array): { earlier: number; later: number } | undefined {
  const index = new FingerprintIndex(fingerprints)
  const records = fingerprints.length / FINGERPRINT_BYTES
  for (let later = 0; later < records; later++) {
    const earlier = index.add(later)
    if (earlier !== undefined) return { earlier, later }
  }
  return undefined
}
