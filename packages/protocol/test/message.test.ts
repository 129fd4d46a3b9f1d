// What is made of queries, claims and answers before they leave. What is read of them is held to tests/interop/vectors/wire.json,
// and to any bytes in decoders.test.ts.

import { describe, expect, test } from 'vitest'
import {
  answerBytes,
  decodeAnswer,
  decodeClaimedQuery,
  decodeQuery,
  encodeAnswer,
  encodeQuery,
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  HEADER_BYTES,
  type Manifest,
  proofsIn,
  splitVerdict,
  WireError,
  withClaim,
  withVerdict,
} from '../src/index.js'
import { keyless } from './manifests.js'

const vectors = Uint8Array.from({ length: 2 * keyless.partitions }, (_, i) => i)
const query = encodeQuery(keyless, 1, vectors)
const claim = {
  databaseId: keyless.databaseId,
  hintId: new Uint8Array(16).fill(1),
  version: 3,
  requestHash: new Uint8Array(32).fill(2),
}

describe('a query', () => {
  test.each([0, -1, 1.5, 65])('of count %d is refused', count => {
    expect(() => encodeQuery(keyless, count, vectors)).toThrow(WireError)
  })

  test('for proofs that the database has not is for the server to refuse', () => {
    expect(proofsIn({ suite: 2 } as Manifest, { suite: 1 })).toBeUndefined()
    expect(proofsIn({ suite: 1 } as Manifest, { suite: 3 })).toBeUndefined()
  })
})

describe('a claim', () => {
  test.each<[string, Partial<typeof claim>]>([
    ['a version below 0', { version: -1 }],
    ['a version of 2^53', { version: 2 ** 53 }],
    ['half a version', { version: 0.5 }],
    ['a short id', { hintId: new Uint8Array(15) }],
    ['a long hash', { requestHash: new Uint8Array(33) }],
    ['no database', { databaseId: new Uint8Array(0) }],
  ])('is not made of %s', (_, wrong) => {
    expect(() => withClaim(query, { ...claim, ...wrong })).toThrow(WireError)
  })

  test('is behind a query of the one length there is', () => {
    const bytes = withClaim(query, claim)
    expect(bytes.length).toBe(query.length + FENCE_REQUEST_BYTES)
    const longer = Uint8Array.from([...bytes, ...bytes])
    for (let length = 0; length <= longer.length; length++) {
      const decode = () => decodeClaimedQuery(longer.subarray(0, length)).claim
      if (length === query.length) expect(decode()).toBeUndefined()
      else if (length === bytes.length) expect(decode()).toEqual(claim)
      else expect(decode, `${length} of ${bytes.length}`).toThrow(WireError)
    }
  })
})

test.each([
  ['no partitions', 32, 36],
  ['no queries', 36, 38],
])('a query of %s is none, with a claim behind it or without', (_, from, to) => {
  const head = query.slice(0, HEADER_BYTES).fill(0, from, to)
  expect(() => decodeQuery(head)).toThrow(WireError)
  expect(() => decodeClaimedQuery(withClaim(head, claim))).toThrow(WireError)
})

test('an answer and a verdict have one length: no part of them, and nothing with bytes before or behind, is any', () => {
  const entries = new Uint8Array(answerBytes(keyless, 1) - HEADER_BYTES).fill(5)
  const bytes = withVerdict(encodeAnswer(keyless, 1, entries), 'granted')
  expect(bytes.length).toBe(answerBytes(keyless, 1) + FENCE_REPLY_BYTES)
  const read = (reply: Uint8Array) => () => decodeAnswer(keyless, 1, splitVerdict(reply).answer)
  expect(read(bytes)()).toEqual(entries)
  for (let length = 0; length < bytes.length; length++) expect(read(bytes.subarray(0, length))).toThrow(WireError)
  expect(read(Uint8Array.from([...bytes, 0]))).toThrow(WireError)
  expect(read(Uint8Array.from([0, ...bytes]))).toThrow(WireError)
  expect(read(withVerdict(bytes, 'granted'))).toThrow(/answer length/)
})

test('what is read is not copied', () => {
  expect(decodeQuery(query).vectors.buffer).toBe(query.buffer)
  const answer = encodeAnswer(keyless, 1, new Uint8Array(answerBytes(keyless, 1) - HEADER_BYTES))
  expect(decodeAnswer(keyless, 1, answer).buffer).toBe(answer.buffer)
})
