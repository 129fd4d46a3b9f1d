// Holds the WebAssembly core and the independent reference to the instant lookups of vectors/core.json,
// which the native core made.

import { type DatabaseHandle, type InstantPassHandle, loadCore } from '@keyhush/wasm'
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { commitDatabase, layoutHandle } from '../support/wasm.js'
import { Database } from './reference/database.js'
import * as directories from './reference/directory.js'
import { fingerprint } from './reference/hash.js'
import * as instant from './reference/instant.js'
import { type Layout, placeOf, split } from './reference/layout.js'
import { Words } from './reference/random.js'
import { type CoreVectors, readVectors, stream } from './vectors.js'

const vectors = readVectors<CoreVectors>('core')
const core = await loadCore()
const recordsOf = ({ layout, recordsLabel }: { layout: Layout; recordsLabel: string }) =>
  stream(recordsLabel, layout.records * layout.recordBytes)

const printsOf = (keys: number) => Array.from({ length: keys }, (_, i) => fingerprint(utf8ToBytes(`key ${i}`)))

/** The queries to server 0 and to server 1, as the reference makes them. */
function requestsFor(layout: Layout, indices: readonly number[], entropy: string): [Uint8Array[], Uint8Array[]] {
  const { n, a, perPartition } = instant.groupsOf(layout)
  const words = new Words(hexToBytes(entropy), 0)
  const requests: [Uint8Array[], Uint8Array[]] = [[], []]
  for (const index of indices) {
    const { q, m } = placeOf(layout, index)
    const seeds = [words.bytes(16), words.bytes(16)] as const
    const first = words.below(2)
    instant.generate(n, q * perPartition + Math.floor(m / 2 ** a), seeds).forEach((key, party) => {
      requests[first ^ party]!.push(key)
    })
  }
  return requests
}

describe('the reference', () => {
  test.each(vectors.directories)('reads each block of a directory of $keys keys alone', vector => {
    const { keys, slots, blockLog, blockBytes } = vector
    const directory = directories.buildDirectory(printsOf(keys), slots)
    expect({ blockLog: directory.blockLog, blockBytes: directory.blockBytes }).toEqual({ blockLog, blockBytes })
    expect(bytesToHex(directory.seed)).toBe(vector.seed)
    expect(bytesToHex(directories.directoryCommitment(directory))).toBe(vector.commitment)
    const blocks = split(directories.paddedBlocks(directory), blockBytes)
    printsOf(keys).forEach((print, i) => {
      const number = directories.blockOf(directory, print)
      expect(number).toBe(vector.blocks[i])
      expect(directories.indexByBlock(directory.seed, blocks[number]!, print, keys)).toBe(vector.indices[i])
    })
  })

  test.each(vectors.instant)('looks up instantly in $recordsLabel', vector => {
    const { layout, indices } = vector
    const requests = requestsFor(layout, indices, vector.entropy)
    expect(requests.map(keys => bytesToHex(concatBytes(...keys)))).toEqual(vector.requests)
    const { partitions, commitments } = new Database(layout, recordsOf(vector))
    const answers = requests.map(keys => keys.map(key => instant.answer(layout, partitions, key)))
    expect(answers.map(of => bytesToHex(concatBytes(...of)))).toEqual(vector.answers)
    const found = indices.map((index, i) => {
      const both = [answers[0]![i]!, answers[1]![i]!] as const
      const changed = both[0].slice()
      changed[changed.length - 1]! ^= 1
      expect(() => instant.recon(layout, commitments, index, [changed, both[1]])).toThrow('lied')
      return instant.recon(layout, commitments, index, both)
    })
    expect(bytesToHex(concatBytes(...found))).toBe(vector.records)
  })

  test.each(vectors.anyOfK)('looks up with $servers servers in $recordsLabel', vector => {
    const { layout, servers, indices } = vector
    const groups = instant.groupsAmong(layout, servers)
    const words = new Words(hexToBytes(vector.entropy), 0)
    const carrier = words.below(servers)
    expect(carrier).toBe(vector.vectorsFrom)
    const requests: Uint8Array[][] = Array.from({ length: servers }, () => [])
    for (const index of indices) {
      const { q, m } = placeOf(layout, index)
      const group = q * groups.perPartition + Math.floor(m / 2 ** groups.a)
      const seeds = Array.from({ length: servers - 1 }, () => words.bytes(32))
      const vector = instant.lastVector(groups, group, seeds)
      requests.forEach((queries, server) => void queries.push(server === carrier ? vector : seeds.shift()!))
    }
    expect(requests.map(queries => bytesToHex(concatBytes(...queries)))).toEqual(vector.requests)
    const { partitions, commitments } = new Database(layout, recordsOf(vector))
    const answers = requests.map((queries, server) =>
      queries.map(query => {
        const share = instant.shareBits(groups, server === carrier, query)
        return instant.answerTo(layout, groups, partitions, share)
      }),
    )
    expect(answers.map(of => bytesToHex(concatBytes(...of)))).toEqual(vector.answers)
    const found = indices.map((index, i) => {
      const all = answers.map(of => of[i]!)
      return instant.recon(layout, commitments, index, all, groups)
    })
    expect(bytesToHex(concatBytes(...found))).toBe(vector.records)
  })

  test('looks directory blocks up instantly', () => {
    const { directoryKeys, slots, keys, blocks: numbers, entropy, ...vector } = vectors.instantDirectory
    const directory = directories.buildDirectory(printsOf(directoryKeys), slots)
    const layout = directories.blockLayout(directory)
    const requests = requestsFor(layout, numbers, entropy)
    expect(requests.map(queries => bytesToHex(concatBytes(...queries)))).toEqual(vector.requests)
    const answers = requests.map(of =>
      of.map(key => instant.answer(layout, [directories.paddedBlocks(directory)], key)),
    )
    expect(answers.map(of => bytesToHex(concatBytes(...of)))).toEqual(vector.answers)
    const commitments = [directories.directoryCommitment(directory)]
    const found = numbers.map((number, i) =>
      instant.recon(layout, commitments, number, [answers[0]![i]!, answers[1]![i]!]),
    )
    const indices = keys.map((key, i) =>
      directories.indexByBlock(directory.seed, found[i]!, fingerprint(utf8ToBytes(key)), directoryKeys),
    )
    expect(indices).toEqual(vector.indices)
  })

  test.each(vectors.instantRefused.answers)('refuses answers of $recordsLabel with a bit changed', vector => {
    const { layout, index, entropy, refused } = vector
    const { partitions, commitments } = new Database(layout, recordsOf(vector))
    const [zero, one] = requestsFor(layout, [index], entropy).map(([key]) => instant.answer(layout, partitions, key!))
    expect(zero!.length).toBe(vector.answerBytes)
    instant.recon(layout, commitments, index, [zero!, one!])
    for (const { because, at } of refused) {
      const lie = zero!.map((byte, i) => (i === at ? byte ^ 1 : byte))
      expect(() => instant.recon(layout, commitments, index, [lie, one!]), because).toThrow('lied')
    }
  })

  test('refuses instant requests that no client makes', () => {
    const { layout, taken, refused } = vectors.instantRefused.requests
    expect(instant.splitQueries(layout, hexToBytes(taken + taken))).toHaveLength(2)
    for (const { because, bytes } of refused) {
      expect(() => instant.splitQueries(layout, hexToBytes(bytes)), because).toThrow()
    }
  })
})

describe('the WebAssembly core', () => {
  test.each(vectors.directories)('reads each block of a directory of $keys keys alone', vector => {
    const { keys, slots, blockLog, blockBytes } = vector
    const directory = core.buildDirectory(concatBytes(...printsOf(keys)), slots)
    expect({ blockLog: directory.blockLog, blockBytes: directory.blockBytes }).toEqual({ blockLog, blockBytes })
    expect(bytesToHex(directory.seed)).toBe(vector.seed)
    const database = directory.database()
    expect(bytesToHex(database.commitment(0))).toBe(vector.commitment)
    const shape = core.directoryShape(blockLog, blockBytes, hexToBytes(vector.seed))
    const all = new Uint8Array(core.memory.buffer, database.recordsPointer(), blockBytes * 2 ** blockLog).slice()
    printsOf(keys).forEach((print, i) => {
      const number = shape.number(print)
      expect(number).toBe(vector.blocks[i])
      const block = all.subarray(number * blockBytes, (number + 1) * blockBytes)
      expect(shape.index(block, print, keys)).toBe(vector.indices[i])
      expect(() => shape.index(block, print, vector.indices[i]!)).toThrow('beyond the database')
    })
  })

  test.each(vectors.instant)('looks up instantly in $recordsLabel', vector => {
    const layout = layoutHandle(core, vector.layout)
    const database = commitDatabase(core, vector.layout, recordsOf(vector)).handle
    const query = core.newInstantQuery(layout, Uint32Array.from(vector.indices), hexToBytes(vector.entropy))
    const requests = [query.request(0), query.request(1)]
    expect(requests.map(bytesToHex)).toEqual(vector.requests)
    const [zero, one] = requests.map(request => answered(database, request, vector.indices.length))
    expect([zero!, one!].map(bytesToHex)).toEqual(vector.answers)
    expect(bytesToHex(query.recon(hexToBytes(vector.commitments), concatBytes(zero!, one!))!)).toBe(vector.records)
    zero![0]! ^= 1
    expect(query.recon(hexToBytes(vector.commitments), concatBytes(zero!, one!))).toBeUndefined()
  })

  test.each(vectors.anyOfK)('looks up with $servers servers in $recordsLabel', vector => {
    const { servers, indices } = vector
    const layout = layoutHandle(core, vector.layout)
    const database = commitDatabase(core, vector.layout, recordsOf(vector)).handle
    const query = core.newInstantQuery(layout, Uint32Array.from(indices), hexToBytes(vector.entropy), servers)
    const all = Array.from({ length: servers }, (_, server) => server)
    expect(all.filter(server => query.isVector(server))).toEqual([vector.vectorsFrom])
    const requests = all.map(server => query.request(server))
    expect(requests.map(bytesToHex)).toEqual(vector.requests)
    const answers = requests.map((request, server) => {
      core.checkInstantQueries(layout, request, servers, query.isVector(server))
      const kinds = new Uint8Array(indices.length).fill(2 * Number(query.isVector(server)))
      return passed(core.newInstantPass(database, request, kinds, servers), database)
    })
    expect(answers.map(bytesToHex)).toEqual(vector.answers)
    const commitments = hexToBytes(vector.commitments)
    expect(bytesToHex(query.recon(commitments, concatBytes(...answers))!)).toBe(vector.records)
    answers[1]![0]! ^= 1
    expect(query.recon(commitments, concatBytes(...answers))).toBeUndefined()
  })

  test('looks directory blocks up instantly', () => {
    const { directoryKeys, slots, keys, blocks: numbers, entropy, ...vector } = vectors.instantDirectory
    const directory = core.buildDirectory(concatBytes(...printsOf(directoryKeys)), slots)
    const { blockLog, blockBytes, seed } = directory
    const shape = core.directoryShape(blockLog, blockBytes, seed)
    const database = directory.database()
    const query = core.newInstantQuery(shape.layout, Uint32Array.from(numbers), hexToBytes(entropy))
    const requests = [query.request(0), query.request(1)]
    expect(requests.map(bytesToHex)).toEqual(vector.requests)
    const [zero, one] = requests.map(request => answered(database, request, numbers.length))
    expect([zero!, one!].map(bytesToHex)).toEqual(vector.answers)
    const found = split(query.recon(database.commitment(0), concatBytes(zero!, one!))!, blockBytes)
    const indices = keys.map((key, i) => shape.index(found[i]!, fingerprint(utf8ToBytes(key)), directoryKeys))
    expect(indices).toEqual(vector.indices)
  })

  test.each(vectors.instantRefused.answers)('refuses answers of $recordsLabel with a bit changed', vector => {
    const { layout, index, entropy, refused } = vector
    const { handle: database, commitments } = commitDatabase(core, layout, recordsOf(vector))
    const query = core.newInstantQuery(layoutHandle(core, layout), Uint32Array.of(index), hexToBytes(entropy))
    const [zero, one] = [query.request(0), query.request(1)].map(request => answered(database, request, 1))
    expect(zero!.length).toBe(vector.answerBytes)
    expect(query.recon(commitments, concatBytes(zero!, one!))).toBeDefined()
    for (const { because, at } of refused) {
      const lie = zero!.map((byte, i) => (i === at ? byte ^ 1 : byte))
      expect(query.recon(commitments, concatBytes(lie, one!)), because).toBeUndefined()
    }
  })

  test('refuses instant requests that no client makes', () => {
    const { layout, taken, refused } = vectors.instantRefused.requests
    core.checkInstantQueries(layoutHandle(core, layout), hexToBytes(taken + taken))
    for (const { because, bytes } of refused) {
      expect(() => core.checkInstantQueries(layoutHandle(core, layout), hexToBytes(bytes)), because).toThrow()
    }
  })
})

/** All steps of a pass. */
function answered(database: DatabaseHandle, request: Uint8Array, queries: number): Uint8Array {
  return passed(core.newInstantPass(database, request, new Uint8Array(queries)), database)
}

function passed(pass: InstantPassHandle, database: DatabaseHandle): Uint8Array {
  while (pass.step(database));
  return pass.finish(database)
}
