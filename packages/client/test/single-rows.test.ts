// Mode `single` with tags in rows of the store, a stripe each: the download writes them, each query reads one before it is stored or
// leaves, and a checkpoint rewrites those that updates changed.

import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { KeyhushMap } from '../src/index.js'
import { settle } from './support/clock.js'
import { Harness, keyless } from './support/harness.js'
import { A } from './support/network.js'
import { anotherIn, loadCore, many, openedInRows, options, worldInRows } from './support/rows.js'
import type { Method } from './support/world.js'

describe('tags in rows', () => {
  test('lookups, edits, checkpoints and other lives, against a plain map; rows are made anew and none is left behind', async () => {
    const { disk, living, world } = worldInRows()
    let { life, map } = await anotherIn(world)
    expect(map.stats.held['tags']).toBe(0)
    const rows = disk.all.size
    expect(rows).toBe(64)
    for (let round = 0; round < (THOROUGH ? 40 : 6); round++) {
      await world.checkValues(map, [3, 3, (37 * round) % 1000, 999])
      living.publish(many(round))
      await world.drive(map.sync())
      await world.drive(map.at(round)) // an operation after which a checkpoint is written, if it is due
      if (round % 2 === 1) {
        await world.drive(map.close())
        ;({ life, map } = await anotherIn(world))
        expect(life.events.map(({ type }) => type)).toEqual(['resumed'])
      }
    }
    const made = world.lives.flatMap(({ writes }) => writes)
    expect(made).toContain('putCheckpoint')
    expect(disk.all.size).toBeGreaterThan(rows)
    // What the next checkpoint does not name goes.
    const { hintId } = (await world.head())!.record
    let there = 0
    for (const name of disk.all.keys()) {
      await disk.readRow(hintId, name, undefined).then(
        () => there++,
        () => {},
      )
    }
    expect(there).toBeLessThan(2 * rows)
  })

  test.each<[Method, 'before' | 'after']>([
    ['putRow', 'before'],
    ['putRow', 'after'],
    ['readRow', 'after'],
    ['putCheckpoint', 'before'],
    ['putCheckpoint', 'after'],
  ])('killed at a checkpoint when %s is carried out: %s', async (method, when) => {
    const { living, world, life, map } = await openedInRows()
    living.publish(many(0))
    await world.drive(map.sync())
    let reached = false
    const kill = () => {
      reached = true
      life.kill()
    }
    life.at(method, when, kill, method === 'putCheckpoint' ? 1 : 2)
    living.publish(many(1))
    living.publish(many(2))
    map
      .sync()
      .then(() => map.close())
      .catch(() => {})
    await settle()
    await settle()
    expect(reached).toBe(true)
    const { map: again } = await anotherIn(world)
    await world.drive(again.sync())
    await world.checkValues(again, [0, 37, 74, 500])
  })

  test.each([
    ['has rotted', (row: Uint8Array) => row.map((byte, i) => (i === 5 ? byte ^ 4 : byte))],
    ['is cut off', (row: Uint8Array) => row.slice(8)],
  ])(
    'a row that %s: the lookup fails before it is stored or sent, and blames nobody; reset() helps',
    async (_, instead) => {
      const { disk, world, life, map } = await openedInRows()
      await world.checkValues(map, [4])
      const queries = world.network.queries().length
      disk.instead = instead
      for (const index of [4, 9]) {
        const failure = await life.failure(map.at(index))
        expect(failure).toMatchObject({ code: 'storage' })
        expect(failure.message).toContain('reset()')
      }
      expect(world.network.queries()).toHaveLength(queries)
      expect((await world.head())!.pending).toBeUndefined()
      expect(map.condemned).toBeUndefined()
      disk.instead = undefined
      await world.checkValues(map, [4])
      disk.instead = instead
      const { hintId } = (await world.head())!.record
      await world.drive(map.reset())
      expect((await world.head())!.record.hintId).not.toEqual(hintId)
      disk.instead = undefined
      await world.checkValues(map, [4])
    },
  )

  test('of a lookup that was stored, a damaged row leaves it pending: the same bytes once it is there', async () => {
    const { disk, world, life, map } = await openedInRows()
    await world.interrupt(life, map)
    disk.instead = row => row.slice(8)
    await world.drive(map.close())
    const next = world.life({ loadCore })
    await world.drive(next.openIdle(options).catch(() => {}))
    const shown = world.auditor.distinct(A)
    disk.instead = undefined
    const { map: last } = await anotherIn(world)
    await world.checkValues(last, [5, 6])
    expect(world.auditor.distinct(A)).toBe(shown + 2)
  })

  test('hints that run out are replaced beside the lookups, with rows of their own', async () => {
    const { network, database } = keyless()
    for (const [seed, storage] of (['memory', 'preferred'] as const).entries()) {
      const harness = new Harness(network, seed + 1, { loadCore })
      const map: KeyhushMap = await harness.open({ ...options, lookups: 8, storage })
      for (let i = 0; i < 20; i++) {
        expect(await harness.drive(map.at(i % 15))).toEqual(database.byIndex[i % 15])
        await settle()
      }
      await harness.drive(map.close())
    }
  })
})
