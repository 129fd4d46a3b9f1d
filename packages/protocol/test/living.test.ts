// What a database that changes adds to the wire: the fence, batches, events, statuses and what is signed.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  BATCH_ENCODINGS,
  decodeBatch,
  decodeFenceReply,
  decodeFenceRequest,
  encodeBatch,
  encodeEvent,
  encodeFenceReply,
  encodeFenceRequest,
  parseEpochStatus,
  parseEvent,
  signedBytes,
  WireError,
} from '../src/index.js'
import { bytesOf, holdToLaw } from './arbitraries.js'

const confirmations = fc.record({
  kind: fc.constant('confirm' as const),
  databaseId: bytesOf(16),
  hintId: bytesOf(16),
  version: fc.oneof(fc.constantFrom(0, Number.MAX_SAFE_INTEGER), fc.maxSafeNat()),
  requestHash: bytesOf(32),
})
const registrations = confirmations.map(request => ({
  ...request,
  ...{ kind: 'register' as const, version: 0, requestHash: new Uint8Array(32) },
}))

describe('the fence', () => {
  test('requests are 80 bytes, and are refused or canonical', () => {
    fc.assert(
      fc.property(fc.oneof(confirmations, registrations), request => {
        const bytes = encodeFenceRequest(request)
        expect(bytes.length).toBe(80)
        expect(decodeFenceRequest(bytes)).toEqual(request)
        holdToLaw(decodeFenceRequest, encodeFenceRequest, bytes)
      }),
    )
  })

  test('replies are 8 bytes, and are refused or canonical', () => {
    for (const verdict of ['granted', 'refused'] as const) {
      expect(encodeFenceReply(verdict).length).toBe(8)
      expect(decodeFenceReply(encodeFenceReply(verdict))).toBe(verdict)
      holdToLaw(decodeFenceReply, encodeFenceReply, encodeFenceReply(verdict))
    }
  })

  test('a registration has neither version nor request', () => {
    const [request] = fc.sample(registrations, { numRuns: 1, seed: 1 })
    expect(() => encodeFenceRequest({ ...request!, version: 1 })).toThrow(WireError)
    expect(() => encodeFenceRequest({ ...request!, requestHash: new Uint8Array(32).fill(1) })).toThrow(WireError)
  })
})

test('batches are refused or canonical', () => {
  const batches = fc.record({
    encoding: fc.constantFrom(...BATCH_ENCODINGS),
    databaseId: bytesOf(16),
    generation: fc.constantFrom(1, 2),
    epoch: fc.constantFrom(2, 3, 0xffff_ffff),
    expires: fc.oneof(fc.constant(0), fc.maxSafeNat()),
    previousManifest: bytesOf(32).filter(bytes => bytes.some(byte => byte !== 0)),
    operations: fc.uint8Array({ maxLength: 40 }),
  })
  fc.assert(
    fc.property(batches, batch => {
      const bytes = encodeBatch(batch)
      expect(bytes.length).toBe(72 + batch.operations.length)
      expect(decodeBatch(bytes)).toEqual(batch)
      // Truncations within the operations are other batches.
      holdToLaw(decodeBatch, encodeBatch, bytes)
    }),
  )
})

describe('an event', () => {
  test('is a line of 48 bytes, whatever it says', () => {
    for (const event of [
      { generation: 1, epoch: 1 },
      { generation: 0xffff_ffff, epoch: 0xffff_ffff },
    ]) {
      const line = encodeEvent(event)
      expect(new TextEncoder().encode(line).length).toBe(48)
      expect(line.endsWith('\n')).toBe(true)
      expect(parseEvent(line)).toEqual(event)
      expect(parseEvent(line.slice(0, -1))).toEqual(event)
    }
  })

  test.each([
    '',
    '{}',
    '{"generation":2,"epoch":1}',
    '{"generation":0,"epoch":1}',
    '{"generation":1,"epoch":4294967296}',
  ])('refuses %j', line => {
    expect(() => parseEvent(line)).toThrow(WireError)
  })
})

test("an epoch's status is read as it was written", () => {
  const status = { generation: 1, epoch: 2, manifest: 'ab'.repeat(32), batch: 'cd'.repeat(32), changes: 3 }
  expect(parseEpochStatus(status)).toEqual(status)
  expect(parseEpochStatus({ ...status, batch: '', changes: 0 })).toEqual({ ...status, batch: '', changes: 0 })
  for (const wrong of [{ batch: 'ab' }, { changes: -1 }, { epoch: 0 }, { manifest: '' }]) {
    expect(() => parseEpochStatus({ ...status, ...wrong })).toThrow(WireError)
  }
})

test('what is signed begins with its purpose', () => {
  const text = new TextDecoder().decode(signedBytes(new TextEncoder().encode('PIRM…')))
  expect(text).toBe('keyhush 2026-11 manifest signature v1PIRM…')
})
