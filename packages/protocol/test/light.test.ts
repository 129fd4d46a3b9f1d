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
const kinds = fc.constantFrom('merkle', 'tags')
const exchanges = fc
  .record({ manifest: smallManifests, part: parts, proofs: kinds })
  .chain(({ manifest, part, proofs }) =>
    fc
      .tuple(
        bytesOf(lightRequestBytes(part, proofs) - HEADER_BYTES),
        bytesOf(Math.min(20_000, lightReplyBytes(part, manifest, proofs) - HEADER_BYTES)),
      )
      .map(([secrets, start]) => {
        const body = new Uint8Array(lightReplyBytes(part, manifest, proofs) - HEADER_BYTES)
        body.set(start)
        return { manifest, part, proofs, secrets, body }
      }),
  )

describe('a light hint', () => {
  test('is asked for and replied as it was written', () => {
    fc.assert(
      fc.property(exchanges, ({ manifest, part, proofs, secrets, body }) => {
        const { databaseId, generation, epoch, partitions, partitionRecords, recordBytes, blockRecords } = manifest
        const request = encodeLightRequest(part, manifest, secrets, proofs)
        const header = { suite: proofs === 'tags' ? 2 : 1, databaseId, generation, epoch, partitions, count: 0 }
        expect(decodeLightRequest(part, request)).toEqual({ ...header, proofs, secrets })
        const reply = encodeLightReply(part, manifest, body, proofs)
        const blocks = partitionRecords / blockRecords
        const sum = 8 * Math.ceil((recordBytes * blockRecords) / 8)
        expect(reply.length).toBe(
          HEADER_BYTES +
            (part === 'hint'
              ? partitionRecords * recordBytes + sum + (proofs === 'tags' ? 8 * (partitions - 1) * blocks : 0)
              : (proofs === 'tags' ? sum : 0) + 8 * partitions * blocks),
        )
        expect(Buffer.compare(decodeLightReply(part, manifest, reply, proofs), body)).toBe(0)
      }),
    )
  })

  test('with any byte of a header changed, or another length, is none', () => {
    fc.assert(
      fc.property(exchanges, fc.integer({ min: 1, max: 255 }), ({ manifest, part, proofs, secrets, body }, change) => {
        const reply = encodeLightReply(part, manifest, body, proofs)
        const request = encodeLightRequest(part, manifest, secrets, proofs)
        for (let at = 0; at < HEADER_BYTES; at++) {
          reply[at]! ^= change
          expect(() => decodeLightReply(part, manifest, reply, proofs), `byte ${at}`).toThrow(WireError)
          reply[at]! ^= change
          // What a server has to look up itself.
          if (at >= 8 && at < 36) continue
          request[at]! ^= change
          expect(() => decodeLightRequest(part, request), `byte ${at}`).toThrow(WireError)
          request[at]! ^= change
        }
        for (const wrong of [reply.subarray(0, -1), Buffer.concat([reply, Buffer.alloc(1)]), reply.subarray(0, 39)]) {
          expect(() => decodeLightReply(part, manifest, wrong, proofs)).toThrow(WireError)
        }
        for (const wrong of [request.subarray(0, -1), Buffer.concat([request, Buffer.alloc(1)])]) {
          expect(() => decodeLightRequest(part, wrong)).toThrow(WireError)
        }
        expect(() => encodeLightRequest(part, manifest, secrets.subarray(1), proofs)).toThrow(WireError)
      }),
      { numRuns: 20 },
    )
  })

  test('is neither of the other part nor a lookup', () => {
    fc.assert(
      fc.property(exchanges, ({ manifest, part, proofs, secrets, body }) => {
        const other = part === 'hint' ? 'tags' : 'hint'
        const request = encodeLightRequest(part, manifest, secrets, proofs)
        for (const decode of [decodeQuery, decodeInstantQuery]) expect(() => decode(request)).toThrow(WireError)
        expect(() => decodeLightRequest(other, request)).toThrow(/magic/)
        expect(() => decodeLightReply(other, manifest, encodeLightReply(part, manifest, body, proofs), proofs)).toThrow(
          /magic/,
        )
        expect(() => decodeLightReply(part, manifest, request, proofs)).toThrow(/magic/)
        // Nor of the other kind of hint.
        const kind = proofs === 'tags' ? 'merkle' : 'tags'
        expect(() => decodeLightReply(part, manifest, encodeLightReply(part, manifest, body, proofs), kind)).toThrow(
          /suite/,
        )
        expect(() => encodeLightRequest(part, manifest, secrets, kind)).toThrow(/secrets/)
      }),
      { numRuns: 20 },
    )
  })

  test('is of databases with commitments', () => {
    expect([1, 2].map(suite => hasLight({ suite }))).toEqual([true, false])
  })
})
