// Holds the WebAssembly core and the independent reference to vectors/core.json, which the native core made.

import { readFile } from 'node:fs/promises'
import { entryBytes, MANIFEST_HEADER_BYTES, MANIFEST_POINTPROOFS_BYTES, PROOF_KINDS } from '@keyhush/protocol'
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { sampled } from '../support/thorough.js'
import { type Implementation, type Life, reference, wasm } from './implementations.js'
import { Writer } from './reference/bytes.js'
import { hash } from './reference/hash.js'
import { type Suite, split } from './reference/layout.js'
import { linearTag, multiply, tagPoint } from './reference/tags.js'
import vectors from './vectors/core.json' with { type: 'json' }
import { stream } from './vectors.js'

describe.each([
  ['the reference', reference],
  ['the WebAssembly core', await wasm()],
])('%s', (_, implementation) => {
  test.each(vectors.keys.fingerprints)('fingerprints the key "$key"', ({ key, fingerprint }) => {
    expect(bytesToHex(implementation.fingerprint(utf8ToBytes(key)))).toBe(fingerprint)
  })

  test.each(vectors.keys.databaseIds)('derives the database id of "$seed"', ({ seed, id }) => {
    expect(bytesToHex(implementation.databaseId(utf8ToBytes(seed)))).toBe(id)
  })

  test.each(vectors.plans)(
    'plans N = $records + $headroom, ℓ = $recordBytes, Q = $partitions, g = $pack',
    ({ layout, ...wanted }) => {
      expect(implementation.plan(wanted)).toEqual(layout)
    },
  )

  test.each(vectors.permutations)('draws permutations of $layout.partitionRecords', vector => {
    expect(implementation.permutations(vector.layout, hexToBytes(vector.entropy))).toEqual(vector.permutations)
  })

  test.each(vectors.directories)('builds and evaluates a directory of $keys keys', ({ keys, slots, ...expected }) => {
    const prints = (label: string, count: number) =>
      Array.from({ length: count }, (_, i) => implementation.fingerprint(utf8ToBytes(`${label} ${i}`)))
    const bytes = implementation.buildDirectory(prints('key', keys), slots)
    expect(bytesToHex(bytes)).toBe(expected.bytes)
    expect(implementation.indicesOf(bytes, prints('key', keys), keys)).toEqual(expected.indices)
    expect(implementation.indicesOf(bytes, prints('absent', 8), keys)).toEqual(expected.absentIndices)
  })

  test.each(vectors.generations)('begins a generation after $valuesLabel with room for $headroom more', vector => {
    const { keyed, layout, valuesLabel, headroom, next, ...expected } = vector
    const values = split(stream(valuesLabel, 4 * layout.records), 4)
    const record = (value: Uint8Array, i: number) => {
      if (!keyed) return value
      return i % 3 === 2 ? new Uint8Array(20) : concatBytes(implementation.fingerprint(utf8ToBytes(`key ${i}`)), value)
    }
    const made = implementation.nextGeneration(layout, concatBytes(...values.map(record)), keyed, headroom)
    expect(made.layout).toEqual(next)
    const { directory, commitments, contentHashes } = made
    expect({
      directory: bytesToHex(directory),
      commitments: bytesToHex(commitments),
      contentHashes: bytesToHex(contentHashes),
    }).toEqual(expected)
  })

  test.each(vectors.lookups)('looks up in $recordsLabel', vector => {
    live(implementation, vector, 1)
  })

  test.each(vectors.tagLookups)('looks up in $recordsLabel with tags', vector => {
    const { tags } = live(implementation, vector, 2)
    expect(bytesToHex(hash(tags))).toBe(vector.tagsHash)
    expect(bytesToHex(new Writer().u64(tagPoint(hexToBytes(vector.hintEntropy))).bytes())).toBe(vector.tagPoint)
  })
})

/** Lives a vector's life and holds it to what it says. */
function live(implementation: Implementation, vector: (typeof vectors.lookups)[number], suite: Suite): Life {
  const { records, recordBytes } = vector.layout
  const content = stream(vector.recordsLabel, records * recordBytes)
  const life = implementation.start(vector.layout, content, hexToBytes(vector.hintEntropy), suite)
  expect(bytesToHex(life.commitments)).toBe(vector.commitments)
  expect(bytesToHex(life.contentHashes)).toBe(vector.contentHashes)
  for (const { indices, entropy, ...expected } of vector.asked) {
    const { retrieve, refresh, records, name } = life.lookUp(indices, hexToBytes(entropy))
    const inHex = ({ vectors, answer }: typeof retrieve) => ({
      vectors: bytesToHex(vectors),
      answerHash: bytesToHex(hash(answer)),
    })
    const made = { retrieve: inHex(retrieve), refresh: inHex(refresh), records: bytesToHex(records) }
    expect({ ...made, name: bytesToHex(name) }).toEqual(expected)
    const asked = indices.map(i => bytesToHex(content.subarray(i * recordBytes, (i + 1) * recordBytes)))
    expect(bytesToHex(records)).toBe(asked.join(''))
  }
  return life
}

test("the reference's field is the one of the definition, and its tags are linear", () => {
  expect(multiply(1n << 63n, 2n)).toBe(0x1bn) // x^64 = x^4 + x^3 + x + 1
  for (const a of [1n, 2n, 0x1bn, 1n << 63n, 0x0123456789abcdefn]) {
    let power = a
    for (let i = 0; i < 64; i++) power = multiply(power, power)
    expect(power).toBe(a) // of 2^64 elements
    expect(multiply(a, 0xf5n)).toBe(multiply(a, 5n) ^ multiply(a, 0xf0n))
    // w1·a^2 + w2·a, the last word padded with zeros
    const record = Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0x80, 7, 9)
    expect(linearTag(a, record)).toBe(multiply(0x8000000000000001n, multiply(a, a)) ^ multiply(0x0907n, a))
  }
})

test('the core, the reference and the wire format derive the same sizes from layouts at and around every bound', async () => {
  const core = await wasm()
  for (const recordBytes of [1, 32, 65_536]) {
    for (const partitions of [1, 16, 17, 128, 4096]) {
      for (const partitionRecords of [1, 2, 3, 4, 5, 255, 256, 257, 65_535, 65_536]) {
        const layout = { records: 1, recordBytes, partitions, partitionRecords }
        if (partitions * partitionRecords * recordBytes > 2 ** 31 - 1) continue // more than wasm32 can address
        for (const suite of [1, 2] as const) {
          const sizes = core.sizes(layout, suite)
          expect({ layout, suite, ...sizes }).toEqual({ layout, suite, ...reference.sizes(layout, suite) })
          expect(entryBytes(layout, suite === 1 ? 'merkle' : 'tags')).toBe(sizes.entryBytes)
        }
      }
    }
  }
})

const sourceOf = (path: string) => readFile(new URL(`../../rust-core/core/src/${path}`, import.meta.url), 'utf8')

test('the planner in the core has the length of manifests that packages/protocol has: change it there, too', async () => {
  expect(await sourceOf('cost/sizes.rs')).toContain(`const MANIFEST_HEADER_BYTES: u64 = ${MANIFEST_HEADER_BYTES};`)
})

test('the core has a row for each kind of proof with a package: give a new one its row in packaged.rs', async () => {
  const source = await sourceOf('commitment/packaged.rs')
  const pattern = /name: "(\w+)",\s+suite: (\d+),[^}]*?answer_bytes: (\d+),[^}]*?manifest_bytes: (\d+)/g
  const rows = [...source.matchAll(pattern)].map(([, name, ...numbers]) => [name, ...numbers.map(Number)])
  const kinds = Object.entries(PROOF_KINDS).filter(([, kind]) => kind.package !== undefined)
  expect(rows).toEqual(
    kinds.map(([name, { suite, answerBytes, hasRows }]) => {
      return [name, suite, answerBytes, hasRows ? MANIFEST_POINTPROOFS_BYTES : 0]
    }),
  )
})

test('both implementations accept and refuse the same directories: every byte changed, one too few, one too many', async () => {
  const core = await wasm()
  const prints = Array.from({ length: 17 }, (_, i) => reference.fingerprint(utf8ToBytes(`key ${i}`)))
  const valid = reference.buildDirectory(prints, prints.length)
  const mutations = [...valid].flatMap((byte, at) => [0x01, 0x80, 0xff].map(flip => valid.with(at, byte ^ flip)))
  const outcomeOf = (implementation: Implementation, directory: Uint8Array) => {
    try {
      return implementation.indicesOf(directory, prints, prints.length)
    } catch {
      return 'refused'
    }
  }
  for (const mutated of [valid.subarray(0, -1), Uint8Array.of(...valid, 0), ...sampled(mutations)]) {
    expect(outcomeOf(core, mutated), bytesToHex(mutated)).toEqual(outcomeOf(reference, mutated))
  }
})
