// What a database that changes adds to the wire: the fence, batches, events, statuses and what is signed.

import { describe, expect, test } from 'vitest'
import { encodeEvent, encodeFenceRequest, parseEpochStatus, parseEvent, signedBytes, WireError } from '../src/index.js'

describe('the fence', () => {
  test('a registration has neither version nor request', () => {
    const [databaseId, hintId, requestHash] = [new Uint8Array(16), new Uint8Array(16), new Uint8Array(32)]
    const request = { kind: 'register', databaseId, hintId, version: 0, requestHash } as const
    expect(encodeFenceRequest(request).length).toBe(80)
    expect(() => encodeFenceRequest({ ...request, version: 1 })).toThrow(WireError)
    expect(() => encodeFenceRequest({ ...request, requestHash: requestHash.fill(1) })).toThrow(WireError)
  })
})

describe('an event', () => {
  test('is a line of 96 bytes, whatever it says', () => {
    for (const event of [
      { databaseId: new Uint8Array(16), generation: 1, epoch: 1 },
      { databaseId: new Uint8Array(16).fill(0xff), generation: 0xffff_ffff, epoch: 0xffff_ffff },
    ]) {
      const line = encodeEvent(event)
      expect(new TextEncoder().encode(line).length).toBe(96)
      expect(line.endsWith('\n')).toBe(true)
      expect(parseEvent(line)).toEqual(event)
      expect(parseEvent(line.slice(0, -1))).toEqual(event)
    }
  })

  test.each([
    '',
    '{}',
    '{"generation":1,"epoch":1}',
    `{"database":"${'AB'.repeat(16)}","generation":1,"epoch":1}`,
    ...['2,"epoch":1', '0,"epoch":1', '1,"epoch":4294967296'].map(
      rest => `{"database":"${'ab'.repeat(16)}","generation":${rest}}`,
    ),
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
