// Holds the WebAssembly core and the independent reference to vectors/core.json, which the native core made.

import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { type Implementation, reference, wasm } from './implementations.js'
import { hash } from './reference/hash.js'
import { split } from './reference/layout.js'
import { type CoreVectors, readVectors, stream } from './vectors.js'

const vectors = readVectors<CoreVectors>('core')

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

  test.each(vectors.plans)('plans N = $records, ℓ = $recordBytes', plan => {
    expect(implementation.planLayout(plan.records, plan.recordBytes)).toEqual(plan)
  })

  test.each(vectors.permutations)('draws permutations of $layout.partitionRecords', vector => {
    expect(implementation.permutations(vector.layout, hexToBytes(vector.entropy))).toEqual(vector.permutations)
  })

  test.each(vectors.directories)('builds and evaluates a directory of $keys keys', ({ keys, ...expected }) => {
    const prints = (label: string, count: number) =>
      Array.from({ length: count }, (_, i) => implementation.fingerprint(utf8ToBytes(`${label} ${i}`)))
    const bytes = implementation.buildDirectory(prints('key', keys))
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
    const { records, recordBytes } = vector.layout
    const content = stream(vector.recordsLabel, records * recordBytes)
    const life = implementation.start(vector.layout, content, hexToBytes(vector.hintEntropy))
    expect(bytesToHex(life.commitments)).toBe(vector.commitments)
    expect(bytesToHex(life.contentHashes)).toBe(vector.contentHashes)
    for (const { indices, entropy, ...expected } of vector.batches) {
      const { retrieve, refresh, records } = life.lookUp(indices, hexToBytes(entropy))
      const inHex = ({ vectors, answer }: typeof retrieve) => ({
        vectors: bytesToHex(vectors),
        answerHash: bytesToHex(hash(answer)),
      })
      expect({ retrieve: inHex(retrieve), refresh: inHex(refresh), records: bytesToHex(records) }).toEqual(expected)
      const asked = indices.map(i => bytesToHex(content.subarray(i * recordBytes, (i + 1) * recordBytes)))
      expect(bytesToHex(records)).toBe(asked.join(''))
    }
  })
})

test('both derive the same sizes from layouts at and around every bound', async () => {
  const core = await wasm()
  for (const recordBytes of [1, 32, 65_536]) {
    for (const partitions of [1, 16, 17, 128, 4096]) {
      for (const partitionRecords of [1, 2, 3, 4, 5, 255, 256, 257, 65_535, 65_536]) {
        const layout = { records: 1, recordBytes, partitions, partitionRecords }
        if (partitions * partitionRecords * recordBytes > 2 ** 31 - 1) continue // more than wasm32 can address
        const { entryBytes, maxBatch } = core.sizes(layout)
        expect({ layout, entryBytes, maxBatch }).toEqual({ layout, ...reference.sizes(layout) })
      }
    }
  }
})

test('both accept and refuse the same directories: every byte changed in three ways, one too few, one too many', async () => {
  const core = await wasm()
  const prints = Array.from({ length: 17 }, (_, i) => reference.fingerprint(utf8ToBytes(`key ${i}`)))
  const valid = reference.buildDirectory(prints)
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
