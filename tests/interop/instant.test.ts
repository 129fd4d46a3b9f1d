// Holds the WebAssembly core, the core without WebAssembly and the independent reference to the instant lookups of
// vectors/core.json, which the native core made.

import { type DatabaseHandle, type InstantCore, type LayoutHandle, loadCore } from '@keyhush/wasm'
import { scriptCore } from '@keyhush/wasm/script'
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { commitDatabase, layoutHandle, memory } from '../support/wasm.js'
import { Database } from './reference/database.js'
import * as directories from './reference/directory.js'
import { fingerprint } from './reference/hash.js'
import * as instant from './reference/instant.js'
import { type Layout, placeOf, split } from './reference/layout.js'
import { Words } from './reference/random.js'
import vectors from './vectors/core.json' with { type: 'json' }
import { stream } from './vectors.js'

const core = await loadCore()
const recordsOf = ({ layout, recordsLabel }: { layout: Layout; recordsLabel: string }) =>
  stream(recordsLabel, layout.records * layout.recordBytes)

const printsOf = (keys: number) => Array.from({ length: keys }, (_, i) => fingerprint(utf8ToBytes(`key ${i}`)))

interface Lookup {
  /** to each server */
  readonly requests: readonly Uint8Array[]
  /** the server that is sent vectors, if there are three or more */
  readonly vectorsFrom: number | undefined
  /** each server's */
  readonly answers: readonly Uint8Array[]
  /** the records, one after the other; throws if a server lied */
  recon(answers: readonly Uint8Array[]): Uint8Array
}

interface Directory extends directories.Shape {
  readonly commitment: Uint8Array
  /** with their padding */
  readonly blocks: readonly Uint8Array[]
  blockOf(print: Uint8Array): number
  indexBy(block: Uint8Array, print: Uint8Array, records: number): number
  lookUp(numbers: readonly number[], entropy: string): Lookup
}

interface Implementation {
  lookUp(layout: Layout, records: Uint8Array, indices: readonly number[], entropy: string, servers?: number): Lookup
  directory(prints: readonly Uint8Array[], slots: number): Directory
  /** throws for what no client sends */
  check(layout: Layout, request: Uint8Array): void
}

/** The queries to each server, and which server is sent vectors. */
function queriesFor(layout: Layout, indices: readonly number[], entropy: string, servers: number) {
  const groups = servers === 2 ? instant.groupsOf(layout) : instant.groupsAmong(layout, servers)
  const words = new Words(hexToBytes(entropy), 0)
  const queries: Uint8Array[][] = Array.from({ length: servers }, () => [])
  const vectorsFrom = servers === 2 ? undefined : words.below(servers)
  for (const index of indices) {
    const { q, m } = placeOf(layout, index)
    const group = q * groups.perPartition + Math.floor(m / 2 ** groups.a)
    if (servers === 2) {
      const seeds = [words.bytes(16), words.bytes(16)] as const
      const first = words.below(2)
      instant.generate(groups.n, group, seeds).forEach((key, party) => void queries[first ^ party]!.push(key))
    } else {
      const seeds = Array.from({ length: servers - 1 }, () => words.bytes(32))
      const vector = instant.lastVector(groups, group, seeds)
      queries.forEach((to, server) => void to.push(server === vectorsFrom ? vector : seeds.shift()!))
    }
  }
  return { groups, queries, vectorsFrom }
}

const reference: Implementation = {
  lookUp(layout, content, indices, entropy, servers = 2) {
    const { groups, queries, vectorsFrom } = queriesFor(layout, indices, entropy, servers)
    const { partitions, commitments } = new Database(layout, content)
    const answer = (query: Uint8Array, server: number) => {
      if (servers === 2) return instant.answer(layout, partitions, query)
      return instant.answerTo(layout, groups, partitions, instant.shareBits(groups, server === vectorsFrom, query))
    }
    return {
      requests: queries.map(of => concatBytes(...of)),
      vectorsFrom,
      answers: queries.map((of, server) => concatBytes(...of.map(query => answer(query, server)))),
      recon(answers) {
        const each = answers.map(of => split(of, groups.answerBytes))
        const found = indices.map((index, i) => {
          const all = each.map(of => of[i]!)
          return instant.recon(layout, commitments, index, all, groups)
        })
        return concatBytes(...found)
      },
    }
  },
  directory(prints, slots) {
    const directory = directories.buildDirectory(prints, slots)
    const padded = directories.paddedBlocks(directory)
    return {
      ...directory,
      commitment: directories.directoryCommitment(directory),
      blocks: split(padded, directory.blockBytes),
      blockOf: print => directories.blockOf(directory, print),
      indexBy: (block, print, records) => directories.indexByBlock(directory.seed, block, print, records),
      lookUp: (numbers, entropy) => reference.lookUp(directories.blockLayout(directory), padded, numbers, entropy),
    }
  },
  check: instant.splitQueries,
}

/** `client` makes the queries and verifies the answers of the WebAssembly core. */
function lookUpIn(
  client: InstantCore,
  { handle, commitments }: { handle: DatabaseHandle; commitments: Uint8Array },
  layout: Layout,
  indices: readonly number[],
  entropy: string,
  servers = 2,
): Lookup {
  const query = client.newInstantQuery(
    layoutHandle(client, layout),
    Uint32Array.from(indices),
    hexToBytes(entropy),
    servers,
  )
  const all = Array.from({ length: servers }, (_, server) => server)
  const isVector = (server: number) => servers > 2 && query.isVector(server)
  const requests = all.map(server => query.request(server))
  return {
    requests,
    vectorsFrom: all.find(isVector),
    answers: requests.map((request, server) => {
      core.checkInstantQueries(layoutHandle(core, layout), request, servers, isVector(server))
      const kinds = new Uint8Array(indices.length).fill(2 * Number(isVector(server)))
      const pass = core.newInstantPass(handle, request, kinds, servers)
      while (pass.step(handle));
      return pass.finish(handle)
    }),
    recon(answers) {
      const records = query.recon(commitments, concatBytes(...answers))
      if (records === undefined) throw new Error('a server lied')
      return records
    },
  }
}

const implementationBy = (client: InstantCore): Implementation => ({
  lookUp: (layout, content, ...asked) => lookUpIn(client, commitDatabase(core, layout, content), layout, ...asked),
  directory(prints, slots) {
    const directory = core.buildDirectory(concatBytes(...prints), slots)
    const { blockLog, blockBytes, seed } = directory
    const shape = client.directoryShape(blockLog, blockBytes, seed)
    const handle = directory.database()
    const commitment = handle.commitment(0)
    return {
      ...{ blockLog, blockBytes, seed, commitment },
      blocks: split(memory(core, handle.recordsPointer(), blockBytes * 2 ** blockLog).slice(), blockBytes),
      blockOf: print => shape.number(print),
      indexBy: (block, print, records) => shape.index(block, print, records),
      lookUp: (...asked) => lookUpIn(client, { handle, commitments: commitment }, layoutOf(shape.layout), ...asked),
    }
  },
  check: (layout, request) => core.checkInstantQueries(layoutHandle(core, layout), request),
})

function layoutOf({ records, recordBytes, partitions, partitionRecords, blockRecords }: LayoutHandle): Layout {
  return { records, recordBytes, partitions, partitionRecords, blockRecords }
}

describe.each([
  ['the reference', reference],
  ['the WebAssembly core', implementationBy(core)],
  ['the core without WebAssembly', implementationBy(scriptCore)],
])('%s', (_, implementation) => {
  const changed = (answers: readonly Uint8Array[], server: number, at: number) =>
    answers.map((answer, s) => (s === server ? answer.map((byte, i) => (i === at ? byte ^ 1 : byte)) : answer))

  test.each(vectors.directories)('reads each block of a directory of $keys keys alone', vector => {
    const { keys, slots } = vector
    const { blockLog, blockBytes, seed, commitment, ...directory } = implementation.directory(printsOf(keys), slots)
    expect({ blockLog, blockBytes, seed: bytesToHex(seed), commitment: bytesToHex(commitment) }).toEqual({
      ...{ blockLog: vector.blockLog, blockBytes: vector.blockBytes, seed: vector.seed, commitment: vector.commitment },
    })
    printsOf(keys).forEach((print, i) => {
      const number = directory.blockOf(print)
      expect(number).toBe(vector.blocks[i])
      const block = directory.blocks[number]!
      expect(directory.indexBy(block, print, keys)).toBe(vector.indices[i])
      expect(() => directory.indexBy(block, print, vector.indices[i]!)).toThrow('beyond')
    })
  })

  test.each([...vectors.instant.map(vector => ({ ...vector, servers: 2, vectorsFrom: undefined })), ...vectors.anyOfK])(
    'looks up with $servers servers in $recordsLabel',
    vector => {
      const { layout, indices, entropy, servers } = vector
      const lookup = implementation.lookUp(layout, recordsOf(vector), indices, entropy, servers)
      expect(lookup.vectorsFrom).toBe(vector.vectorsFrom)
      expect(lookup.requests.map(bytesToHex)).toEqual(vector.requests)
      expect(lookup.answers.map(bytesToHex)).toEqual(vector.answers)
      expect(bytesToHex(lookup.recon(lookup.answers))).toBe(vector.records)
      for (const at of [0, lookup.answers[1]!.length - 1]) {
        expect(() => lookup.recon(changed(lookup.answers, 1, at))).toThrow('lied')
      }
    },
  )

  test('looks directory blocks up instantly', () => {
    const { directoryKeys, slots, keys, blocks: numbers, entropy, ...vector } = vectors.instantDirectory
    const directory = implementation.directory(printsOf(directoryKeys), slots)
    const { requests, answers, recon } = directory.lookUp(numbers, entropy)
    expect(requests.map(bytesToHex)).toEqual(vector.requests)
    expect(answers.map(bytesToHex)).toEqual(vector.answers)
    const found = split(recon(answers), directory.blockBytes)
    const indices = keys.map((key, i) => directory.indexBy(found[i]!, fingerprint(utf8ToBytes(key)), directoryKeys))
    expect(indices).toEqual(vector.indices)
  })

  test.each(vectors.instantRefused.answers)('refuses answers of $recordsLabel with a bit changed', vector => {
    const { layout, index, entropy, refused } = vector
    const { answers, recon } = implementation.lookUp(layout, recordsOf(vector), [index], entropy)
    expect(answers[0]!.length).toBe(vector.answerBytes)
    recon(answers)
    for (const { because, at } of refused) {
      expect(() => recon(changed(answers, 0, at)), because).toThrow('lied')
    }
  })

  test('refuses instant requests that no client makes', () => {
    const { layout, taken, refused } = vectors.instantRefused.requests
    implementation.check(layout, hexToBytes(taken + taken))
    for (const { because, bytes } of refused) {
      expect(() => implementation.check(layout, hexToBytes(bytes)), because).toThrow()
    }
  })
})
