// ChaCha20 of the core in JavaScript, beside OpenSSL's. Its form for seeds of 16 bytes is in the vectors of instant lookups (tests/interop).

import { createCipheriv } from 'node:crypto'
import { expect, test } from 'vitest'
import { KEY_BYTES, Uniform } from '../dist/script/chacha.js'

const key = Uint8Array.from({ length: KEY_BYTES }, (_, i) => 7 * i + 200)
const expected = (bytes: number) =>
  new Uint8Array(createCipheriv('chacha20', key, Buffer.alloc(16)).update(Buffer.alloc(bytes)))

test.each([0, 1, 63, 64, 65, 128, 70_000])('the first %i bytes of a stream', bytes => {
  const filled = new Uint8Array(bytes)
  new Uniform(key).fill(filled)
  expect(filled).toEqual(expected(bytes))
})

test('a stream goes on where it was left, whatever was taken', () => {
  const stream = new Uniform(key)
  const pieces = [3, 61, 0, 100, 36].map(bytes => new Uint8Array(bytes))
  for (const piece of pieces) stream.fill(piece)
  expect(Buffer.concat(pieces)).toEqual(Buffer.from(expected(200)))
})
