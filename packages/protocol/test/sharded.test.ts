// The manifest of a sharded database: what is written and read back, and what is refused. decoders.test.ts reads any bytes.

import { describe, expect, test } from 'vitest'
import { checkFollows } from '../src/chain.js'
import {
  decodeInstantQuery,
  decodeManifest,
  encodeInstantQuery,
  encodeManifest,
  encodePartQuery,
  instantLayout,
  type Manifest,
  shardsField,
  WireError,
} from '../src/index.js'
import { shardedFirst, shardedLater } from './manifests.js'

const hash = (byte: number) => new Uint8Array(32).fill(byte)

/** The fields of so many shards. */
const of = (shards: number) => ({ shards, contentHashes: shardsField(shards) })

describe('a manifest of suite 11', () => {
  test.each([shardedFirst, shardedLater])('has 288 bytes and reads as it was written', manifest => {
    const bytes = encodeManifest(manifest)
    expect(bytes).toHaveLength(288)
    const behind = [...manifest.commitments, manifest.shards, ...new Uint8Array(31)]
    expect(bytes.subarray(224)).toEqual(Uint8Array.from(behind))
    expect(decodeManifest(bytes)).toEqual(manifest)
  })

  test.each<[string, Partial<Manifest>]>([
    ['three shards', of(3)],
    ['one shard', of(1)],
    ['more shards than partitions', of(16)],
    ['512 shards', { ...of(512), partitions: 512, records: 512 * 1024 }],
    ['partitions that are no power of two', { partitions: 6, records: 6 * 1024 }],
    ['records of no power of two', { partitionRecords: 1536, records: 8 * 1536 }],
    ['slots that are left out', { records: 8191 }],
    ['a directory of its own', { directoryBytes: 32 }],
    ['the field of other shards', { contentHashes: shardsField(8) }],
    ['more behind S', { contentHashes: shardsField(4).map((byte, i) => (i === 31 ? 1 : byte)) }],
    ['no number of shards', { shards: undefined }],
    ['no shards', of(0)],
    [
      'no keys',
      { keyed: false, recordBytes: 16, directoryBlockLog: 0, directoryBlockBytes: 0, directoryCommitment: hash(0) },
    ],
  ])('with %s is not written', (_, change) => {
    const message = 'suite 11: expected the manifest of a sharded database, got another'
    expect(() => encodeManifest({ ...shardedFirst, ...change })).toThrow(new WireError('malformed', message))
  })

  test('has all that other manifests have, and no other has shards', () => {
    const commitments = new Uint8Array(64).fill(1)
    for (const change of [{ commitments }, { recordBytes: 21 }, { keyed: false }, { generation: 2 }, { suite: 1 }]) {
      expect(() => encodeManifest({ ...shardedFirst, ...change })).toThrow(WireError)
    }
  })

  test('names no shard list in the first epoch of a generation', () => {
    expect(() => encodeManifest({ ...shardedFirst, updateListBytes: 128 })).toThrow(WireError)
    expect(() => encodeManifest({ ...shardedLater, updateListBytes: 0 })).toThrow(WireError)
    expect(() => encodeManifest({ ...shardedLater, updateListHash: hash(0) })).toThrow(/update list hash/)
    const next = { ...shardedLater, generation: 2, updateListBytes: 0, updateListHash: hash(0) }
    expect(decodeManifest(encodeManifest(next))).toEqual(next)
  })

  test('is followed by one with as many shards and partitions', () => {
    const grown = { ...shardedLater, partitions: 16, records: 16 * 1024 }
    checkFollows(shardedFirst, shardedLater)
    for (const other of [grown, { ...shardedLater, ...of(8) }]) {
      expect(() => checkFollows(shardedFirst, other)).toThrow(WireError)
    }
  })

  test('with other lengths, or a set reserved byte, is not read', () => {
    const bytes = encodeManifest(shardedFirst)
    for (const at of [260, 263, 287]) {
      const changed = bytes.slice()
      changed[at]! ^= 1
      expect(() => decodeManifest(changed)).toThrow(WireError)
    }
    for (const other of [bytes.subarray(1), bytes.subarray(0, 256), new Uint8Array([...bytes, 0])]) {
      expect(() => decodeManifest(other)).toThrow(WireError)
    }
  })

  test('lays out all partitions, and all directories, as one partition', () => {
    expect(instantLayout(shardedFirst, 'records')).toMatchObject({
      records: 8192,
      partitions: 1,
      partitionRecords: 8192,
    })
    const blocks = { records: 512, recordBytes: 256, partitions: 1, partitionRecords: 512, blockRecords: 1 }
    expect(instantLayout(shardedFirst, 'directory')).toEqual(blocks)
  })
})

describe('a part of vectors', () => {
  test('is a query of a third form, which has its a', () => {
    const queries = Uint8Array.of(1, 2, 3, 4)
    for (const [of, suite] of [
      ['records', 7],
      ['directory', 8],
    ] as const) {
      const bytes = encodePartQuery(shardedFirst, of, 2, queries, 3, 5)
      expect(bytes.subarray(40)).toEqual(Uint8Array.of(3, 2, 5, 1, 2, 3, 4))
      expect(decodeInstantQuery(bytes)).toMatchObject({
        suite,
        of,
        servers: 3,
        vectors: true,
        groupLog: 5,
        count: 2,
        queries,
      })
    }
  })

  test('has an a that a partition may have, for three servers or more', () => {
    for (const [servers, a] of [
      [2, 5],
      [9, 5],
      [3, 17],
      [3, -1],
    ] as const) {
      expect(() => encodePartQuery(shardedFirst, 'records', 1, hash(0), servers, a)).toThrow(WireError)
    }
    const bytes = encodePartQuery(shardedFirst, 'records', 1, hash(0), 3, 16)
    bytes[42] = 17
    expect(() => decodeInstantQuery(bytes)).toThrow(WireError)
    const form = encodeInstantQuery(shardedFirst, 'records', 1, hash(0), { servers: 3, vectors: true })
    expect(decodeInstantQuery(form)).not.toHaveProperty('groupLog')
    form[41] = 3
    expect(() => decodeInstantQuery(form)).toThrow(/form/)
    form[41] = 2
    expect(decodeInstantQuery(form.subarray(0, 43))).toMatchObject({ groupLog: 0 })
    expect(() => decodeInstantQuery(form.subarray(0, 42))).toThrow(WireError)
  })
})
