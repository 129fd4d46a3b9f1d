// The process dies: after every single turn of the microtask queue, hence before and after every await and every write.
// Whatever the servers had seen by then, the next life shows them the same bytes again or something entirely fresh, and
// answers rightly. `npm test` takes every turn of one plain lookup, and every third of the other scenes.

import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { KeyhushMap } from '../src/index.js'
import { A, B, hang, on, problem } from './support/network.js'
import { type Life, type Method, World, wholly } from './support/world.js'

const busy = on('/v1/answer', () => problem(503, 'not_ready'))
const LOOKUPS = [1, 2, 6]
const EVERY = THOROUGH ? 1 : 3

interface Scene {
  readonly world: World
  readonly life: Life
  readonly act: () => Promise<unknown>
}

/** A disk with a hint that has been used, and an open map on it. */
async function opened(seed = 1): Promise<{ world: World; life: Life; map: KeyhushMap }> {
  const world = new World({ seed })
  const life = world.life()
  const map = await life.open()
  await world.checkValues(map, LOOKUPS)
  return { world, life, map }
}

/** Runs a scene again and again, killed `every` turns later each time, until it ends before it is killed. */
async function killedAtEveryTurn(
  prepare: (seed: number) => Promise<Scene>,
  every = EVERY,
  most = 1000,
): Promise<number> {
  for (let turns = 0; ; turns += every) {
    const { world, life, act } = await prepare(turns + 1)
    const over = await life.killAfter(turns, act())
    await survived(world)
    if (over || turns >= most) return turns
  }
}

/** The next life: finishes what was begun, and everything is right. */
async function survived(world: World): Promise<void> {
  world.network.misbehave[A] = undefined
  world.network.misbehave[B] = undefined
  const head = (await world.head())!
  const before = world.auditor.distinct(A)
  const stored = head.pending !== undefined
  const { length } = world.network.queries()
  const life = world.life()
  const map = await life.open()
  // A pending batch is finished before anything else, and nothing else is.
  expect(world.network.queries(length)).toHaveLength(stored ? 2 : 0)
  expect(await world.head()).toMatchObject({ version: head.version + (stored ? 1 : 0), pending: undefined })
  const shown = world.auditor.distinct(A)
  expect(shown - before).toBeLessThanOrEqual(stored ? 1 : 0)
  await world.checkValues(map, [6, 2, 700])
  expect(world.auditor.distinct(A)).toBe(shown + 3)
  await world.auditor.assertSound()
  life.kill()
}

describe('killed during a lookup', () => {
  test.each([
    ['both servers answer', {}],
    ['the first is busy', { [A]: busy }],
    ['the second is busy', { [B]: busy }],
    ['the first is silent', { [A]: hang('/v1/answer') }],
    ['both are silent', { [A]: hang('/v1/answer'), [B]: hang('/v1/answer') }],
  ])('%s', { timeout: 120_000 }, async (_what, misbehave) => {
    const turns = await killedAtEveryTurn(
      async seed => {
        const { world, life, map } = await opened(seed)
        Object.assign(world.network.misbehave, misbehave)
        return { world, life, act: () => wholly(map, map.at(6)) }
      },
      ...(Object.keys(misbehave).length > 0 ? [EVERY, 70] : [1]), // 70: until the clock would have to move on
    )
    expect(turns).toBeGreaterThan(25)
  })

  test('while others wait for their turn', { timeout: 120_000 }, async () => {
    await killedAtEveryTurn(async seed => {
      const { world, life, map } = await opened(seed)
      return { world, life, act: () => wholly(map, Promise.all([map.at(5), map.at(5), map.at(700)])) }
    })
  })
})

test('killed while a lookup left pending is finished', { timeout: 120_000 }, async () => {
  const turns = await killedAtEveryTurn(async seed => {
    const { world, life, map } = await opened(seed)
    world.network.misbehave[B] = busy
    expect((await life.failure(map.at(9))).code).toBe('network')
    life.kill()
    world.network.misbehave[B] = undefined
    const next = world.life()
    return { world, life: next, act: () => next.openIdle().then(map => map && wholly(map, Promise.resolve())) }
  })
  expect(turns).toBeGreaterThan(60)
})

test('killed while another tab is followed', { timeout: 120_000 }, async () => {
  const turns = await killedAtEveryTurn(async seed => {
    const { world, life, map } = await opened(seed)
    const other = world.life()
    await world.checkValues(await other.open(), [3, 4])
    return { world, life, act: () => wholly(map, map.at(6)) }
  })
  expect(turns).toBeGreaterThan(40)
})

test('killed during the download', { timeout: 120_000 }, async () => {
  for (let turns = 0, over = false; !over; turns += 5) {
    const world = new World()
    const life = world.life()
    over = await life.killAfter(turns, life.openIdle())
    const next = world.life()
    await world.checkValues(await next.open(), [6, 2])
    await world.auditor.assertSound()
    next.kill()
  }
})

describe('killed right before and right after the disk has carried out', () => {
  const methods: Method[] = ['putPending', 'commit']
  const moments = methods.flatMap(method => (['before', 'after'] as const).map(when => [when, method] as const))
  test.each(moments)('%s %s', async (when, method) => {
    const { world, life, map } = await opened()
    life.interfere = (what, moment) => {
      if (what === method && moment === when) life.kill()
    }
    const sent = world.network.queries().length
    map.at(6).catch(() => {})
    await survivedKill(life)
    // Nothing leaves before intent is on the disk.
    expect(world.network.queries(sent)).toHaveLength(method === 'commit' ? 2 : 0)
    await survived(world)
  })
})

async function survivedKill(life: Life): Promise<void> {
  for (let i = 0; i < 1000 && !life.killed; i++) await Promise.resolve()
  expect(life.killed).toBe(true)
}

test('killed again and again, the same lookup is shown once', async () => {
  const { world, life, map } = await opened()
  world.network.misbehave[B] = busy
  map.at(9).catch(() => {})
  for (let i = 0; i < 60; i++) await Promise.resolve()
  life.kill()
  const shown = world.auditor.distinct(A)
  for (let lives = 0; lives < 5; lives++) {
    const next = world.life()
    const map = await next.open()
    expect((await next.failure(map.at(9))).code).toBe('network')
    next.kill()
  }
  expect(world.auditor.distinct(A)).toBe(shown)
  await survived(world)
})
