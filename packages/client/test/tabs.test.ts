// Several tabs on one state (S4): with locks, without, with a holder that stands still. Whoever is first, every answer is
// right, every call makes one query of its own, and no column is shown twice with different contents.

import { describe, expect, test } from 'vitest'
import { settle, turns, until } from './support/clock.js'
import { A, B, blobs, busy, flip } from './support/network.js'
import { drawing } from './support/random.js'
import { type Method, noLocks, twoTabs, World } from './support/world.js'

describe.each([
  ['with locks', {}],
  ['without locks', noLocks],
] as const)('%s', (_what, environment) => {
  test.each(Array.from({ length: 12 }, (_, i) => i + 1))('tabs side by side (schedule %i)', async seed => {
    const world = new World({ seed })
    const roll = drawing(seed)
    world.network.both(async (_seen, genuine) => {
      await turns(roll(40))
      return genuine
    })
    const lives = Array.from({ length: 2 + (seed % 3) }, () => world.life(environment))
    for (const life of lives) life.interfere = () => turns(roll(12))
    const maps = await world.drive(Promise.all(lives.map(life => life.openIdle())))
    const lookups = 15
    const each = maps.map(async map => {
      for (let i = 0; i < lookups; i++) {
        const index = roll(3) === 0 ? 6 : roll(1000)
        expect(await map.at(index)).toEqual(world.database.byIndex[index])
        if (roll(4) === 0) await turns(roll(200))
      }
    })
    await world.drive(Promise.all(each))
    const total = lookups * lives.length
    expect(await world.head()).toMatchObject({ version: total, pending: undefined })
    for (const server of [A, B]) expect(world.auditor.distinct(server)).toBe(total)
    if (environment === noLocks) return
    // Locks save work: nobody downloads what another is downloading, and nothing is sent twice.
    expect(blobs(world.network)).toHaveLength(16)
    expect(world.network.queries()).toHaveLength(2 * total)
  })

  test('a tab that has been away follows by the journal, without reading the hint again', async () => {
    const { world, one, first, second } = await twoTabs(environment)
    await world.checkValues(second, [1, 2, 3, 4, 5])
    const reads: Method[] = []
    one.interfere = (method, when) => {
      if (when === 'before') reads.push(method)
    }
    await world.checkValues(first, [6])
    expect(reads).toEqual(['putPending', 'read', 'readEntries', 'putPending', 'commit'])
  })

  test.each([A, B])('a lookup that another tab could not finish is finished first; %s was silent', async silent => {
    const { world, one, two, first, second } = await twoTabs(environment)
    await world.checkValues(second, [1])
    world.network.misbehave[silent] = busy
    expect((await one.failure(first.at(6))).code).toBe('network')
    expect((await two.failure(second.at(6))).code).toBe('network') // the first tab's lookup, and no query of its own
    expect(world.auditor.distinct(A)).toBe(2)
    world.network.misbehave[silent] = undefined
    await world.checkValues(second, [6])
    expect(world.auditor.distinct(A)).toBe(3)
    await world.checkValues(first)
    expect(world.auditor.distinct(A)).toBe(3 + 6)
  })

  test('condemned in one tab is condemned in all, at their next operation; reset() in one is a new life for all', async () => {
    const world = new World()
    const [one, two, three] = [world.life(environment), world.life(environment), world.life(environment)]
    const maps = [await one.open(), await two.open(), await three.open()] as const
    world.network.misbehave[A] = flip(50)
    expect(await one.failure(maps[0].at(6))).toMatchObject({ name: 'TamperedError', server: A })
    const sent = world.network.queries().length
    for (let i = 0; i < 2; i++) {
      expect(await two.failure(maps[1].at(6))).toMatchObject({ name: 'CondemnedError', server: A })
      expect(await one.failure(maps[0].at(6))).toMatchObject({ name: 'CondemnedError', server: A })
    }
    expect(world.network.queries()).toHaveLength(sent)
    expect(two.events).toEqual([
      { type: 'resumed', what: 'hint', pending: false },
      { type: 'condemned', server: A },
    ])
    world.network.misbehave[A] = undefined
    await world.drive(maps[1].reset())
    const { hintId } = (await world.head())!.record
    for (const map of maps) await world.checkValues(map)
    expect((await world.head())!.record.hintId).toEqual(hintId)
  })
})

describe('between lookups', () => {
  test('a tab keeps the lock until another asks for it, which has it at once', async () => {
    const world = new World()
    const [one, two] = [world.life(), world.life()]
    const first = await one.open()
    await world.checkValues(first)
    expect(world.locks.asked).toBe(1)
    const second = await two.open()
    await world.checkValues(second)
    expect(world.locks.asked).toBe(2)
    for (let i = 0; i < 3; i++) for (const map of [first, second]) await world.checkValues(map, [i])
    expect(world.locks.asked).toBe(2 + 6)
    expect(world.clock.now()).toBe(16 * world.blobMs) // the download alone took time
  })

  test('and lets it go after a while', async () => {
    const world = new World()
    const first = await world.life().open()
    await world.checkValues(first, [1])
    await settle()
    const start = world.clock.now()
    expect(world.locks.held).toBe(1)
    await until(world.clock, () => world.locks.held === 0)
    expect(world.clock.now() - start).toBeLessThanOrEqual(5_000)
    await world.checkValues(first)
    expect(world.locks.asked).toBe(2)
  })

  test('or when it is closed, which waits for nothing', async () => {
    const { world, first, second } = await twoTabs()
    await world.checkValues(first)
    const start = world.clock.now()
    await world.drive(first.close())
    expect(world.locks.held).toBe(0)
    await world.checkValues(second)
    expect(world.clock.now()).toBe(start)
  })

  test('a tab that is killed keeps nobody waiting, and one that stands still not for ever', async () => {
    const world = new World()
    const [one, two, three] = [world.life(), world.life(), world.life()]
    const maps = [await one.open(), await two.open(), await three.open()] as const
    await world.checkValues(maps[0])
    one.kill()
    const start = world.clock.now()
    await world.checkValues(maps[1])
    expect(world.clock.now()).toBe(start)
    two.freeze()
    await world.checkValues(maps[2])
    expect(world.clock.now() - start).toBe(45_000)
    expect(world.locks.stolen).toBe(1)
    await two.thaw()
    const asked = world.locks.asked
    await world.checkValues(maps[1])
    expect(world.locks.asked).toBe(asked + 1)
    await world.checkValues(maps[2])
  })
})

describe('a tab that stands still while it holds the lock', () => {
  const moments: [Method, 'before' | 'after'][] = [
    ['putPending', 'before'],
    ['putPending', 'after'],
    ['commit', 'before'],
    ['commit', 'after'],
  ]

  test.each(moments)('%s (%s), and whose lookup is given up meanwhile: servers see the same', async (method, when) => {
    const shown = async (isGivenUp: boolean) => {
      const { world, one, first, second } = await twoTabs()
      one.at(method, when, () => one.freeze())
      const controller = new AbortController()
      const found = first.at(6, { signal: controller.signal }).catch(error => error)
      await settle()
      await world.checkValues(second, [7])
      one.interfere = () => {}
      if (isGivenUp) controller.abort()
      await one.thaw()
      const value = await world.drive(found)
      // Unless it was on its way already.
      if (value?.name !== 'AbortError') expect(value).toEqual(world.database.byIndex[6])
      await world.checkValues(first, [8]) // behind what goes on
      return world.network.seen.map(({ server, path, body }) => `${server}${path} ${body.length}`)
    }
    expect(await shown(true)).toEqual(await shown(false))
  })

  test('between its requests and their answers', async () => {
    const { world, one, first, second } = await twoTabs()
    world.network.misbehave[A] = (_seen, genuine) => {
      one.freeze()
      return genuine
    }
    const found = first.at(6)
    await settle()
    world.network.misbehave[A] = undefined
    await world.checkValues(second, [6, 7])
    await one.thaw()
    expect(await world.drive(found)).toEqual(world.database.byIndex[6])
    await world.checkValues(first)
  })

  test('closed instead: the next goes on at once', async () => {
    const { world, one, first, second } = await twoTabs()
    one.at('commit', 'before', () => one.kill())
    first.at(6).catch(() => {})
    await settle()
    const start = world.clock.now()
    await world.checkValues(second)
    expect(world.clock.now()).toBe(start)
  })

  test('while it downloads: the other goes on with what it has stored', async () => {
    const world = new World()
    const [one, two] = [world.life(), world.life()]
    one.at('putPartial', 'after', () => one.freeze(), 4)
    const opening = one.openIdle()
    await settle()
    const second = await two.open()
    expect(two.events).toEqual([{ type: 'resumed', what: 'download', pending: false }])
    await world.checkValues(second)
    await one.thaw()
    const first = await world.drive(opening)
    await world.checkValues(first)
    await world.checkValues(second)
  })

  test('does not keep close() waiting in another', async () => {
    const { world, one, first, second } = await twoTabs()
    one.interfere = () => one.freeze()
    first.at(6).catch(() => {})
    await settle()
    const waiting = expect(second.at(1)).rejects.toMatchObject({ name: 'ClosedError' })
    await settle()
    const start = world.clock.now()
    await world.drive(second.close())
    await waiting
    expect(world.clock.now()).toBe(start)
  })
})

test('giving up while another tab holds the lock is immediate, and nothing is sent', async () => {
  const { world, one, first, second } = await twoTabs()
  one.interfere = () => one.freeze()
  first.at(6).catch(() => {})
  await settle()
  const controller = new AbortController()
  const call = second.at(1, { signal: controller.signal })
  await settle()
  controller.abort()
  await expect(call).rejects.toMatchObject({ name: 'AbortError' })
  one.interfere = () => {}
  await one.thaw()
  await world.checkValues(second, [2])
  expect(world.auditor.distinct(A)).toBe(2)
})
