// Requests and answers of instant lookups: what one encodes the other reads, and every header that is not exactly the one
// expected is refused.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  decodeInstantAnswer,
  decodeInstantQuery,
  encodeAnswer,
  encodeInstantQuery,
  encodeQuery,
  hasInstant,
  instantCommitments,
  instantLayout,
  SUITE_INSTANT,
} from '../src/index.js'
import { smallManifests } from './arbitraries.js'

const EACH = 33
const OTHER_SUITE = `suite: expected ${SUITE_INSTANT}`
describe('an instant lookup', () => {
  test('is no other lookup, and none of those is one', () => {
    fc.assert(
      fc.property(smallManifests, manifest => {
        const entries = new Uint8Array(encodedEntries(manifest))
        const query = encodeQuery(manifest, 1, new Uint8Array(2 * manifest.partitions))
        expect(() => decodeInstantQuery(query)).toThrow(OTHER_SUITE)
        const answer = encodeAnswer(manifest, 1, entries)
        expect(() => decodeInstantAnswer(manifest, 'records', 1, entries.length, answer)).toThrow(OTHER_SUITE)
      }),
    )
  })

  test.each([0, 65])('does not ask %i times', count => {
    fc.assert(
      fc.property(smallManifests, manifest => {
        expect(() => encodeInstantQuery(manifest, 'records', count, new Uint8Array(EACH * count))).toThrow(/count/)
      }),
      { numRuns: 5 },
    )
  })

  test('of blocks is of as many as the manifest says, in one partition', () => {
    fc.assert(
      fc.property(smallManifests, manifest => {
        const blocks = 2 ** manifest.directoryBlockLog
        const layout = {
          records: blocks,
          recordBytes: manifest.directoryBlockBytes,
          partitions: 1,
          partitionRecords: blocks,
          blockRecords: 1,
        }
        expect(instantLayout(manifest, 'directory')).toEqual(layout)
        expect(instantCommitments(manifest, 'directory')).toBe(manifest.directoryCommitment)
        expect(instantLayout(manifest, 'records')).toBe(manifest)
        expect(instantCommitments(manifest, 'records')).toBe(manifest.commitments)
      }),
      { numRuns: 20 },
    )
  })

  test('is of databases with commitments', () => {
    expect([1, 2].map(suite => hasInstant({ suite }))).toEqual([true, false])
  })
})

function encodedEntries({ blockRecords = 1, ...manifest }: Parameters<typeof encodeAnswer>[0]): number {
  const depth = 32 - Math.clz32(manifest.partitionRecords / blockRecords - 1)
  return manifest.partitions * (manifest.recordBytes * blockRecords + (manifest.suite === 2 ? 0 : 32 * depth))
}
