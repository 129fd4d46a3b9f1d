// Instant lookups (docs/protocol.md, Instant lookups): the usual header, of suite 4, or of suite 5 for blocks of the key directory.
// The core knows the length of a query and an answer, which follow from the layout.

import { checkInteger, checkLength } from './bytes.js'
import { HEADER_BYTES, MAX_BATCH, SUITE_INSTANT, SUITE_INSTANT_DIRECTORY } from './constants.js'
import { malformed } from './errors.js'
import type { Manifest } from './manifest.js'
import { ANSWER_MAGIC, checkAnswered, decodeHeader, encodeMessage, type MessageHeader, QUERY_MAGIC } from './message.js'
import { isCommitted } from './proofs.js'

/** The route that answers them. */
export const INSTANT_PATH = '/v1/instant'

/** No request is longer: the most queries, for 2^32 groups. */
export const MAX_INSTANT_BYTES = HEADER_BYTES + MAX_BATCH * 440

/** What a lookup is of: the records, or in a keyed database the blocks of the directory. */
export type InstantOf = 'records' | 'directory'

export const INSTANT_SUITES = { records: SUITE_INSTANT, directory: SUITE_INSTANT_DIRECTORY } as const

/** A request at a server, which has yet to find its manifest. */
export interface InstantQuery extends MessageHeader {
  readonly of: InstantOf
  /** `count` queries, one after the other: a view into the request, unchecked */
  readonly queries: Uint8Array
}

/** Whether a database can have instant lookups: it needs commitments. */
export function hasInstant(manifest: Pick<Manifest, 'suite'>): boolean {
  return isCommitted(manifest)
}

/** The layout of what is looked up. The blocks of a directory are one partition. */
export function instantLayout(
  manifest: Manifest,
  of: InstantOf,
): Pick<Manifest, 'records' | 'recordBytes' | 'partitions' | 'partitionRecords' | 'blockRecords'> {
  if (of === 'records') return manifest
  const [records, recordBytes] = [2 ** manifest.directoryBlockLog, manifest.directoryBlockBytes]
  return { records, recordBytes, partitions: 1, partitionRecords: records, blockRecords: 1 }
}

/** The commitments to what is looked up, one a partition. */
export function instantCommitments(manifest: Manifest, of: InstantOf): Uint8Array {
  return of === 'records' ? manifest.commitments : manifest.directoryCommitment
}

/** A request of `count` queries, one after the other. Throws WireError on a wrong count. */
export function encodeInstantQuery(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  queries: Uint8Array,
): Uint8Array<ArrayBuffer> {
  checkInteger('count', count, 1, MAX_BATCH)
  return encodeMessage(QUERY_MAGIC, manifest, INSTANT_SUITES[of], count, queries)
}

/** Reads a request's header. Throws WireError if it is malformed. The server checks what follows the header. */
export function decodeInstantQuery(bytes: Uint8Array): InstantQuery {
  const header = decodeHeader('query', QUERY_MAGIC, bytes, Object.values(INSTANT_SUITES))
  checkInteger('count', header.count, 1, MAX_BATCH)
  const of = header.suite === INSTANT_SUITES.records ? 'records' : 'directory'
  return { ...header, of, queries: bytes.subarray(HEADER_BYTES) }
}

/** The answers to `count` queries, one after the other. */
export function encodeInstantAnswer(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  answers: Uint8Array,
): Uint8Array<ArrayBuffer> {
  return encodeMessage(ANSWER_MAGIC, manifest, INSTANT_SUITES[of], count, answers)
}

/**
 * The answers to `count` queries, `answerBytes` each, as a view into `bytes`. Throws WireError, naming the field, unless
 * they are for exactly this manifest's database, generation and epoch, and of the same suite. They are not verified.
 */
export function decodeInstantAnswer(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  answerBytes: number,
  bytes: Uint8Array,
): Uint8Array {
  const header = decodeHeader('answer', ANSWER_MAGIC, bytes, Object.values(INSTANT_SUITES))
  if (header.suite !== INSTANT_SUITES[of]) malformed('answer suite', INSTANT_SUITES[of], header.suite)
  checkAnswered(manifest, count, header)
  checkLength('answer length', bytes, HEADER_BYTES + count * answerBytes)
  return bytes.subarray(HEADER_BYTES)
}
