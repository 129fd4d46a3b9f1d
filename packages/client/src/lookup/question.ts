// What a call asks, and what the recovered records say about it (docs/protocol.md, What a client must do, 7).
//
// A question becomes record indices, and the indices become traffic that looks the same for all of them. Only then are the
// records read. An absent key leads to the record of another key, which proves that it is absent.

import { decodeRecord, instantLayout, type Manifest, mayHave, type StoredRecord, WireError } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { isSameSecret } from '../base/bytes.js'
import { ProtocolError, UsageError } from '../base/errors.js'
import { randomBelow } from '../base/random.js'
import { inCore } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import { withDirectoryShape } from '../platform/layout.js'
import type { Changes } from '../scheme/scheme.js'
import type { Agreed } from '../servers/manifests.js'

/** Gives the index at which a fingerprint would be, of so many records: the directory, or the fetched blocks of it. */
export interface KeyIndex {
  index(fingerprint: Uint8Array, records: number): number
}

/** The database at one epoch. */
export interface AtEpoch {
  readonly core: Core
  readonly manifest: Manifest
  /** the same, with its bytes */
  readonly base: Agreed
  /** undefined in a keyless database, and where it is not at hand */
  readonly directory: KeyIndex | undefined
  /** most queries at once, where manifests allow for more */
  readonly maxQueries?: number
}

export interface Question<T> {
  /**
   * The blocks of the directory to look up first, one query each, where the directory itself is not here. Undefined: none
   * is needed. Throws UsageError.
   */
  blocks(at: Omit<AtEpoch, 'directory'>): Uint32Array | undefined
  /** the keys that it asks for, where their values are the answer */
  readonly keys?: readonly Uint8Array[]
  /** how many queries it has; missing: one */
  readonly padTo?: number
  /** record indices, one query each. Throws UsageError. */
  indices(at: AtEpoch): Uint32Array
  /** the answer, given those indices' records in the same order, and what has changed since the epoch that they were asked at */
  read(at: AtEpoch, records: readonly StoredRecord[], changes?: Changes): T
}

/** A value: bytes, as a copy of your own. */
export type Value = Uint8Array<ArrayBuffer>

/** A value; or undefined, if the key is proved absent, or the record at the index is empty. */
export type Found = Value | undefined

/** Throws UsageError. All plain keys would look absent in a confidential database: `confidential()` seals them. */
export function assertKeys({ keyed, databaseId }: Manifest, keys: readonly Uint8Array[]): void {
  if (keyed && keys.every(key => mayHave(databaseId, key))) return
  throw new UsageError('key: expected a database with plain keys, got another; use at(index), or confidential(map)')
}

/** The values of keys, in order. Up to `padTo` queries are made, the rest at random indices. */
export function valuesOf(
  keys: readonly Uint8Array[],
  padTo: number,
  random: Environment['random'],
): Question<readonly Found[]> {
  const check = (manifest: Manifest, most = manifest.maxQueries) => {
    assertKeys(manifest, keys)
    if (padTo > most)
      throw new UsageError(`keys: expected at most ${most} keys at once, got ${padTo}; make several calls`)
  }
  /** One query a key, and the rest at random numbers below `bound`. */
  const padded = (core: Core, bound: number, numberOf: (fingerprint: Uint8Array) => number) => {
    const numbers = new Uint32Array(padTo)
    inCore(core, () => {
      keys.forEach((key, i) => {
        numbers[i] = numberOf(core.fingerprint(key))
      })
    })
    for (let i = keys.length; i < padTo; i++) numbers[i] = randomBelow(bound, random)
    return numbers
  }
  return {
    keys,
    padTo,
    blocks({ core, manifest, maxQueries }) {
      check(manifest, maxQueries)
      const blocks = instantLayout(manifest, 'directory').records
      return withDirectoryShape(core, manifest, shape =>
        padded(core, blocks, print => shape.number(print, manifest.shards)),
      )
    },
    indices({ core, manifest, directory, maxQueries }) {
      check(manifest, maxQueries)
      return padded(core, manifest.records, print => directory!.index(print, manifest.records))
    },
    read(at, records, changes) {
      const { core } = at
      const prints = inCore(core, () => keys.map(key => core.fingerprint(key)))
      const places = changes?.places(prints)
      return prints.map((print, i) => {
        const record = places?.[i]?.record
        const found = record === undefined ? records[i] : openRecord(at, record)
        if (found === undefined) {
          const message = 'expected an update list of well-formed records, got a malformed record; ask their operators'
          throw new ProtocolError('the servers', message)
        }
        return isSameSecret(found.fingerprint!, print) ? found.value.slice() : undefined
      })
    },
  }
}

/** The value at an index; undefined if the slot is empty. */
export function valueAt(index: number): Question<Found> {
  let begun = false
  const isOf = ({ records }: Manifest) => Number.isInteger(index) && index >= 0 && index < records
  // The message does not repeat the index: it may be a secret, and messages end up in logs.
  const refuse = ({ records }: Manifest) => {
    throw new UsageError(`at: expected an index from 0 to ${records - 1}, got another; see map.size`)
  }
  return {
    blocks: () => undefined,
    indices({ manifest }) {
      if (!begun && !isOf(manifest)) refuse(manifest)
      // Asked again after the database has shrunk: that the index is gone must not show (P5).
      begun = true
      return Uint32Array.of(index % manifest.records)
    },
    read({ manifest }, [record], changes) {
      if (!isOf(manifest)) refuse(manifest)
      const { empty, value } = changes?.at?.(index) ?? record!
      return empty ? undefined : value.slice()
    },
  }
}

/**
 * Cuts recovered bytes into records. In a keyed database each record's fingerprint must lead back to the index that was
 * asked for. Undefined: one does not.
 */
export function openRecords(at: AtEpoch, indices: Uint32Array, bytes: Uint8Array): StoredRecord[] | undefined {
  const { recordBytes } = at.manifest
  const records: StoredRecord[] = []
  let genuine = true
  indices.forEach((index, i) => {
    const record = openRecord(at, bytes.subarray(i * recordBytes, (i + 1) * recordBytes))
    genuine &&= record !== undefined && leadsTo(at, record, index)
    if (record !== undefined) records.push(record)
  })
  return genuine ? records : undefined
}

/**
 * The same for bytes that were checked against the manifest: a malformed record is then the database's fault. The state
 * stays. Beginning anew would show the publisher of that record who has asked for it.
 */
export function openVerified(...recovered: Parameters<typeof openRecords>): StoredRecord[] {
  const records = openRecords(...recovered)
  if (records !== undefined) return records
  throw new ProtocolError('the servers', 'expected a well-formed record, got a malformed record; ask their operators')
}

function openRecord({ manifest }: AtEpoch, bytes: Uint8Array): StoredRecord | undefined {
  try {
    return decodeRecord(manifest, bytes)
  } catch (error) {
    if (error instanceof WireError) return undefined // not passed on: it speaks of a record's contents
    throw error
  }
}

function leadsTo({ core, manifest, directory }: AtEpoch, { fingerprint, empty }: StoredRecord, index: number): boolean {
  if (directory === undefined || fingerprint === undefined || empty) return true
  return inCore(core, () => directory.index(fingerprint, manifest.records)) === index
}
