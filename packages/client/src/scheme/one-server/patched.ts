// A patch (docs/protocol/one-server.md, Base and patch): what has changed between the base that a server answers and the epoch that the
// client is at. A lookup asks at the base, whatever is in the patch, and reads all of it for each key or index.

import {
  decodeRecord,
  FINGERPRINT_BYTES,
  isZero,
  type Manifest,
  type PatchEntry,
  patchEntries,
  type StoredRecord,
  WireError,
} from '@keyhush/protocol'
import { isSameSecret } from '../../base/bytes.js'
import type { Changes, Place } from '../scheme.js'

const UNKNOWN: Place = { index: undefined, record: undefined }

interface PatchChange {
  readonly index: number
  /** of the key whose record was written or deleted; in a keyless database of nobody */
  readonly fingerprint: Uint8Array
  readonly isDeleted: boolean
  readonly record: StoredRecord
}

export class Patched implements Changes {
  readonly #baseRecords: number
  readonly #changes: readonly PatchChange[]
  readonly #empty: StoredRecord

  /** Decodes all of it. Throws WireError. */
  constructor(manifest: Manifest, baseRecords: number, patch: Uint8Array) {
    const bytes = new Uint8Array(manifest.recordBytes)
    this.#baseRecords = baseRecords
    this.#empty = { fingerprint: undefined, empty: true, value: bytes.subarray(0, 0), bytes }
    this.#changes = Array.from(patchEntries(patch, manifest.recordBytes), entry => this.#changeOf(manifest, entry))
  }

  /** Its messages name no index, and nothing of a record. */
  #changeOf(manifest: Manifest, { index, kind, record }: PatchEntry): PatchChange {
    const fingerprint = record.subarray(0, FINGERPRINT_BYTES)
    const isDeleted = kind === 'delete'
    const stored = isDeleted ? this.#empty : decodeRecord(manifest, record)
    const isDelete = manifest.keyed && !isZero(fingerprint) && isZero(record, FINGERPRINT_BYTES)
    if (index >= manifest.records || (isDeleted ? !isDelete : stored.empty))
      throw new WireError('malformed', 'patch: expected records and deletes of this database, got others')
    return { index, fingerprint, isDeleted, record: stored }
  }

  places(fingerprints: readonly Uint8Array[]): readonly Place[] {
    return fingerprints.map(print => {
      const last = this.#last(({ fingerprint }) => isSameSecret(fingerprint, print))
      if (last === undefined) return UNKNOWN
      return { index: last.isDeleted ? undefined : last.index, record: last.record.bytes }
    })
  }

  /** Where the base had no record, and the patch has none, the slot is empty. */
  at(wanted: number): StoredRecord | undefined {
    const last = this.#last(({ index }) => index === wanted)
    return last?.record ?? (wanted < this.#baseRecords ? undefined : this.#empty)
  }

  /** The last of those, in as many steps as there are changes. */
  #last(isOf: (change: PatchChange) => boolean): PatchChange | undefined {
    let found = -1
    for (const [i, change] of this.#changes.entries()) found += (i - found) * Number(isOf(change))
    return this.#changes[found]
  }
}
