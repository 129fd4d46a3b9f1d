// Instant lookups: the same 40 bytes of header as other queries and answers have, of suite 4
// (docs/protocol.md, Instant lookups). How long one query and one answer are follows from the layout, and is the core's to say.

import { checkInteger, checkLength } from './bytes.js'
import { HEADER_BYTES, MAX_BATCH, SUITE_INSTANT, SUITE_TAGS } from './constants.js'
import type { Manifest } from './manifest.js'
import { ANSWER_MAGIC, checkAnswered, decodeHeader, encodeMessage, type MessageHeader, QUERY_MAGIC } from './message.js'

/** Where they are asked. */
export const INSTANT_PATH = '/v1/instant'

/** Longer than any request for instant lookups: of the most queries, for 2^32 groups. */
export const MAX_INSTANT_BYTES = HEADER_BYTES + MAX_BATCH * 440

/** A request as it arrives at a server, which has yet to find the manifest it speaks of. */
export interface InstantQuery extends MessageHeader {
  /** `count` queries, one after the other, as a view into the request. Neither their length nor they are checked. */
  readonly queries: Uint8Array
}

/** Whether a database can have instant lookups: it needs commitments. */
export function hasInstant({ suite }: Pick<Manifest, 'suite'>): boolean {
  return suite !== SUITE_TAGS
}

/** A request of `count` queries, one after the other. Throws WireError on a count that no request has. */
export function encodeInstantQuery(manifest: Manifest, count: number, queries: Uint8Array): Uint8Array<ArrayBuffer> {
  checkInteger('count', count, 1, MAX_BATCH)
  return encodeMessage(QUERY_MAGIC, manifest, SUITE_INSTANT, count, queries)
}

/** Reads a request's header. Throws WireError on anything malformed; what follows the header is the server's to check. */
export function decodeInstantQuery(bytes: Uint8Array): InstantQuery {
  const header = decodeHeader('query', QUERY_MAGIC, bytes, [SUITE_INSTANT])
  checkInteger('count', header.count, 1, MAX_BATCH)
  return { ...header, queries: bytes.subarray(HEADER_BYTES) }
}

/** The answers to `count` queries, one after the other. */
export function encodeInstantAnswer(manifest: Manifest, count: number, answers: Uint8Array): Uint8Array<ArrayBuffer> {
  return encodeMessage(ANSWER_MAGIC, manifest, SUITE_INSTANT, count, answers)
}

/**
 * The answers to `count` queries, `answerBytes` each, as a view into `bytes`. Throws WireError, naming the field, unless
 * they are for exactly this manifest's database, generation and epoch. They are not verified.
 */
export function decodeInstantAnswer(
  manifest: Manifest,
  count: number,
  answerBytes: number,
  bytes: Uint8Array,
): Uint8Array {
  checkAnswered(manifest, count, decodeHeader('answer', ANSWER_MAGIC, bytes, [SUITE_INSTANT]))
  checkLength('answer length', bytes, HEADER_BYTES + count * answerBytes)
  return bytes.subarray(HEADER_BYTES)
}
