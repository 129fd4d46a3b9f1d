// docs/protocol.md, HTTP: queries and answers.

import { concatBytes } from '@noble/hashes/utils.js'
import { Reader, Writer } from './bytes.js'
import { blocksOf, entryBytes, type Layout, type Suite, split } from './layout.js'

/** The epoch that a message speaks of. A manifest is one. */
export interface Epoch extends Layout {
  readonly databaseId: Uint8Array
  readonly generation: number
  readonly epoch: number
  readonly maxBatch: number
}

/** One vector a query, of one offset a partition. */
export type Vectors = readonly (readonly number[])[]

/** One entry an offset, in the same order. */
export type Entries = readonly Uint8Array[]

export function encodeQuery(epoch: Epoch, vectors: Vectors, suite: Suite = 1): Uint8Array {
  const writer = header('PIRQ', epoch, vectors.length, suite)
  for (const offset of vectors.flat()) writer.u16(offset)
  return writer.bytes()
}

/** The suite that a query names, for servers that have several. */
export function suiteIn(query: Uint8Array): number {
  const reader = new Reader(query)
  reader.take(6)
  return reader.u16()
}

export function decodeQuery(epoch: Epoch, bytes: Uint8Array, suite: Suite = 1): Vectors {
  const reader = new Reader(bytes)
  const count = readHeader('PIRQ', epoch, reader, suite)
  if (count < 1 || count > epoch.maxBatch) throw new Error(`a batch of ${count}`)
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
  reader.end()
  return split(entries, entryBytes(epoch, suite))
}

function header(
  magic: string,
  { databaseId, generation, epoch, partitions }: Epoch,
  count: number,
  suite: Suite,
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

/** Refuses other epochs than the expected one. Returns the batch's count. */
function readHeader(magic: string, expected: Epoch, reader: Reader, suite: Suite): number {
  reader.expect('magic', magic)
  if (reader.u16() !== 1 || reader.u16() !== suite) throw new Error('another format or suite')
  reader.expect('database', expected.databaseId)
  if (reader.u32() !== expected.generation || reader.u32() !== expected.epoch) throw new Error('another epoch')
  if (reader.u32() !== expected.partitions) throw new Error('another Q')
  const count = reader.u16()
  if (reader.u16() !== 0) throw new Error('reserved bytes')
  return count
}
