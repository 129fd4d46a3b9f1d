// On a metered line a map in mode `auto` downloads nothing large by itself. It follows from the line, never from a key or a reply (I3).

import { afterEach, describe, expect, test, vi } from 'vitest'
import { UNASKED_BYTES } from '../src/base/constants.js'
import type { KeyhushMap } from '../src/index.js'
import { platformConnection } from '../src/platform/connection.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import type { OpenWithOptions } from '../src/testing.js'
import { rest } from './support/clock.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core, hex, sameOnBoth } from './support/harness.js'
import { FakeLine } from './support/line.js'
import { A, blobs, hang, late } from './support/network.js'
import { type Life, World } from './support/world.js'

const large = buildDatabase(core, { values: someValues(300, 8 * 1024), partitions: 8 })
const BYTES = large.manifest.partitions * large.manifest.partitionRecords * 8 * 1024
const epochs: Database[] = [large]
for (let i = 1; i < 5; i++) {
  epochs.push(nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: i, value: new Uint8Array(8 * 1024).fill(i) }]))
}
const newest = epochs.at(-1)!

/** A tab whose line is metered, unless the test says otherwise. */
function tabOn(w: World) {
  const line = new FakeLine()
  line.isMetered = true
  const life = w.life({ connection: line })
  const open = async (options: Partial<OpenWithOptions> & { readonly full?: boolean } = {}): Promise<KeyhushMap> => {
    const { full = false, ...others } = options
    const planner = { pays: () => true, ...(full ? { choose: () => tapir } : {}) }
    const given = { mode: 'auto', push: false, proofs: undefined, timeoutMs: undefined, ...others } as const
    const map = await w.drive(life.openIdle(given, planner))
    if (map.mode === 'instant') await w.drive(map.at(0)) // the first state waits for a lookup
    await rest()
    return map
  }
  return { line, life, open }
}
const world = (database = large) => new World({ network: sameOnBoth(database), database })
const types = ({ events }: Life) => events.map(({ type }) => type).filter(type => type !== 'storage')
const checkAt = async (w: World, map: KeyhushMap, index: number) => {
  expect(hex((await w.drive(map.at(index)))!)).toBe(hex(w.database.byIndex[index]!))
  await rest()
}

describe('on a metered line', () => {
  test('nothing large is downloaded beside lookups, and the app is told once; it begins when the line is another', async () => {
    const w = world()
    const { line, life, open } = tabOn(w)
    const map = await open()
    for (let i = 0; i < 9; i++) await checkAt(w, map, i)
    line.become('metered') // another metered line
    await rest()
    expect([map.mode, blobs(w.network).length]).toEqual(['instant', 0])
    expect(life.events).toContainEqual({ type: 'postponed', mode: 'local', bytes: BYTES })
    expect(types(life)).toEqual(['postponed'])
    line.become('unmetered')
    await rest()
    expect(map.mode).toBe('local')
    expect(types(life)).toEqual(['postponed', 'preparing', 'prepared', 'mode'])
    await checkAt(w, map, 7)
    expect(line.heard).toBe(0)
  })

  test('after a change that the browser does not tell of it begins at the next lookup', async () => {
    const w = world()
    const { line, open } = tabOn(w)
    const map = await open()
    line.isMetered = false
    await checkAt(w, map, 1)
    expect(map.mode).toBe('local')
  })

  test('prepare() goes on', async () => {
    const w = world()
    const { line, open } = tabOn(w)
    const map = await open()
    await w.drive(map.prepare())
    expect([map.mode, line.heard]).toEqual(['local', 0])
  })

  test("'any' does not wait", async () => {
    const w = world()
    const map = await tabOn(w).open({ network: 'any' })
    expect(map.mode).toBe('local')
  })

  test('a small database is downloaded', async () => {
    const w = new World()
    expect(w.database.manifest.records * 8).toBeLessThan(UNASKED_BYTES)
    expect((await tabOn(w).open()).mode).toBe('local')
  })

  test("the app's function is asked when the line is another", async () => {
    const w = world()
    const { line, open } = tabOn(w)
    let asked = 0
    const map = await open({ download: () => ++asked > 0 })
    await checkAt(w, map, 1)
    expect(asked).toBe(0)
    line.become('unmetered')
    await rest()
    expect([map.mode, asked]).toEqual(['local', 1])
  })

  test('what nothing else answers is downloaded', async () => {
    const w = world()
    const map = await tabOn(w).open({ servers: [A], integrity: 'server' })
    await checkAt(w, map, 1)
    w.network.instant = false
    const other = world()
    other.network.instant = false
    await checkAt(other, await tabOn(other).open(), 1)
  })

  test('close() while it waits leaves nothing behind', async () => {
    const w = world()
    const { line, open } = tabOn(w)
    const map = await open()
    expect(line.heard).toBe(1)
    await w.drive(map.close())
    await rest()
    expect([line.heard, blobs(w.network).length]).toEqual([0, 0])
  })
})

test.each(['local', 'full'])(
  'a download for mode %s stops when the line becomes metered, and goes on from what it has',
  async mode => {
    const w = world()
    const { line, life, open } = tabOn(w)
    line.isMetered = false
    const stalls = hang('/v1/blobs/')
    let begun = 0
    w.network.both((seen, genuine) => {
      if (!seen.path.startsWith('/v1/blobs/') || ++begun <= 5) return undefined
      return stalls(seen, genuine)
    })
    const map = await open({ full: mode === 'full' })
    const before = blobs(w.network).length
    expect(before).toBeGreaterThan(5)
    line.become('metered')
    await rest()
    w.network.both(undefined)
    for (let i = 0; i < 5; i++) await checkAt(w, map, i)
    expect([map.mode, blobs(w.network).length]).toEqual(['instant', before])
    expect(types(life)).toEqual(['preparing', 'postponed'])
    line.become('unmetered')
    await rest()
    expect(map.mode).toBe(mode)
    expect(blobs(w.network).length).toBeLessThan(before + 8)
    await checkAt(w, map, 7)
    expect(line.heard).toBe(0)
  },
)

test('a download that the app demands meanwhile goes on when the line becomes metered', async () => {
  const w = world()
  const { line, open } = tabOn(w)
  line.isMetered = false
  w.network.both(late(w.clock, '/v1/blobs/', 2_000))
  const map = await open()
  const preparing = map.prepare()
  line.become('metered')
  await w.drive(preparing)
  expect(map.mode).toBe('local')
})

describe('a state from which no update leads on, on a metered line', () => {
  test.each([true, false])('at open(): lookups without it (full: %s)', async full => {
    const before = world()
    await before.drive((await tabOn(before).open({ full, network: 'any' })).close())
    const w = new World({ network: sameOnBoth(newest), database: newest, before })
    const { line, open } = tabOn(w)
    const map = await open({ full })
    expect([map.mode, map.epoch, blobs(w.network).length]).toEqual(['instant', 5, 0])
    await checkAt(w, map, 1)
    line.become('unmetered')
    await rest()
    expect([map.mode, map.epoch]).toEqual([full ? 'full' : 'local', 5])
    await checkAt(w, map, 1)
  })

  test.each(['sync', 'at'] as const)(
    'while the map is open: %s() goes on without it, and does not fail',
    async call => {
      const w = world()
      const { line, life, open } = tabOn(w)
      line.isMetered = false
      const map = await open({ full: true })
      expect(map.mode).toBe('full')
      line.become('metered')
      const before = blobs(w.network).length
      w.network.replaceOnBoth(newest)
      if (call === 'sync') await w.drive(map.sync())
      for (let lookup = 0; lookup < 3; lookup++) {
        expect(hex((await w.drive(map.at(1)))!)).toBe(hex(newest.byIndex[1]!))
        await rest()
      }
      expect([map.mode, map.epoch, blobs(w.network).length]).toEqual(['instant', 5, before])
      expect(types(life).at(-1)).toBe('postponed')
      line.become('unmetered')
      await rest()
      expect([map.mode, map.epoch]).toEqual(['full', 5])
    },
  )
})

describe("the browser's line", () => {
  afterEach(() => void vi.unstubAllGlobals())

  test.each([
    [undefined, false],
    [{}, false],
    [{ saveData: false, type: 'wifi' }, false],
    [{ saveData: true, type: 'wifi' }, true],
    [{ saveData: false, type: 'cellular' }, true],
  ])('%o is metered: %s', (told, metered) => {
    vi.stubGlobal('navigator', { connection: told })
    expect(platformConnection.isMetered).toBe(metered)
    platformConnection.whenChanged(() => {})()
  })

  test('tells of a change until it is told not to', () => {
    const connection = Object.assign(new EventTarget(), { type: 'cellular' })
    vi.stubGlobal('navigator', { connection })
    const heard: boolean[] = []
    const withdraw = platformConnection.whenChanged(() => heard.push(platformConnection.isMetered))
    connection.type = 'wifi'
    connection.dispatchEvent(new Event('change'))
    withdraw()
    connection.dispatchEvent(new Event('change'))
    expect(heard).toEqual([false])
  })
})

test.each([
  [{ mode: 'full', network: 'any' }, 'network: expected mode'],
  [{ network: 'wifi' }, 'network: expected'],
])('%o is refused', async (options, message) => {
  await expect(tabOn(world()).open(options as never)).rejects.toThrow(message)
})
