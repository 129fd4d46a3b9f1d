// Journals do not grow for ever: a checkpoint replaces them when they have become an eighth as long as the hint, and never
// while a lookup is pending, never two at once, and not while somebody waits for an answer.

import { expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import { settle } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { core, sameOnBoth } from './support/harness.js'
import { B, on, problem } from './support/network.js'
import { World } from './support/world.js'

// 4096 records of 48 bytes: parities of 12 KiB, permutations of 8 KiB, so a journal of 256 KiB is the least there is.
const keys = Array.from({ length: 4096 }, (_, i) => `${i}`)
const large = buildDatabase(core, { keys, values: someValues(4096, 32), partitions: 16 })
const LEAST = 256 * 1024
/** effects of a lookup of 64 queries */
const EFFECT = 64 * (6 + 16 * (2 + 48)) + 64

async function opened() {
  const world = new World({ network: sameOnBoth(large), database: large, audited: false })
  const life = world.life({ pause: () => new Promise(resolve => void setImmediate(resolve)) })
  return { world, life, map: await life.open() }
}

/** `count` lookups of 64, one after another. */
async function lookups(world: World, map: KeyhushMap, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const wanted = Array.from({ length: 64 }, (_, k) => keys[(i * 64 + k * 61) % keys.length]!)
    const found = await world.drive(map.getMany(wanted))
    expect(found).toEqual(wanted.map(key => large.contents.values[Number(key)]))
  }
}

/** As `lookups`, but each is over, its effect stored and what it made due done, before the next is asked for. */
async function unhurried(world: World, map: KeyhushMap, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await lookups(world, map, 1)
    await settle()
  }
}

test('the journal is replaced each time it has reached 256 KiB, and every value stays right', async () => {
  const { world, life, map } = await opened()
  let longest = 0
  for (let i = 0; i < 40; i++) {
    await lookups(world, map, 1)
    await settle()
    longest = Math.max(longest, (await world.head())!.journalBytes)
  }
  const written = life.writes.filter(method => method === 'putCheckpoint').length
  expect(written).toBe(Math.floor(40 / Math.ceil(LEAST / EFFECT)))
  expect(longest).toBeLessThan(LEAST + EFFECT)
  life.kill()
  const next = world.life()
  await lookups(world, await next.open(), 2)
  expect(next.events).toEqual([{ type: 'resumed', what: 'hint', pending: false }])
})

test('the lookup that makes one due has its answer before it is written, and the next waits', async () => {
  const { world, life, map } = await opened()
  await unhurried(world, map, 5)
  const steps: string[] = []
  let write = () => {}
  life.interfere = (method, when) => {
    if (when === 'before') steps.push(method)
    if (method === 'putCheckpoint' && when === 'before') {
      return new Promise<void>(resolve => {
        write = resolve
      })
    }
    return undefined
  }
  await lookups(world, map, 1)
  steps.push('answered')
  await settle()
  const waiting = map.getMany(['7'])
  await settle()
  expect(steps).toEqual(['putPending', 'answered', 'commit', 'putCheckpoint'])
  write()
  expect(await world.drive(waiting)).toEqual([large.contents.values[7]])
  await settle()
  expect(steps.slice(4)).toEqual(['putPending', 'commit'])
})

test('none is written while a lookup is pending', async () => {
  const { world, life, map } = await opened()
  await lookups(world, map, 5)
  world.network.misbehave[B] = on('/v1/answer', () => problem(503, 'not_ready'))
  const { hintId } = (await world.head())!.record
  await life.failure(map.getMany(['1']))
  await settle()
  expect(life.writes).not.toContain('putCheckpoint')
  world.network.misbehave[B] = undefined
  await lookups(world, map, 1)
  await settle()
  expect(life.writes.filter(method => method === 'putCheckpoint')).toHaveLength(1)
  expect((await world.head())!.record.hintId).toEqual(hintId)
})

test('one that fails is tried again when the journal has grown as much again; lookups go on', async () => {
  const { world, life, map } = await opened()
  let attempts = 0
  life.at('putCheckpoint', 'before', () => {
    attempts++
    throw new Error('no space left')
  })
  await unhurried(world, map, 11)
  expect(attempts).toBe(1)
  await unhurried(world, map, 1)
  expect(attempts).toBe(2)
  life.interfere = () => {}
  await unhurried(world, map, 6)
  expect((await world.head())!.journalBytes).toBe(0)
  expect(map.storage).toBe('best-effort')
})

test('a long journal that an earlier life has left is replaced after open()', async () => {
  const { world, life, map } = await opened()
  life.at('putCheckpoint', 'before', () => life.kill())
  for (let i = 0; i < 6; i++) await lookups(world, map, 1)
  await settle()
  expect(life.killed).toBe(true)
  expect((await world.head())!.journalBytes).toBeGreaterThan(LEAST)
  const { map: again } = await world.opened()
  await settle()
  expect((await world.head())!.journalBytes).toBe(0)
  await lookups(world, again, 2)
})

test('a tab that is behind when it writes one does no harm', async () => {
  const { world, life, map } = await opened()
  const { life: other, map: second } = await world.opened()
  await lookups(world, map, 5)
  // The first tab stands still right before its checkpoint; the second takes over.
  life.at('putCheckpoint', 'before', () => life.freeze())
  await lookups(world, map, 1)
  await settle()
  await lookups(world, second, 9)
  life.interfere = () => {}
  await life.thaw()
  await lookups(world, map, 2)
  await lookups(world, second, 2)
  life.kill()
  other.kill()
  await lookups(world, await world.life().open(), 1)
})
