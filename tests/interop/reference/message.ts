// docs/protocol.md, HTTP and Instant lookups: what has the 40 bytes of a query's head.

import { concatBytes } from '@noble/hashes/utils.js'
import { offsetsOf, Reader, Writer } from './bytes.js'
import { blockLayout } from './directory.js'
import { answerBytes, groupsAmong, SUITES, shareBits, splitQueries } from './instant.js'
import { blocksOf, entryBytes, type Layout, type Suite, split } from './layout.js'
import type { Manifest } from './manifest.js'

/** The epoch that a message speaks of. A manifest is one. */
export interface Epoch extends Layout {
  readonly databaseId: Uint8Array
  readonly generation: number
  readonly epoch: number
  readonly maxQueries: number
}

/** One vector a query, of one offset a partition. */
export type Vectors = readonly (readonly number[])[]

/** One entry an offset, in the same order; in suite 6 the proof behind them. */
export type Entries = readonly Uint8Array[]

export function encodeQuery(epoch: Epoch, vectors: Vectors, suite: Suite = 1): Uint8Array {
  const writer = header('PIRQ', epoch, vectors.length, suite)
  for (const offset of vectors.flat()) writer.u16(offset)
  return writer.bytes()
}

/** The suite that a query names, for servers that have several. */
export function suiteIn(query: Uint8Array): number {
  const reader = new Reader(query)
  reader.take(AT.suite)
  return reader.u16()
}

export function decodeQuery(epoch: Epoch, bytes: Uint8Array, suite: Suite = 1): Vectors {
  const reader = new Reader(bytes)
  const count = readHeader('PIRQ', epoch, reader, suite)
  const most =
    suite === 6 ? Math.min(epoch.maxQueries, Math.max(1, Math.floor(256 / epoch.partitions))) : epoch.maxQueries
  if (count < 1 || count > most) throw new Error(`a lookup of ${count} queries`)
  const vectors = Array.from({ length: count }, () => Array.from({ length: epoch.partitions }, () => reader.u16()))
  reader.end()
  if (vectors.flat().some(offset => offset >= blocksOf(epoch).partitionRecords))
    throw new Error('an offset beyond its partition')
  return vectors
}

export function encodeAnswer(epoch: Epoch, count: number, entries: Entries, suite: Suite = 1): Uint8Array {
  return header('PIRA', epoch, count, suite)
    .put(concatBytes(...entries))
    .bytes()
}

export function decodeAnswer(epoch: Epoch, count: number, bytes: Uint8Array, suite: Suite = 1): Entries {
  const reader = new Reader(bytes)
  if (readHeader('PIRA', epoch, reader, suite) !== count) throw new Error(`expected answers to ${count} queries`)
  const entries = reader.take(count * epoch.partitions * entryBytes(epoch, suite))
  const together = suite === 6 ? [reader.take(48)] : []
  reader.end()
  return [...split(entries, entryBytes(epoch, suite)), ...together]
}

/** What an instant lookup asks for. */
export type InstantOf = 'records' | 'directory blocks'

/** Among how many servers a lookup is shared; of three or more, whether these queries are vectors. */
export interface Sharing {
  readonly servers: number
  readonly vectors: boolean
}

const TWO: Sharing = { servers: 2, vectors: false }

/** The suites with three servers or more. */
const VECTOR_SUITES = { records: 7, 'directory blocks': 8 } as const

function suiteOf(of: InstantOf, servers: number): number {
  return servers > 2 ? VECTOR_SUITES[of] : SUITES[of]
}

function askedBy(of: InstantOf, manifest: Manifest): Layout {
  const { directoryBlockLog: blockLog, directoryBlockBytes: blockBytes } = manifest
  return of === 'records' ? manifest : blockLayout({ blockLog, blockBytes })
}

export function encodeInstantQuery(
  manifest: Manifest,
  of: InstantOf,
  queries: readonly Uint8Array[],
  { servers, vectors } = TWO,
): Uint8Array {
  const writer = header('PIRQ', manifest, queries.length, suiteOf(of, servers))
  if (servers > 2) writer.put(Uint8Array.of(servers, vectors ? 1 : 0))
  return writer.put(...queries).bytes()
}

export function decodeInstantQuery(manifest: Manifest, bytes: Uint8Array) {
  const suite = suiteIn(bytes)
  const isVectors = Object.values<number>(VECTOR_SUITES).includes(suite)
  const suites = isVectors ? VECTOR_SUITES : SUITES
  const of = (['records', 'directory blocks'] as const).find(of => suites[of] === suite)
  if (of === undefined) throw new Error('another suite')
  const count = readHeader('PIRQ', manifest, new Reader(bytes), suite)
  if (count < 1 || count > 64) throw new Error(`a request of ${count}`)
  const [layout, body] = [askedBy(of, manifest), bytes.subarray(AT.end)]
  const [servers, form] = isVectors ? body : [2, 0]
  if (isVectors && !(servers! >= 3 && servers! <= 8 && form! <= 1))
    throw new Error('another number of servers, or form')
  const sharing: Sharing = { servers: servers!, vectors: form === 1 }
  const queries = isVectors ? splitShares(layout, sharing, body.subarray(2)) : splitQueries(layout, body)
  if (queries.length !== count) throw new Error(`expected ${count} queries`)
  return { of, queries, sharing }
}

function splitShares(layout: Layout, { servers, vectors }: Sharing, body: Uint8Array): Uint8Array[] {
  const groups = groupsAmong(layout, servers)
  const each = vectors ? Math.ceil(groups.groups / 8) : 32
  if (body.length === 0 || body.length % each !== 0) throw new Error('no whole queries')
  const queries = split(body, each)
  for (const query of queries) shareBits(groups, vectors, query)
  return queries
}

export function encodeInstantAnswer(
  manifest: Manifest,
  of: InstantOf,
  answers: readonly Uint8Array[],
  servers = 2,
): Uint8Array {
  return header('PIRA', manifest, answers.length, suiteOf(of, servers))
    .put(...answers)
    .bytes()
}

export function decodeInstantAnswer(
  manifest: Manifest,
  of: InstantOf,
  count: number,
  bytes: Uint8Array,
  servers = 2,
): Uint8Array[] {
  const reader = new Reader(bytes)
  if (readHeader('PIRA', manifest, reader, suiteOf(of, servers)) !== count) throw new Error(`expected ${count} answers`)
  const layout = askedBy(of, manifest)
  const each = servers > 2 ? groupsAmong(layout, servers).answerBytes : answerBytes(layout)
  const answers = reader.take(count * each)
  reader.end()
  return split(answers, each)
}

/** The head's fields, in order, with their lengths. */
export const HEAD_FIELDS = {
  ...{ magic: 4, format: 2, suite: 2, databaseId: 16, generation: 4, epoch: 4, partitions: 4, count: 2, reserved: 2 },
} as const

const AT = offsetsOf(HEAD_FIELDS)

function header(
  magic: string,
  { databaseId, generation, epoch, partitions }: Epoch,
  count: number,
  suite: number,
): Writer {
  return new Writer()
    .put(magic)
    .u16(1)
    .u16(suite)
    .put(databaseId)
    .u32(generation)
    .u32(epoch)
    .u32(partitions)
    .u16(count)
    .u16(0)
}

/** Refuses other epochs than the expected one. Returns the count. */
function readHeader(magic: string, expected: Epoch, reader: Reader, suite: number): number {
  reader.expect('magic', magic)
  if (reader.u16() !== 1 || reader.u16() !== suite) throw new Error('another format or suite')
  reader.expect('database', expected.databaseId)
  if (reader.u32() !== expected.generation || reader.u32() !== expected.epoch) throw new Error('another epoch')
  if (reader.u32() !== expected.partitions) throw new Error('another Q')
  const count = reader.u16()
  if (reader.u16() !== 0) throw new Error('reserved bytes')
  return count
}
