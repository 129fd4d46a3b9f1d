// Holds the core without WebAssembly to the WebAssembly core: the same inputs, the same bytes and the same refusals.

import type { DatabaseHandle, InstantCore, LocalCore } from '@keyhush/wasm'
import { scriptCore } from '@keyhush/wasm/script'
import { concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { commitDatabase, layoutHandle, memory } from '../support/wasm.js'
import { always, both, bytes, layouts, number, script, wasm } from './both.js'
import { type Layout, split } from './reference/layout.js'
import { stream } from './vectors.js'

const SIZES = ['records', 'recordBytes', 'partitions', 'partitionRecords', 'blockRecords', 'partitionBytes'] as const
const INSTANT_SIZES = ['instantRequestBytes', 'instantAnswerBytes', 'instantMaxQueries'] as const

function sizesOf(core: InstantCore, ...numbers: Parameters<InstantCore['layout']>) {
  const layout = core.layout(...numbers)
  const sizes = [...SIZES, ...INSTANT_SIZES].map(name => layout[name])
  const perServers = [2, 3, 4, 5].map(servers => layout.instantSizes(servers))
  return [sizes, perServers]
}

describe('the core without WebAssembly is the WebAssembly core', () => {
  test('for instant lookups it is a part of the one for copies', () => {
    expect({ ...script, ...scriptCore }).toEqual(script)
  })

  test('in hashes', () => {
    always(
      [fc.uint8Array({ maxLength: 3000 })],
      input => {
        both(core => core.blake3(input))
        both(core => core.fingerprint(input))
      },
      100,
    )
    const long = stream('long', 100_000)
    for (const length of [0, 1, 64, 65, 1024, 1025, 99_999]) both(core => core.blake3(long.subarray(0, length)))
  })

  test('in layouts, possible or not', () => {
    always(
      [number, number, number, number, fc.option(number, { nil: undefined })],
      (...numbers) => {
        both(core => core.layout(...numbers).partitionBytes)
      },
      1000,
    )
    always(
      [layouts, fc.nat(10)],
      ({ records, recordBytes, partitions, partitionRecords, blockRecords }, servers) => {
        both(core => sizesOf(core, records, recordBytes, partitions, partitionRecords, blockRecords))
        both(core =>
          core.layout(records, recordBytes, partitions, partitionRecords, blockRecords).instantSizes(servers),
        )
      },
      300,
    )
    for (const [records, recordBytes] of [
      [2 ** 20, 32],
      [2 ** 20, 48],
      [2 ** 24, 32],
      [1 << 16, 1024],
    ] as const) {
      both(core => sizesOf(core, records, recordBytes, Math.max(16, records / 65_536), Math.min(65_536, records / 16)))
    }
  })
})

/** All servers' queries and answers, and by each core what becomes of answers. */
function lookUp(
  layout: Layout,
  database: DatabaseHandle,
  commitments: Uint8Array,
  indices: Uint32Array,
  entropy: Uint8Array,
  servers: number,
) {
  const given = entropy.slice()
  const queries = [wasm, script].map(core =>
    core.newInstantQuery(layoutHandle(core, layout), indices, entropy, servers),
  )
  expect(entropy).toEqual(given)
  const of = (server: number) =>
    queries.map(query => ({ request: query.request(server), isVector: query.isVector(server) }))
  const answers = Array.from({ length: servers }, (_, server) => {
    const [expected, actual] = of(server)
    expect(actual).toEqual(expected)
    const kinds = new Uint8Array(indices.length).fill(2 * Number(actual!.isVector))
    wasm.checkInstantQueries(layoutHandle(wasm, layout), actual!.request, servers, actual!.isVector)
    const passes = split(actual!.request, actual!.request.length / indices.length).map((query, i) => {
      const pass = wasm.newInstantPass(database, query, kinds.subarray(i, i + 1), servers)
      while (pass.step(database));
      return pass.finish(database)
    })
    return concatBytes(...passes)
  })
  const recon = (answers: Uint8Array, by = commitments) =>
    both(core => queries[core === wasm ? 0 : 1]!.recon(by, answers))
  return { queries, answers: concatBytes(...answers), recon }
}

describe('a lookup without WebAssembly', () => {
  const asked = [
    layouts,
    fc.constantFrom(2, 2, 3, 4, 8),
    bytes(32),
    fc.array(fc.nat(), { minLength: 1, maxLength: 5 }),
  ] as const

  test('sends the same bytes for the same entropy, and gets the same records', () => {
    always(
      [...asked],
      (layout, servers, entropy, picks) => {
        const records = stream('records', layout.records * layout.recordBytes)
        const { handle, commitments } = commitDatabase(wasm, layout, records)
        // the last records too, whose group may have fewer than others
        const indices = Uint32Array.from(picks, pick => layout.records - 1 - (pick % layout.records))
        indices[0] = layout.records - 1
        const { answers, recon, queries } = lookUp(layout, handle, commitments, indices, entropy, servers)
        const of = split(records, layout.recordBytes)
        expect(recon(answers)).toEqual(concatBytes(...Array.from(indices, index => of[index]!)))
        for (const query of queries) query.free()
        handle.free()
      },
      60,
    )
  })

  test('refuses every changed bit of small answers, and every other length', () => {
    const small: Layout[] = [
      { records: 5, recordBytes: 3, partitions: 1, partitionRecords: 5, blockRecords: 1 },
      { records: 13, recordBytes: 60, partitions: 2, partitionRecords: 8, blockRecords: 2 },
      { records: 3, recordBytes: 130, partitions: 1, partitionRecords: 3, blockRecords: 1 },
    ]
    for (const layout of small) {
      const records = stream('small', layout.records * layout.recordBytes)
      const { handle, commitments } = commitDatabase(wasm, layout, records)
      for (const servers of [2, 3]) {
        for (const index of [0, layout.records - 1]) {
          const entropy = stream(`entropy ${servers} ${index}`, 32)
          const { answers, recon } = lookUp(layout, handle, commitments, Uint32Array.of(index), entropy, servers)
          expect(recon(answers)).toEqual(split(records, layout.recordBytes)[index])
          for (let bit = 0; bit < (answers.length / servers) * 8; bit++) {
            const changed = answers.slice()
            changed[bit >> 3]! ^= 1 << (bit & 7)
            expect(recon(changed), `bit ${bit}`).toBeUndefined()
          }
          const lengths = [0, 1, servers - 1, servers, answers.length - 1, answers.length + 1, answers.length + servers]
          for (const length of lengths) recon(stream('other', length))
          for (const length of [0, 31, commitments.length + 32]) recon(answers, stream('other', length))
          recon(answers, stream('other', commitments.length))
        }
      }
    }
  })

  test('refuses indices, entropy, numbers of servers and of queries as WebAssembly does', () => {
    const layout = { records: 1000, recordBytes: 32, partitions: 16, partitionRecords: 64, blockRecords: 1 }
    const make = (indices: readonly number[], entropyBytes: number, servers: number) =>
      both(core => {
        const query = core.newInstantQuery(
          layoutHandle(core, layout),
          Uint32Array.from(indices),
          stream('e', entropyBytes),
          servers,
        )
        return [query.request(0), query.request(servers - 1), query.isVector(servers)]
      })
    for (const servers of [0, 1, 2, 3, 8, 9, -1, 2 ** 32 + 2]) make([1, 999], 32, servers)
    for (const indices of [[], [1000], [0, 2 ** 32 - 1], Array(64).fill(7), Array(65).fill(7)]) {
      for (const servers of [2, 3]) make(indices, 32, servers)
    }
    for (const entropyBytes of [0, 31, 33]) make([1], entropyBytes, 2)
    for (const server of [2, 3, -1]) {
      both(core =>
        core.newInstantQuery(layoutHandle(core, layout), Uint32Array.of(1), stream('e', 32), 2).request(server),
      )
    }
  })

  test('overwrites its queries when it is freed, and answers no more', () => {
    const layout = layoutHandle(scriptCore, { records: 9, recordBytes: 3, partitions: 1, partitionRecords: 9 })
    const query = scriptCore.newInstantQuery(layout, Uint32Array.of(8), stream('e', 32), 3)
    query.free()
    for (const call of [
      () => query.request(0),
      () => query.isVector(0),
      () => query.recon(stream('c', 32), stream('a', 3)),
    ]) {
      expect(call).toThrow('freed')
    }
  })
})

describe('a directory without WebAssembly', () => {
  const printsOf = (keys: number) => Array.from({ length: keys }, (_, i) => wasm.fingerprint(utf8ToBytes(`key ${i}`)))

  test.each([1, 2, 40, 1000, 9000])('reads blocks of %i keys, and refuses what has been changed', keys => {
    const prints = printsOf(keys)
    const directory = wasm.buildDirectory(concatBytes(...prints), keys)
    const { blockLog, blockBytes, seed } = directory
    const handle = directory.database()
    const blocks = split(memory(wasm, handle.recordsPointer(), blockBytes * 2 ** blockLog).slice(), blockBytes)
    const shapes = new Map([wasm, script].map(core => [core, core.directoryShape(blockLog, blockBytes, seed)]))
    const shapeOf = (core: LocalCore) => shapes.get(core)!
    const others = Array.from({ length: 50 }, (_, i) => wasm.fingerprint(utf8ToBytes(`none ${i}`)))
    const found = new Set<unknown>()
    for (const print of [...prints.slice(0, 500), ...others]) {
      const block = blocks[both(core => shapeOf(core).number(print)) as number]!
      found.add(both(core => shapeOf(core).index(block, print, keys)))
      both(core => shapeOf(core).index(block, print, keys >> 1))
    }
    expect(found.size).toBeGreaterThanOrEqual(Math.min(keys, 500))
    always(
      [fc.nat(), fc.nat(), fc.integer({ min: 1, max: 255 }), fc.nat()],
      (pick, place, change, count) => {
        const print = prints[pick % keys]!
        const block = blocks[shapeOf(wasm).number(print)]!.slice()
        // Most changes are among the first bytes, where the header and the first level are.
        block[place % (count % 2 === 0 ? 40 : blockBytes)]! ^= change
        both(core => shapeOf(core).index(block, print, keys))
        both(core => shapeOf(core).index(block, print, 2 ** 32 - 1))
      },
      300,
    )
  })

  test('reads overlays', () => {
    const print = fc.oneof(bytes(16), fc.constantFrom(new Uint8Array(16), new Uint8Array(16).fill(255)))
    const entry = fc.tuple(print, fc.oneof(fc.nat(200), fc.nat(2 ** 31 - 1)))
    const seed = stream('seed', 16)
    const base = fc.oneof(fc.nat(100), fc.constant(2 ** 32 - 1))
    always(
      [fc.array(entry, { maxLength: 12 }), fc.boolean(), base, fc.integer({ min: 0, max: 40 }), fc.nat()],
      (entries, sorted, base, keys, pick) => {
        const compare = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b)
        const overlay = sorted ? entries.toSorted(([a], [b]) => compare(a, b)) : entries
        const block = new Uint8Array(512)
        const view = new DataView(block.buffer)
        view.setUint32(0, base, true)
        view.setUint16(4, keys, true)
        view.setUint16(6, overlay.length, true)
        let [at, left] = [8, keys]
        while (left > 0) {
          const words = Math.ceil((2 * left) / 64)
          const ones = Math.ceil(left / 2)
          for (let bit = 0; bit < ones; bit++) block[at + (bit >> 3) * (words > 1 ? 2 : 1)]! |= 1 << (bit & 7)
          at += 8 * words
          left -= ones
        }
        for (const [print, index] of overlay) {
          block.set(print, at)
          view.setUint32(at + 16, index, true)
          at += 20
        }
        const asked = [stream(`${pick}`, 16), ...overlay.map(([print]) => print)]
        for (const print of asked) {
          for (const records of [0, 1, 150, 2 ** 32 - 1])
            both(core => core.directoryShape(0, 512, seed).index(block, print, records))
        }
      },
      300,
    )
  })

  test('reads blocks of random bytes, and has the same shapes', () => {
    const header = fc.tuple(fc.nat(), fc.nat(300), fc.nat(30)).map(([base, keys, entries]) => {
      const bytes = new Uint8Array(8)
      const view = new DataView(bytes.buffer)
      view.setUint32(0, base, true)
      view.setUint16(4, keys, true)
      view.setUint16(6, entries, true)
      return bytes
    })
    always(
      [header, bytes(248), bytes(16), bytes(16)],
      (header, rest, print, seed) => {
        const block = concatBytes(header, rest)
        both(core => core.directoryShape(0, 256, seed).index(block, print, 2 ** 32 - 1))
        both(core => core.directoryShape(16, 256, seed).number(print))
        both(core => core.directoryShape(0, 256, seed).index(concatBytes(header, new Uint8Array(248)), print, 1000))
      },
      500,
    )
    always(
      [number, number, fc.nat(17)],
      (log, blockBytes, seedBytes) => {
        both(core => {
          const { layout } = core.directoryShape(log, blockBytes, new Uint8Array(seedBytes))
          return [layout.records, layout.recordBytes, layout.partitions, layout.partitionRecords]
        })
      },
      300,
    )
    for (const [log, blockBytes] of [
      [0, 32],
      [16, 32],
      [15, 65_536],
      [16, 32_768],
      [16, 65_536],
      [17, 32],
      [0, 33],
      [0, 0],
    ] as const) {
      both(core => core.directoryShape(log, blockBytes, new Uint8Array(16)).layout.partitionBytes)
    }
    const of = (core: InstantCore) => core.directoryShape(3, 64, new Uint8Array(16))
    for (const length of [0, 15, 17]) {
      both(core => of(core).number(new Uint8Array(length)))
      both(core => of(core).index(new Uint8Array(64), new Uint8Array(length), 5))
    }
    for (const length of [0, 63, 65]) both(core => of(core).index(new Uint8Array(length), new Uint8Array(16), 5))
  })
})
