// What an app has not allowed is not downloaded, whatever becomes of the database, or of the stored state, in between.

import { describe, expect, test } from 'vitest'
import type { DownloadOffer, MapEvent } from '../src/index.js'
import { downloadBytes } from '../src/scheme/download.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import type { OpenWithOptions } from '../src/testing.js'
import { rest } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { core, sameOnBoth } from './support/harness.js'
import { blobs } from './support/network.js'
import { type Life, records, World } from './support/world.js'

const { databaseId } = records.manifest
const previousManifest = core.blake3(records.manifestBytes)
/** 2.3 MiB: more than is downloaded without asking. The next generation of `records`. */
const large = buildDatabase(core, {
  values: someValues(300, 8 * 1024),
  partitions: 8,
  manifest: { databaseId, generation: 2, epoch: 2, previousManifest },
})
const PAYS = 4

const opened = async (life: Life, options: Partial<OpenWithOptions>, full = false) => {
  const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= PAYS
  const given = { mode: 'auto', push: false, proofs: undefined, timeoutMs: undefined, ...options } as const
  const map = await life.world.drive(life.openIdle(given, full ? { pays, choose: () => tapir } : { pays }))
  await rest()
  return map
}

test.each([true, false])(
  'a database that has grown since the map was opened is asked for again (at once: %s)',
  async at => {
    const world = new World({ audited: false })
    const offers: DownloadOffer[] = []
    const life = world.life()
    const map = await opened(life, { download: offer => offers.push(offer) === 0 })
    if (at) world.network.publishOnBoth(large)
    for (let i = 0; i < PAYS; i++) {
      if (i === PAYS - 1) world.network.publishOnBoth(...(at ? [] : [large]))
      await world.drive(map.at(i))
      await rest()
    }
    await rest()
    expect(blobs(world.network)).toEqual([])
    expect(offers.map(({ bytes }) => bytes)).toEqual([downloadBytes(large.manifest)])
    expect(life.events.map(({ type }) => type)).toEqual(['preparing', 'preparing-failed'])
    await world.drive(map.prepare())
    expect([map.mode, map.epoch]).toEqual(['local', 2])
  },
)

describe.each([false, true])('a state (with hints: %s) that the app has prepared', full => {
  const prepared = async () => {
    const network = sameOnBoth(large)
    const world = new World({ network, database: large, audited: false })
    const life = world.life()
    const map = await opened(life, { download: 'never' }, full)
    await world.drive(map.prepare())
    await rest()
    expect(map.mode).toBe(full ? 'full' : 'local')
    return { world, life, map, before: blobs(network).length }
  }

  test('is evicted: nothing is downloaded, and the map answers', async () => {
    const { world, life, map, before } = await prepared()
    await world.disk.erase()
    const other = await opened(world.life(), { download: 'never' }, full)
    expect(await world.drive(other.at(3))).toEqual(large.byIndex[3])
    const found = []
    for (let i = 0; i < 3; i++) {
      found.push(await world.drive(map.at(5).catch((error: { code: string }) => error.code)))
      await rest()
    }
    expect(found.at(-1)).toEqual(large.byIndex[5])
    await world.drive(map.sync())
    expect(blobs(world.network).length).toBe(before)
    expect(life.events.filter((event: MapEvent) => event.type === 'preparing')).toHaveLength(1)
  })

  test('can be stored no more: nothing is downloaded, and the map answers', async () => {
    const { world, life, map, before } = await prepared()
    life.interfere = () => {
      throw new Error('the disk has failed')
    }
    const found = []
    for (let i = 0; i < 6; i++) {
      found.push(await world.drive(map.at(5).catch((error: { code: string }) => error.code)))
      await rest()
    }
    expect(found.at(-1)).toEqual(large.byIndex[5])
    expect(blobs(world.network).length).toBe(before)
  })
})
