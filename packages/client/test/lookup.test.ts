// Right answers, over every index and key of many small layouts.

import { describe, expect, test } from 'vitest'
import { sampled } from '../../../tests/support/thorough.js'
import type { KeyhushMap, UsageError } from '../src/index.js'
import { buildDatabase, type Contents, someValues } from './support/database.js'
import { core, Harness, NAMES, sameOnBoth } from './support/harness.js'

const LAYOUTS: readonly [records: number, partitions: number, partitionRecords?: number][] = [
  [1, 1],
  [1, 16],
  [2, 1],
  [2, 2],
  [2, 16],
  [15, 16],
  [15, 4],
  [16, 16],
  [16, 4],
  [17, 16],
  [17, 1],
  [17, 5, 7], // room to grow
  [100, 9],
]

async function withMap(contents: Contents, work: (map: KeyhushMap, harness: Harness) => Promise<void>) {
  const database = buildDatabase(core, contents)
  const harness = new Harness(sameOnBoth(database))
  const map = await harness.open()
  await work(map, harness)
  await harness.drive(map.close())
}

describe.each(sampled(LAYOUTS))('%i records in %i partitions', (records, partitions, partitionRecords) => {
  const layout = { partitions, ...(partitionRecords && { partitionRecords }) }

  test.each([1, 5, 64])('keyless, %i bytes: every index, twice, gives its value', async bytes => {
    const values = someValues(records, bytes)
    await withMap({ values, ...layout }, async (map, harness) => {
      expect(map.size).toBe(records)
      for (let round = 0; round < 2; round++) {
        for (let i = 0; i < records; i++) expect(await harness.drive(map.at(i))).toEqual(values[i])
      }
    })
  })

  test('keyless, variable length: every index gives its value', async () => {
    const values = Array.from({ length: records }, (_, i) => new Uint8Array(i % 9).fill(i + 1))
    await withMap(
      { values: [...values.slice(1), new Uint8Array(9)], variable: true, ...layout },
      async (map, harness) => {
        for (let i = 0; i + 1 < records; i++) expect(await harness.drive(map.at(i))).toEqual(values[i + 1])
      },
    )
  })

  test.each([false, true])('keyed, variable %s: present keys have their values, absent ones none', async variable => {
    const keys = Array.from({ length: records }, (_, i) => `key ${i} ☂`)
    const values = someValues(records, 3)
    await withMap({ keys, values, variable, ...layout }, async (map, harness) => {
      for (const [i, key] of keys.entries()) {
        expect(await harness.drive(map.get(key))).toEqual(values[i])
        expect(await harness.drive(map.has(new TextEncoder().encode(key)))).toBe(true)
        expect(await harness.drive(map.get(`absent ${i}`))).toBeUndefined()
        expect(await harness.drive(map.has(`absent ${i}`))).toBe(false)
      }
    })
  })
})

test('empty slots: at() gives undefined, a key that leads there is absent', async () => {
  const contents = { keys: NAMES, values: someValues(NAMES.length, 4), partitions: 4, empty: [0, 7, 19] }
  await withMap(contents, async (map, harness) => {
    const { byIndex } = buildDatabase(core, contents)
    for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(byIndex[i])
    const found = await harness.drive(Promise.all(NAMES.map(name => map.has(name))))
    expect(found.filter(there => !there)).toHaveLength(3)
  })
})

describe('getMany', () => {
  const contents = { keys: NAMES, values: someValues(NAMES.length, 4), partitions: 4 }

  test('gives values in the order of the keys, repeated and absent ones included, in one round trip', async () => {
    await withMap(contents, async (map, harness) => {
      const keys = [NAMES[4]!, 'absent', NAMES[4]!, NAMES[0]!, NAMES[19]!]
      const v = contents.values
      expect(await harness.drive(map.getMany(keys, { padTo: 8 }))).toEqual([v[4], undefined, v[4], v[0], v[19]])
      expect(harness.network.queries()).toHaveLength(2)
    })
  })

  test('shows the same whatever the keys and however many, when padded', async () => {
    await withMap(contents, async (map, harness) => {
      await harness.drive(map.getMany([], { padTo: 4 }))
      await harness.drive(map.getMany(['absent'], { padTo: 4 }))
      await harness.drive(map.getMany(NAMES.slice(0, 4), { padTo: 4 }))
      const shapes = harness.network.shapes()
      expect(shapes.slice(2, 4)).toEqual(shapes.slice(0, 2))
      expect(shapes.slice(4, 6)).toEqual(shapes.slice(0, 2))
    })
  })

  test('of nothing is nothing, without traffic', async () => {
    await withMap(contents, async (map, harness) => {
      expect(await harness.drive(map.getMany([]))).toEqual([])
      expect(harness.network.queries()).toEqual([])
    })
  })

  test.each(['abc', undefined, null, 5, {}, new ArrayBuffer(3)])('refuses %s, which is no list of keys', async keys => {
    await withMap(contents, async (map, harness) => {
      expect((await harness.failure(map.getMany(keys as unknown as string[]))).code).toBe('usage')
      expect(harness.network.queries()).toEqual([])
    })
  })

  test.each([65, 1000])('refuses %i keys, more than a lookup holds, before any traffic', async count => {
    await withMap(contents, async (map, harness) => {
      const error = await harness.failure(map.getMany(['a'], { padTo: count }))
      expect(error).toMatchObject({ name: 'UsageError', code: 'usage', message: expect.stringContaining('64') })
      expect(harness.network.queries()).toEqual([])
    })
  })

  test.each([1, 2.5, -1, Number.NaN, '3'])('refuses padTo %s for two keys', async padTo => {
    await withMap(contents, async (map, harness) => {
      expect((await harness.failure(map.getMany(['a', 'b'], { padTo: padTo as number }))).code).toBe('usage')
    })
  })
})

test('calls made at once are answered one after another, each with a query of its own', async () => {
  const values = someValues(30, 4)
  await withMap({ values, partitions: 6 }, async (map, harness) => {
    const indices = [3, 3, 3, 29, 0, 3]
    const found = await harness.drive(Promise.all(indices.map(i => map.at(i))))
    expect(found).toEqual(indices.map(i => values[i]))
    expect(harness.network.queries()).toHaveLength(2 * indices.length)
    // One at a time: intent, both requests, effect; never two intents before an effect.
    const steps = harness.log.map(line => line.split(' ')[0])
    expect(steps).toEqual(indices.flatMap(() => ['stored', 'sent', 'sent', 'committed']))
  })
})

test('get, has, at, present and absent: the same traffic', async () => {
  const contents = { keys: NAMES, values: someValues(NAMES.length, 4), partitions: 4, empty: [5] }
  await withMap(contents, async (map, harness) => {
    const calls: (() => Promise<unknown>)[] = [
      () => map.get(NAMES[0]!),
      () => map.get('absent'),
      () => map.has(NAMES[1]!),
      () => map.has('absent'),
      () => map.at(0),
      () => map.at(5),
      () => map.getMany([NAMES[2]!]),
    ]
    for (const call of calls) await harness.drive(call())
    const shapes = harness.network.shapes()
    for (let call = 1; call < calls.length; call++) {
      expect(shapes.slice(2 * call, 2 * call + 2)).toEqual(shapes.slice(0, 2))
    }
  })
})

test('values are read as text and as JSON; the error for other values quotes none of them', async () => {
  const values = ['caf\u00e9', '{"a":[1]}', 'null'].map(text => new TextEncoder().encode(text))
  values.push(Uint8Array.of(0x73, 0x33, 0xff))
  const room = new Uint8Array(12) // of the longest
  const keys = ['text', 'json', 'null', 'bytes', 'room']
  await withMap({ keys, values: [...values, room], variable: true, partitions: 2 }, async (map, harness) => {
    const read = (name: 'getText' | 'getJson', key: string) => harness.drive<unknown>(map[name](key))
    expect(await read('getText', 'text')).toBe('caf\u00e9')
    expect(await read('getJson', 'json')).toEqual({ a: [1] })
    expect(await read('getJson', 'null')).toBe(null)
    for (const name of ['getText', 'getJson'] as const) {
      expect(await read(name, 'nobody')).toBe(undefined)
      const failed = (await read(name, 'bytes').catch(error => error)) as UsageError
      expect([failed.code, failed.cause]).toEqual(['usage', undefined])
      expect(failed.message).not.toContain('s3')
    }
    await expect(read('getJson', 'text')).rejects.toThrow('not JSON')
  })
})
