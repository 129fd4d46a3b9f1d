// Holds the WebAssembly core and the independent reference to the directories of vectors/core.json, which the native core
// made: such as are too long for the file, such as a reader takes and has to refuse, and single directory blocks.

import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { reference, wasm } from './implementations.js'
import { Reader, Writer } from './reference/bytes.js'
import { hash } from './reference/hash.js'
import vectors from './vectors/core.json' with { type: 'json' }

const { directoryReading: reading, directoryBlocks: blocks } = vectors

describe.each([
  ['the reference', reference],
  ['the WebAssembly core', await wasm()],
])('%s', (_, implementation) => {
  const prints = (keys: number) =>
    Array.from({ length: keys }, (_, i) => implementation.fingerprint(utf8ToBytes(`key ${i}`)))

  test.each(vectors.largeDirectories)('builds and evaluates a directory of $keys keys in $slots slots', vector => {
    const { keys, slots, ...expected } = vector
    const bytes = implementation.buildDirectory(prints(keys), slots)
    const reader = new Reader(bytes.subarray(6))
    const [blockLog, blockBytes] = [reader.u16(), reader.u32()]
    const indices = new Writer()
    for (const index of implementation.indicesOf(bytes, prints(keys), keys)) indices.u32(index)
    expect({
      ...{ blockLog, blockBytes, seed: bytesToHex(bytes.subarray(16, 32)) },
      commitment: bytesToHex(implementation.directoryCommitment(bytes, keys)),
      bytesHash: bytesToHex(hash(bytes)),
      indicesHash: bytesToHex(hash(indices.bytes())),
    }).toEqual(expected)
  })

  test('builds nothing where no directory block has room', () => {
    expect(() => implementation.buildDirectory(prints(2), 400_000_000)).toThrow()
    expect(implementation.buildDirectory(prints(2), 100).length).toBeGreaterThan(0)
  })

  test.each(reading.taken)('takes a directory: $because', ({ records, bytes, indices }) => {
    const asked = [...prints(16), ...reading.added.map(hexToBytes)]
    expect(implementation.indicesOf(hexToBytes(bytes), asked, records)).toEqual(indices)
  })

  test.each(reading.refused)('refuses a directory: $because', ({ records, bytes }) => {
    expect(() => implementation.indicesOf(hexToBytes(bytes), prints(1), records)).toThrow()
  })

  const shape = { ...blocks, seed: hexToBytes(blocks.seed) }

  test.each(blocks.taken)('takes a directory block: $because', ({ bytes, indices }) => {
    const indexOf = (print: string) =>
      implementation.indexByBlock(shape, hexToBytes(bytes), hexToBytes(print), blocks.records)
    expect(blocks.fingerprints.map(indexOf)).toEqual(indices)
  })

  test.each(blocks.refused)('refuses a directory block: $because', ({ fingerprint, bytes }) => {
    const [block, print] = [hexToBytes(bytes), hexToBytes(fingerprint)]
    expect(() => implementation.indexByBlock(shape, block, print, blocks.records)).toThrow()
  })
})
