// Holds the WebAssembly core and the independent reference to vectors/core.json, which the native core made.

import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import {
  answerBytes,
  entryBytes,
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  HASH_BYTES,
  MANIFEST_HEADER_BYTES,
  partitionBytes,
  queryBytes,
  UPDATE_ENTRY_HEADER_BYTES,
  UPDATE_LIST_HEADER_BYTES,
  updateRecordsBytes,
} from '@pirouette/protocol'
import { loadCore } from '@pirouette/wasm'
import { describe, expect, test } from 'vitest'
import { type Implementation, type Life, reference, wasm } from './implementations.js'
import { hash } from './reference/hash.js'
import { type Suite, split } from './reference/layout.js'
import { sipHash24, tagKey } from './reference/tags.js'
import { type CoreVectors, type LookupVector, readVectors, stream } from './vectors.js'

const vectors = readVectors<CoreVectors>('core')

/** Key 00 … 0f, message 00 … of each length from 0 (the authors' reference implementation, vectors.h). */
const SIPHASH_VECTORS = [
  0x726fdb47dd0e0e31n,
  0x74f839c593dc67fdn,
  0x0d6c8009d9a94f5an,
  0x85676696d7fb7e2dn,
  0xcf2794e0277187b7n,
  0x18765564cd99a68dn,
  0xcbc9466e58fee3cen,
  0xab0200f58b01d137n,
  0x93f5f5799a932462n,
  0x9e0082df0ba9e4b0n,
  0x7a5dbbc594ddb9f3n,
  0xf4b32f46226bada7n,
  0x751e8fbc860ee5fbn,
  0x14ea5627c0843d90n,
  0xf723ca908e7af2een,
  0xa129ca6149be45e5n,
  0x3f2acc7f57c29bdbn,
  0x699ae9f52cbe4794n,
  0x4bc1b3f0968dd39cn,
  0xbb6dc91da77961bdn,
  0xbed65cf21aa2ee98n,
  0xd0f2cbb02e3b67c7n,
  0x93536795e3a33e88n,
  0xa80c038ccd5ccec8n,
]

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
    expect(bytesToHex(tagKey(hexToBytes(vector.hintEntropy)))).toBe(vector.tagKey)
  })
})

/** Lives a vector's life and holds it to what it says. */
function live(implementation: Implementation, vector: LookupVector, suite: Suite): Life {
  const { records, recordBytes } = vector.layout
  const content = stream(vector.recordsLabel, records * recordBytes)
  const life = implementation.start(vector.layout, content, hexToBytes(vector.hintEntropy), suite)
  expect(bytesToHex(life.commitments)).toBe(vector.commitments)
  expect(bytesToHex(life.contentHashes)).toBe(vector.contentHashes)
  for (const { indices, entropy, ...expected } of vector.batches) {
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

test("the reference's SipHash-2-4 gives what its authors' does, at every length up to three words", () => {
  const counting = Uint8Array.from({ length: 24 }, (_, i) => i)
  const tags = SIPHASH_VECTORS.map((_, length) => sipHash24(counting.subarray(0, 16), counting.subarray(0, length)))
  expect(tags).toEqual(SIPHASH_VECTORS)
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

test('what the wire puts around records is what the planner counts', async () => {
  const { plan } = await loadCore()
  const { layout, merkle, tags } = plan({ records: 70_000, valueBytes: 9, batch: 3, changesPerDay: 5 })
  for (const [costs, proofs] of [
    [merkle, 'merkle'],
    [tags, 'tags'],
  ] as const) {
    expect(costs.manifestBytes).toBe(MANIFEST_HEADER_BYTES + 2 * HASH_BYTES * layout.partitions)
    expect([costs.fenceBytesUp, costs.fenceBytesDown]).toEqual([FENCE_REQUEST_BYTES, FENCE_REPLY_BYTES])
    expect(costs.lookupBytesUp).toBe(2 * queryBytes(layout, 3))
    expect(costs.lookupBytesDown).toBe(2 * answerBytes(layout, 3, proofs))
    expect(costs.hintBytes).toBe(partitionBytes(layout))
    const delta = UPDATE_LIST_HEADER_BYTES + 5 * (UPDATE_ENTRY_HEADER_BYTES + layout.recordBytes)
    const records = updateRecordsBytes({ recordBytes: layout.recordBytes, updateListBytes: delta })
    expect(costs.updateListBytes).toBe(proofs === 'tags' ? records : delta)
  }
})

test('both accept and refuse the same directories: every byte changed in three ways, one too few, one too many', async () => {
  const core = await wasm()
  const prints = Array.from({ length: 17 }, (_, i) => reference.fingerprint(utf8ToBytes(`key ${i}`)))
  const valid = reference.buildDirectory(prints, prints.length)
  const mutations = [0x01, 0x80, 0xff].flatMap(flip =>
    Array.from(valid, (byte, at) => Uint8Array.of(...valid.subarray(0, at), byte ^ flip, ...valid.subarray(at + 1))),
  )
  const outcomeOf = (implementation: Implementation, directory: Uint8Array) => {
    try {
      return implementation.indicesOf(directory, prints, prints.length)
    } catch {
      return 'refused'
    }
  }
  for (const mutated of [valid.subarray(0, -1), Uint8Array.of(...valid, 0), ...mutations]) {
    expect(outcomeOf(core, mutated), bytesToHex(mutated)).toEqual(outcomeOf(reference, mutated))
  }
})
