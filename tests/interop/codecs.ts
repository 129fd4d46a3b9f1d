// Two sets of codecs behind one interface: packages/protocol, and the reference's. Values are as they stand in
// vectors/wire.json, with bytes in hex, so that neither's types take part in the comparison.

import * as protocol from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { concatBytes, bytesToHex as hex, hexToBytes as unhex, utf8ToBytes } from '@noble/hashes/utils.js'
import { checkQueries } from '../../server/dist/instant/lookups.js'
import * as fence from './reference/fence.js'
import { type Suite, split } from './reference/layout.js'
import * as manifests from './reference/manifest.js'
import * as messages from './reference/message.js'
import * as publishing from './reference/publishing.js'
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
  readonly blockRecords: number
  readonly valueBytes: number
  readonly keyed: boolean
  readonly variable: boolean
  readonly maxBatch: number
  readonly expires: number
  readonly directoryBytes: number
  readonly updateListBytes: number
  readonly directoryHash: string
  readonly updateListHash: string
  readonly previousManifest: string
  readonly directoryBlockLog: number
  readonly directoryBlockBytes: number
  readonly directorySeed: string
  readonly directoryCommitment: string
  readonly commitments: readonly string[]
  readonly contentHashes: readonly string[]
  /** in suite 6 */
  readonly pointproofs?: PointproofsFields
}

export interface PointproofsFields {
  readonly rowsHash: string
  readonly keyHash: string
  readonly transcriptHash: string
  readonly development: boolean
}

/** Both of length 0 for an empty slot. */
export interface RecordFields {
  readonly fingerprint: string
  readonly value: string
}

/** docs/protocol.md, Publishing; the operations are text. */
export interface BatchFields {
  readonly encoding: 'utf8' | 'base64' | 'hex'
  readonly databaseId: string
  readonly generation: number
  readonly epoch: number
  readonly expires: number
  /** hash of the manifest it is made on */
  readonly base: string
  readonly operations: string
}

/** What a batch's signature is of, and what its header says beside. */
export interface BatchSignatureFields {
  readonly publicKey: string
  readonly base: string
  readonly batchHash: string
  readonly signature: string
}

/** docs/protocol.md, Rollback fence. */
export interface FenceFields {
  readonly kind: 'register' | 'confirm'
  readonly databaseId: string
  readonly hintId: string
  readonly version: number
  readonly name: string
}

export type Verdict = 'granted' | 'refused'

/** Decoders throw for bytes that docs/protocol.md has a reader refuse. */
export interface Codecs {
  encodeManifest(fields: ManifestFields): string
  decodeManifest(bytes: string): ManifestFields
  /** epochs of manifests that follow on one another */
  decodeChain(bytes: string): number[]
  encodeQuery(manifest: string, vectors: readonly (readonly number[])[], suite: Suite): string
  decodeQuery(manifest: string, bytes: string, suite: Suite): readonly (readonly number[])[]
  encodeAnswer(manifest: string, count: number, entries: readonly string[], suite: Suite): string
  decodeAnswer(manifest: string, count: number, bytes: string, suite: Suite): string[]
  encodeRecord(manifest: string, fields: RecordFields): string
  decodeRecord(manifest: string, bytes: string): RecordFields
  encodeBatch(fields: BatchFields): string
  decodeBatch(bytes: string): BatchFields
  /** what is signed */
  batchMessage(databaseId: string, fields: Pick<BatchSignatureFields, 'base' | 'batchHash'>): string
  manifestMessage(manifest: string): string
  /** of a header, which is text */
  encodeBatchSignature(fields: BatchSignatureFields): string
  decodeBatchSignature(header: string): BatchSignatureFields
  encodeFenceRequest(fields: FenceFields): string
  decodeFenceRequest(bytes: string): FenceFields
  encodeFenceReply(verdict: Verdict): string
  decodeFenceReply(bytes: string): Verdict
  withClaim(query: string, claim: FenceFields): string
  decodeClaimedQuery(bytes: string): { readonly query: string; readonly claim: FenceFields | undefined }
  splitVerdict(bytes: string): { readonly answer: string; readonly verdict: Verdict }
  encodeInstantQuery(
    manifest: string,
    of: messages.InstantOf,
    queries: readonly string[],
    sharing?: messages.Sharing,
  ): string
  decodeInstantQuery(
    manifest: string,
    bytes: string,
  ): { readonly of: messages.InstantOf; readonly queries: string[]; readonly sharing: messages.Sharing }
  encodeInstantAnswer(manifest: string, of: messages.InstantOf, answers: readonly string[], servers: number): string
  decodeInstantAnswer(manifest: string, of: messages.InstantOf, count: number, bytes: string, servers: number): string[]
}

const EMPTY_SLOT: RecordFields = { fingerprint: '', value: '' }

const readPointproofs = ({ rowsHash, keyHash, transcriptHash, development }: protocol.PointproofsFields) => ({
  pointproofs: { rowsHash: hex(rowsHash), keyHash: hex(keyHash), transcriptHash: hex(transcriptHash), development },
})

const writePointproofs = ({ rowsHash, keyHash, transcriptHash, development }: PointproofsFields) => ({
  pointproofs: {
    rowsHash: unhex(rowsHash),
    keyHash: unhex(keyHash),
    transcriptHash: unhex(transcriptHash),
    development,
  },
})

/** A manifest's single hashes and ids. */
const HASHES = [
  ...(['databaseId', 'directoryHash', 'updateListHash', 'previousManifest'] as const),
  ...(['directorySeed', 'directoryCommitment'] as const),
]
type Hashes<T> = Record<(typeof HASHES)[number], T>
const unhexed = (fields: Hashes<string>) =>
  Object.fromEntries(HASHES.map(name => [name, unhex(fields[name])])) as Hashes<Uint8Array>
const hexed = (manifest: Hashes<Uint8Array>) =>
  Object.fromEntries(HASHES.map(name => [name, hex(manifest[name])])) as Hashes<string>

const readReference = (manifest: string) => manifests.decodeManifest(unhex(manifest))

export const reference: Codecs = {
  encodeManifest(fields) {
    return hex(
      manifests.encodeManifest({
        ...(fields as Omit<ManifestFields, 'pointproofs'>),
        ...(fields.pointproofs && writePointproofs(fields.pointproofs)),
        expires: BigInt(fields.expires),
        ...unhexed(fields),
        commitments: fields.commitments.map(unhex),
        contentHashes: fields.contentHashes.map(unhex),
      }),
    )
  },
  decodeManifest(bytes) {
    const { pointproofs, ...manifest } = readReference(bytes)
    return {
      ...manifest,
      ...(pointproofs && readPointproofs(pointproofs)),
      expires: Number(manifest.expires),
      ...hexed(manifest),
      commitments: manifest.commitments.map(hex),
      contentHashes: manifest.contentHashes.map(hex),
    }
  },
  decodeChain: bytes => manifests.decodeChain(unhex(bytes)).map(({ epoch }) => epoch),
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
  encodeBatch(fields) {
    const { databaseId, base, operations, expires } = fields
    return hex(
      publishing.encodeBatch({
        ...fields,
        expires: BigInt(expires),
        databaseId: unhex(databaseId),
        base: unhex(base),
        operations: utf8ToBytes(operations),
      }),
    )
  },
  decodeBatch(bytes) {
    const batch = publishing.decodeBatch(unhex(bytes))
    return {
      ...batch,
      expires: Number(batch.expires),
      databaseId: hex(batch.databaseId),
      base: hex(batch.base),
      operations: new TextDecoder().decode(batch.operations),
    }
  },
  batchMessage: (databaseId, { base, batchHash }) =>
    hex(publishing.batchMessage(unhex(databaseId), unhex(base), unhex(batchHash))),
  manifestMessage: manifest => hex(publishing.manifestMessage(unhex(manifest))),
  encodeBatchSignature: ({ publicKey, base, batchHash, signature }) =>
    publishing.signatureHeader([unhex(publicKey), unhex(base), unhex(batchHash), unhex(signature)]),
  decodeBatchSignature(header) {
    const [publicKey, base, batchHash, signature] = publishing.parseSignatureHeader(header)
    return { publicKey: hex(publicKey), base: hex(base), batchHash: hex(batchHash), signature: hex(signature) }
  },
  encodeFenceRequest: fields => hex(fence.encodeFenceRequest(fenceOf(fields))),
  decodeFenceRequest: bytes => fieldsOf(fence.decodeFenceRequest(unhex(bytes))),
  encodeFenceReply: verdict => hex(fence.encodeFenceReply(verdict)),
  decodeFenceReply: bytes => fence.decodeFenceReply(unhex(bytes)),
  withClaim: (query, claim) => hex(fence.withClaim(unhex(query), fenceOf(claim))),
  decodeClaimedQuery(bytes) {
    const { query, claim } = fence.splitClaim(unhex(bytes))
    return { query: hex(query), claim: claim && fieldsOf(claim) }
  },
  splitVerdict(bytes) {
    const { answer, verdict } = fence.splitVerdict(unhex(bytes))
    return { answer: hex(answer), verdict }
  },
  encodeInstantQuery: (manifest, of, queries, sharing) =>
    hex(messages.encodeInstantQuery(readReference(manifest), of, queries.map(unhex), sharing)),
  decodeInstantQuery(manifest, bytes) {
    const { of, queries, sharing } = messages.decodeInstantQuery(readReference(manifest), unhex(bytes))
    return { of, queries: queries.map(hex), sharing }
  },
  encodeInstantAnswer: (manifest, of, answers, servers) =>
    hex(messages.encodeInstantAnswer(readReference(manifest), of, answers.map(unhex), servers)),
  decodeInstantAnswer: (manifest, of, count, bytes, servers) =>
    messages.decodeInstantAnswer(readReference(manifest), of, count, unhex(bytes), servers).map(hex),
}

function fenceOf({ kind, databaseId, hintId, version, name }: FenceFields): fence.FenceRequest {
  const ids = { databaseId: unhex(databaseId), hintId: unhex(hintId), name: unhex(name) }
  return { kind, version: BigInt(version), ...ids }
}

function fieldsOf({ kind, databaseId, hintId, version, name }: fence.FenceRequest): FenceFields {
  return { kind, databaseId: hex(databaseId), hintId: hex(hintId), version: Number(version), name: hex(name) }
}

const PROOFS = { 1: 'merkle', 2: 'tags', 6: 'pointproofs' } as const satisfies Record<Suite, protocol.Proofs>
const proofsOf = (suite: Suite): protocol.Proofs => PROOFS[suite]

const readShipped = (manifest: string) => protocol.decodeManifest(unhex(manifest))

const core = await loadCore()
const INSTANT_OF = { records: 'records', 'directory blocks': 'directory' } as const

/** How long one answer is, which is the core's to say. */
function instantAnswerBytes(manifest: protocol.Manifest, of: protocol.InstantOf, servers: number): number {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = protocol.instantLayout(manifest, of)
  return core.layout(records, recordBytes, partitions, partitionRecords, blockRecords).instantSizes(servers)[2]!
}

export const shipped: Codecs = {
  encodeManifest(fields) {
    return hex(
      protocol.encodeManifest({
        ...(fields as Omit<ManifestFields, 'pointproofs'>),
        ...(fields.pointproofs && writePointproofs(fields.pointproofs)),
        ...unhexed(fields),
        commitments: unhex(fields.commitments.join('')),
        contentHashes: unhex(fields.contentHashes.join('')),
      }),
    )
  },
  decodeManifest(bytes) {
    const { pointproofs, ...manifest } = readShipped(bytes)
    return {
      ...manifest,
      ...(pointproofs && readPointproofs(pointproofs)),
      suite: manifest.suite as Suite,
      ...hexed(manifest),
      commitments: split(manifest.commitments, 32).map(hex),
      contentHashes: split(manifest.contentHashes, 32).map(hex),
    }
  },
  decodeChain: bytes => protocol.decodeManifests(unhex(bytes)).map(({ manifest }) => manifest.epoch),
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
    const body = protocol.decodeAnswer(expected, count, unhex(bytes), proofs)
    const each = protocol.entryBytes(expected, proofs)
    const end = count * expected.partitions * each
    return [...split(body.subarray(0, end), each), ...(suite === 6 ? [body.subarray(end)] : [])].map(hex)
  },
  encodeRecord(manifest, { fingerprint, value }) {
    const shape = readShipped(manifest)
    return hex(protocol.encodeRecord(shape, shape.keyed ? unhex(fingerprint) : undefined, unhex(value)))
  },
  decodeRecord(manifest, bytes) {
    const { empty, fingerprint, value } = protocol.decodeRecord(readShipped(manifest), unhex(bytes))
    return empty ? EMPTY_SLOT : { fingerprint: hex(fingerprint ?? new Uint8Array()), value: hex(value) }
  },
  encodeBatch({ base, operations, databaseId, ...fields }) {
    return hex(
      protocol.encodeBatch({
        ...fields,
        databaseId: unhex(databaseId),
        previousManifest: unhex(base),
        operations: utf8ToBytes(operations),
      }),
    )
  },
  decodeBatch(bytes) {
    const { databaseId, previousManifest, operations, ...fields } = protocol.decodeBatch(unhex(bytes))
    const text = new TextDecoder().decode(operations)
    return { ...fields, databaseId: hex(databaseId), base: hex(previousManifest), operations: text }
  },
  batchMessage: (databaseId, { base, batchHash }) =>
    hex(
      protocol.signedBatchBytes({
        databaseId: unhex(databaseId),
        previousManifest: unhex(base),
        batchHash: unhex(batchHash),
      }),
    ),
  manifestMessage: manifest => hex(protocol.signedBytes(unhex(manifest))),
  encodeBatchSignature: ({ publicKey, base, batchHash, signature }) =>
    protocol.encodeBatchSignature({
      publicKey: unhex(publicKey),
      previousManifest: unhex(base),
      batchHash: unhex(batchHash),
      signature: unhex(signature),
    }),
  decodeBatchSignature(header) {
    const { publicKey, previousManifest, batchHash, signature } = protocol.parseBatchSignature(header)
    const [key, base, hash] = [publicKey, previousManifest, batchHash].map(hex) as [string, string, string]
    return { publicKey: key, base, batchHash: hash, signature: hex(signature) }
  },
  encodeFenceRequest: fields => hex(protocol.encodeFenceRequest({ kind: fields.kind, ...claimOf(fields) })),
  decodeFenceRequest: bytes => shippedFields(protocol.decodeFenceRequest(unhex(bytes))),
  encodeFenceReply: verdict => hex(protocol.encodeFenceReply(verdict)),
  decodeFenceReply: bytes => protocol.decodeFenceReply(unhex(bytes)),
  withClaim: (query, claim) => hex(protocol.withClaim(unhex(query), claimOf(claim))),
  decodeClaimedQuery(bytes) {
    const { query, claim } = protocol.decodeClaimedQuery(unhex(bytes))
    const end = 2 * (protocol.HEADER_BYTES + query.vectors.length)
    return { query: bytes.slice(0, end), claim: claim && shippedFields({ kind: 'confirm', ...claim }) }
  },
  splitVerdict(bytes) {
    const { answer, verdict } = protocol.splitVerdict(unhex(bytes))
    return { answer: hex(answer), verdict }
  },
  encodeInstantQuery: (manifest, of, queries, sharing) =>
    hex(
      protocol.encodeInstantQuery(
        readShipped(manifest),
        INSTANT_OF[of],
        queries.length,
        concatBytes(...queries.map(unhex)),
        sharing,
      ),
    ),
  decodeInstantQuery(manifest, bytes) {
    const query = protocol.decodeInstantQuery(unhex(bytes))
    const { of, count, queries } = query
    const { requestBytes } = checkQueries(core, readShipped(manifest), query) // as a server does
    if (queries.length !== count * requestBytes) throw new Error('another count')
    const { servers, vectors } = query
    const named = of === 'records' ? of : 'directory blocks'
    return { of: named, queries: split(queries, requestBytes).map(hex), sharing: { servers, vectors } }
  },
  encodeInstantAnswer: (manifest, of, answers, servers) =>
    hex(
      protocol.encodeInstantAnswer(
        readShipped(manifest),
        INSTANT_OF[of],
        answers.length,
        concatBytes(...answers.map(unhex)),
        servers,
      ),
    ),
  decodeInstantAnswer(manifest, of, count, bytes, servers) {
    const [expected, asked] = [readShipped(manifest), INSTANT_OF[of]]
    const each = instantAnswerBytes(expected, asked, servers)
    return split(protocol.decodeInstantAnswer(expected, asked, count, each, unhex(bytes), servers), each).map(hex)
  },
}

function claimOf({ databaseId, hintId, version, name }: FenceFields): protocol.FenceClaim {
  return { databaseId: unhex(databaseId), hintId: unhex(hintId), version, requestHash: unhex(name) }
}

function shippedFields({ kind, databaseId, hintId, version, requestHash }: protocol.FenceRequest): FenceFields {
  return { kind, databaseId: hex(databaseId), hintId: hex(hintId), version, name: hex(requestHash) }
}
