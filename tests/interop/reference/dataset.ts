// A new database as docs/protocol.md has it, from values or from keys and values: its records, manifest, directory,
// and the blobs that clients fetch by hash.

import { bytesToHex, concatBytes } from '@noble/hashes/utils.js'
import { Database } from './database.js'
import { buildDirectory, type Directory, directoryCommitment, encodeDirectory, indexOf } from './directory.js'
import { databaseId, fingerprint, hash } from './hash.js'
import { maxQueries, planLayout, type Suite } from './layout.js'
import { encodeManifest, type Manifest } from './manifest.js'
import { encodeRecord } from './record.js'

export interface Dataset {
  readonly manifest: Manifest
  readonly manifestBytes: Uint8Array
  readonly database: Database
  /** by their hash in hex */
  readonly blobs: ReadonlyMap<string, Uint8Array>
}

/** Values of one length. */
export function keylessDataset(values: readonly Uint8Array[], partitions?: number, suite: Suite = 1): Dataset {
  const shape = { keyed: false, variable: false, valueBytes: values[0]!.length, recordBytes: values[0]!.length }
  return dataset(shape, concatBytes(...values), undefined, values.length, partitions, suite)
}

/** Values may differ in length. */
export function keyedDataset(entries: readonly (readonly [Uint8Array, Uint8Array])[], partitions?: number): Dataset {
  const lengths = entries.map(([, value]) => value.length)
  const valueBytes = Math.max(...lengths)
  const variable = lengths.some(length => length !== valueBytes)
  const shape = { keyed: true, variable, valueBytes, recordBytes: 16 + (variable ? 2 : 0) + valueBytes }
  const prints = entries.map(([key]) => fingerprint(key))
  const layout = planLayout(entries.length, shape.recordBytes, partitions)
  const directory = buildDirectory(prints, layout.partitions * layout.partitionRecords)
  const records = new Uint8Array(entries.length * shape.recordBytes)
  for (const [i, [, value]] of entries.entries()) {
    const at = indexOf(directory, prints[i]!, entries.length) * shape.recordBytes
    records.set(encodeRecord(shape, { fingerprint: prints[i]!, value }), at)
  }
  return dataset(shape, records, directory, entries.length, partitions)
}

type Shape = Pick<Manifest, 'keyed' | 'variable' | 'valueBytes' | 'recordBytes'>

function dataset(
  shape: Shape,
  records: Uint8Array,
  keys: Directory | undefined,
  count: number,
  partitions?: number,
  suite: Suite = 1,
): Dataset {
  const layout = planLayout(count, shape.recordBytes, partitions)
  const database = new Database(layout, records)
  const zero = new Uint8Array(32)
  const directory = keys === undefined ? new Uint8Array() : encodeDirectory(keys)
  const withoutId: Manifest = {
    suite,
    ...layout,
    blockRecords: 1,
    ...shape,
    databaseId: new Uint8Array(16),
    generation: 1,
    epoch: 1,
    maxQueries: maxQueries(layout, suite),
    expires: 0n,
    directoryBytes: directory.length,
    updateListBytes: 0,
    directoryHash: shape.keyed ? hash(directory) : zero,
    updateListHash: zero,
    previousManifest: zero,
    directoryBlockLog: keys?.blockLog ?? 0,
    directoryBlockBytes: keys?.blockBytes ?? 0,
    directorySeed: keys?.seed ?? new Uint8Array(16),
    directoryCommitment: keys !== undefined && suite === 1 ? directoryCommitment(keys) : zero,
    commitments: suite === 1 ? database.commitments : database.commitments.map(() => zero),
    contentHashes: database.contentHashes,
  }
  const manifest = { ...withoutId, databaseId: databaseId(encodeManifest(withoutId)) }
  const blobs = [...database.partitions, ...(shape.keyed ? [directory] : [])]
  return {
    manifest,
    manifestBytes: encodeManifest(manifest),
    database,
    blobs: new Map(blobs.map(blob => [bytesToHex(hash(blob)), blob])),
  }
}
