// When a new generation pays (docs/operations.md, Growth): both sides of each threshold, and that the layout it leads to
// is never one that calls for another.

import { loadCore } from '@pirouette/wasm'
import { expect, test } from 'vitest'
import { defaultHeadroom, type Size, whyGenerationPays } from '../dist/publisher/growth.js'

const core = await loadCore()
const layout = { records: 1, recordBytes: 32, partitions: 16, partitionRecords: 1, blockRecords: 1 }
const small: Size = { ...layout, keyed: true, directoryBytes: 100 }

function pays(change: Partial<Size>): boolean {
  return whyGenerationPays(core, { ...small, ...change }) !== undefined
}

test.each<[string, Partial<Size>, boolean]>([
  ['20 partitions where 16 would do', { partitions: 20, partitionRecords: 63, records: 1260 }, false],
  ['21 partitions where 16 would do', { partitions: 21, partitionRecords: 63, records: 1261 }, true],
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
  ['1000 added keys among few', { records: 2000, directoryBytes: 21_000 }, false],
  ['more added keys among few', { records: 2000, directoryBytes: 21_001 }, true],
  ['as many bytes again as a million keys have', { records: 1_000_000, directoryBytes: 1_500_000 }, false],
  ['more than those', { records: 1_000_000, directoryBytes: 1_500_001 }, true],
  ['no keys', { records: 2000, directoryBytes: 100_000, keyed: false }, false],
])('a directory of %s', (_, change, expected) => {
  expect(pays({ partitions: 16, partitionRecords: 65_536, ...change })).toBe(expected)
})

test('never of a generation just begun, whatever room it has', () => {
  for (const records of [1, 15, 16, 17, 1000, 65_536, 1_048_575, 1_048_577, 4_000_000]) {
    for (const recordBytes of [1, 32, 100]) {
      for (const headroom of [0, defaultHeadroom({ records }), records * 3]) {
        const layout = core.planLayout(records + headroom, recordBytes)
        const { partitions, partitionRecords } = layout
        // A fresh directory: 3.3 bits a key, and levels of at least 255 bits.
        const directoryBytes = Math.ceil(0.42 * records) + 1200
        expect(pays({ records, recordBytes, partitions, partitionRecords, directoryBytes })).toBe(false)
      }
    }
  }
})
