// Where state is kept, what becomes of a store that does not work, and when the browser is asked to keep it.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { NEEDS_POSIX } from '../../../tests/support/needs.js'
import * as client from '../src/index.js'
import { fileStore } from '../src/node.js'
import { type OpenStore, StoreFullError } from '../src/testing.js'
import { settle } from './support/clock.js'
import { hex, keyless } from './support/harness.js'
import { A, B, blobs, flip } from './support/network.js'
import { type Life, type Method, openedWorld, openingOtherwise, records, World } from './support/world.js'

/** Lets a method of a life's store fail, `times` times: before it has done anything, or when it has. */
function failing(
  life: Life,
  methods: readonly Method[],
  when: 'before' | 'after',
  times = Number.POSITIVE_INFINITY,
): void {
  life.interfere = (method, moment) => {
    if (!methods.includes(method) || moment !== when || times-- <= 0) return
    throw Object.assign(new Error('no space left'), { name: 'QuotaExceededError' })
  }
}

/** A life whose store is opened otherwise. */
function openedBy(
  world: World,
  change: (opened: Awaited<ReturnType<OpenStore>>) => Partial<Awaited<ReturnType<OpenStore>>>,
) {
  return openingOtherwise(world, openStore => async (...parameters) => {
    const opened = await openStore(...parameters)
    return { ...opened, ...change(opened) }
  })
}

describe('storage', () => {
  test('a state that does not fit is a StorageError that names the bytes it needs', async () => {
    const world = new World()
    const life = world.life()
    life.interfere = method => {
      if (method === 'begin') throw new StoreFullError('the disk is full')
    }
    const error = await life.failure(life.openIdle({ storage: 'required' }))
    expect(error).toMatchObject({ code: 'storage', retryable: false })
    expect(error.message).toMatch(
      /^expected room for \d{3,} bytes of state, got none: the disk is full\. Make room and /,
    )
  })

  test("'memory': nothing is opened, locked or written", async () => {
    const world = new World()
    const asked: string[] = []
    const life = openingOtherwise(world, openStore => (identity, preference) => {
      asked.push(preference)
      return openStore(identity, preference)
    })
    Object.assign(life.environment, { locks: { hold: () => Promise.reject(new Error('locked')) } })
    const map = await life.open({ storage: 'memory' })
    expect(map.storage).toBe('memory')
    await world.checkValues(map)
    expect(asked).toEqual(['memory'])
    expect(await world.head()).toBeUndefined()
    expect(life.events).toEqual([])
  })

  test.each(['required', 'preferred', undefined] as const)('%s, and there is none', async storage => {
    const world = new World()
    const life = openingOtherwise(world, openStore => async (identity, preference) => {
      if (preference !== 'memory') throw new Error('private window')
      return await openStore(identity, preference)
    })
    if (storage === 'required') {
      expect(await life.failure(life.openIdle({ storage }))).toMatchObject({ name: 'StorageError', code: 'storage' })
      expect(world.network.seen).toEqual([])
    } else {
      const map = await life.open({ storage })
      expect(map.storage).toBe('memory')
      expect(life.events).toEqual([{ type: 'storage', storage: 'memory', reason: 'unavailable' }])
      await world.checkValues(map)
    }
  })

  test("'required', where all there is is memory: StorageError", async () => {
    const { network } = keyless()
    const world = new World({ network })
    const life = world.life({ openStore: async () => ({ store: world.disk, storage: 'memory' }) })
    expect((await life.failure(life.openIdle({ storage: 'required' }))).code).toBe('storage')
    expect(network.seen).toEqual([])
  })

  test('states of other pairs of servers that share one with this are discarded, with an event (S5)', async () => {
    const world = new World()
    const found = openedBy(world, () => ({ discardOthers: async () => true }))
    await found.open()
    expect(found.events).toEqual([{ type: 'discarded', reason: 'servers' }])
    const none = openedBy(world, () => ({ discardOthers: async () => false }))
    await none.open()
    expect(none.events).toEqual([{ type: 'resumed', what: 'hint', pending: false }])
  })
})

describe('a store that fails', () => {
  test.each(['before', 'after'] as const)(
    'once, at an intent, %s storing it: nothing is sent, the call fails, the next goes by what the store holds',
    async when => {
      const { world, life, map } = await openedWorld()
      await world.checkValues(map, [1])
      failing(life, ['putPending'], when, 1)
      expect(await life.failure(map.at(6))).toMatchObject({ name: 'StorageError', code: 'storage' })
      expect(world.network.queries()).toHaveLength(2)
      const pending = (await world.head())?.pending
      expect(pending === undefined).toBe(when === 'before')
      await world.checkValues(map, [6])
      // What was stored is finished, as it was stored; then the call's own query is made.
      expect(world.auditor.distinct(A)).toBe(when === 'before' ? 2 : 3)
      await world.checkValues(map)
      expect(map.storage).toBe('best-effort')
    },
  )

  test.each(['before', 'after'] as const)('once, at an effect, %s storing it: the call has its value', async when => {
    const { world, life, map } = await openedWorld()
    failing(life, ['commit'], when, 1)
    await world.checkValues(map, [6])
    expect((await world.head())?.pending === undefined).toBe(when === 'after')
    await world.checkValues(map)
    expect(world.auditor.distinct(A)).toBe(7)
    expect(map.storage).toBe('best-effort')
  })

  test.each([
    [['putPending'], 'before'],
    [['putPending'], 'after'],
    [['commit'], 'before'],
    [['commit'], 'after'],
    [['read', 'putPending'], 'before'],
    [['readHint', 'commit'], 'before'],
    [['putPending', 'commit', 'read', 'readHint', 'readEntries', 'condemn', 'discard', 'begin'], 'before'],
  ] as const)(
    "for good (%s, %s), 'preferred': soon a new hint in memory; the disk stays as it was",
    async (methods, when) => {
      const { world, life, map } = await openedWorld()
      await world.checkValues(map, [1, 2])
      failing(life, methods, when)
      let failures = 0
      for (let call = 0; call < 6; call++) {
        const value = await world.drive(map.at(6).catch(error => error))
        if (value instanceof Error) {
          expect(value).toMatchObject({ name: 'StorageError', code: 'storage' })
          failures++
        } else expect(value).toEqual(records.byIndex[6])
      }
      expect(failures).toBeLessThanOrEqual(2)
      expect(map.storage).toBe('memory')
      expect(life.events.filter(({ type }) => type === 'storage')).toEqual([
        { type: 'storage', storage: 'memory', reason: 'failed' },
      ])
      await world.checkValues(map)
      life.kill()
      // The disk works again: its state is whole, and another hint than the one in memory.
      const next = world.life()
      await world.checkValues(await next.open())
      expect(next.events[0]).toMatchObject({ type: 'resumed', what: 'hint' })
    },
  )

  test("for good, 'required': StorageError as long as it lasts, and the state is taken up when it is over", async () => {
    const { world, life, map } = await openedWorld({ storage: 'required' })
    await world.checkValues(map, [1])
    failing(life, ['putPending'], 'before')
    for (let call = 0; call < 5; call++) expect((await life.failure(map.at(6))).code).toBe('storage')
    expect(world.network.queries()).toHaveLength(2)
    life.interfere = () => {}
    await world.checkValues(map)
    expect(blobs(world.network)).toHaveLength(16)
    expect(map.storage).toBe('best-effort')
  })

  test.each(['begin', 'putPartial', 'complete'] as const)('during the download (%s)', async method => {
    for (const when of ['before', 'after'] as const) {
      for (const times of [1, Number.POSITIVE_INFINITY]) {
        for (const storage of ['preferred', 'required'] as const) {
          const world = new World()
          const life = world.life()
          failing(life, [method], when, times)
          // One that has happened, whatever was said of it, is not tried again. A save is left out.
          const lasting = times > 1 && when === 'before' && method !== 'putPartial'
          if (storage === 'required' && lasting) {
            expect((await life.failure(life.openIdle({ storage }))).code).toBe('storage')
            life.kill()
          } else {
            const map = await life.open({ storage })
            expect(map.storage).toBe(lasting ? 'memory' : 'best-effort')
            await world.checkValues(map)
            life.kill()
          }
          // Whatever the disk holds of it, it is another hint than the one that went on in memory.
          await world.checkValues(await world.life().open())
        }
      }
    }
  })

  test('when a lie is to be remembered: condemned all the same, and stored by the next call', async () => {
    const { world, life, map } = await openedWorld()
    failing(life, ['condemn'], 'before', 2)
    world.network.misbehave[B] = flip(50)
    expect(await life.failure(map.at(6))).toMatchObject({ name: 'TamperedError', server: B })
    expect((await world.head())?.condemned).toBeUndefined()
    for (let call = 0; call < 2; call++) {
      expect(await life.failure(map.at(6))).toMatchObject({ name: 'CondemnedError', server: B })
    }
    expect((await world.head())?.condemned).toEqual({ culprit: B })
    expect(world.network.queries()).toHaveLength(2)
  })

  test('during reset(): StorageError if it cannot begin, and what the store holds is used', async () => {
    for (const method of ['begin', 'complete'] as const) {
      for (const when of ['before', 'after'] as const) {
        const { world, life, map } = await openedWorld()
        await world.checkValues(map, [1])
        const old = hex((await world.head())!.record.hintId)
        failing(life, [method], when, 1)
        if (method === 'begin') expect((await life.failure(map.reset())).code).toBe('storage')
        else await world.drive(map.reset()) // it is tried again
        await world.checkValues(map)
        expect(hex((await world.head())!.record.hintId) === old).toBe(method === 'begin' && when === 'before')
      }
    }
  })
})

describe('navigator.storage.persist()', () => {
  async function persisting(answer: () => Promise<boolean>) {
    const world = new World()
    const persist = vi.fn(answer)
    const life = openedBy(world, () => ({ persist }))
    return { world, life, map: await life.open(), persist }
  }

  test('is asked for once, after the first lookup that went well', async () => {
    const { world, life, map, persist } = await persisting(async () => true)
    await world.interrupt(life, map)
    expect(persist).not.toHaveBeenCalled()
    await world.checkValues(map)
    await settle()
    expect(persist).toHaveBeenCalledOnce()
    expect(map.storage).toBe('persistent')
    expect(life.events).toEqual([{ type: 'storage', storage: 'persistent', reason: 'granted' }])
  })

  test.each([
    ['refused', async (): Promise<boolean> => false],
    ['failing', async (): Promise<boolean> => Promise.reject(new TypeError('not in this context'))],
  ] as const)('%s: nothing changes, and it is not asked again', async (_what, answer) => {
    const { world, life, map, persist } = await persisting(answer)
    await world.checkValues(map)
    await settle()
    expect(persist).toHaveBeenCalledOnce()
    expect(map.storage).toBe('best-effort')
    expect(life.events).toEqual([])
  })

  test('is not waited for: a prompt nobody answers holds up nothing', async () => {
    const { world, map } = await persisting(() => new Promise(() => {}))
    await world.checkValues(map)
  })

  test('is not asked for what is persistent already, or only in memory', async () => {
    const world = new World()
    let asked = 0
    const persist = async () => ++asked > 0
    const persistent = openedBy(world, () => ({ storage: 'persistent', persist }))
    await world.checkValues(await persistent.open(), [1])
    const memory = openedBy(world, () => ({ persist }))
    await world.checkValues(await memory.open({ storage: 'memory' }), [1])
    expect(asked).toBe(0)
  })
})

test('in Node, state is in memory unless there is a store; in files it outlives the map', NEEDS_POSIX, async () => {
  const { network, database } = keyless()
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const common = { mode: 'full', fetch: network.fetch } as const
  const memory = await client.open({ ...common, servers: [A, B] })
  expect(memory.storage).toBe('memory')
  await memory.close()
  const before = blobs(network).length
  for (let visit = 0; visit < 3; visit++) {
    const kept = { ...common, storage: 'required' } as const
    const map = await client.open({ ...kept, servers: [A, B], store: fileStore(folder) })
    const asked = network.seen.length
    // The same folder, named again and otherwise, and the servers in another order.
    const shared = await client.open({ ...kept, servers: [B, A], store: fileStore(relative('.', folder)) })
    expect(network.seen).toHaveLength(asked)
    expect(map.storage).toBe('persistent')
    for (let i = 0; i < map.size; i++) expect(await map.at(i)).toEqual(database.byIndex[i])
    expect(await shared.at(1)).toEqual(database.byIndex[1])
    await map.close()
    await shared.close()
  }
  expect(blobs(network).length - before).toBe(database.manifest.partitions)
})
