// What a coordinator sends to the shards of a sharded database, with three operators or more.

import { describe, expect, test } from 'vitest'
import { decodeInstantQuery, encodeInstantQuery, encodePartQuery, WireError } from '../src/index.js'
import { keyless } from './manifests.js'

const hash = (byte: number) => new Uint8Array(32).fill(byte)

describe('a part of vectors', () => {
  test('is a query of a third form, which has its a', () => {
    const queries = Uint8Array.of(1, 2, 3, 4)
    for (const [of, suite] of [
      ['records', 7],
      ['directory', 8],
    ] as const) {
      const bytes = encodePartQuery(keyless, of, 2, queries, 3, 5)
      expect(bytes.subarray(40)).toEqual(Uint8Array.of(3, 2, 5, 1, 2, 3, 4))
      expect(decodeInstantQuery(bytes)).toMatchObject({
        suite,
        of,
        servers: 3,
        vectors: true,
        groupLog: 5,
        count: 2,
        queries,
      })
    }
  })

  test('has an a that a partition may have, for three servers or more', () => {
    for (const [servers, a] of [
      [2, 5],
      [9, 5],
      [3, 17],
      [3, -1],
    ] as const) {
      expect(() => encodePartQuery(keyless, 'records', 1, hash(0), servers, a)).toThrow(WireError)
    }
    const bytes = encodePartQuery(keyless, 'records', 1, hash(0), 3, 16)
    bytes[42] = 17
    expect(() => decodeInstantQuery(bytes)).toThrow(WireError)
    const form = encodeInstantQuery(keyless, 'records', 1, hash(0), { servers: 3, vectors: true })
    expect(decodeInstantQuery(form)).not.toHaveProperty('groupLog')
    form[41] = 3
    expect(() => decodeInstantQuery(form)).toThrow(/form/)
    form[41] = 2
    expect(decodeInstantQuery(form.subarray(0, 43))).toMatchObject({ groupLog: 0 })
    expect(() => decodeInstantQuery(form.subarray(0, 42))).toThrow(WireError)
  })
})
