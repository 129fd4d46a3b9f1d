// Holds the WebAssembly of owners and evaluators to the shared vectors, and to the independent reference on random bytes.

import { bytesToHex as hex, hexToBytes as unhex } from '@noble/hashes/utils.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import * as reference from '../../../tests/interop/reference/confidential.js'
import { littleEndian } from '../../../tests/interop/reference/ristretto255.js'
import vectors from '../../../tests/interop/vectors/confidential.json' with { type: 'json' }
import { loadSecrets } from '../src/server/module.js'
import { inputOf, opened } from '../src/wire/derive.js'
import { decodeReply, decodeRequest, UNLOCK } from '../src/wire/messages.js'

const { SecretHandle, deal, recover } = await loadSecrets()
const { list, priced, evaluations, refused } = vectors
const secret = new SecretHandle(unhex(list.secret))
const entryOf = (...given: Parameters<typeof secret.entry>) => {
  const entry = Buffer.from(secret.entry(...given))
  return { listKey: entry.toString('latin1', 0, 65), sealed: entry.toString('hex', 65) }
}

test('an owner has the evaluation key of the vectors, and makes their entries', () => {
  expect(hex(secret.publicKey())).toBe(list.evaluationKey)
  for (const { key, value, fresh, listKey, sealed } of list.entries) {
    expect(entryOf(unhex(key), unhex(value), unhex(fresh), list.valueBytes)).toEqual({ listKey, sealed })
    expect(entryOf(unhex(key), undefined, unhex(fresh), list.valueBytes)).toEqual({ listKey, sealed: '' })
  }
})

test.each(evaluations)('$atLeast of $evaluators: shares are dealt, multiply, and are put together the same', vector => {
  // A coefficient is 64 random bytes, reduced.
  const entropy = vector.coefficients.slice(1).map(each => each.padEnd(128, '0'))
  expect(hex(deal(unhex(list.secret), vector.evaluators, unhex(entropy.join(''))))).toBe(vector.shares.join(''))
  const { elements } = decodeRequest(unhex(vector.request))
  for (const [i, reply] of vector.replies.entries()) {
    const products = new SecretHandle(unhex(vector.shares[i]!)).multiply(elements)
    expect(hex(products)).toBe(hex(decodeReply(unhex(reply)).elements))
  }
  for (const { numbers } of vector.sets) {
    const shares = numbers.map(own => vector.shares[own - 1]!).join('')
    expect(hex(recover(Uint8Array.from(numbers), unhex(shares)))).toBe(list.secret)
  }
})

test('an owner prices values as the vectors have them', () => {
  const unlocking = new SecretHandle(unhex(priced.secret))
  for (const { key, value, fresh, sealed } of priced.entries) {
    expect(hex(unlocking.priced(unhex(key), unhex(value), unhex(fresh), priced.valueBytes))).toBe(sealed)
  }
  for (const [i, reply] of priced.unlock.replies.entries()) {
    const { elements } = decodeRequest(unhex(priced.unlock.request), UNLOCK)
    const products = new SecretHandle(unhex(priced.unlock.shares[i]!)).multiply(elements)
    expect(hex(products)).toBe(hex(decodeReply(unhex(reply), UNLOCK).elements))
  }
})

test('an evaluator refuses what is malformed', () => {
  for (const { because, bytes } of refused.filter(({ kind }) => kind === 'request')) {
    const read = () => secret.multiply(decodeRequest(unhex(bytes)).elements)
    expect(read, because).toThrow()
  }
})

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })

test('random entries and elements are the same in the reference', () => {
  const entry = fc.record({
    key: fc.uint8Array({ minLength: 1, maxLength: 400 }),
    value: fc.uint8Array({ maxLength: list.valueBytes }),
    ...{ fresh: bytes(8), entropy: bytes(32), share: fc.constantFrom(...evaluations.flatMap(({ shares }) => shares)) },
  })
  fc.assert(
    fc.property(entry, ({ key, value, fresh, entropy, share }) => {
      const input = inputOf(key)
      const y = reference.evaluate(littleEndian(unhex(list.secret)), input)
      const sealed = reference.seal(y, value, fresh, list.valueBytes)
      const expected = { listKey: reference.listKey(y), sealed: hex(sealed) }
      expect(entryOf(key, value, fresh, list.valueBytes)).toEqual(expected)
      expect([opened(y, sealed)!, reference.unseal(y, sealed)].map(hex)).toEqual([hex(value), hex(value)])

      const asked = {
        ...{ databaseId: unhex(list.databaseId), deal: 1, token: new Uint8Array() },
        elements: reference.ask([input], reference.draw(entropy, [input])),
      }
      const by = { number: 1, deal: 1, secret: littleEndian(unhex(share)) }
      const { elements } = reference.decodeReply(reference.answer(reference.encodeRequest(asked), by))
      const products = new SecretHandle(unhex(share)).multiply(Buffer.concat(asked.elements))
      expect(hex(products)).toBe(hex(Buffer.concat(elements)))
    }),
    { numRuns: 100 },
  )
})
