// When a new generation pays (docs/operations/growth.md): both sides of each threshold, and that the layout it leads to
// is never one that calls for another.

import { loadCore } from '@keyhush/wasm'
import { expect, test } from 'vitest'
import { defaultHeadroom, type Size, whyGenerationPays } from '../dist/publisher/growth.js'

const core = await loadCore()
const layout = { records: 1, recordBytes: 32, partitions: 16, partitionRecords: 1, blockRecords: 1 }
const small: Size = { ...layout, keyed: true, directoryBytes: 100, directoryBlockLog: 7 }

function pays(change: Partial<Size>): boolean {
  return whyGenerationPays(core, { ...small, ...change }) !== undefined
}

test.each<[string, Partial<Size>, boolean]>([
  ['20 partitions where 16 would do', { partitions: 20, partitionRecords: 63, records: 1260 }, false],
  ['21 partitions where 16 would do', { partitions: 21, partitionRecords: 63, records: 1261 }, true],
  ['the same in a sharded database', { partitions: 21, partitionRecords: 63, records: 1261, shards: 4 }, false],
  // M is at its most: nothing else would do for so many records.
  ['a hundred full partitions', { partitions: 100, partitionRecords: 65_536, records: 6_553_600 }, false],
  ['a hundred full partitions, with room', { partitions: 100, partitionRecords: 65_536, records: 1_000_000 }, false],
  ['25 % more than the plan', { partitions: 100, partitionRecords: 52_400, records: 5_240_000 }, false],
  ['26 % more than the plan', { partitions: 101, partitionRecords: 51_900, records: 5_241_900 }, true],
])('%s', (_, change, expected) => {
  expect(pays(change)).toBe(expected)
  expect(pays({ ...change, keyed: false, directoryBytes: 0 })).toBe(expected)
})

test.each<[string, Partial<Size>, boolean]>([
  ['1000 added keys among few', { records: 2000, directoryBytes: 1_500 + 2_048 + 20_000 }, false],
  ['more added keys among few', { records: 2000, directoryBytes: 1_500 + 2_048 + 20_001 }, true],
  [
    'as many bytes again as a million keys have',
    { records: 1_000_000, directoryBlockLog: 13, directoryBytes: 1_881_072 },
    false,
  ],
  ['more than those', { records: 1_000_000, directoryBlockLog: 13, directoryBytes: 1_881_073 }, true],
  ['no keys', { records: 2000, directoryBytes: 100_000, keyed: false }, false],
])('a directory of %s', (_, change, expected) => {
  expect(pays({ partitions: 16, partitionRecords: 65_536, ...change })).toBe(expected)
})

test('never of a generation just begun, whatever room it has', () => {
  const keys = Array.from({ length: 300_000 }, (_, i) => `${i}`)
  const ends = new Uint32Array(keys.length)
  keys.forEach((key, i) => {
    ends[i] = (ends[i - 1] ?? 0) + key.length
  })
  const prints = core.fingerprints(Buffer.from(keys.join('')), ends)
  for (const records of [1, 15, 16, 17, 1000, 65_536, 300_000]) {
    for (const recordBytes of [1, 32, 100]) {
      for (const headroom of [0, defaultHeadroom({ records }), records * 3]) {
        const layout = core.planLayout(records + headroom, recordBytes)
        const { partitions, partitionRecords } = layout
        const directory = core.buildDirectory(prints.subarray(0, 16 * records), partitions * partitionRecords)
        const { length: directoryBytes } = directory.encode()
        const { blockLog: directoryBlockLog } = directory
        directory.free()
        const size = { records, recordBytes, partitions, partitionRecords, directoryBytes, directoryBlockLog }
        expect(pays(size)).toBe(false)
      }
    }
  }
})
