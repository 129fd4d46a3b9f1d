// ChaCha20 of the core in JavaScript, beside OpenSSL's. Its form for seeds of 16 bytes is in the vectors of instant lookups (tests/interop).

import { createCipheriv } from 'node:crypto'
import { expect, test } from 'vitest'
import { KEY_BYTES, streamOf, Uniform } from '../dist/script/chacha.js'

const key = Uint8Array.from({ length: KEY_BYTES }, (_, i) => 7 * i + 200)
const expected = (bytes: number) =>
  new Uint8Array(createCipheriv('chacha20', key, Buffer.alloc(16)).update(Buffer.alloc(bytes)))

test.each([0, 1, 63, 64, 65, 128, 70_000])('the first %i bytes of a stream', bytes => {
  expect(streamOf(key, bytes)).toEqual(expected(bytes))
})

test('uniform numbers are its words', () => {
  const filled = new Uint8Array(200)
  new Uniform(key).fill(filled)
  expect(filled).toEqual(expected(200))
})
