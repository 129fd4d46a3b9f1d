// Instant lookups (docs/protocol.md, Instant lookups): the usual header, of a suite in `INSTANT_SUITES`. In a request for three
// servers or more, their number and the queries' form follow. The core knows the length of a query and an answer, which follow
// from the layout and the number of servers.

import { checkInteger } from './bytes.js'
import {
  HEADER_BYTES,
  MAX_QUERIES,
  MAX_SERVERS,
  SUITE_INSTANT,
  SUITE_INSTANT_DIRECTORY,
  SUITE_VECTORS,
  SUITE_VECTORS_DIRECTORY,
} from './constants.js'
import type { Manifest } from './manifest.js'
import {
  ANSWER_MAGIC,
  decodeAnswersOf,
  decodeHeader,
  encodeMessage,
  type MessageHeader,
  QUERY_MAGIC,
} from './message.js'
import { isCommitted } from './proofs.js'

const MAX_GROUP_LOG = 16

/** The route that answers them. */
export const INSTANT_PATH = '/v1/instant'

/** Number of servers and form of the queries, in a request of suite 7 or 8; of a part of vectors, their a as well. */
const SHARING_BYTES = 2
const PART_BYTES = 3
const PART_FORM = 2

/** No request is longer. With two servers, no request has more than 64 queries of 440 bytes. */
export const MAX_INSTANT_BYTES = HEADER_BYTES + PART_BYTES + 2 ** 20

/** What a lookup is of: the records, or in a keyed database the blocks of the directory. */
export type InstantOf = 'records' | 'directory'

/** The suites for two servers, and for more. */
export const INSTANT_SUITES = {
  records: [SUITE_INSTANT, SUITE_VECTORS],
  directory: [SUITE_INSTANT_DIRECTORY, SUITE_VECTORS_DIRECTORY],
} as const

/** How a lookup is shared among servers. */
export interface Sharing {
  /** 2 to 8 */
  readonly servers: number
  /** whether these queries are vectors, and not seeds; with two servers they are keys: false */
  readonly vectors: boolean
  /** of a shard's part of vectors: the a of all shards together; missing: this is no shard's part */
  readonly groupLog?: number | undefined
}

/** Of a lookup with two servers, whose queries are keys. */
export const TWO_SERVERS: Sharing = { servers: 2, vectors: false }

function suiteFor(of: InstantOf, servers: number): number {
  return INSTANT_SUITES[of][servers === 2 ? 0 : 1]
}

/** A request at a server, which has yet to find its manifest. */
export interface InstantQuery extends MessageHeader, Sharing {
  readonly of: InstantOf
  /** `count` queries, one after the other: a view into the request, unchecked */
  readonly queries: Uint8Array
}

/** Whether a database can have instant lookups: it needs commitments. */
export function hasInstant(manifest: Pick<Manifest, 'suite'>): boolean {
  return isCommitted(manifest)
}

/** The layout of what is looked up. The blocks of a directory are one partition; all records or blocks of a sharded database are, too. */
export function instantLayout(
  manifest: Manifest,
  of: InstantOf,
): Pick<Manifest, 'records' | 'recordBytes' | 'partitions' | 'partitionRecords' | 'blockRecords'> {
  const { shards, directoryBlockLog, directoryBlockBytes } = manifest
  if (of === 'records') return shards ? { ...manifest, partitions: 1, partitionRecords: manifest.records } : manifest
  const [records, recordBytes] = [(shards ?? 1) * 2 ** directoryBlockLog, directoryBlockBytes]
  return { records, recordBytes, partitions: 1, partitionRecords: records, blockRecords: 1 }
}

/** The commitments to what is looked up, one a partition; of a sharded database the root. */
export function instantCommitments(manifest: Manifest, of: InstantOf): Uint8Array {
  return of === 'records' ? manifest.commitments : manifest.directoryCommitment
}

/** A request of `count` queries, one after the other. Throws WireError on a wrong count or number of servers. */
export function encodeInstantQuery(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  queries: Uint8Array,
  { servers, vectors }: Sharing = TWO_SERVERS,
): Uint8Array<ArrayBuffer> {
  checkInteger('count', count, 1, MAX_QUERIES)
  checkInteger('servers', servers, 2, MAX_SERVERS)
  const suite = suiteFor(of, servers)
  if (servers === 2) return encodeMessage(QUERY_MAGIC, manifest, suite, count, queries)
  const body = new Uint8Array(SHARING_BYTES + queries.length)
  body.set([servers, Number(vectors)])
  body.set(queries, SHARING_BYTES)
  return encodeMessage(QUERY_MAGIC, manifest, suite, count, body)
}

/** A coordinator's request to a shard: `count` parts of vectors, for groups of 2^groupLog blocks. Throws as `encodeInstantQuery`. */
export function encodePartQuery(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  queries: Uint8Array,
  servers: number,
  groupLog: number,
): Uint8Array<ArrayBuffer> {
  checkInteger('count', count, 1, MAX_QUERIES)
  checkInteger('servers', servers, 3, MAX_SERVERS)
  checkInteger('a', groupLog, 0, MAX_GROUP_LOG)
  const body = new Uint8Array(PART_BYTES + queries.length)
  body.set([servers, PART_FORM, groupLog])
  body.set(queries, PART_BYTES)
  return encodeMessage(QUERY_MAGIC, manifest, suiteFor(of, servers), count, body)
}

/** Reads a request's header, and how its queries are shared. Throws WireError if it is malformed. The server checks the queries. */
export function decodeInstantQuery(bytes: Uint8Array): InstantQuery {
  const header = decodeHeader('query', QUERY_MAGIC, bytes, Object.values(INSTANT_SUITES).flat())
  checkInteger('count', header.count, 1, MAX_QUERIES)
  const of = (INSTANT_SUITES.records as readonly number[]).includes(header.suite) ? 'records' : 'directory'
  const queries = bytes.subarray(HEADER_BYTES)
  if (header.suite === suiteFor(of, 2)) return { ...header, of, ...TWO_SERVERS, queries }
  const [servers = 0, form = -1, groupLog = -1] = queries
  checkInteger('servers', servers, 3, MAX_SERVERS)
  checkInteger('form', form, 0, PART_FORM)
  const sharing = { servers, vectors: form > 0 }
  if (form !== PART_FORM) return { ...header, of, ...sharing, queries: queries.subarray(SHARING_BYTES) }
  checkInteger('a', groupLog, 0, MAX_GROUP_LOG)
  return { ...header, of, ...sharing, groupLog, queries: queries.subarray(PART_BYTES) }
}

/** The answers to `count` queries, one after the other. */
export function encodeInstantAnswer(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  answers: Uint8Array,
  servers = 2,
): Uint8Array<ArrayBuffer> {
  return encodeMessage(ANSWER_MAGIC, manifest, suiteFor(of, servers), count, answers)
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
  servers = 2,
): Uint8Array {
  const suites = { suite: suiteFor(of, servers), suites: Object.values(INSTANT_SUITES).flat() }
  return decodeAnswersOf(manifest, suites, count, answerBytes, bytes)
}
