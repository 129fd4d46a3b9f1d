// TypeScript's decoders on the corpus, on bytes of it changed, and on what is made of it. `npm run fuzz -- wire` goes on.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { CORPUS, DECODERS, inputs, refused } from './decoders.js'

test.each(Object.entries(DECODERS))('%s: refused or read as it was', (_, decode) => {
  for (const bytes of CORPUS) {
    refused(() => decode(bytes))
    const every = bytes.length <= 60 ? 1 : THOROUGH ? 7 : Math.max(7, Math.ceil(bytes.length / 3) | 1)
    for (let at = 0; at < bytes.length; at += every) {
      const changed = bytes.slice()
      changed[at]! ^= 1 << (at % 8)
      refused(() => decode(changed))
      refused(() => decode(bytes.subarray(0, at)))
    }
  }
  fc.assert(
    fc.property(inputs, bytes => void refused(() => decode(bytes))),
    { numRuns: THOROUGH ? 50 : 8, seed: 20_261_122 },
  )
})

test.each(Object.entries(DECODERS))('%s: something of the corpus is accepted', (_, decode) => {
  expect(CORPUS.some(bytes => !refused(() => decode(bytes)))).toBe(true)
})
