// Holds the WebAssembly core and the independent reference to vectors/updates.json, which the native core made: epochs made
// of batches, update lists, and lists that are no lists.

import { updateEntries } from '@keyhush/protocol'
import type { RefusedError } from '@keyhush/wasm'
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { type Implementation, reference, type State, wasm } from './implementations.js'
import { split } from './reference/layout.js'
import { decodeList, type Operation } from './reference/update.js'
import vectors from './vectors/updates.json' with { type: 'json' }
import { type OperationVector, stream } from './vectors.js'

/** The database that a life begins with. */
function firstOf(
  implementation: Implementation,
  { layout, valuesLabel, directory, name }: (typeof vectors.lives)[number],
): State {
  const values = split(stream(valuesLabel, 4 * layout.records), 4)
  const bytes = hexToBytes(directory)
  if (name === 'keyless') return { layout, records: concatBytes(...values), directory: bytes }
  const prints = values.map((_, i) => implementation.fingerprint(utf8ToBytes(`key ${i}`)))
  const records: Uint8Array[] = []
  for (const [i, place] of implementation.indicesOf(bytes, prints, layout.records).entries()) {
    records[place] = concatBytes(prints[i]!, values[i]!)
  }
  return { layout, records: concatBytes(...records), directory: bytes }
}

function operationsOf(implementation: Implementation, operations: readonly OperationVector[]): Operation[] {
  return operations.map(({ op, key, index, value = '' }) => {
    const place = key === undefined ? index! : implementation.fingerprint(utf8ToBytes(key))
    const record = concatBytes(...(typeof place === 'object' ? [place] : []), hexToBytes(value))
    if (op === 'add') return { op, record }
    return op === 'edit' ? { op, place, record } : { op: 'delete', place }
  })
}

describe.each([
  ['the reference', reference],
  ['the WebAssembly core', await wasm()],
])('%s', (_, implementation) => {
  test.each(vectors.lives)('makes the epochs of a $name database of their batches', life => {
    let state = firstOf(implementation, life)
    for (const vector of life.epochs) {
      const { layout, records, ...made } = implementation.update(state, operationsOf(implementation, vector.operations))
      const { operations: _, layout: expected, ...bytes } = vector
      expect(layout).toEqual(expected)
      expect(Object.fromEntries(Object.entries(made).map(([name, value]) => [name, bytesToHex(value)]))).toEqual(bytes)
      state = { layout, records, directory: made.directory }
    }
  })

  test.each(vectors.lives)('comes to the same epochs of a $name database by its lists', life => {
    let state = firstOf(implementation, life)
    for (const vector of life.epochs) {
      const { records } = implementation.update(state, operationsOf(implementation, vector.operations))
      const directory = hexToBytes(vector.directory)
      const followed = implementation.follow(state, hexToBytes(vector.list), vector.layout)
      expect(followed).toEqual({ layout: vector.layout, records, directory })
      state = { layout: vector.layout, records, directory }
    }
  })

  test.each(vectors.overfull)('has room in directory blocks for what was planned: $because', vector => {
    const [life] = vectors.lives
    const first = firstOf(implementation, life!)
    const records = concatBytes(
      ...split(first.records, 20).map(of => concatBytes(of.subarray(0, 16), new Uint8Array(4))),
    )
    const operations = vector.operations.map((text): Operation => {
      const [, op, key] = /^(add|delete) (.*)$/.exec(text)!
      const place = implementation.fingerprint(utf8ToBytes(key!))
      return op === 'add' ? { op, record: concatBytes(place, new Uint8Array(4)) } : { op: 'delete', place }
    })
    let refusedAt: number | null = null
    try {
      implementation.update({ ...first, records }, operations)
    } catch (error) {
      refusedAt = (error as RefusedError).operation
    }
    expect(refusedAt).toBe(vector.refusedAt)
  })

  const { before, after } = vectors.lists
  const follow = (bytes: string) =>
    implementation.follow(
      { layout: before, records: Uint8Array.of(8, 0, 8), directory: new Uint8Array() },
      hexToBytes(bytes),
      after,
    )

  test('takes the list that the refused ones are one step from', () => {
    expect(follow(vectors.lists.list).layout).toEqual(after)
  })

  test.each(vectors.lists.refused)('refuses a list: $because', ({ bytes }) => {
    expect(() => follow(bytes)).toThrow()
  })
})

test.each(vectors.lives)('packages/protocol reads the entries of a $name database that the reference reads', life => {
  let before = life.layout
  for (const { layout, ...vector } of life.epochs) {
    const list = hexToBytes(vector.list)
    const kinds = ['', 'add', 'edit', 'delete']
    const expected = decodeList(list, before, layout).map(({ kind, ...entry }) => ({ ...entry, kind: kinds[kind] }))
    expect([...updateEntries(list, layout.recordBytes)]).toEqual(expected)
    before = layout
  }
})
