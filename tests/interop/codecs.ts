// Two sets of codecs behind one interface: packages/protocol, and the reference's. Values are as they stand in
// vectors/wire.json, with bytes in hex, so that neither's types take part in the comparison.

import * as protocol from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import { loadCore } from '@keyhush/wasm'
import { concatBytes, bytesToHex as hex, hexToBytes as unhex, utf8ToBytes } from '@noble/hashes/utils.js'
import { checkQueries } from '../../server/dist/instant/lookups.js'
import * as fence from './reference/fence.js'
import { type Suite, split } from './reference/layout.js'
import * as manifests from './reference/manifest.js'
import * as messages from './reference/message.js'
import * as publishing from './reference/publishing.js'
import * as records from './reference/record.js'

/** As the reference has it, with bytes in hex and no bigints; of functions, what they take and return. */
export type InHex<T> = T extends Uint8Array
  ? string
  : T extends bigint
    ? number
    : T extends (...all: infer A) => infer R
      ? InHex<A> extends infer B extends readonly unknown[]
        ? (...all: B) => InHex<R>
        : never
      : T extends object
        ? { [K in keyof T]: InHex<T[K]> }
        : T

export type ManifestFields = InHex<manifests.Manifest>
export type BatchFields = InHex<publishing.Batch>
export type FenceFields = InHex<fence.FenceRequest>

/** What a batch's signature is of, and what its header says beside. */
interface BatchSignature {
  readonly publicKey: Uint8Array
  readonly base: Uint8Array
  readonly batchHash: Uint8Array
  readonly signature: Uint8Array
}

/** A value with all that `leaf` changes in it; `name`: of a field. */
function changed(value: unknown, leaf: (value: unknown, name: string) => unknown, name = ''): unknown {
  const own = leaf(value, name)
  if (own !== value || typeof value !== 'object' || value === null) return own
  if (Array.isArray(value)) return value.map(each => changed(each, leaf))
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, changed(each, leaf, name)]))
}

/** A batch's operations are text. */
const isText = (name: string) => name === 'operations'

export const inHex = <T>(value: T) =>
  changed(value, (value, name) => {
    if (value instanceof Uint8Array) return isText(name) ? new TextDecoder().decode(value) : hex(value)
    return typeof value === 'bigint' ? Number(value) : value
  }) as InHex<T>

const inBytes = (value: unknown) =>
  changed(value, (value, name) => {
    if (typeof value !== 'string') return value
    if (isText(name)) return utf8ToBytes(value)
    return /^(?:[0-9a-f]{2})*$/.test(value) ? unhex(value) : value
  })

/** The same for values in hex. The header of a signature is text, even if it is empty. */
function translated({ decodeBatchSignature, ...codecs }: Codecs): InHex<Codecs> {
  const all = Object.entries(codecs).map(([name, codec]) => [
    name,
    (...parameters: unknown[]) =>
      inHex((codec as (...all: unknown[]) => unknown)(...parameters.map(each => inBytes(each)))),
  ])
  return { ...Object.fromEntries(all), decodeBatchSignature: header => inHex(decodeBatchSignature(header)) }
}

/** Decoders throw for bytes that docs/protocol.md has a reader refuse. */
type Codecs = typeof ofReference

/** Both of length 0. */
const EMPTY_SLOT: records.StoredRecord = { fingerprint: new Uint8Array(), value: new Uint8Array() }

/** The types of a codec of what is read against a manifest. */
const against = <A extends readonly unknown[], R>(codec: (manifest: manifests.Manifest, ...rest: A) => R) => codec

const ofReference = {
  encodeManifest: (manifest: manifests.Manifest) =>
    manifests.encodeManifest({ ...manifest, expires: BigInt(manifest.expires) }),
  decodeManifest: manifests.decodeManifest,
  /** epochs of manifests that follow on one another */
  decodeChain: (bytes: Uint8Array) => manifests.decodeChain(bytes).map(({ epoch }) => epoch),
  encodeQuery: against(messages.encodeQuery),
  decodeQuery: against(messages.decodeQuery),
  encodeAnswer: against(messages.encodeAnswer),
  decodeAnswer: against(messages.decodeAnswer),
  encodeRecord: against(records.encodeRecord),
  decodeRecord: (manifest: manifests.Manifest, record: Uint8Array) =>
    records.decodeRecord(manifest, record) ?? EMPTY_SLOT,
  encodeBatch: (batch: publishing.Batch) => publishing.encodeBatch({ ...batch, expires: BigInt(batch.expires) }),
  decodeBatch: publishing.decodeBatch,
  /** what is signed */
  batchMessage: (databaseId: Uint8Array, { base, batchHash }: Pick<BatchSignature, 'base' | 'batchHash'>) =>
    publishing.batchMessage(databaseId, base, batchHash),
  manifestMessage: publishing.manifestMessage,
  encodeBatchSignature: ({ publicKey, base, batchHash, signature }: BatchSignature) =>
    publishing.signatureHeader([publicKey, base, batchHash, signature]),
  decodeBatchSignature(header: string): BatchSignature {
    const [publicKey, base, batchHash, signature] = publishing.parseSignatureHeader(header)
    return { publicKey, base, batchHash, signature }
  },
  encodeFenceRequest: (request: fence.FenceRequest) =>
    fence.encodeFenceRequest({ ...request, version: BigInt(request.version) }),
  decodeFenceRequest: fence.decodeFenceRequest,
  encodeFenceReply: fence.encodeFenceReply,
  decodeFenceReply: fence.decodeFenceReply,
  withClaim: (query: Uint8Array, claim: fence.FenceRequest) =>
    fence.withClaim(query, { ...claim, version: BigInt(claim.version) }),
  decodeClaimedQuery: fence.splitClaim,
  splitVerdict: fence.splitVerdict,
  encodeInstantQuery: against(messages.encodeInstantQuery),
  decodeInstantQuery: against(messages.decodeInstantQuery),
  encodeInstantAnswer: against(messages.encodeInstantAnswer),
  decodeInstantAnswer: against(messages.decodeInstantAnswer),
}

export const reference = translated(ofReference)

const PROOFS = { 1: 'merkle', 2: 'tags', 6: 'pointproofs' } as const satisfies Record<Suite, protocol.Proofs>

/** As decodeManifest() gives it. So what is read against a manifest does not depend on how one is written. */
const manifestOf = ({ commitments, contentHashes, ...fields }: manifests.Manifest): protocol.Manifest => ({
  ...fields,
  expires: Number(fields.expires),
  commitments: concatBytes(...commitments),
  contentHashes: concatBytes(...contentHashes),
})

const core = await loadCore()
const INSTANT_OF = { records: 'records', 'directory blocks': 'directory' } as const

/** How long one answer is, which is the core's to say. */
function instantAnswerBytes(manifest: protocol.Manifest, of: protocol.InstantOf, servers: number): number {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = protocol.instantLayout(manifest, of)
  return core.layout(records, recordBytes, partitions, partitionRecords, blockRecords).instantSizes(servers)[2]!
}

const claimOf = ({ databaseId, hintId, version, name }: fence.FenceRequest): protocol.FenceClaim => {
  return { databaseId, hintId, version: Number(version), requestHash: name }
}

const requestOf = ({ version, requestHash, ...rest }: protocol.FenceRequest): fence.FenceRequest => {
  return { ...rest, version: BigInt(version), name: requestHash }
}

export const shipped = translated({
  encodeManifest: manifest => protocol.encodeManifest(manifestOf(manifest)),
  decodeManifest(bytes) {
    const { pointproofs, oneServer, slotMarksHash, ...manifest } = protocol.decodeManifest(bytes)
    return {
      ...manifest,
      ...(pointproofs && { pointproofs }),
      ...(oneServer && { oneServer }),
      ...(slotMarksHash && { slotMarksHash }),
      suite: manifest.suite as Suite,
      expires: BigInt(manifest.expires),
      commitments: split(manifest.commitments, 32),
      contentHashes: split(manifest.contentHashes, 32),
    }
  },
  decodeChain: bytes => decodeManifests(bytes).map(({ manifest }) => manifest.epoch),
  encodeQuery(manifest, vectors, suite = 1) {
    const offsets = Uint8Array.from(vectors.flat().flatMap(offset => [offset & 0xff, offset >> 8]))
    return protocol.encodeQuery(manifestOf(manifest), vectors.length, offsets, PROOFS[suite])
  },
  decodeQuery(manifest, bytes, suite = 1) {
    const query = protocol.decodeQuery(bytes)
    const { partitions, vectors } = query
    if (protocol.proofsIn(manifestOf(manifest), query) !== PROOFS[suite]) throw new Error('another suite')
    return split(vectors, 2 * partitions).map(vector => split(vector, 2).map(([low, high]) => low! + 256 * high!))
  },
  encodeAnswer: (manifest, count, entries, suite = 1) =>
    protocol.encodeAnswer(manifestOf(manifest), count, concatBytes(...entries), PROOFS[suite]),
  decodeAnswer(manifest, count, bytes, suite = 1) {
    const [expected, proofs] = [manifestOf(manifest), PROOFS[suite]]
    const body = protocol.decodeAnswer(expected, count, bytes, proofs)
    const each = protocol.entryBytes(expected, proofs)
    const end = count * expected.partitions * each
    return [...split(body.subarray(0, end), each), ...(suite === 6 ? [body.subarray(end)] : [])]
  },
  encodeRecord(manifest, { fingerprint, value }) {
    const shape = manifestOf(manifest)
    return protocol.encodeRecord(shape, shape.keyed ? fingerprint : undefined, value)
  },
  decodeRecord(manifest, bytes) {
    const { empty, fingerprint = new Uint8Array(), value } = protocol.decodeRecord(manifestOf(manifest), bytes)
    return empty ? EMPTY_SLOT : { fingerprint, value }
  },
  encodeBatch: ({ base, expires, ...batch }) =>
    protocol.encodeBatch({ ...batch, expires: Number(expires), previousManifest: base }),
  decodeBatch(bytes) {
    const { previousManifest, expires, ...batch } = protocol.decodeBatch(bytes)
    return { ...batch, expires: BigInt(expires), base: previousManifest }
  },
  batchMessage: (databaseId, { base, batchHash }) =>
    protocol.signedBatchBytes({ databaseId, previousManifest: base, batchHash }),
  manifestMessage: protocol.signedBytes,
  encodeBatchSignature: ({ base, ...signature }) =>
    protocol.encodeBatchSignature({ ...signature, previousManifest: base }),
  decodeBatchSignature(header) {
    const { previousManifest, ...signature } = protocol.parseBatchSignature(header)
    return { ...signature, base: previousManifest }
  },
  encodeFenceRequest: request => protocol.encodeFenceRequest({ kind: request.kind, ...claimOf(request) }),
  decodeFenceRequest: bytes => requestOf(protocol.decodeFenceRequest(bytes)),
  encodeFenceReply: protocol.encodeFenceReply,
  decodeFenceReply: protocol.decodeFenceReply,
  withClaim: (query, claim) => protocol.withClaim(query, claimOf(claim)),
  decodeClaimedQuery(bytes) {
    const { query, claim } = protocol.decodeClaimedQuery(bytes)
    const end = protocol.HEADER_BYTES + query.vectors.length
    return { query: bytes.subarray(0, end), claim: claim && requestOf({ kind: 'confirm', ...claim }) }
  },
  splitVerdict: protocol.splitVerdict,
  encodeInstantQuery: (manifest, of, queries, sharing) =>
    protocol.encodeInstantQuery(manifestOf(manifest), INSTANT_OF[of], queries.length, concatBytes(...queries), sharing),
  decodeInstantQuery(manifest, bytes) {
    const query = protocol.decodeInstantQuery(bytes)
    const { of, count, queries, servers, vectors } = query
    const { requestBytes } = checkQueries(core, manifestOf(manifest), query) // as a server does
    if (queries.length !== count * requestBytes) throw new Error('another count')
    const named = of === 'records' ? of : 'directory blocks'
    return { of: named, queries: split(queries, requestBytes), sharing: { servers, vectors } }
  },
  encodeInstantAnswer: (manifest, of, answers, servers) =>
    protocol.encodeInstantAnswer(
      manifestOf(manifest),
      INSTANT_OF[of],
      answers.length,
      concatBytes(...answers),
      servers,
    ),
  decodeInstantAnswer(manifest, of, count, bytes, servers = 2) {
    const [expected, asked] = [manifestOf(manifest), INSTANT_OF[of]]
    const each = instantAnswerBytes(expected, asked, servers)
    return split(protocol.decodeInstantAnswer(expected, asked, count, each, bytes, servers), each)
  },
})
