// A sharded database, and a coordinator of it in this process: it splits queries, asks ordinary databases, and adds up their answers.

import {
  encodeManifest,
  encodeRecord,
  type InstantOf,
  type Manifest,
  shardsField,
  TWO_SERVERS,
} from '@keyhush/protocol'
import type { Core, DatabaseHandle, UpperTreeHandle } from '@keyhush/wasm'
import { add } from '../../../wasm/src/script/masks.js'
import { type Database, instantAnswers } from './database.js'

const VALUE_BYTES = 16
const PRINT_BYTES = 16
const ENTRY_BYTES = PRINT_BYTES + 4
const RECORD_BYTES = PRINT_BYTES + VALUE_BYTES
/** 128 groups of 256 bytes each */
const [PARTITION_RECORDS, BLOCK_LOG, BLOCK_BYTES] = [1024, 7, 256]
const NOTHING = new Uint8Array(32)

export interface ShardedContents {
  /** of 16 bytes */
  readonly values: ReadonlyMap<string, Uint8Array>
  readonly shards?: number
  /** of a shard */
  readonly partitions?: number
  /** fields of the manifest that are to be other than usual */
  readonly manifest?: Partial<Omit<Manifest, 'shards'>>
}

/** What one tree stands above: the databases of records, or of directories' blocks. */
interface Level {
  readonly tree: UpperTreeHandle
  readonly shards: readonly DatabaseHandle[]
}

export interface ShardedDatabase extends Database {
  readonly manifest: Manifest & { readonly shards: number }
  /** where a key's record is */
  indexOf(key: string): number
  /** the same, but one operator's coordinator takes its shards in another order */
  exchanged(): Database
}

export function buildSharded(
  core: Core,
  { values, shards = 4, partitions = 2, ...contents }: ShardedContents,
): ShardedDatabase {
  const seed = core.blake3(new TextEncoder().encode('seed')).subarray(0, PRINT_BYTES)
  const shape = core.directoryShape(BLOCK_LOG, BLOCK_BYTES, seed)
  const [each, blocks] = [partitions * PARTITION_RECORDS, 2 ** BLOCK_LOG]
  const records = Array.from({ length: shards }, () => new Uint8Array(each * RECORD_BYTES))
  const directories = records.map(() => Array.from({ length: blocks }, (): [Uint8Array, number][] => []))
  const byIndex: (Uint8Array | undefined)[] = Array.from({ length: shards * each })
  const indices = new Map<string, number>()
  for (const [key, value] of values) {
    const print = core.fingerprint(new TextEncoder().encode(key))
    const number = shape.number(print, shards)
    const shard = Math.floor(number / blocks)
    // Scattered over the partitions of the shard.
    let index = (397 * indices.size) % each
    while (byIndex[shard * each + index] !== undefined) index = (index + 1) % each
    byIndex[shard * each + index] = value
    indices.set(key, shard * each + index)
    directories[shard]![number % blocks]!.push([print, index])
    const record = encodeRecord(
      { keyed: true, variable: false, valueBytes: VALUE_BYTES, recordBytes: RECORD_BYTES },
      print,
      value,
    )
    records[shard]!.set(record, index * RECORD_BYTES)
  }
  shape.free()
  const layoutOf = (of: InstantOf) =>
    of === 'records'
      ? core.layout(each, RECORD_BYTES, partitions, PARTITION_RECORDS)
      : core.layout(blocks, BLOCK_BYTES, 1, blocks)
  const level = (of: InstantOf, bytes: readonly Uint8Array[]): Level => {
    const handles = bytes.map(content => {
      const handle = core.newDatabase(layoutOf(of))
      new Uint8Array(core.memory.buffer, handle.recordsPointer(), content.length).set(content)
      for (let q = 0; q < handle.layout.partitions; q++) handle.commit(q)
      return handle
    })
    return {
      tree: core.newUpperTree(layoutOf(of), shards, Buffer.concat(handles.map(handle => handle.commitments()))),
      shards: handles,
    }
  }
  const levels = { records: level('records', records), directory: level('directory', directories.map(written)) }
  const manifest = {
    ...{ suite: 11, databaseId: core.databaseId(new TextEncoder().encode('sharded')), generation: 1, epoch: 1 },
    ...{
      records: shards * each,
      recordBytes: RECORD_BYTES,
      partitions: shards * partitions,
      partitionRecords: PARTITION_RECORDS,
    },
    ...{ valueBytes: VALUE_BYTES, keyed: true, variable: false, maxQueries: 64, blockRecords: 1, expires: 0, shards },
    ...{
      directoryBytes: 0,
      updateListBytes: 0,
      directoryHash: NOTHING,
      updateListHash: NOTHING,
      previousManifest: NOTHING,
    },
    ...{ directoryBlockLog: BLOCK_LOG, directoryBlockBytes: BLOCK_BYTES, directorySeed: seed },
    ...{ directoryCommitment: levels.directory.tree.root, commitments: levels.records.tree.root },
    contentHashes: shardsField(shards),
    ...contents.manifest,
  }
  const database = {
    ...{ manifest, manifestBytes: encodeManifest(manifest), byIndex },
    ...{
      contents: { values: [...values.values()], partitions: manifest.partitions },
      blobs: new Map<string, Uint8Array>(),
    },
    ...{ handle: levels.records.shards[0]!, directory: undefined, blocks: undefined },
    answer: () => {
      throw new Error('a sharded database answers instant lookups alone')
    },
    answerInstantly: coordinator(core, levels),
    indexOf: (key: string) => indices.get(key)!,
  }
  const exchanged = () => {
    const [first, second, ...others] = levels.records.shards as [DatabaseHandle, DatabaseHandle]
    const records = { ...levels.records, shards: [second, first, ...others] }
    return { ...database, answerInstantly: coordinator(core, { ...levels, records }) }
  }
  return { ...database, exchanged }
}

/** Blocks of a directory whose keys are all in the overlay. */
function written(directory: readonly (readonly [Uint8Array, number][])[]): Uint8Array {
  const bytes = new Uint8Array(directory.length * BLOCK_BYTES)
  for (const [number, keys] of directory.entries()) {
    const view = new DataView(bytes.buffer, number * BLOCK_BYTES, BLOCK_BYTES)
    view.setUint16(6, keys.length, true)
    const ascending = [...keys].sort(([a], [b]) => Buffer.compare(a, b))
    for (const [i, [print, index]] of ascending.entries()) {
      bytes.set(print, number * BLOCK_BYTES + 8 + i * ENTRY_BYTES)
      view.setUint32(8 + i * ENTRY_BYTES + PRINT_BYTES, index, true)
    }
  }
  return bytes
}

function coordinator(core: Core, levels: Readonly<Record<InstantOf, Level>>) {
  return (of: InstantOf, queries: Uint8Array, { servers, vectors } = TWO_SERVERS): Uint8Array => {
    const { tree, shards } = levels[of]
    const sizes = tree.layout.instantSizes(servers)
    core.checkInstantQueries(tree.layout, queries, servers, vectors)
    const count = queries.length / sizes[Number(vectors)]!
    const split = tree.split(queries, servers, vectors)
    const siblings = split.subarray(split.length - count * tree.siblingBytes)
    const each = (split.length - siblings.length) / shards.length
    const groupLog = servers === 2 ? undefined : core.instantGroupLog(tree.layout, servers)
    const parts = shards.map((shard, s) =>
      instantAnswers(core, shard, split.subarray(s * each, (s + 1) * each), {
        servers,
        vectors: servers > 2,
        groupLog,
      }),
    )
    const sum = new Uint8Array(parts[0]!.length)
    for (const part of parts) add(sum, part)
    const [below, above] = [sum.length / count, tree.siblingBytes]
    const answers = Array.from({ length: count }, (_, i) => [
      sum.subarray(i * below, (i + 1) * below),
      siblings.subarray(i * above, (i + 1) * above),
    ])
    return Buffer.concat(answers.flat())
  }
}
