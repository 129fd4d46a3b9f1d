// A state that does not fit into its store: what was downloaded goes on in memory. It must not live twice, on the disk and there.

import { describe, expect, test } from 'vitest'
import type { MapEvent } from '../src/index.js'
import { StoreFullError } from '../src/store/store.js'
import { MemoryStore } from '../src/testing.js'
import { deferred, settle } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core, NAMES } from './support/harness.js'
import { Living, newestAlone, utf8 } from './support/living.js'
import { blobs, on } from './support/network.js'
import { publisherKey, signatureOf, signedOnBoth } from './support/signed.js'
import { noLocks, openedWorld, World } from './support/world.js'

/** A disk that refuses half-made hints and whole ones of more than so many bytes. */
class FullDisk extends MemoryStore {
  refused = 0

  constructor(
    public half: number,
    public whole: number,
  ) {
    super({ durable: true })
  }

  #fits(bytes: Uint8Array, limit: number): void {
    if (bytes.length <= limit) return
    this.refused++
    throw new StoreFullError('it does not fit')
  }

  override async putPartial(...told: Parameters<MemoryStore['putPartial']>) {
    this.#fits(told[2], this.half)
    await super.putPartial(...told)
  }

  override async complete(...told: Parameters<MemoryStore['complete']>) {
    this.#fits(told[2], this.whole)
    await super.complete(...told)
  }
}

const ANY = Number.POSITIVE_INFINITY

const storageEvents = (events: readonly MapEvent[]) => events.filter(({ type }) => type === 'storage')

describe.each(['full', 'local', 'single'] as const)('mode %s', mode => {
  const wish = mode === 'single' ? ({ mode, collusion: 'tolerated', lookups: 60 } as const) : { mode }

  test.each([
    ['nothing of it fits', 0],
    ['only its half-made form fits', ANY],
  ])('%s: one download a visit, and another hint each time', async (_what, half) => {
    const disk = new FullDisk(half, 0)
    const world = new World({ disk })
    for (let visit = 1; visit <= 3; visit++) {
      const { life, map } = await world.opened(wish)
      expect(blobs(world.network)).toHaveLength(16 * visit)
      expect(map.storage).toBe('memory')
      expect(storageEvents(life.events)).toEqual([{ type: 'storage', storage: 'memory', reason: 'failed' }])
      await world.checkValues(map)
      await world.drive(map.sync())
      life.kill()
    }
    expect(disk.refused).toBeGreaterThanOrEqual(2 * 3)
  })

  test('a save that does not fit does not matter if the whole does', async () => {
    const disk = new FullDisk(0, ANY)
    const { world, map } = await openedWorld(wish, { disk })
    expect([map.storage, blobs(world.network).length]).toEqual(['best-effort', 16])
    expect(disk.refused).toBeGreaterThan(0)
    await world.checkValues(map)
    await world.drive(map.close())
    await world.checkValues(await world.life().open(wish))
    expect(blobs(world.network)).toHaveLength(16)
  })

  test("'required': StorageError after one download", async () => {
    const world = new World({ disk: new FullDisk(0, 0) })
    const life = world.life()
    expect((await life.failure(life.openIdle({ ...wish, storage: 'required' }))).code).toBe('storage')
    expect(blobs(world.network)).toHaveLength(16)
  })

  test('reset(): one download, and the old hint is gone', async () => {
    const disk = new FullDisk(ANY, ANY)
    const { world, map } = await openedWorld(wish, { disk })
    await world.checkValues(map, [6])
    disk.whole = 0
    await world.drive(map.reset())
    expect([map.storage, blobs(world.network).length]).toEqual(['memory', 32])
    await world.checkValues(map)
    expect(await world.head()).toBeUndefined()
  })
})

test('an epoch that comes during the download: the hint in memory is at the place that its fence knows', async () => {
  const world = new World({ disk: new FullDisk(0, 0) })
  const { network, database } = world
  const living = new Living(network, database)
  let asked = 0
  network.both(
    on('/v1/blobs/', (genuine, seen) => {
      if (++asked === 9) living.publish([{ op: 'edit', index: 999, value: utf8('edited..') }])
      return newestAlone(living, genuine, seen)
    }),
  )
  const { map } = await world.opened({ rollback: 'strict' })
  expect([map.storage, map.epoch, map.stats.fenced]).toEqual(['memory', 2, true])
  for (const index of [0, 6, 6, 999]) expect(await world.drive(map.at(index))).toEqual(living.newest.byIndex[index])
})

test("mode 'auto': one download behind instant lookups", async () => {
  const { world, map } = await openedWorld({ mode: 'auto' }, { disk: new FullDisk(0, 0) })
  await world.checkValues(map, [6])
  for (let i = 0; i < 200 && map.mode !== 'local'; i++) await world.drive(settle())
  await world.checkValues(map)
  expect([map.storage, blobs(world.network).length]).toEqual(['memory', 16])
})

test('two tabs with one half-made hint: it lives in one of them alone', async () => {
  const disk = new FullDisk(ANY, 0)
  const world = new World({ disk })
  await world.halfDownloaded(3)
  const half = (await world.head())!.record.hintId

  const tabs = [world.life(noLocks), world.life(noLocks)]
  const { promise: both, resolve } = deferred()
  let read = 0
  for (const tab of tabs) {
    tab.interfere = async (method, moment) => {
      if (method !== 'readPartial' || moment !== 'after') return
      if (++read === 2) resolve()
      await both
    }
  }
  const maps = await world.drive(Promise.all(tabs.map(tab => tab.openIdle())))
  expect(read).toBe(2)
  for (const map of maps) {
    expect(map.storage).toBe('memory')
    await world.checkValues(map)
  }
  const heads = await Promise.all(world.auditor.stores.map(store => store.read()))
  const living = heads.filter(head => head !== undefined && Buffer.from(head.record.hintId).equals(half))
  expect(living).toHaveLength(1)
})

test('a tab that has finished the hint meanwhile keeps it, and the other begins anew', async () => {
  const disk = new FullDisk(ANY, 0)
  const world = new World({ disk })
  const [one, two] = [world.life(noLocks), world.life(noLocks)]
  const { promise: late, resolve } = deferred()
  let waits = false
  one.interfere = async (method, moment) => {
    if (method !== 'updatePartial' || moment !== 'before') return
    waits = true
    await late
  }
  const opening = one.openIdle()
  for (let i = 0; i < 200 && !waits; i++) await world.drive(settle())
  expect(waits).toBe(true)
  disk.whole = ANY
  const map = await two.open()
  await world.checkValues(map)
  resolve()
  const other = await world.drive(opening)
  await world.checkValues(other)
  expect([map.storage, other.storage]).toEqual(['best-effort', 'memory'])
})

test("with a publisher's key, the epoch that was seen is not forgotten", async () => {
  const first = buildDatabase(core, { keys: NAMES, values: someValues(20, 5), partitions: 5 })
  const second = nextEpoch(core, first, [{ op: 'edit', key: NAMES[0]!, value: new Uint8Array(5) }])
  const network = signedOnBoth(first)
  network.publishOnBoth(second)
  network.signatures.push(signatureOf(second))
  const world = new World({ network, database: second, disk: new FullDisk(0, 0) })
  const map = await world.life().open({ publisherKey })
  expect([map.storage, map.epoch]).toEqual(['memory', 2])
  network.replaceOnBoth(first)
  const next = world.life()
  expect((await next.failure(next.openIdle({ publisherKey }))).code).toBe('signature')
  network.replaceOnBoth(second)
  const again = await world.life().open({ publisherKey })
  expect([again.storage, again.epoch]).toEqual(['memory', 2])
})
