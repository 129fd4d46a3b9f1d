// The bytes of an evaluation, and how shares add up.

import { WireError } from '@keyhush/protocol'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeReply, decodeRequest, encodeReply, encodeRequest, replyBytes } from '../src/wire/messages.js'
import { combinationOf } from '../src/wire/shares.js'

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
const elements = fc.integer({ min: 2, max: 65 }).chain(count => bytes(32 * count))
const deal = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const request = fc.record({ databaseId: bytes(16), deal, elements, token: fc.uint8Array({ maxLength: 1024 }) })
const reply = fc.record({
  ...{ databaseId: bytes(16), elements },
  ...{ number: fc.integer({ min: 1, max: 8 }), deal: fc.integer({ min: 1, max: 2 ** 32 - 1 }) },
})

test('requests and replies are read as they were written; one key takes 96 bytes each way', () => {
  const same = <T>(arbitrary: fc.Arbitrary<T>, through: (each: T) => unknown) =>
    fc.assert(fc.property(arbitrary, each => void expect(through(each)).toEqual(each)))
  same(request, each => decodeRequest(encodeRequest(each)))
  same(reply, each => decodeReply(encodeReply(each)))
  const one = { databaseId: new Uint8Array(16), deal: 0, elements: new Uint8Array(64), token: new Uint8Array() }
  expect([encodeRequest(one).length, replyBytes(2)]).toEqual([96, 96])
})

describe('refused', () => {
  const good = encodeRequest({
    databaseId: new Uint8Array(16),
    deal: 0,
    elements: new Uint8Array(64),
    token: new Uint8Array(3),
  })
  const answer = encodeReply({ databaseId: new Uint8Array(16), deal: 1, number: 1, elements: new Uint8Array(64) })
  const changed = (from: Uint8Array, at: number, to: number) => {
    const copy = from.slice()
    copy[at] = to
    return copy
  }

  test.each<[string, () => unknown]>([
    ['a request of another magic', () => decodeRequest(changed(good, 3, 0))],
    ['a request of another format', () => decodeRequest(changed(good, 4, 2))],
    ['a request of one element', () => decodeRequest(changed(good, 6, 1))],
    ['a request of 66 elements', () => decodeRequest(changed(good, 6, 66))],
    ['a request with a longer token than it has', () => decodeRequest(changed(good, 24, 4))],
    ['a token of more than 1024 bytes', () => decodeRequest(changed(good, 25, 8))],
    ['unused bytes of a request', () => decodeRequest(changed(good, 31, 1))],
    ['a request that is cut', () => decodeRequest(good.subarray(0, -1))],
    ['a request that goes on', () => decodeRequest(Uint8Array.from([...good, 0]))],
    ['a request without a header', () => decodeRequest(new Uint8Array())],
    ['a reply of another magic', () => decodeReply(changed(answer, 0, 0))],
    ['share number 0', () => decodeReply(changed(answer, 8, 0))],
    ['share number 9', () => decodeReply(changed(answer, 8, 9))],
    ['deal 0', () => decodeReply(changed(answer, 12, 0))],
    ['unused bytes of a reply', () => decodeReply(changed(answer, 9, 1))],
    ['a reply that is cut', () => decodeReply(answer.subarray(0, -1))],
    [
      'no elements',
      () => encodeReply({ databaseId: new Uint8Array(16), deal: 1, number: 1, elements: new Uint8Array() }),
    ],
  ])('%s', (_, read) => {
    expect(read).toThrow(WireError)
  })
})

test('any shares of a polynomial that suffice add up to its value at 0, with whole numbers up to 448', () => {
  let largest = 0
  for (let set = 1; set < 2 ** 8; set++) {
    const numbers = [1, 2, 3, 4, 5, 6, 7, 8].filter(number => (set >> (number - 1)) & 1)
    const { scale, weights } = combinationOf(numbers)
    // A polynomial of the highest degree for so many shares.
    const valueAt = (at: number) =>
      numbers.reduce((sum, _, power) => sum + BigInt(power + 3) * BigInt(at) ** BigInt(power), 0n)
    const sum = numbers.reduce((sum, number, i) => sum + BigInt(weights[i]!) * valueAt(number), 0n)
    expect(sum).toBe(BigInt(scale) * valueAt(0))
    largest = Math.max(largest, ...weights.map(Math.abs))
  }
  expect(largest).toBe(448)
})
