// Generators of valid protocol values.

import fc from 'fast-check'
import {
  entryBytes,
  type Geometry,
  MAX_ENTRIES_BYTES,
  type Manifest,
  type OneServerFields,
  ownBase,
} from '../src/index.js'

export const bytesOf = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })

/** Bytes of this length that are not all zero. */
export const markedBytes = (length: number) => bytesOf(length).filter(bytes => bytes.some(byte => byte !== 0))

const pointproofs = fc.record({
  rowsHash: markedBytes(32),
  keyHash: markedBytes(32),
  transcriptHash: markedBytes(32),
  development: fc.boolean(),
})

/** Manifests of up to 5 partitions; sizes are drawn at and around their bounds. */
export const manifests: fc.Arbitrary<Manifest> = fc
  .record({
    keyed: fc.boolean(),
    variable: fc.boolean(),
    partitions: fc.integer({ min: 1, max: 5 }),
    partitionRecords: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(255, 256, 257, 65_535, 65_536)),
    packing: fc.constantFrom(0, 0, 1, 3),
    suite: fc.constantFrom(1, 2, 6),
    updates: fc.constantFrom(0, 1, Number.POSITIVE_INFINITY),
    epoch: fc.constantFrom(1, 2, 0xffff_ffff),
    laterGeneration: fc.boolean(),
    hinted: fc.boolean(),
    marked: fc.boolean(),
  })
  .chain(choice => {
    const overhead = (choice.keyed ? 16 : 0) + (choice.variable ? 2 : 0)
    const zero = fc.constant(new Uint8Array(32))
    const generation = choice.epoch > 1 && choice.laterGeneration ? 2 : 1
    const listed = choice.epoch > 1 && (generation === 1 || choice.partitions % 2 === 0)
    return fc.record({
      suite: fc.constant(choice.suite),
      databaseId: bytesOf(16),
      generation: fc.constant(generation),
      epoch: fc.constant(choice.epoch),
      records: fc.integer({ min: 1, max: choice.partitions * choice.partitionRecords }),
      valueBytes: fc.oneof(
        fc.integer({ min: overhead === 0 ? 1 : 0, max: 64 }),
        fc.constant(65_536 / 2 ** choice.packing - overhead),
      ),
      partitions: fc.constant(choice.partitions),
      partitionRecords: fc.constant(choice.partitionRecords * 2 ** choice.packing),
      blockRecords: fc.constant(2 ** choice.packing),
      keyed: fc.constant(choice.keyed),
      variable: fc.constant(choice.variable),
      maxQueries: fc.integer({ min: 1, max: 64 }),
      expires: choice.hinted && choice.suite !== 2 ? fc.integer({ min: 1 }) : fc.oneof(fc.constant(0), fc.maxSafeNat()),
      directoryBytes: choice.keyed ? fc.integer({ min: 1, max: 0xffff_ffff }) : fc.constant(0),
      updates: fc.constant(listed ? choice.updates : -1),
      directoryHash: choice.keyed ? markedBytes(32) : zero,
      updateListHash: listed ? markedBytes(32) : zero,
      previousManifest: choice.epoch > 1 ? markedBytes(32) : zero,
      directoryBlockLog: choice.keyed ? fc.integer({ min: 0, max: 16 }) : fc.constant(0),
      directoryBlockBytes: choice.keyed ? fc.integer({ min: 1, max: 2048 }).map(units => 32 * units) : fc.constant(0),
      directorySeed: choice.keyed ? bytesOf(16) : fc.constant(new Uint8Array(16)),
      directoryCommitment: choice.keyed && choice.suite !== 2 ? bytesOf(32) : zero,
      commitments:
        choice.suite !== 2 ? bytesOf(32 * choice.partitions) : fc.constant(new Uint8Array(32 * choice.partitions)),
      contentHashes: bytesOf(32 * choice.partitions),
      pointproofs: choice.suite !== 6 ? fc.constant(undefined) : pointproofs,
      base: choice.hinted && choice.suite !== 2 ? base : fc.constant(undefined),
      slotMarksHash: choice.keyed && choice.marked ? markedBytes(32) : fc.constant(undefined),
    })
  })
  .map(({ updates, base, ...fields }) => {
    const recordBytes = (fields.keyed ? 16 : 0) + (fields.variable ? 2 : 0) + fields.valueBytes
    const most = Math.min(fields.records, Math.floor((0xffff_ffff - 40) / (5 + recordBytes)))
    return {
      ...fields,
      recordBytes,
      oneServer: base && oneServerOf({ ...fields, recordBytes }, base),
      maxQueries: Math.max(1, Math.min(fields.maxQueries, mostQueries({ ...fields, recordBytes }))),
      updateListBytes: updates < 0 ? 0 : 40 + Math.min(updates, most) * (5 + recordBytes),
    }
  })

/** What is drawn of a base, and of the patch since. */
const base = fc.record({
  hintHash: markedBytes(32),
  patchHash: markedBytes(32),
  age: fc.nat(),
  ago: fc.nat(9),
  entries: fc.nat(9),
})

function oneServerOf(
  { generation, epoch, records, recordBytes }: Pick<Manifest, 'generation' | 'epoch' | 'records' | 'recordBytes'>,
  {
    hintHash,
    patchHash,
    age,
    ago,
    entries,
  }: { hintHash: Uint8Array; patchHash: Uint8Array; age: number; ago: number; entries: number },
): OneServerFields {
  const baseEpoch = epoch - (age % (1 + Math.min(ago, epoch - generation)))
  if (baseEpoch === epoch) return ownBase({ epoch, records }, hintHash)
  const patchBytes = entries * (5 + recordBytes)
  const baseRecords = 1 + (age % records)
  return { hintHash, baseEpoch, baseRecords, patchBytes, patchHash: entries === 0 ? new Uint8Array(32) : patchHash }
}

/** How many queries have answers of 16 MiB. */
function mostQueries(layout: Geometry): number {
  return Math.floor(MAX_ENTRIES_BYTES / (layout.partitions * entryBytes(layout)))
}

/** Manifests whose answers are small enough to make many of. */
export const smallManifests = manifests.filter(
  manifest => manifest.recordBytes <= 40 && manifest.partitionRecords <= 300,
)
