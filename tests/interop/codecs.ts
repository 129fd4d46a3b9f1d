// Two sets of codecs behind one interface: packages/protocol, and the reference's. Values are as they stand in
// vectors/wire.json, with bytes in hex, so that neither's types take part in the comparison.

import { concatBytes, bytesToHex as hex, hexToBytes as unhex } from '@noble/hashes/utils.js'
import * as protocol from '@pirouette/protocol'
import { type Suite, split } from './reference/layout.js'
import * as manifests from './reference/manifest.js'
import * as messages from './reference/message.js'
import * as records from './reference/record.js'

/** docs/protocol.md, Manifest, field by field. */
export interface ManifestFields {
  readonly suite: Suite
  readonly databaseId: string
  readonly generation: number
  readonly epoch: number
  readonly records: number
  readonly recordBytes: number
  readonly partitions: number
  readonly partitionRecords: number
  readonly valueBytes: number
  readonly keyed: boolean
  readonly variable: boolean
  readonly expires: number
  readonly directoryBytes: number
  readonly updateListBytes: number
  readonly directoryHash: string
  readonly updateListHash: string
  readonly updateRecordsHash: string
  readonly previousManifest: string
  readonly commitments: readonly string[]
  readonly contentHashes: readonly string[]
}

/** Both of length 0 for an empty slot. */
export interface RecordFields {
  readonly fingerprint: string
  readonly value: string
}

/** Decoders throw for bytes that docs/protocol.md has a reader refuse. */
export interface Codecs {
  encodeManifest(fields: ManifestFields): string
  decodeManifest(bytes: string): ManifestFields
  encodeQuery(manifest: string, vectors: readonly (readonly number[])[], suite: Suite): string
  decodeQuery(manifest: string, bytes: string, suite: Suite): readonly (readonly number[])[]
  encodeAnswer(manifest: string, count: number, entries: readonly string[], suite: Suite): string
  decodeAnswer(manifest: string, count: number, bytes: string, suite: Suite): string[]
  encodeRecord(manifest: string, fields: RecordFields): string
  decodeRecord(manifest: string, bytes: string): RecordFields
}

const EMPTY_SLOT: RecordFields = { fingerprint: '', value: '' }

const readReference = (manifest: string) => manifests.decodeManifest(unhex(manifest))

export const reference: Codecs = {
  encodeManifest(fields) {
    return hex(
      manifests.encodeManifest({
        ...fields,
        expires: BigInt(fields.expires),
        databaseId: unhex(fields.databaseId),
        directoryHash: unhex(fields.directoryHash),
        updateListHash: unhex(fields.updateListHash),
        updateRecordsHash: unhex(fields.updateRecordsHash),
        previousManifest: unhex(fields.previousManifest),
        commitments: fields.commitments.map(unhex),
        contentHashes: fields.contentHashes.map(unhex),
      }),
    )
  },
  decodeManifest(bytes) {
    const manifest = readReference(bytes)
    return {
      ...manifest,
      expires: Number(manifest.expires),
      databaseId: hex(manifest.databaseId),
      directoryHash: hex(manifest.directoryHash),
      updateListHash: hex(manifest.updateListHash),
      updateRecordsHash: hex(manifest.updateRecordsHash),
      previousManifest: hex(manifest.previousManifest),
      commitments: manifest.commitments.map(hex),
      contentHashes: manifest.contentHashes.map(hex),
    }
  },
  encodeQuery: (manifest, vectors, suite) => hex(messages.encodeQuery(readReference(manifest), vectors, suite)),
  decodeQuery: (manifest, bytes, suite) => messages.decodeQuery(readReference(manifest), unhex(bytes), suite),
  encodeAnswer: (manifest, count, entries, suite) =>
    hex(messages.encodeAnswer(readReference(manifest), count, entries.map(unhex), suite)),
  decodeAnswer: (manifest, count, bytes, suite) =>
    messages.decodeAnswer(readReference(manifest), count, unhex(bytes), suite).map(hex),
  encodeRecord(manifest, { fingerprint, value }) {
    return hex(records.encodeRecord(readReference(manifest), { fingerprint: unhex(fingerprint), value: unhex(value) }))
  },
  decodeRecord(manifest, bytes) {
    const record = records.decodeRecord(readReference(manifest), unhex(bytes))
    return record === undefined ? EMPTY_SLOT : { fingerprint: hex(record.fingerprint), value: hex(record.value) }
  },
}

const proofsOf = (suite: Suite): protocol.Proofs => (suite === 1 ? 'merkle' : 'tags')

const readShipped = (manifest: string) => protocol.decodeManifest(unhex(manifest))

export const shipped: Codecs = {
  encodeManifest(fields) {
    return hex(
      protocol.encodeManifest({
        ...fields,
        databaseId: unhex(fields.databaseId),
        directoryHash: unhex(fields.directoryHash),
        updateListHash: unhex(fields.updateListHash),
        updateRecordsHash: unhex(fields.updateRecordsHash),
        previousManifest: unhex(fields.previousManifest),
        commitments: unhex(fields.commitments.join('')),
        contentHashes: unhex(fields.contentHashes.join('')),
      }),
    )
  },
  decodeManifest(bytes) {
    const manifest = readShipped(bytes)
    return {
      ...manifest,
      suite: manifest.suite as Suite,
      databaseId: hex(manifest.databaseId),
      directoryHash: hex(manifest.directoryHash),
      updateListHash: hex(manifest.updateListHash),
      updateRecordsHash: hex(manifest.updateRecordsHash),
      previousManifest: hex(manifest.previousManifest),
      commitments: split(manifest.commitments, 32).map(hex),
      contentHashes: split(manifest.contentHashes, 32).map(hex),
    }
  },
  encodeQuery(manifest, vectors, suite) {
    const offsets = Uint8Array.from(vectors.flat().flatMap(offset => [offset & 0xff, offset >> 8]))
    return hex(protocol.encodeQuery(readShipped(manifest), vectors.length, offsets, proofsOf(suite)))
  },
  decodeQuery(manifest, bytes, suite) {
    const query = protocol.decodeQuery(unhex(bytes))
    const { partitions, vectors } = query
    if (protocol.proofsIn(readShipped(manifest), query) !== proofsOf(suite)) throw new Error('another suite')
    return split(vectors, 2 * partitions).map(vector => split(vector, 2).map(([low, high]) => low! + 256 * high!))
  },
  encodeAnswer: (manifest, count, entries, suite) =>
    hex(protocol.encodeAnswer(readShipped(manifest), count, concatBytes(...entries.map(unhex)), proofsOf(suite))),
  decodeAnswer(manifest, count, bytes, suite) {
    const [expected, proofs] = [readShipped(manifest), proofsOf(suite)]
    const entries = protocol.decodeAnswer(expected, count, unhex(bytes), proofs)
    return split(entries, protocol.entryBytes(expected, proofs)).map(hex)
  },
  encodeRecord(manifest, { fingerprint, value }) {
    const shape = readShipped(manifest)
    return hex(protocol.encodeRecord(shape, shape.keyed ? unhex(fingerprint) : undefined, unhex(value)))
  },
  decodeRecord(manifest, bytes) {
    const { empty, fingerprint, value } = protocol.decodeRecord(readShipped(manifest), unhex(bytes))
    return empty ? EMPTY_SLOT : { fingerprint: hex(fingerprint ?? new Uint8Array()), value: hex(value) }
  },
}
