import { describe, expect, test } from 'vitest'
import { answerBytes, depth, entryBytes, partitionBytes, proofBytes, queryBytes } from '../src/index.js'

const layout = (recordBytes: number, partitions: number, partitionRecords: number) => ({
  recordBytes,
  partitions,
  partitionRecords,
})

describe('sizes', () => {
  test('depth is ⌈log2 M⌉ at every boundary', () => {
    for (let bits = 0; bits <= 16; bits++) {
      expect(depth(layout(1, 1, 2 ** bits))).toBe(bits)
      if (bits > 0 && bits < 16) expect(depth(layout(1, 1, 2 ** bits + 1))).toBe(bits + 1)
      if (bits > 1) expect(depth(layout(1, 1, 2 ** bits - 1))).toBe(bits)
    }
  })

  test('of a million records of 32 bytes are those of docs/protocol.md', () => {
    const million = layout(32, 16, 65_536)
    expect([proofBytes(million), entryBytes(million), partitionBytes(million)]).toEqual([512, 544, 2_097_152])
    expect([queryBytes(million, 1), answerBytes(million, 1)]).toEqual([40 + 32, 40 + 8704])
    expect([queryBytes(million, 8), answerBytes(million, 8)]).toEqual([40 + 256, 40 + 69_632])
  })

  test('with tags an entry is its record, and a lookup of a million small records stays within 1.3 KiB', () => {
    const million = layout(32, 16, 65_536)
    expect([proofBytes(million, 'tags'), entryBytes(million, 'tags')]).toEqual([0, 32])
    const both = 2 * (queryBytes(million, 1) + answerBytes(million, 1, 'tags'))
    expect(both).toBe(2 * (40 + 2 * 16) + 2 * (40 + 16 * 32))
    expect(both).toBeLessThanOrEqual(1.3 * 1024)
  })

  test('where no kind of proof is named it is that of the suite, Merkle without one', () => {
    const [plain, one, two] = [{}, { suite: 1 }, { suite: 2 }].map(suite => ({ ...layout(32, 16, 256), ...suite }))
    for (const sizes of [proofBytes, entryBytes]) {
      expect([sizes(plain!), sizes(one!)]).toEqual([sizes(plain!, 'merkle'), sizes(plain!, 'merkle')])
      expect(sizes(two!)).toBe(sizes(plain!, 'tags'))
    }
    expect(answerBytes(two!, 3)).toBe(answerBytes(one!, 3, 'tags'))
  })
})
