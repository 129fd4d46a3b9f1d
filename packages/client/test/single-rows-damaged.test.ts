// Damaged rows of tags: a full disk; rows that are swapped, torn, missing or of another hint; tabs that are killed while they prepare
// rows; a server that lies. No answer is wrong or goes unchecked, and no row is left behind.

import { HEADER_BYTES, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import { FileStore } from '../src/store/file.js'
import { StoreFullError } from '../src/testing.js'
import { SimulatedDisk } from './store/power.js'
import { deferred, settle } from './support/clock.js'
import { A, bytesOf, ok, on, problem } from './support/network.js'
import { anotherIn, loadCore, many, openedInRows, options, worldInRows } from './support/rows.js'
import { type Life, records, World } from './support/world.js'

const full = () => {
  throw new StoreFullError('no space is left')
}

/** With rows, in files on this disk. */
const onDisk = (disk: SimulatedDisk) => ({
  loadCore,
  openStore: async () => ({ store: await FileStore.open(disk), storage: 'persistent' }) as const,
})

describe('rows that are prepared for a hint that has not begun', () => {
  /** A tab that is preparing the tenth row of a hint behind the one in use. */
  async function preparing(act: (life: Life) => void | Promise<void>) {
    const { disk, world, life, map } = await openedInRows({ lookups: 8 })
    const reached = deferred()
    const stop = () => {
      reached.resolve()
      return act(life)
    }
    life.at('putRow', 'after', stop, 10)
    await world.checkValues(map, [0, 1, 2, 3, 4, 5]) // two of eight are left
    await world.drive(reached.promise)
    expect(await disk.strays()).toBe(10)
    return { disk, world, map }
  }

  test('go when the next map opens, if the tab was killed', async () => {
    const { disk, world } = await preparing(life => life.kill())
    const { map } = await anotherIn(world, { lookups: 8 })
    await settle()
    expect(await disk.strays()).toBe(0)
    await world.checkValues(map, [5, 999])
  })

  test('stay while the tab lives, although another tab opens the map', async () => {
    const { promise: stands, resolve: goOn } = deferred()
    const { disk, world, map } = await preparing(() => stands)
    const { hintId } = (await world.head())!.record
    const { map: other } = await anotherIn(world, { lookups: 8 })
    await settle()
    expect(await disk.strays()).toBe(10)
    goOn()
    while (Buffer.compare((await world.head())!.record.hintId, hintId) === 0) await world.drive(settle())
    expect(await disk.strays()).toBe(0)
    for (const each of [map, other]) await world.checkValues(each, [5, 999])
  })

  test('go at once if the download is given up', async () => {
    const { disk, world, life, map } = await openedInRows()
    const called = new AbortController()
    life.at('putRow', 'after', () => called.abort(), 10)
    expect((await life.failure(map.reset({ signal: called.signal }))).name).toBe('AbortError')
    await settle()
    expect(await disk.strays()).toBe(0)
    await world.checkValues(map, [5, 999])
  })
})

describe('a disk that is full in the middle of rows', () => {
  test('during the download: open() fails, and goes on once there is space', async () => {
    const world = new World()
    const life = world.life({ loadCore })
    let rows = 0
    life.at('putRow', 'before', () => {
      if (++rows > 20) full()
    })
    expect((await life.failure(life.openIdle(options))).code).toBe('storage')
    await world.checkValues((await anotherIn(world)).map)
  })

  test('while rows are made anew: lookups go on, in this map and the next, and a later checkpoint stores the rows', async () => {
    const { living, world } = worldInRows()
    let rows = 0
    let isFull = false
    let refused = 0
    const next = async () => {
      const life = world.life({ loadCore })
      life.interfere = (method, when) => {
        if (method !== 'putRow' || when !== 'before' || !isFull || ++rows % 3 !== 0) return
        refused++
        full()
      }
      return { life, map: await life.open(options) }
    }
    let { life, map } = await next()
    for (let round = 0; round < 6; round++) {
      isFull = round % 2 === 0
      living.publish(many(round))
      await world.drive(map.sync())
      await world.checkValues(map, [round, (round + 37) % 1000, 999])
      if (round !== 2) continue
      await world.drive(map.close())
      ;({ life, map } = await next())
      expect(life.events.map(({ type }) => type)).toEqual(['resumed'])
    }
    expect(refused).toBeGreaterThan(1)
    expect(world.lives.flatMap(({ writes }) => writes)).toContain('putCheckpoint')
    await world.drive(map.close())
    const { map: again } = await anotherIn(world)
    await world.checkValues(again, [0, 111, 222, 333, 444, 555, 666, 777, 888, 999])
  })

  test('while rows are made beside lookups: these go on until hints run out, and then fail until there is space', async () => {
    const { world, life, map } = await openedInRows({ lookups: 8 })
    life.at('putRow', 'before', full)
    await world.checkValues(map, [0, 1, 2, 3, 4, 5, 6, 7])
    expect((await life.failure(map.at(8))).code).toBe('storage')
    life.interfere = () => {}
    await world.checkValues(map, [8, 9])
  })
})

describe('rows that are not all there', () => {
  test.each([
    ['one is', 1, false],
    ['all are, and a lookup is pending', 64, true],
  ])('%s missing: nothing of the state is used, and hints are made anew', async (_, missing, pending) => {
    const { disk, world, life, map } = await openedInRows()
    await world.checkValues(map, [4])
    if (pending) await world.interrupt(life, map)
    await world.drive(map.close())
    const { hintId } = (await world.head())!.record
    for (const name of [...disk.all.keys()].slice(0, missing)) disk.lost.add(name)
    const shown = world.auditor.distinct(A)
    const { life: next, map: again } = await anotherIn(world)
    expect(next.events[0]).toEqual({ type: 'discarded', reason: 'unreadable' })
    expect((await world.head())!.record.hintId).not.toEqual(hintId)
    expect(world.auditor.distinct(A)).toBe(shown)
    await world.checkValues(again, [4, 5, 500])
  })
})

describe('a folder whose files were changed', () => {
  const ROW = /^([0-9a-f]{32})\.row\.([0-9a-f]{32})$/

  /** Closes a map, changes its files, and opens it again. */
  async function changed(change: (files: string[], disk: SimulatedDisk) => SimulatedDisk) {
    const world = new World({ audited: false })
    const disk = new SimulatedDisk()
    await world.drive((await world.life(onDisk(disk)).open(options)).close())
    const files = (await disk.list()).filter(name => ROW.test(name))
    expect(files).toHaveLength(64)
    const life = world.life(onDisk(change(files, disk)))
    return { world, life, map: await life.open(options) }
  }

  const swapped = (files: string[], disk: SimulatedDisk) =>
    files.reduce((swapped, name, i) => swapped.with(name, disk.peek(files[(i + 1) % files.length]!)), disk)

  test.each([
    ['swapped with one another', swapped],
    ['cut off', (files, disk) => files.reduce((cut, name) => cut.with(name, disk.peek(name)!.slice(0, -1)), disk)],
    ['empty', (files, disk) => files.reduce((cut, name) => cut.with(name, new Uint8Array()), disk)],
  ] as [string, typeof swapped][])(
    'rows that are %s: lookups fail, nothing is sent, no server is blamed, and reset() begins anew',
    async (_, change) => {
      const { world, life, map } = await changed(change)
      for (const index of [0, 500, 999]) expect((await life.failure(map.at(index))).code).toBe('storage')
      expect(world.network.queries()).toHaveLength(0)
      expect(map.condemned).toBeUndefined()
      await world.drive(map.reset())
      await world.checkValues(map)
    },
  )

  test('one row is removed: nothing of the state is used', async () => {
    const { world, life, map } = await changed((files, disk) => disk.with(files[7]!, undefined))
    expect(life.events[0]).toEqual({ type: 'discarded', reason: 'unreadable' })
    await world.checkValues(map)
  })

  test('rows of another hint under the names of these', async () => {
    const world = new World({ seed: 9, audited: false })
    const other = new SimulatedDisk()
    await world.drive((await world.life(onDisk(other)).open(options)).close())
    const theirs = (await other.list()).filter(name => ROW.test(name))
    const {
      world: ours,
      life,
      map,
    } = await changed((files, disk) => files.reduce((mixed, name, i) => mixed.with(name, other.peek(theirs[i]!)), disk))
    for (const index of [0, 999]) expect((await life.failure(map.at(index))).code).toBe('storage')
    expect(ours.network.queries()).toHaveLength(0)
  })
})

test('a server that lies in either parity is condemned, whatever was looked up, and no row is left', async () => {
  const seen: unknown[] = []
  const { recordBytes } = records.manifest
  for (const [parity, index] of [
    [0, 4],
    [1, 4],
    [0, 900],
    [1, 900],
  ] as const) {
    const { disk, world, life, map } = await openedInRows()
    await world.checkValues(map, [4, 7])
    const { hintId } = (await world.head())!.record
    const before = world.network.seen.length
    world.network.misbehave[A] = on('/v1/answer', async genuine => {
      const bytes = await bytesOf(genuine)
      bytes[HEADER_BYTES + parity * recordBytes]! ^= 0x20
      return ok(bytes)
    })
    const error = await life.failure(map.at(index))
    expect(error).toMatchObject({ code: 'tampered', server: A })
    seen.push([error.message, world.network.seen.slice(before).map(({ url, body }) => [url, body.length])])
    expect((await life.failure(map.at(5))).code).toBe('condemned')
    const names = [...disk.all.keys()]
    for (const name of names.slice(0, 3)) {
      await expect(disk.copy().readRow(hintId, name, 0)).rejects.toThrow()
    }
    const { record } = (await world.head())!
    const none = new Uint8Array()
    await expect(disk.copy().begin(record, none, none, hintId, names.slice(0, 1))).rejects.toThrow('begun')
  }
  for (const each of seen) expect(each).toEqual(seen[0])
})

// Rows prepared for hints that never begin, because a server withholds the end of every download, or another tab swept them up. They
// do not fill the disk, and reset() fails rather than report a new hint that is not there.
const last = toHex(records.manifest.contentHashes.slice(-32))
const withholdsTheLast = on(`/v1/blobs/${last}`, () => problem(503, 'not_ready'))
/** of a hint over these records */
const ROWS = 64

test('a server that withholds the end of every download does not fill the disk', async () => {
  const world = new World({ audited: false })
  const disk = new SimulatedDisk()
  const life = world.life(onDisk(disk))
  const map = await life.open({ ...options, lookups: 8 })
  const rows = async () => (await disk.list()).filter(name => name.includes('.row.')).length
  expect(await rows()).toBe(ROWS)
  world.network.misbehave[A] = withholdsTheLast
  let most = 0
  const attempt = async (work: Promise<unknown>) => {
    await world.drive(work.catch(() => {}))
    most = Math.max(most, await rows())
  }
  for (let i = 0; i < 12; i++) await attempt(map.at(i))
  for (let i = 0; i < 6; i++) await attempt(map.reset())
  expect(most).toBeLessThan(2 * ROWS)
  await settle()
  expect(await rows()).toBe(ROWS)
  world.network.misbehave[A] = undefined
  await world.checkValues(map, [0, 500])
  expect(await rows()).toBe(ROWS)
})

test('reset() fails if its prepared rows were swept up, and the next reset() succeeds', async () => {
  const { disk, world, life, map } = await openedInRows({ lookups: 8 })
  const hint = async () => toHex((await world.head())!.record.hintId)
  const before = await hint()
  life.at('putRow', 'after', () => disk.sweepRows(), 10)
  expect((await life.failure(map.reset())).code).toBe('storage')
  expect(await hint()).toBe(before)
  await world.checkValues(map, [4])
  await world.drive(map.reset())
  expect(await hint()).not.toBe(before)
  await world.checkValues(map, [4, 999])
})

// A tab freezes, in a debugger for example, while it sweeps up rows of others. A tab that prepares a hint waits for it, but not
// for ever; it can be called off meanwhile, and then blocks no other call.
/** What a tab sees while another sweeps. */
const sweeping = { join: () => new Promise<never>(() => {}), whileNone: async () => {} }

async function opened(): Promise<{ world: World; map: KeyhushMap }> {
  const world = new World()
  const openStore = async () => ({ store: world.disk, storage: 'best-effort', preparers: sweeping }) as const
  return { world, map: await world.life({ openStore }).open({ ...options, lookups: 8 }) }
}

test('reset() goes ahead after a while, and begins anew', async () => {
  const { world, map } = await opened()
  const { hintId } = (await world.head())!.record
  await world.drive(map.reset())
  expect((await world.head())!.record.hintId).not.toEqual(hintId)
  await world.checkValues(map, [4, 999])
})

test('a reset() that is called off delays no lookup', async () => {
  const { world, map } = await opened()
  const controller = new AbortController()
  const reset = map.reset({ signal: controller.signal })
  const called = expect(reset).rejects.toThrow('aborted')
  await settle()
  controller.abort()
  await called
  const before = world.clock.now()
  await world.checkValues(map, [4, 999])
  expect(world.clock.now()).toBe(before)
})

test('close() does not wait for the sweeper, in reset() or beside lookups', async () => {
  const { world, map } = await opened()
  const reset = map.reset().catch((error: { code: string }) => error.code)
  await settle()
  await world.drive(map.close())
  expect(await reset).toBe('closed')

  const { world: other, map: spent } = await opened()
  await other.checkValues(spent, [0, 1, 2, 3, 4, 5]) // two of eight are left: others are made
  const before = other.clock.now()
  await other.drive(spent.close())
  expect(other.clock.now()).toBe(before)
})
