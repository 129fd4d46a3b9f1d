// Collects the records of keyed formats in flat buffers, without an object for each record.

import { FINGERPRINT_BYTES, MAX_KEY_BYTES, MAX_RECORD_BYTES, mayHave } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { BuildError } from '../../base/errors.js'
import { Growing } from './growing.js'
import { FingerprintIndex } from './prints.js'

/** Longest value that a layout can hold: in a keyed record without a length field. */
const MAX_VALUE_BYTES = MAX_RECORD_BYTES - FINGERPRINT_BYTES

/** The core hashes keys in pieces of this size. */
const KEYS_BYTES = 256 * 1024
const KEYS_COUNT = 16 * 1024

/** All records of keyed data files, in their order. */
export interface KeyedRecords {
  readonly records: number
  /** 16 bytes a record */
  readonly fingerprints: Uint8Array
  /** all values, one after the other */
  readonly values: Uint8Array
  /** where the value of record i ends in `values` */
  readonly valueEnds: Uint32Array
  /** names the file and the line on which record i begins */
  readonly fault: (i: number, reason: string) => BuildError
  /** the keys themselves, one after the other, and where each ends; empty unless they were to be kept */
  readonly keys: Uint8Array
  readonly keyEnds: Uint32Array
}

/** What readers give their records to. */
export interface Records {
  /** The bytes are a reader's own: they change after the call. Throws BuildError. */
  add(key: Uint8Array, value: Uint8Array, line: number): void
}

/** Computes fingerprints, many at once. */
export class Hashing {
  readonly #core: Core
  readonly #take: (fingerprints: Uint8Array) => void
  readonly #keys = new Uint8Array(KEYS_BYTES + MAX_KEY_BYTES)
  readonly #keyEnds = new Uint32Array(KEYS_COUNT)
  #keysWaiting = 0
  #keyBytesWaiting = 0

  /** `take` gets the fingerprints of the next keys, 16 bytes each. */
  constructor(core: Core, take: (fingerprints: Uint8Array) => void) {
    this.#core = core
    this.#take = take
  }

  /** Copies a key. */
  add(key: Uint8Array): void {
    this.#keys.set(key, this.#keyBytesWaiting)
    this.#keyBytesWaiting += key.length
    this.#keyEnds[this.#keysWaiting++] = this.#keyBytesWaiting
    if (this.#keyBytesWaiting >= KEYS_BYTES || this.#keysWaiting === KEYS_COUNT) this.finish()
  }

  /** Hashes what waits. */
  finish(): void {
    if (this.#keysWaiting === 0) return
    const keys = this.#keys.subarray(0, this.#keyBytesWaiting)
    const ends = this.#keyEnds.subarray(0, this.#keysWaiting)
    this.#keysWaiting = 0
    this.#keyBytesWaiting = 0
    this.#take(this.#core.fingerprints(keys, ends))
  }
}

export class Table implements Records {
  /** each with the number of its first record */
  readonly #files: { readonly file: string; readonly first: number }[] = []
  readonly #longestValue: number
  readonly #keepsKeys: boolean
  readonly #databaseId: Uint8Array

  readonly #hashing: Hashing
  readonly #fingerprints = new Growing(Uint8Array)
  readonly #values = new Growing(Uint8Array)
  readonly #valueEnds = new Growing(Uint32Array)
  readonly #lines = new Growing(Uint32Array)
  readonly #kept = { keys: new Growing(Uint8Array), ends: new Growing(Uint32Array) }

  /** `longestValue` in bytes; default: what a layout can hold. A confidential `databaseId` takes no plain keys. */
  constructor(
    core: Core,
    longestValue = MAX_VALUE_BYTES,
    keepsKeys = false,
    databaseId: Uint8Array = new Uint8Array(),
  ) {
    this.#hashing = new Hashing(core, prints => this.#fingerprints.append(prints))
    this.#longestValue = longestValue
    this.#keepsKeys = keepsKeys
    this.#databaseId = databaseId
  }

  /** What is added from now on is of this file. */
  begin(file: string): void {
    this.#files.push({ file, first: this.#lines.length })
  }

  /** Copies a record. Throws BuildError. */
  add(key: Uint8Array, value: Uint8Array, line: number): void {
    const reason = faultOfKey(key)
    if (reason !== undefined) this.#refuse(line, reason)
    if (!mayHave(this.#databaseId, key)) this.#refuse(line, PLAIN_KEY)
    if (value.length > this.#longestValue) {
      this.#refuse(line, tooLong('value', this.#longestValue, value.length))
    }
    this.#hashing.add(key)
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
    this.#hashing.finish()
    const records = this.#lines.length
    if (records === 0)
      throw new BuildError('expected records, but the file holds no records; name another', this.#files.at(-1)!.file)
    const fingerprints = this.#fingerprints.view()
    const lines = this.#lines.view()
    const fileOf = (i: number) => this.#files.findLast(({ first }) => first <= i)!.file
    const fault = (i: number, reason: string) => new BuildError(reason, fileOf(i), lines[i])
    const twins = findTwins(fingerprints)
    if (twins !== undefined) {
      const [of, other] = [fileOf(twins.later), fileOf(twins.earlier)]
      const where = `line ${lines[twins.earlier]!}${of === other ? '' : ` of ${other}`}`
      throw fault(twins.later, `the same key as on ${where}; delete one of them`)
    }
    const [values, valueEnds] = [this.#values.view(), this.#valueEnds.view()]
    const [keys, keyEnds] = [this.#kept.keys.view(), this.#kept.ends.view()]
    return { records, fingerprints, values, valueEnds, fault, keys, keyEnds }
  }

  #refuse(line: number, reason: string): never {
    throw new BuildError(reason, this.#files.at(-1)!.file, line)
  }
}

/** Why no list may have a key; undefined: it may. */
export function faultOfKey({ length }: Uint8Array): string | undefined {
  if (length === 0) return 'expected a key, but the key is empty; delete the line'
  return length > MAX_KEY_BYTES ? tooLong('key', MAX_KEY_BYTES, length) : undefined
}

/** Why a plain key is refused. */
export const PLAIN_KEY =
  'expected a key of a confidential list, got a plain one; run `keyhush-confidential transform` first, and give what it wrote'

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
