// Damaged rows of tags: a full disk; rows that are swapped, torn, missing or of another hint; tabs that are killed while they prepare
// rows; a server that lies. No answer is wrong or goes unchecked, and no row is left behind.

import { HEADER_BYTES } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { FileStore } from '../src/store/file.js'
import { MemoryStore, StateUnreadableError, StoreFullError } from '../src/testing.js'
import { SimulatedDisk } from './store/power.js'
import { deferred, settle } from './support/clock.js'
import { core, sameOnBoth } from './support/harness.js'
import { edit, Living } from './support/living.js'
import { A, busy, bytesOf, ok, on } from './support/network.js'
import { type Life, records, World } from './support/world.js'

const inRows: typeof core = {
  ...core,
  journalLimit: () => 6000, // bytes of a journal that are worth a checkpoint
  newSingleBuilder: (layout, hashes, entropy, lookups) => core.newSingleBuilder(layout, hashes, entropy, lookups, true),
}
const loadCore = async () => inRows
const options = { servers: [A], integrity: 'server', mode: 'single', lookups: 200, storage: 'required' } as const
const full = () => {
  throw new StoreFullError('no space is left')
}

/** A store that knows each row's hint, and can lose rows. */
class Rows extends MemoryStore {
  /** by name, the hint's id */
  readonly owners = new Map<string, Uint8Array>()
  readonly lost = new Set<string>()

  override async putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void> {
    await super.putRow(hintId, name, row)
    this.owners.set(name, hintId.slice())
  }

  override async readHint(hintId: Uint8Array) {
    const hint = await super.readHint(hintId)
    return { ...hint, rows: hint.rows.filter(name => !this.lost.has(name)) }
  }

  override async readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array> {
    if (this.lost.has(name)) throw new StateUnreadableError('a stored row is lost')
    return await super.readRow(hintId, name, since)
  }

  /** Number of rows of hints that are not stored, or no longer. */
  async strays(): Promise<number> {
    const { record } = (await this.read())!
    const none = new Uint8Array()
    let strays = 0
    for (const [name, hintId] of this.owners) {
      if (Buffer.compare(hintId, record.hintId) === 0) continue
      // A hint may begin only if all its rows are there.
      const begun = this.copy().begin({ ...record, hintId }, none, none, record.hintId, [name])
      strays += await begun.then(
        () => 1,
        () => 0,
      )
    }
    return strays
  }
}

function publishing(disk: Rows, seed = 1): { living: Living; world: World } {
  const living = new Living(sameOnBoth(records), records)
  return { living, world: new World({ network: living.network, disk, seed }) }
}

const many = (round: number) => Array.from({ length: 150 }, (_, i) => edit((i * 37 + round) % 1000, `round ${round}x`))

describe('rows that are prepared for a hint that has not begun', () => {
  /** A tab that is preparing the tenth row of a hint behind the one in use. */
  async function preparing(act: (life: Life) => void | Promise<void>) {
    const disk = new Rows({ durable: true })
    const world = new World({ disk })
    const life = world.life({ loadCore })
    const map = await life.open({ ...options, lookups: 8 })
    let rows = 0
    const reached = new Promise<void>(resolve => {
      life.interfere = async (method, when) => {
        if (method !== 'putRow' || when !== 'after' || ++rows !== 10) return
        resolve()
        await act(life)
      }
    })
    await world.checkValues(map, [0, 1, 2, 3, 4, 5]) // two of eight are left
    await world.drive(reached)
    expect(await disk.strays()).toBe(10)
    return { disk, world, map }
  }

  test('go when the next map opens, if the tab was killed', async () => {
    const { disk, world } = await preparing(life => life.kill())
    const map = await world.life({ loadCore }).open({ ...options, lookups: 8 })
    await settle()
    expect(await disk.strays()).toBe(0)
    await world.checkValues(map, [5, 999])
  })

  test('stay while the tab lives, although another tab opens the map', async () => {
    const { promise: stands, resolve: goOn } = deferred()
    const { disk, world, map } = await preparing(() => stands)
    const { hintId } = (await world.head())!.record
    const other = await world.life({ loadCore }).open({ ...options, lookups: 8 })
    await settle()
    expect(await disk.strays()).toBe(10)
    goOn()
    while (Buffer.compare((await world.head())!.record.hintId, hintId) === 0) await world.drive(settle())
    expect(await disk.strays()).toBe(0)
    for (const each of [map, other]) await world.checkValues(each, [5, 999])
  })

  test('go at once if the download is given up', async () => {
    const disk = new Rows({ durable: true })
    const world = new World({ disk })
    const life = world.life({ loadCore })
    const map = await life.open(options)
    const called = new AbortController()
    let rows = 0
    life.interfere = (method, when) => {
      if (method === 'putRow' && when === 'after' && ++rows === 10) called.abort()
    }
    expect((await life.failure(map.reset({ signal: called.signal }))).name).toBe('AbortError')
    await settle()
    expect(rows).toBeGreaterThanOrEqual(10)
    expect(await disk.strays()).toBe(0)
    await world.checkValues(map, [5, 999])
  })
})

describe('a disk that is full in the middle of rows', () => {
  test('during the download: open() fails, and goes on once there is space', async () => {
    const world = new World()
    const life = world.life({ loadCore })
    let rows = 0
    life.interfere = (method, when) => {
      if (method === 'putRow' && when === 'before' && ++rows > 20) full()
    }
    expect((await life.failure(life.openIdle(options))).code).toBe('storage')
    const map = await world.life({ loadCore }).open(options)
    await world.checkValues(map)
  })

  test('while rows are made anew: lookups go on, in this map and the next, and a later checkpoint stores the rows', async () => {
    const disk = new Rows({ durable: true })
    const { living, world } = publishing(disk)
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
      for (const index of [round, (round + 37) % 1000, 999]) {
        expect(await world.drive(map.at(index))).toEqual(living.newest.byIndex[index])
      }
      if (round !== 2) continue
      await world.drive(map.close())
      ;({ life, map } = await next())
      expect(life.events.map(({ type }) => type)).toEqual(['resumed'])
    }
    expect(refused).toBeGreaterThan(1)
    expect(world.lives.flatMap(({ writes }) => writes)).toContain('putCheckpoint')
    await world.drive(map.close())
    const again = await world.life({ loadCore }).open(options)
    for (let index = 0; index < 1000; index += 111) {
      expect(await world.drive(again.at(index))).toEqual(living.newest.byIndex[index])
    }
  })

  test('while rows are made behind lookups: these go on until hints run out, and then fail until there is space', async () => {
    const disk = new Rows({ durable: true })
    const world = new World({ disk })
    const life = world.life({ loadCore })
    const map = await life.open({ ...options, lookups: 8 })
    life.interfere = (method, when) => {
      if (method === 'putRow' && when === 'before') full()
    }
    await world.checkValues(map, [0, 1, 2, 3, 4, 5, 6, 7])
    expect((await life.failure(map.at(8))).code).toBe('storage')
    life.interfere = () => {}
    await world.checkValues(map, [8, 9])
  })
})

describe('rows that are not all there', () => {
  test.each([
    ['one is', 1, undefined],
    ['all are, and a lookup is pending', 64, busy],
  ])('%s missing: nothing of the state is used, and hints are made anew', async (_, missing, misbehave) => {
    const disk = new Rows({ durable: true })
    const world = new World({ disk })
    const life = world.life({ loadCore })
    const map = await life.open(options)
    await world.checkValues(map, [4])
    world.network.misbehave[A] = misbehave
    if (misbehave !== undefined) await life.failure(map.at(5))
    world.network.misbehave[A] = undefined
    await world.drive(map.close())
    const { hintId } = (await world.head())!.record
    for (const name of [...disk.owners.keys()].slice(0, missing)) disk.lost.add(name)
    const shown = world.auditor.distinct(A)
    const next = world.life({ loadCore })
    const again = await next.open(options)
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
    const onDisk = (disk: SimulatedDisk) => ({
      loadCore,
      openStore: async () => ({ store: await FileStore.open(disk), storage: 'persistent' }) as const,
    })
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
    const openStore = async () => ({ store: await FileStore.open(other), storage: 'persistent' }) as const
    await world.drive((await world.life({ loadCore, openStore }).open(options)).close())
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
    const disk = new Rows({ durable: true })
    const world = new World({ disk })
    const life = world.life({ loadCore })
    const map = await life.open(options)
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
    const names = [...disk.owners.keys()]
    for (const name of names.slice(0, 3)) {
      await expect(disk.copy().readRow(hintId, name, 0)).rejects.toThrow()
    }
    const { record } = (await world.head())!
    const none = new Uint8Array()
    await expect(disk.copy().begin(record, none, none, hintId, names.slice(0, 1))).rejects.toThrow('begun')
  }
  for (const each of seen) expect(each).toEqual(seen[0])
})
