// Manifests that tests begin with.

import { type Manifest, shardsField } from '../src/index.js'

/** 1000 records of 32 bytes, without keys. */
export const keyless: Manifest = {
  suite: 1,
  databaseId: new Uint8Array(16).fill(7),
  generation: 1,
  epoch: 1,
  records: 1000,
  recordBytes: 32,
  partitions: 16,
  partitionRecords: 63,
  blockRecords: 1,
  valueBytes: 32,
  keyed: false,
  variable: false,
  maxQueries: 64,
  expires: 0,
  directoryBytes: 0,
  updateListBytes: 0,
  directoryHash: new Uint8Array(32),
  updateListHash: new Uint8Array(32),
  previousManifest: new Uint8Array(32),
  directoryBlockLog: 0,
  directoryBlockBytes: 0,
  directorySeed: new Uint8Array(16),
  directoryCommitment: new Uint8Array(32),
  commitments: new Uint8Array(512).fill(1),
  contentHashes: new Uint8Array(512).fill(2),
}

/** What an epoch after the first has more. */
export const later: Manifest = {
  ...keyless,
  epoch: 2,
  updateListBytes: 40,
  updateListHash: new Uint8Array(32).fill(3),
  previousManifest: new Uint8Array(32).fill(4),
}

const digests = new Uint8Array(4 * 32)

/** 4000 records of 20 bytes, with keys. */
export const keyed: Manifest = {
  ...{ ...keyless, generation: 3, epoch: 9, keyed: true, records: 4000, recordBytes: 20, valueBytes: 4 },
  ...{ partitions: 4, partitionRecords: 1000, commitments: digests, contentHashes: digests },
  ...{ directoryBytes: 4096, directoryBlockLog: 3, directoryBlockBytes: 512 },
}

/** 4 shards of 2 partitions of 1024 records of 32 bytes. */
export const shardedFirst: Manifest & { readonly shards: number } = {
  ...{ ...keyless, suite: 11, keyed: true, records: 8192, recordBytes: 32, valueBytes: 16, shards: 4 },
  ...{
    partitions: 8,
    partitionRecords: 1024,
    commitments: new Uint8Array(32).fill(1),
    contentHashes: shardsField(4),
  },
  ...{ directoryBlockLog: 7, directoryBlockBytes: 256, directoryCommitment: new Uint8Array(32).fill(5) },
}

/** The epoch after it. */
export const shardedLater: typeof shardedFirst = {
  ...{ ...shardedFirst, epoch: 2, updateListBytes: 128 },
  ...{ updateListHash: later.updateListHash, previousManifest: later.previousManifest },
}
