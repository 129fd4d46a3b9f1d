// Holds copies of databases without WebAssembly to the WebAssembly core, and both to the vectors: partitions, directories and update
// lists, genuine or not, have the same bytes and the same refusals.

import type { DirectoryHandle, LocalCore, LocalHandle } from '@keyhush/wasm'
import { concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { corpusOf } from '../../tools/fuzz.mjs'
import { layoutHandle } from '../support/wasm.js'
import { always, both, bytes, layouts, script, wasm } from './both.js'
import { type Layout, partitionBytes, split } from './reference/layout.js'
import core from './vectors/core.json' with { type: 'json' }
import updates from './vectors/updates.json' with { type: 'json' }
import { stream } from './vectors.js'

const { directoryReading: reading } = core
const corpus = (name: string) => corpusOf(name).map(input => Uint8Array.from(input))

const ID = stream('id', 16)
const prints = Array.from({ length: 60 }, (_, i) => wasm.fingerprint(utf8ToBytes(`key ${i}`)))

const partitionsOf = (layout: Layout, records: Uint8Array) => {
  const padded = new Uint8Array(layout.partitions * partitionBytes(layout))
  padded.set(records)
  return split(padded, partitionBytes(layout))
}
const hashesOf = (partitions: readonly Uint8Array[]) => concatBytes(...partitions.map(wasm.blake3))

function receive(core: LocalCore, copy: LocalHandle, lane: number, q: number, partition: Uint8Array): boolean {
  copy.begin(lane, q)
  for (let at = 0; at < partition.length; at += 100) {
    const piece = partition.subarray(at, at + 100)
    const { buffer } = copy.memory ?? (core as typeof wasm).memory
    new Uint8Array(buffer, copy.lanePointer(lane) + at, piece.length).set(piece)
    copy.absorb(lane, piece.length)
  }
  return copy.fold(lane)
}

/** A copy of all partitions but some. */
function copyOf(core: LocalCore, layout: Layout, records: Uint8Array, missing: readonly number[] = []): LocalHandle {
  const partitions = partitionsOf(layout, records)
  const copy = core.newLocal(layoutHandle(core, layout), hashesOf(partitions), ID)
  for (const [q, partition] of partitions.entries()) {
    if (!missing.includes(q)) expect(receive(core, copy, q & 1, q, partition)).toBe(true)
  }
  return copy
}

/** What can be seen of a copy. */
function seen(copy: LocalHandle) {
  const { records, partitions } = copy.layout
  const held = Array.from({ length: partitions }, (_, q) => copy.isFolded(q))
  const all = Uint32Array.from({ length: records }, (_, i) => i)
  return {
    records,
    held,
    version: copy.version,
    id: copy.id,
    bytes: held.includes(false) ? undefined : copy.records(all),
  }
}

describe('copies without WebAssembly', () => {
  test('receive partitions, and refuse others', () => {
    always(
      [layouts, fc.nat(), fc.nat(), fc.integer({ min: 1, max: 255 }), fc.array(fc.nat(400), { maxLength: 5 })],
      (layout, pick, place, change, indices) => {
        const records = stream('records', layout.records * layout.recordBytes)
        const partitions = partitionsOf(layout, records)
        const q = pick % layout.partitions
        const other = partitions[q]!.slice()
        other[place % other.length]! ^= change
        both(core => {
          const copy = copyOf(core, layout, records, [q])
          const refused = receive(core, copy, 1, q, other)
          const before = seen(copy)
          const taken = receive(core, copy, 0, q, partitions[q]!)
          copy.finish(7)
          return [refused, before, taken, seen(copy)]
        })
        both(core => copyOf(core, layout, records).records(Uint32Array.from(indices)))
      },
      60,
    )
  })

  test('refuse calls out of order and wrong lengths', () => {
    const layout = { records: 7, recordBytes: 3, partitions: 2, partitionRecords: 4, blockRecords: 1 }
    const records = stream('records', 21)
    const calls: ((copy: LocalHandle) => unknown)[] = [
      copy => copy.begin(0, 0),
      copy => copy.begin(0, 2),
      copy => copy.begin(2, 1),
      copy => copy.begin(-1, 1),
      copy => [copy.begin(0, 1), copy.begin(1, 1)],
      copy => copy.absorb(0, 1),
      copy => copy.absorb(2, 1),
      copy => [copy.begin(0, 1), copy.absorb(0, 13)],
      copy => [copy.begin(0, 1), copy.absorb(0, 11), copy.fold(0)],
      copy => [copy.begin(0, 1), copy.abandon(0), copy.fold(0)],
      copy => copy.abandon(2),
      copy => copy.lanePointer(0),
      copy => copy.isFolded(2),
      copy => copy.finish(1),
      copy => copy.records(Uint32Array.of(0)),
    ]
    for (const call of calls) both(core => [call(copyOf(core, layout, records, [1]))])
    for (const index of [6, 7, 2 ** 32 - 1]) both(core => copyOf(core, layout, records).records(Uint32Array.of(index)))
    for (const length of [0, 63, 65])
      both(core => core.newLocal(layoutHandle(core, layout), new Uint8Array(length), ID))
    for (const length of [0, 15, 17]) {
      both(core => core.newLocal(layoutHandle(core, layout), new Uint8Array(64), new Uint8Array(length)))
    }
  })

  test.each(updates.lives)(
    'follow the epochs of a $name database',
    ({ layout: first, valuesLabel, directory, ...life }) => {
      const values = split(stream(valuesLabel, 4 * first.records), 4)
      const keyed = directory !== ''
      let [layout, bytes]: [Layout, Uint8Array] = [first, hexToBytes(directory)]
      const begun = new Uint8Array(first.records * first.recordBytes)
      for (const [i, value] of values.entries()) {
        const place = keyed ? wasm.decodeDirectory(bytes, first.records).index(prints[i]!, first.records) : i
        begun.set(keyed ? concatBytes(prints[i]!, value) : value, place * first.recordBytes)
      }
      const copies = new Map([wasm, script].map(core => [core as LocalCore, copyOf(core, first, begun)]))
      for (const vector of life.epochs) {
        const [list, hashes] = [hexToBytes(vector.list), hexToBytes(vector.contentHashes)]
        const [before, after] = [layout, vector.layout]
        if (keyed) {
          const next = both(core => {
            const [from, to] = [layoutHandle(core, before), layoutHandle(core, after)]
            return core.decodeDirectory(bytes, before.records).updated(list, from, to).encode()
          })
          expect(next).toEqual(hexToBytes(vector.directory))
          bytes = next as Uint8Array
          expect(both(core => core.decodeDirectory(bytes, after.records).encode())).toEqual(bytes)
          both(core => core.decodeDirectory(bytes, after.records).indices(concatBytes(...prints), after.records))
        }
        const changed = hashes.slice()
        changed[changed.length - 1]! ^= 1
        both(core => copies.get(core)!.update(list, layoutHandle(core, after), changed))
        both(core => copies.get(core)!.update(list, layoutHandle(core, after), hashes.subarray(32)))
        both(core => {
          const copy = copies.get(core)!
          const old = seen(copy)
          const entry = copy.update(list, layoutHandle(core, after), hashes)
          return [old, entry !== undefined, seen(copy)]
        })
        layout = after
      }
      expect(copies.get(script)!.version).toBe(life.epochs.length)
    },
  )

  test('with some partitions follow as well, foreseen or not, and drop downloads of what changes', () => {
    const layout = { records: 10, recordBytes: 4, partitions: 3, partitionRecords: 4, blockRecords: 1 }
    const entry = fc.record({ kind: fc.integer({ min: 1, max: 3 }), difference: bytes(4), skip: fc.nat(4) })
    always(
      [fc.array(entry, { maxLength: 6 }), fc.nat(7), fc.boolean(), fc.boolean()],
      (entries, without, isForeseen, isRight) => {
        const records = stream('records', 40)
        const missing = [0, 1, 2].filter(q => (without >> q) & 1)
        const grown = { ...layout, records: 14, partitions: 4 }
        const after = new Uint8Array(56)
        after.set(records)
        let index = -1
        const parts = entries.flatMap(({ kind, difference, skip }) => {
          index += 1 + skip
          for (let i = 0; i < 4; i++) if (index < 14) after[4 * index + i]! ^= difference[i]!
          return [Uint8Array.from([index, 0, 0, 0, index >= 10 ? 1 : kind]), difference]
        })
        const list = concatBytes(header(layout, grown, entries.length), ...parts)
        const hashes = hashesOf(partitionsOf(grown, after))
        if (!isRight) hashes[5]! ^= 1
        both(core => {
          const copy = copyOf(core, layout, records, missing)
          if (missing.length > 0) copy.begin(0, missing[0]!)
          const next = layoutHandle(core, grown)
          if (isForeseen) {
            copy.foresee?.(list, next, hashes)
            while (copy.step?.());
          }
          const entry = outcome(() => copy.update(list, next, hashes) !== undefined)
          return [entry, seen(copy), outcome(() => copy.absorb(0, 1))]
        })
      },
      150,
    )
  })

  test('what an update hashes is done in pieces, and nothing changes before', () => {
    const layout = { records: 50_000, recordBytes: 20, partitions: 1, partitionRecords: 50_000, blockRecords: 1 }
    const records = stream('records', 1_000_000)
    const list = concatBytes(header(layout, layout, 1), Uint8Array.of(5, 0, 0, 0, 2), new Uint8Array(20).fill(1))
    const after = records.slice()
    for (let i = 100; i < 120; i++) after[i]! ^= 1
    const copy = copyOf(script, layout, records)
    const next = layoutHandle(script, layout)
    const hashes = hashesOf([after])
    copy.foresee!(list, next, hashes)
    let steps = 1
    for (; copy.step!(); steps++) expect(copy.records(Uint32Array.of(5))).toEqual(records.slice(100, 120))
    expect(steps).toBeGreaterThanOrEqual(8)
    copy.update(list, next, hashes)
    expect(copy.records(Uint32Array.of(5))).toEqual(after.slice(100, 120))
  })
})

function outcome<T>(work: () => T): T | string {
  try {
    return work()
  } catch (error) {
    return (error as Error).message
  }
}

/** Of a list. */
function header(before: Layout, after: Layout, count: number): Uint8Array {
  const numbers = [before.records, before.partitions, after.records, after.partitions]
  const rest = [after.partitionRecords, after.recordBytes, count, Math.log2(after.blockRecords ?? 1)]
  const view = new DataView(new ArrayBuffer(40))
  for (const [i, number] of [0x5552_4950, 1, ...numbers, ...rest].entries()) view.setUint32(4 * i, number, true)
  return new Uint8Array(view.buffer)
}

describe('update lists without WebAssembly', () => {
  /** By a copy without partitions, and by a directory of records this long. */
  const read = (list: Uint8Array, before: Layout, after: Layout) => {
    both(core => {
      const copy = core.newLocal(layoutHandle(core, before), new Uint8Array(32 * before.partitions), ID)
      return copy.update(list, layoutHandle(core, after), new Uint8Array(32 * after.partitions))
    })
    const directory = wasm.buildDirectory(concatBytes(...prints.slice(0, 3)), 3).encode()
    return both(core => {
      const [from, to] = [layoutHandle(core, before), layoutHandle(core, after)]
      return core.decodeDirectory(directory, 3).updated(list, from, to).encode()
    })
  }

  test('are taken and refused alike', () => {
    const { before, after, list, refused } = updates.lists
    for (const bytes of [list, ...refused.map(({ bytes }) => bytes)]) read(hexToBytes(bytes), before, after)
    for (const change of [{ records: 2 }, { partitions: 1, records: 2 }, { recordBytes: 2 }, { blockRecords: 2 }]) {
      read(hexToBytes(list), before, { ...after, ...change })
    }
  })

  test('of the corpus too', () => {
    const layout = { records: 10, recordBytes: 4, partitions: 3, partitionRecords: 4 }
    const lists = corpus('update_list')
    expect(lists.length).toBeGreaterThan(50)
    for (const list of lists) read(list, layout, { ...layout, records: 12 })
  })

  test('of random keys lead to the same directories', () => {
    const layout = { records: 60, recordBytes: 17, partitions: 2, partitionRecords: 30 }
    const built = wasm.buildDirectory(concatBytes(...prints.slice(0, 40)), 60).encode()
    const entry = fc.record({ kind: fc.integer({ min: 1, max: 3 }), key: fc.nat(59), skip: fc.nat(3) })
    always(
      [fc.array(fc.array(entry, { maxLength: 15 }), { minLength: 1, maxLength: 3 })],
      epochs => {
        let bytes = built
        for (const entries of epochs) {
          let index = -1
          const parts = entries.flatMap(({ kind, key, skip }) => {
            index += 1 + skip
            return [Uint8Array.of(index, 0, 0, 0, kind), prints[key]!, Uint8Array.of(1)]
          })
          const list = concatBytes(header(layout, layout, entries.length), ...parts)
          const next = both(core => {
            const handle = layoutHandle(core, layout)
            return core.decodeDirectory(bytes, 60).updated(list, handle, handle).encode()
          })
          if (!(next instanceof Uint8Array)) return
          both(core => core.decodeDirectory(next, 60).indices(concatBytes(...prints), 60))
          bytes = next
        }
      },
      50,
    )
  })

  test('that add more keys to a directory block than it has room for', () => {
    const layout = { records: 200, recordBytes: 17, partitions: 2, partitionRecords: 100 }
    const directory = wasm.buildDirectory(concatBytes(...prints.slice(0, 40)), 40)
    const shape = wasm.directoryShape(directory.blockLog, directory.blockBytes, directory.seed)
    const ofOne: Uint8Array[] = []
    for (let i = 0; ofOne.length < 60; i++) {
      const print = wasm.fingerprint(utf8ToBytes(`more ${i}`))
      if (shape.number(print) === 3) ofOne.push(print)
    }
    const outcomes = ofOne.map((_, count) => {
      const parts = ofOne
        .slice(0, count)
        .map((print, i) => concatBytes(Uint8Array.of(100 + i, 0, 0, 0, 1), print, Uint8Array.of(1)))
      const list = concatBytes(header(layout, layout, count), ...parts)
      return both(core => {
        const handle = layoutHandle(core, layout)
        return core.decodeDirectory(directory.encode(), 200).updated(list, handle, handle).encode()
      })
    })
    expect([outcomes[1], outcomes.at(-1)].map(outcome => outcome instanceof Uint8Array)).toEqual([true, false])
  })
})

describe('directories without WebAssembly', () => {
  const read = (bytes: Uint8Array, records: number, asked: readonly Uint8Array[] = prints) =>
    both(core => {
      const directory = core.decodeDirectory(bytes, records)
      const all = outcome(() => directory.indices(concatBytes(...asked), records))
      const { keys } = directory
      return [keys, all, directory.encode(), outcome(() => directory.index(asked[0]!, records >> 1))]
    })

  test('are taken and refused alike', () => {
    for (const { bytes, records } of [...reading.taken, ...reading.refused]) {
      read(hexToBytes(bytes), records, [...prints, ...reading.added.map(hexToBytes)])
    }
  })

  test('of the corpus too', () => {
    const directories = corpus('directory')
    expect(directories.length).toBeGreaterThan(100)
    for (const bytes of directories) for (const records of [100, 39]) read(bytes, records)
  })

  test.each([1, 40, 3000])('of %i keys, with a bit changed or cut short', keys => {
    const many = Array.from({ length: keys }, (_, i) => wasm.fingerprint(utf8ToBytes(`key ${i}`)))
    const built = wasm.buildDirectory(concatBytes(...many), keys)
    const bytes = built.encode()
    expect(read(bytes, keys, [...many, ...prints])).toHaveLength(4)
    always(
      [fc.nat(), fc.integer({ min: 1, max: 255 }), fc.boolean()],
      (place, change, isCut) => {
        const other = isCut ? bytes.slice(0, place % bytes.length) : bytes.slice()
        if (!isCut) other[place % (change & 1 ? 60 : bytes.length)]! ^= change
        read(other, keys)
      },
      40,
    )
    const shaped = (core: LocalCore, directory: DirectoryHandle) =>
      [0, 1].flatMap(more => [
        directory.isOf(core.directoryShape(built.blockLog + more, built.blockBytes, built.seed)),
        directory.isOf(core.directoryShape(built.blockLog, built.blockBytes + 32 * more, built.seed)),
        directory.isOf(
          core.directoryShape(
            built.blockLog,
            built.blockBytes,
            built.seed.map((byte, i) => (i === 15 ? byte ^ more : byte)),
          ),
        ),
      ])
    expect(both(core => shaped(core, core.decodeDirectory(bytes, keys)))).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ])
    both(core => core.decodeDirectory(bytes, keys).index(new Uint8Array(15), keys))
    both(core => core.decodeDirectory(bytes, keys).indices(new Uint8Array(17), keys))
  })
})
