// Holds the WebAssembly core, both of its builds, and the independent reference to vectors/one-server.json, which the native core made.

import { type Core, loadCore, type OneServerHandle } from '@keyhush/wasm'
import { loadOneServerCore } from '@keyhush/wasm/one-server'
import { blake3 } from '@noble/hashes/blake3.js'
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { initSync } from '../../packages/wasm/generated/one-server.js'
import { THOROUGH } from '../support/thorough.js'
import { Client, type Context, gaussTable, lengthsOf, Server, shapeOf } from './reference/one-server.js'
import vectors from './vectors/one-server.json' with { type: 'json' }
import { stream } from './vectors.js'

type Lookup = (typeof vectors.lookups)[number]

const { lookups, tables } = vectors
const server = await loadCore()
const client = await loadOneServerCore()
const hash = (bytes: Uint8Array) => bytesToHex(blake3(bytes))

/** A test that is not made. */
const never = (_name: string, _run: () => void) => {}

const contextOf = ({ databaseId, generation, of }: Lookup): Context => ({
  databaseId: hexToBytes(databaseId),
  generation,
  of: of as Context['of'],
})
const recordsOf = ({ recordsLabel, records, recordBytes }: Lookup) => stream(recordsLabel, records * recordBytes)

/** The answers with half a step added to a row of the first. */
function shifted(answers: Uint8Array, row: number): Uint8Array {
  const [lie, at, shift] = [answers.slice(), (row * 7) >> 3, (row * 7) & 7]
  const sum = lie[at]! + 256 * (lie[at + 1] ?? 0)
  const mask = 0x7f << shift
  const changed = (sum & ~mask) | ((sum + (4 << shift)) & mask)
  lie[at] = changed
  if (at + 1 < lie.length) lie[at + 1] = changed >> 8
  return lie
}

/** Whether each such lie is accepted all the same, as in the vectors. */
const verdicts = (vector: Lookup, answers: Uint8Array, accepts: (lie: Uint8Array) => boolean, rows: number) =>
  Array.from(vector.verdicts.slice(0, rows), (_, row) => (accepts(shifted(answers, row)) ? '1' : '0')).join('')

/** The records that are asked for. */
function wanted(vector: Lookup): string {
  const [all, { recordBytes }] = [recordsOf(vector), vector]
  return bytesToHex(concatBytes(...vector.indices.map(i => all.subarray(i * recordBytes, (i + 1) * recordBytes))))
}

test.each(Object.entries(tables))('the reference computes the Gaussian table of %s tenths anew', (tenths, expected) => {
  expect(gaussTable(Number(tenths)).map(entry => entry.toString(16).padStart(16, '0'))).toEqual(expected)
})

describe.each(lookups)('a ring of degree $degree, $records records of $recordBytes bytes', vector => {
  const shape = shapeOf(vector.degree, vector.records, vector.recordBytes)!
  const [entropy, manifestHash] = [hexToBytes(vector.entropy), hexToBytes(vector.manifestHash)]
  const asks = () => new Client(shape, contextOf(vector), manifestHash, vector.indices, entropy)
  const [hint, answers] = [hexToBytes(vector.hint), hexToBytes(vector.answers)]

  const inBoth = THOROUGH || vector.degree < 2048 ? test : never
  inBoth('the reference makes the same request, and decodes the answer', () => {
    const lookup = asks()
    expect(lookup.request.length).toBe(vector.indices.length * lengthsOf(shape).request)
    expect(hash(lookup.request)).toBe(vector.requestHash)
    expect(bytesToHex(lookup.decode(hint, answers)!)).toBe(wanted(vector))
    const lie = answers.slice()
    lie[0]! ^= 0x40
    expect(lookup.decode(hint, lie)).toBeUndefined()
    const rows = vector.degree < 2048 ? 16 : 1
    const verdict = (lie: Uint8Array) => lookup.decode(hint, lie) !== undefined
    expect(verdicts(vector, answers, verdict, rows)).toBe(vector.verdicts.slice(0, rows))
  })

  // The reference takes too long for a large ring, and WebAssembly has no small ones.
  const [inReference, inWasm] = vector.degree < 2048 ? [test, never] : [never, test]
  inReference('the reference prepares the same hint, and gives the same answer', () => {
    const reference = new Server(shape, contextOf(vector), vector.attempt, recordsOf(vector))
    expect(bytesToHex(reference.hint)).toBe(vector.hint)
    const { request } = asks()
    const each = lengthsOf(shape).request
    const parts = vector.indices.map((_, i) => reference.answer(request.subarray(i * each, (i + 1) * each)))
    expect(bytesToHex(concatBytes(...parts))).toBe(vector.answers)
  })

  inWasm('WebAssembly prepares, asks, answers and decodes the same', () => {
    const database = prepared(server, vector)
    expect(bytesToHex(database.hint())).toBe(vector.hint)
    for (const core of [client, server]) {
      const ask = () =>
        core.newOneServerQuery(vector, contextOf(vector), manifestHash, Uint32Array.from(vector.indices), entropy)
      const query = ask()
      expect(hash(query.request())).toBe(vector.requestHash)
      expect(bytesToHex(database.answer(query.request()))).toBe(vector.answers)
      while (query.expand()) {}
      expect(bytesToHex(query.decode(hint, answers)!)).toBe(wanted(vector))
      expect(() => query.decode(hint, answers)).toThrow(expect.objectContaining({ code: 'phase' }))
      query.free()
      const accepts = (lie: Uint8Array) => {
        const again = ask()
        const records = again.decode(hint, lie)
        again.free()
        return records !== undefined
      }
      const rows = THOROUGH ? 16 : 4
      expect(verdicts(vector, answers, accepts, rows)).toBe(vector.verdicts.slice(0, rows))
    }
    database.free()
  })
})

function prepared(core: Core, vector: Lookup): OneServerHandle {
  const database = core.newOneServer(vector, contextOf(vector), vector.attempt)
  const records = recordsOf(vector)
  for (let at = 0; at < records.length; at += 1000) database.put(records.subarray(at, at + 1000))
  expect(() => database.hint()).toThrow(expect.objectContaining({ code: 'phase' }))
  while (database.step()) {}
  return database
}

test('core and reference agree on shapes, and on which there are', () => {
  const sizes = fc.tuple(fc.oneof(fc.nat(100), fc.nat(2 ** 24)), fc.oneof(fc.nat(300), fc.nat(40_000)))
  const property = ([records, recordBytes]: [number, number]) => {
    const shape = records === 0 || recordBytes === 0 ? undefined : shapeOf(2048, records, recordBytes)
    for (const core of [client, server]) {
      if (shape === undefined) {
        expect(() => core.oneServerSizes({ records, recordBytes })).toThrow(expect.objectContaining({ code: 'layout' }))
        continue
      }
      const { request, answer, hint } = lengthsOf(shape)
      expect(core.oneServerSizes({ records, recordBytes })).toMatchObject({
        ...{ requestBytes: request, answerBytes: answer, hintBytes: hint },
        ...{ columns: shape.columns, outputs: shape.outputs },
        maxQueries: Math.max(1, Math.min(64, Math.floor(2 ** 20 / request))),
      })
    }
  }
  fc.assert(fc.property(sizes, property), { numRuns: 300 })
})

test('what cannot be is refused with a code', () => {
  const database = { records: 1000, recordBytes: 32 }
  const context: Context = { databaseId: new Uint8Array(16), generation: 1, of: 'records' }
  const ask = (indices: number[], id = 16, hashBytes = 32, entropyBytes = 32) =>
    client.newOneServerQuery(
      database,
      { ...context, databaseId: new Uint8Array(id) },
      new Uint8Array(hashBytes),
      Uint32Array.from(indices),
      new Uint8Array(entropyBytes),
    )
  const refused = (code: string) => expect.objectContaining({ code })
  expect(() => ask([])).toThrow(refused('length'))
  expect(() => ask([1000])).toThrow(refused('index'))
  for (const [id, hashBytes, entropyBytes] of [
    [15, 32, 32],
    [16, 31, 32],
    [16, 32, 33],
  ] as const) {
    expect(() => ask([1], id, hashBytes, entropyBytes)).toThrow(refused('length'))
  }
  const query = ask([1])
  const { hintBytes, answerBytes } = client.oneServerSizes(database)
  expect(() => query.decode(new Uint8Array(hintBytes - 1), new Uint8Array(answerBytes))).toThrow(refused('length'))
  expect(() => query.decode(new Uint8Array(hintBytes), new Uint8Array(answerBytes + 1))).toThrow(refused('length'))
  expect(query.decode(new Uint8Array(hintBytes), new Uint8Array(answerBytes))).toBeUndefined()
  query.free()
  const empty = server.newOneServer(database, context)
  expect(() => empty.step()).toThrow(refused('phase'))
  expect(() => empty.put(new Uint8Array(32_001))).toThrow(refused('length'))
  expect(() => empty.answer(new Uint8Array(1))).toThrow(refused('phase'))
  expect(() => server.newOneServerNorm(empty)).toThrow(refused('phase'))
  empty.free()
})

// The start functions of a running instance return its exports.
const memory = () => new Uint8Array((initSync as unknown as () => { memory: WebAssembly.Memory })().memory.buffer)
const holds = (bytes: Uint8Array) => Buffer.from(memory().buffer).includes(Buffer.from(bytes))

test('after the answer is decoded, no secret stays in memory', () => {
  const vector = lookups.at(-2)!
  const entropy = hexToBytes(vector.entropy)
  const indices = Uint32Array.from(vector.indices)
  const query = client.newOneServerQuery(vector, contextOf(vector), hexToBytes(vector.manifestHash), indices, entropy)
  const shape = shapeOf(vector.degree, vector.records, vector.recordBytes)!
  const reference = new Client(shape, contextOf(vector), hexToBytes(vector.manifestHash), vector.indices, entropy)
  const secrets = [reference.seed, reference.noise(8)]
  while (query.expand()) {}
  expect(secrets.map(holds)).toEqual([true, true]) // so that this test can fail
  const record = query.decode(hexToBytes(vector.hint), hexToBytes(vector.answers))!
  expect(bytesToHex(record)).toBe(wanted(vector))
  query.free()
  expect([...secrets, record, entropy].map(holds)).toEqual([false, false, false, false])
})

test('the check of norms passes a database of one byte throughout', () => {
  const database = { records: 3000, recordBytes: 32 }
  const handle = server.newOneServer(database, { databaseId: new Uint8Array(16), generation: 1, of: 'directory' })
  handle.put(new Uint8Array(96_000).fill(0xff))
  while (handle.step()) {}
  const norm = server.newOneServerNorm(handle)
  expect(norm.hides).toBe(false)
  while (norm.step(handle)) {}
  expect(norm.hides).toBe(true)
  expect(norm.log2).toBeGreaterThan(36.3)
  expect(norm.log2).toBeLessThan(36.9)
  norm.free()
  handle.free()
})
