// Queries of suite 3 and their answers: what one encodes the other reads, with a claim behind it or without, and every header
// and length that is not exactly the one expected is refused.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  decodeClaimedQuery,
  decodeParities,
  decodeQuery,
  encodeAnswerTo,
  encodeParityQuery,
  FENCE_REQUEST_BYTES,
  HEADER_BYTES,
  parityAnswerBytes,
  WireError,
  withClaim,
} from '../src/index.js'
import { bytesOf, smallManifests } from './arbitraries.js'

const exchanges = fc
  .record({ manifest: smallManifests, each: fc.integer({ min: 1, max: 200 }), count: fc.integer({ min: 1, max: 4 }) })
  .chain(({ manifest, each, count: wanted }) => {
    const count = Math.min(wanted, manifest.maxQueries)
    return fc
      .tuple(bytesOf(count * each), bytesOf(parityAnswerBytes(manifest, count) - HEADER_BYTES))
      .map(([queries, parities]) => ({ manifest, each, count, queries, parities }))
  })

describe('a lookup with one server', () => {
  test('is asked and answered as it was written', () => {
    fc.assert(
      fc.property(exchanges, ({ manifest, each, count, queries, parities }) => {
        const { databaseId, generation, epoch, partitions } = manifest
        const body = encodeParityQuery(manifest, count, queries)
        const header = { suite: 3, databaseId, generation, epoch, partitions, count }
        const bytes = () => each
        expect(decodeClaimedQuery(body, bytes)).toEqual({ query: { ...header, vectors: queries }, claim: undefined })
        const claim = { databaseId, version: 7, requestHash: new Uint8Array(32).fill(1) }
        const claimed = withClaim(body, { ...claim, hintId: new Uint8Array(16).fill(2) })
        expect(claimed.length).toBe(body.length + FENCE_REQUEST_BYTES)
        const read = decodeClaimedQuery(claimed, bytes)
        expect(read.query.vectors).toEqual(queries)
        expect(read.claim?.version).toBe(7)
        const answer = encodeAnswerTo({ suite: 3, count }, manifest, parities)
        expect(decodeParities(manifest, count, answer)).toEqual(parities)
      }),
      { numRuns: 50 },
    )
  })

  test('with any byte of its header changed, or another length, is none', () => {
    fc.assert(
      fc.property(exchanges, fc.integer({ min: 1, max: 255 }), (exchange, change) => {
        const { manifest, each, count, queries, parities } = exchange
        const answer = encodeAnswerTo({ suite: 3, count }, manifest, parities)
        for (let at = 0; at < HEADER_BYTES; at++) {
          const changed = answer.slice()
          changed[at]! ^= change
          expect(() => decodeParities(manifest, count, changed)).toThrow(WireError)
        }
        const body = encodeParityQuery(manifest, count, queries)
        const bytes = () => each
        expect(() => decodeParities(manifest, count, answer.subarray(1))).toThrow(WireError)
        expect(() => decodeParities(manifest, count, Uint8Array.from([...answer, 0]))).toThrow(WireError)
        expect(() => decodeClaimedQuery(body.subarray(0, -1), bytes)).toThrow(WireError)
        expect(() => decodeClaimedQuery(Uint8Array.from([...body, 0]), bytes)).toThrow(WireError)
        // Who does not say how long a query is reads none of them.
        expect(() => decodeClaimedQuery(body)).toThrow(WireError)
        expect(() => decodeQuery(body)).toThrow(WireError)
        expect(() => encodeParityQuery(manifest, 0, queries)).toThrow(WireError)
        expect(() => encodeParityQuery(manifest, manifest.maxQueries + 1, queries)).toThrow(WireError)
      }),
      { numRuns: 20 },
    )
  })
})
