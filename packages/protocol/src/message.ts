// Queries and answers (docs/protocol.md, HTTP): a header of 40 bytes, then vectors in a query and entries in an answer. For the
// rollback fence a claim follows the query and a verdict the answer. Lengths depend on manifest, count and fence alone (P1).

import {
  checkInteger,
  checkLength,
  checkMagic,
  copyOf,
  equalBytes,
  isZero,
  toHex,
  viewOf,
  writeMagic,
} from './bytes.js'
import { DATABASE_ID_BYTES, FORMAT, HEADER_BYTES, MAX_PARTITIONS, OFFSET_BYTES, SUITE_PARITIES } from './constants.js'
import { malformed } from './errors.js'
import {
  decodeFenceReply,
  decodeFenceRequest,
  encodeFenceReply,
  encodeFenceRequest,
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  type FenceClaim,
  type FenceVerdict,
} from './fence.js'
import { answerBytes, vectorBytes } from './geometry.js'
import { checkVersion, type Manifest } from './manifest.js'
import { MANIFEST_SUITES, type Proofs, proofsOf, suiteOf } from './proofs.js'

/** The header of a query or an answer. */
export interface MessageHeader {
  /**
   * 1: entries with opening proofs; 2: records alone; 3: two parities a query; 4: an instant lookup; 5: one of a block of the
   * directory; 6: records, and one proof behind them; 7 and 8: as 4 and 5, with three servers or more
   */
  readonly suite: number
  /** 16 bytes */
  readonly databaseId: Uint8Array
  readonly generation: number
  readonly epoch: number
  /** Q */
  readonly partitions: number
  /** queries, from 1 */
  readonly count: number
}

/** A query at a server, which has yet to find its manifest. */
export interface Query extends MessageHeader {
  /** all bytes behind the header, a view, unchecked; in suites 1, 2 and 6 count·Q offsets, u16 little-endian */
  readonly vectors: Uint8Array
}

export const QUERY_MAGIC = 'PIRQ'
export const ANSWER_MAGIC = 'PIRA'
const MAX_COUNT = 0xffff

/** Offsets in the header. */
const AT = {
  format: 4,
  suite: 6,
  databaseId: 8,
  generation: 24,
  epoch: 28,
  partitions: 32,
  count: 36,
  reserved: 38,
} as const

/** The count in a message that is not decoded yet: at most its bytes, and 1 if it has no header. */
export function claimedCount(bytes: Uint8Array): number {
  if (bytes.length < HEADER_BYTES) return 1
  return Math.min(Math.max(1, bytes[AT.count]! + 256 * bytes[AT.count + 1]!), bytes.length - HEADER_BYTES + 1)
}

/**
 * A query of `count` vectors (count·Q offsets, u16 little-endian) for entries with this kind of proof. Throws WireError
 * on a wrong length or count.
 */
export function encodeQuery(
  manifest: Manifest,
  count: number,
  vectors: Uint8Array,
  proofs: Proofs = proofsOf(manifest)[0],
): Uint8Array<ArrayBuffer> {
  checkInteger('count', count, 1, manifest.maxQueries)
  checkLength('vectors', vectors, vectorBytes(manifest, count))
  return encodeMessage(QUERY_MAGIC, manifest, suiteOf(proofs), count, vectors)
}

/**
 * Reads a query's header and checks the query's length. The server checks the rest: database, epoch, suite, Q, count and offsets.
 * Throws WireError if it is malformed.
 */
export function decodeQuery(bytes: Uint8Array): Query {
  return queryOf(decodeHeader('query', QUERY_MAGIC, bytes), bytes)
}

function queryOf(header: MessageHeader, bytes: Uint8Array, each = vectorOf(header)): Query {
  checkInteger('partitions', header.partitions, 1, MAX_PARTITIONS)
  checkInteger('count', header.count, 1, MAX_COUNT)
  checkLength('query length', bytes, HEADER_BYTES + header.count * each)
  const { suite, databaseId, generation, epoch, partitions, count } = header // a spread would double the time
  return { suite, databaseId, generation, epoch, partitions, count, vectors: bytes.subarray(HEADER_BYTES) }
}

function vectorOf({ partitions }: MessageHeader): number {
  return partitions * OFFSET_BYTES
}

/** A query and the claim for the refresh server's fence, in one request. */
export function withClaim(query: Uint8Array, claim: FenceClaim): Uint8Array<ArrayBuffer> {
  return joined(query, encodeFenceRequest({ kind: 'confirm', ...claim }))
}

/** Suites of queries that a claim may follow. */
const CLAIMED_SUITES = [...MANIFEST_SUITES, SUITE_PARITIES]

/**
 * A request's query as in `decodeQuery`, and the claim behind it, if there is one. `parityQueryBytes` gives the length of one query
 * of suite 3 for a header, and may throw; without it suite 3 is refused. Throws WireError if the request is malformed, or the claim
 * is of another database or names no request.
 */
export function decodeClaimedQuery(
  bytes: Uint8Array,
  parityQueryBytes?: (header: MessageHeader) => number,
): { query: Query; claim: FenceClaim | undefined } {
  const header = decodeHeader('query', QUERY_MAGIC, bytes, parityQueryBytes && CLAIMED_SUITES)
  const each = (header.suite === SUITE_PARITIES ? parityQueryBytes : undefined)?.(header) ?? vectorOf(header)
  const end = HEADER_BYTES + header.count * each
  if (bytes.length !== end + FENCE_REQUEST_BYTES) return { query: queryOf(header, bytes, each), claim: undefined }
  const query = queryOf(header, bytes.subarray(0, end), each)
  const { kind, ...claim } = decodeFenceRequest(bytes.subarray(end))
  if (kind !== 'confirm') malformed('claim', 'a confirmation', kind)
  if (isZero(claim.requestHash)) malformed("a claim's request hash", 'a hash', 'zero')
  if (!equalBytes(claim.databaseId, query.databaseId)) malformed('claim', "the query's database", 'another')
  return { query, claim }
}

/** The answer to a query with a claim, and the fence's verdict, in one reply. */
export function withVerdict(answer: Uint8Array, verdict: FenceVerdict): Uint8Array<ArrayBuffer> {
  return joined(answer, encodeFenceReply(verdict))
}

/** An answer, as a view into `bytes`, and the verdict behind it. Throws WireError if the verdict is malformed. */
export function splitVerdict(bytes: Uint8Array): { answer: Uint8Array; verdict: FenceVerdict } {
  const end = Math.max(0, bytes.length - FENCE_REPLY_BYTES)
  return { answer: bytes.subarray(0, end), verdict: decodeFenceReply(bytes.subarray(end)) }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(first.length + second.length)
  bytes.set(first)
  bytes.set(second, first.length)
  return bytes
}

/** The kind of proof that a query or an answer names; undefined: this database does not offer it. */
export function proofsIn(manifest: Manifest, { suite }: Pick<MessageHeader, 'suite'>): Proofs | undefined {
  return proofsOf(manifest).find(proofs => suiteOf(proofs) === suite)
}

/** An answer of count·Q entries. Throws WireError on a wrong length or count. */
export function encodeAnswer(
  manifest: Manifest,
  count: number,
  entries: Uint8Array,
  proofs: Proofs = proofsOf(manifest)[0],
): Uint8Array<ArrayBuffer> {
  checkInteger('count', count, 1, manifest.maxQueries)
  checkLength('entries', entries, answerBytes(manifest, count, proofs) - HEADER_BYTES)
  return encodeMessage(ANSWER_MAGIC, manifest, suiteOf(proofs), count, entries)
}

/**
 * The answer to a query: a header of the query's suite and count, then `body` from the core. `bytes`: written over, 40 bytes longer
 * than the body; missing: new memory.
 */
export function encodeAnswerTo(
  { suite, count }: Pick<Query, 'suite' | 'count'>,
  manifest: Manifest,
  body: Uint8Array,
  bytes?: Uint8Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> {
  return encodeMessage(ANSWER_MAGIC, manifest, suite, count, body, bytes)
}

/**
 * The body of an answer, a view into `bytes`: count·Q entries, and what proves them together. Throws WireError, naming the field,
 * unless the answer is for exactly this manifest's epoch, for `count` queries and of this kind. Nothing is verified.
 */
export function decodeAnswer(
  manifest: Manifest,
  count: number,
  bytes: Uint8Array,
  proofs: Proofs = proofsOf(manifest)[0],
): Uint8Array {
  const header = decodeHeader('answer', ANSWER_MAGIC, bytes)
  if (header.suite !== suiteOf(proofs)) malformed('answer suite', suiteOf(proofs), header.suite)
  checkAnswered(manifest, count, header)
  checkLength('answer length', bytes, answerBytes(manifest, count, proofs))
  return bytes.subarray(HEADER_BYTES)
}

/**
 * The answers to `count` queries, `answerBytes` each, as a view into `bytes`. Throws WireError, naming the field, unless they are for
 * exactly this manifest's database, generation and epoch, and of the suite. `suites`: those that may stand there. They are not verified.
 */
export function decodeAnswersOf(
  manifest: Manifest,
  { suite, suites }: { readonly suite: number; readonly suites: readonly number[] },
  count: number,
  answerBytes: number,
  bytes: Uint8Array,
): Uint8Array {
  const header = decodeHeader('answer', ANSWER_MAGIC, bytes, suites)
  if (header.suite !== suite) malformed('answer suite', suite, header.suite)
  checkAnswered(manifest, count, header)
  checkLength('answer length', bytes, HEADER_BYTES + count * answerBytes)
  return bytes.subarray(HEADER_BYTES)
}

/** Throws WireError unless an answer's header is for this manifest's epoch and for `count` queries. */
export function checkAnswered(manifest: Manifest, count: number, header: MessageHeader): void {
  if (!equalBytes(header.databaseId, manifest.databaseId)) {
    malformed('answer database', toHex(manifest.databaseId), toHex(header.databaseId))
  }
  if (header.generation !== manifest.generation) malformed('answer generation', manifest.generation, header.generation)
  if (header.epoch !== manifest.epoch) malformed('answer epoch', manifest.epoch, header.epoch)
  if (header.partitions !== manifest.partitions) malformed('answer partitions', manifest.partitions, header.partitions)
  if (header.count !== count) malformed('answer count', count, header.count)
}

export function encodeMessage(
  magic: string,
  manifest: Manifest,
  suite: number,
  count: number,
  body: Uint8Array,
  bytes = new Uint8Array(HEADER_BYTES + body.length),
): Uint8Array<ArrayBuffer> {
  const view = viewOf(bytes)
  writeMagic(bytes, magic)
  view.setUint16(AT.format, FORMAT, true)
  view.setUint16(AT.suite, suite, true)
  bytes.set(manifest.databaseId, AT.databaseId)
  view.setUint32(AT.generation, manifest.generation, true)
  view.setUint32(AT.epoch, manifest.epoch, true)
  view.setUint32(AT.partitions, manifest.partitions, true)
  view.setUint16(AT.count, count, true)
  view.setUint16(AT.reserved, 0)
  bytes.set(body, HEADER_BYTES)
  return bytes
}

export function decodeHeader(
  what: string,
  magic: string,
  bytes: Uint8Array,
  suites?: readonly number[],
): MessageHeader {
  if (bytes.length < HEADER_BYTES) malformed(`${what} length`, `at least ${HEADER_BYTES} bytes`, bytes.length)
  checkMagic(bytes, magic)
  const view = viewOf(bytes)
  const suite = view.getUint16(AT.suite, true)
  checkVersion(what, view.getUint16(AT.format, true), suite, suites)
  if (!isZero(bytes, AT.reserved, HEADER_BYTES)) malformed('reserved bytes', 'zero', 'others')
  return {
    suite,
    databaseId: copyOf(bytes, AT.databaseId, AT.databaseId + DATABASE_ID_BYTES),
    generation: view.getUint32(AT.generation, true),
    epoch: view.getUint32(AT.epoch, true),
    partitions: view.getUint32(AT.partitions, true),
    count: view.getUint16(AT.count, true),
  }
}
