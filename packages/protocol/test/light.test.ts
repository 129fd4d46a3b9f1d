// Requests and replies of light hints: what one encodes the other reads, and every header and length that is not exactly
// the one expected is refused.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  decodeInstantQuery,
  decodeLightReply,
  decodeLightRequest,
  decodeQuery,
  encodeLightReply,
  encodeLightRequest,
  HEADER_BYTES,
  hasLight,
  lightReplyBytes,
  lightRequestBytes,
  WireError,
} from '../src/index.js'
import { bytesOf, smallManifests } from './arbitraries.js'

const parts = fc.constantFrom('hint', 'tags')
const exchanges = fc.record({ manifest: smallManifests, part: parts }).chain(({ manifest, part }) =>
  fc
    .tuple(
      bytesOf(lightRequestBytes(part) - HEADER_BYTES),
      bytesOf(Math.min(20_000, lightReplyBytes(part, manifest) - HEADER_BYTES)),
    )
    .map(([secrets, start]) => {
      const body = new Uint8Array(lightReplyBytes(part, manifest) - HEADER_BYTES)
      body.set(start)
      return { manifest, part, secrets, body }
    }),
)

describe('a light hint', () => {
  test('is asked for and replied as it was written', () => {
    fc.assert(
      fc.property(exchanges, ({ manifest, part, secrets, body }) => {
        const { databaseId, generation, epoch, partitions, partitionRecords, recordBytes, blockRecords } = manifest
        const request = encodeLightRequest(part, manifest, secrets)
        const header = { suite: 1, databaseId, generation, epoch, partitions, count: 0 }
        expect(decodeLightRequest(part, request)).toEqual({ ...header, secrets })
        const reply = encodeLightReply(part, manifest, body)
        expect(reply.length).toBe(
          HEADER_BYTES +
            (part === 'hint'
              ? (partitionRecords + 64 * blockRecords) * recordBytes
              : (8 * partitions * partitionRecords) / blockRecords),
        )
        expect(Buffer.compare(decodeLightReply(part, manifest, reply), body)).toBe(0)
      }),
    )
  })

  test('with any byte of a header changed, or another length, is none', () => {
    fc.assert(
      fc.property(exchanges, fc.integer({ min: 1, max: 255 }), ({ manifest, part, secrets, body }, change) => {
        const reply = encodeLightReply(part, manifest, body)
        const request = encodeLightRequest(part, manifest, secrets)
        for (let at = 0; at < HEADER_BYTES; at++) {
          reply[at]! ^= change
          expect(() => decodeLightReply(part, manifest, reply), `byte ${at}`).toThrow(WireError)
          reply[at]! ^= change
          // What a server has to look up itself.
          if (at >= 8 && at < 36) continue
          request[at]! ^= change
          expect(() => decodeLightRequest(part, request), `byte ${at}`).toThrow(WireError)
          request[at]! ^= change
        }
        for (const wrong of [reply.subarray(0, -1), Buffer.concat([reply, Buffer.alloc(1)]), reply.subarray(0, 39)]) {
          expect(() => decodeLightReply(part, manifest, wrong)).toThrow(WireError)
        }
        for (const wrong of [request.subarray(0, -1), Buffer.concat([request, Buffer.alloc(1)])]) {
          expect(() => decodeLightRequest(part, wrong)).toThrow(WireError)
        }
        expect(() => encodeLightRequest(part, manifest, secrets.subarray(1))).toThrow(WireError)
      }),
      { numRuns: 20 },
    )
  })

  test('is neither of the other part nor a lookup', () => {
    fc.assert(
      fc.property(exchanges, ({ manifest, part, secrets, body }) => {
        const other = part === 'hint' ? 'tags' : 'hint'
        const request = encodeLightRequest(part, manifest, secrets)
        for (const decode of [decodeQuery, decodeInstantQuery]) expect(() => decode(request)).toThrow(WireError)
        expect(() => decodeLightRequest(other, request)).toThrow(/magic/)
        expect(() => decodeLightReply(other, manifest, encodeLightReply(part, manifest, body))).toThrow(/magic/)
        expect(() => decodeLightReply(part, manifest, request)).toThrow(/magic/)
      }),
      { numRuns: 20 },
    )
  })

  test('is of databases with commitments', () => {
    expect([1, 2].map(suite => hasLight({ suite }))).toEqual([true, false])
  })
})
