// What a server sees is uniform and independent, whatever is looked up (uniformity.ts). The seed is fixed. Clients with defects
// must fail. rust-core enumerates the joint distribution exactly at tiny sizes; this tests it at a larger size.

import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../support/thorough.js'
import { referenceSubject, type SubjectDefects, wasmSubject } from './subjects.js'
import { suspicious, type UsageName, usageNames } from './uniformity.js'

// Of twelve seeds, 4000 lookups show the last but one of the defects with seven, 6000 with all.
const scale = { seed: 'keyhush', lookups: THOROUGH ? 20_000 : 6000 }

describe(`with seed "${scale.seed}"`, async () => {
  const wasm = await wasmSubject()

  test.each(usageNames)('the core shows nothing: %s', usage => {
    expect(suspicious(wasm, usage, scale)).toEqual([])
  })

  test.each(usageNames)('the reference without defects shows nothing: %s', usage => {
    expect(suspicious(referenceSubject(), usage, scale)).toEqual([])
  })

  test.each<[string, SubjectDefects, UsageName]>([
    ['a constant seed', { constantSeed: true }, 'a new client for every two lookups'],
    ['no swaps', { noSwap: true }, 'one index again and again'],
    ['no swaps', { noSwap: true }, 'two indices in turn'],
    ['r* ≠ m*', { dummyAvoidsRecord: true }, 'one index again and again'],
    ['r* ≠ m*', { dummyAvoidsRecord: true }, 'a new client for every two lookups'],
    ['r_q ≠ ind', { refreshAvoidsColumn: true }, 'one index again and again'],
    ['r_q ≠ ind', { refreshAvoidsColumn: true }, 'two indices in turn'],
    ['retries with fresh r', { freshRetry: true }, 'every fourth answer lost'],
  ])('%s would be seen', (_, defects, usage) => {
    expect(suspicious(referenceSubject(defects), usage, scale)).not.toEqual([])
  })
})
