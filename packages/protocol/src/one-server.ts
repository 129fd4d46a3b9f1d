// Lookups with one server that keeps no state (docs/protocol/one-server.md): the usual header, of suite 9 or 10, then the core's bytes,
// whose lengths follow from the manifest.

import { checkInteger } from './bytes.js'
import { HASH_BYTES, HEADER_BYTES, MAX_QUERIES, SUITE_ONE_SERVER, SUITE_ONE_SERVER_DIRECTORY } from './constants.js'
import type { InstantOf } from './instant.js'
import type { Manifest, OneServerFields } from './manifest.js'
import {
  ANSWER_MAGIC,
  decodeAnswersOf,
  decodeHeader,
  encodeMessage,
  type MessageHeader,
  QUERY_MAGIC,
} from './message.js'

/** The route that answers them. */
export const ONE_SERVER_PATH = '/v1/one-server'

/** No request is longer. */
export const MAX_ONE_SERVER_BYTES = HEADER_BYTES + 2 ** 20

export const ONE_SERVER_SUITES = { records: SUITE_ONE_SERVER, directory: SUITE_ONE_SERVER_DIRECTORY } as const

/** A request at a server, which has yet to find its manifest. */
export interface OneServerQuery extends MessageHeader {
  readonly of: InstantOf
  /** `count` queries, one after the other: a view into the request, unchecked */
  readonly queries: Uint8Array
}

/** Whether a database has such lookups: its publisher must have signed a public hint for them. */
export function hasOneServer({ oneServer }: Pick<Manifest, 'oneServer'>): boolean {
  return oneServer !== undefined
}

/** What the manifest of an epoch says that is its own base. */
export function ownBase(
  { epoch, records }: Pick<Manifest, 'epoch' | 'records'>,
  hintHash: Uint8Array,
): OneServerFields {
  return { hintHash, baseEpoch: epoch, baseRecords: records, patchBytes: 0, patchHash: new Uint8Array(HASH_BYTES) }
}

/** A hinted database as lookups with one server see it: number and records are the base's. */
export function baseOf<M extends Pick<Manifest, 'epoch' | 'records' | 'oneServer'>>(manifest: M): M {
  const { baseEpoch: epoch, baseRecords: records } = manifest.oneServer!
  return { ...manifest, epoch, records }
}

/** A request of `count` queries, one after the other. Throws WireError on a wrong count. */
export function encodeOneServerQuery(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  queries: Uint8Array,
): Uint8Array<ArrayBuffer> {
  checkInteger('count', count, 1, MAX_QUERIES)
  return encodeMessage(QUERY_MAGIC, manifest, ONE_SERVER_SUITES[of], count, queries)
}

/** Reads a request's header. Throws WireError if it is malformed. The server checks the queries. */
export function decodeOneServerQuery(bytes: Uint8Array): OneServerQuery {
  const header = decodeHeader('query', QUERY_MAGIC, bytes, Object.values(ONE_SERVER_SUITES))
  checkInteger('count', header.count, 1, MAX_QUERIES)
  const of = header.suite === ONE_SERVER_SUITES.records ? 'records' : 'directory'
  return { ...header, of, queries: bytes.subarray(HEADER_BYTES) }
}

/** The answers to `count` queries, one after the other. */
export function encodeOneServerAnswer(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  answers: Uint8Array,
): Uint8Array<ArrayBuffer> {
  return encodeMessage(ANSWER_MAGIC, manifest, ONE_SERVER_SUITES[of], count, answers)
}

/**
 * The answers to `count` queries, `answerBytes` each, as a view into `bytes`. Throws WireError, naming the field, unless they are for
 * exactly this manifest's database, generation and epoch, and of the same suite. They are not verified.
 */
export function decodeOneServerAnswer(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  answerBytes: number,
  bytes: Uint8Array,
): Uint8Array {
  const suites = { suite: ONE_SERVER_SUITES[of], suites: Object.values(ONE_SERVER_SUITES) }
  return decodeAnswersOf(manifest, suites, count, answerBytes, bytes)
}
