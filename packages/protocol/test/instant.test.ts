// Requests and answers of instant lookups: what one encodes the other reads, and every header that is not exactly the one
// expected is refused.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  decodeInstantAnswer,
  decodeInstantQuery,
  encodeAnswer,
  encodeInstantAnswer,
  encodeInstantQuery,
  encodeQuery,
  HEADER_BYTES,
  hasInstant,
  instantCommitments,
  instantLayout,
  WireError,
} from '../src/index.js'
import { bytesOf, smallManifests } from './arbitraries.js'

const EACH = 33
const exchanges = fc
  .record({
    manifest: smallManifests,
    of: fc.constantFrom('records' as const, 'directory' as const),
    count: fc.integer({ min: 1, max: 64 }),
  })
  .chain(({ manifest, of, count }) => bytesOf(count * EACH).map(body => ({ manifest, of, count, body })))

describe('an instant lookup', () => {
  test('is read as it was written, both ways', () => {
    fc.assert(
      fc.property(exchanges, ({ manifest, of, count, body }) => {
        const { databaseId, generation, epoch, partitions } = manifest
        const query = decodeInstantQuery(encodeInstantQuery(manifest, of, count, body))
        expect(query).toEqual({
          suite: of === 'records' ? 4 : 5,
          of,
          databaseId,
          generation,
          epoch,
          partitions,
          count,
          queries: body,
        })
        const answer = encodeInstantAnswer(manifest, of, count, body)
        expect(answer.length).toBe(HEADER_BYTES + body.length)
        expect(decodeInstantAnswer(manifest, of, count, EACH, answer)).toEqual(body)
      }),
    )
  })

  test('with any byte of its header changed, or another length, is no answer', () => {
    fc.assert(
      fc.property(exchanges, fc.integer({ min: 1, max: 255 }), ({ manifest, of, count, body }, change) => {
        const answer = encodeInstantAnswer(manifest, of, count, body)
        for (let at = 0; at < HEADER_BYTES; at++) {
          const wrong = answer.slice()
          wrong[at]! ^= change
          expect(() => decodeInstantAnswer(manifest, of, count, EACH, wrong), `byte ${at}`).toThrow(WireError)
        }
        for (const wrong of [answer.subarray(0, -1), Uint8Array.of(...answer, 0), answer.subarray(0, 39)]) {
          expect(() => decodeInstantAnswer(manifest, of, count, EACH, wrong)).toThrow(WireError)
        }
      }),
      { numRuns: 20 },
    )
  })

  test('is no other lookup, and none of those is one', () => {
    fc.assert(
      fc.property(smallManifests, manifest => {
        const entries = new Uint8Array(encodedEntries(manifest))
        const query = encodeQuery(manifest, 1, new Uint8Array(2 * manifest.partitions))
        expect(() => decodeInstantQuery(query)).toThrow(/suite: expected 4/)
        const answer = encodeAnswer(manifest, 1, entries)
        expect(() => decodeInstantAnswer(manifest, 'records', 1, entries.length, answer)).toThrow(/suite: expected 4/)
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

  test('of a block of the directory is none of a record, and the other way round', () => {
    fc.assert(
      fc.property(exchanges, ({ manifest, of, count, body }) => {
        const other = of === 'records' ? 'directory' : 'records'
        const answer = encodeInstantAnswer(manifest, other, count, body)
        expect(() => decodeInstantAnswer(manifest, of, count, EACH, answer)).toThrow(/answer suite/)
        expect(decodeInstantQuery(encodeInstantQuery(manifest, other, count, body)).of).toBe(other)
      }),
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
