// Queries and answers of suite 3, for lookups with one server (docs/protocol.md, One server). Behind the usual header a query has
// a subset and offsets, an answer two parities. The core knows a query's length, which follows from the layout.

import { checkInteger, checkLength } from './bytes.js'
import { HEADER_BYTES, MAX_QUERIES, SUITE_PARITIES } from './constants.js'
import { malformed } from './errors.js'
import { blockBytes } from './geometry.js'
import type { Manifest } from './manifest.js'
import { ANSWER_MAGIC, checkAnswered, decodeHeader, encodeMessage, QUERY_MAGIC } from './message.js'

/** A request of `count` queries, which the core made. Throws WireError on a wrong count. */
export function encodeParityQuery(manifest: Manifest, count: number, queries: Uint8Array): Uint8Array<ArrayBuffer> {
  checkInteger('count', count, 1, Math.min(MAX_QUERIES, manifest.maxQueries))
  return encodeMessage(QUERY_MAGIC, manifest, SUITE_PARITIES, count, queries)
}

/** Bytes of a whole answer to `count` queries. */
export function parityAnswerBytes(manifest: Manifest, count: number): number {
  return HEADER_BYTES + count * 2 * blockBytes(manifest)
}

/**
 * The parities of an answer, as a view into `bytes`. Throws WireError, naming the field, unless the answer is for exactly
 * this manifest's epoch and for `count` queries. The parities are not verified.
 */
export function decodeParities(manifest: Manifest, count: number, bytes: Uint8Array): Uint8Array {
  const header = decodeHeader('answer', ANSWER_MAGIC, bytes, [SUITE_PARITIES])
  if (header.suite !== SUITE_PARITIES) malformed('answer suite', SUITE_PARITIES, header.suite)
  checkAnswered(manifest, count, header)
  checkLength('answer length', bytes, parityAnswerBytes(manifest, count))
  return bytes.subarray(HEADER_BYTES)
}
