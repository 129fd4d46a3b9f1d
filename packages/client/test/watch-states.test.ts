// Watched keys while the state of their map is begun anew, condemned or lost: a watch needs no state of its map.

import { describe, expect, test } from 'vitest'
import { newSealingKey, SealedStore } from '../src/store/sealed.js'
import { MemoryStore } from '../src/testing.js'
import { rest } from './support/clock.js'
import { A, flip } from './support/network.js'
import { Directory, KEYS, MODES, pass, textOf, watching } from './support/watched.js'

const [KEY, OTHER] = KEYS as [string, string]
const V = 'v0..........'

describe.each(MODES)('mode %s: reset()', (_, options) => {
  test('while a key is watched: changes before and after are told, each once', async () => {
    const { directory, map, heard, watch, sync, drive } = await watching(new Directory(), options)
    const own = await watch(KEY)
    directory.publish({ [KEY]: 'one' })
    await drive(map.reset())
    await rest()
    directory.publish({ [KEY]: 'two' })
    await sync()
    expect([heard, textOf(own.value)]).toEqual([[`${V} → one at 2, list`, 'one → two at 3, list'], 'two'])
    await drive(map.reset())
    await sync()
    expect(heard).toHaveLength(2)
  })

  test('while servers have forgotten lists: a gap is told', async () => {
    const { directory, harness, map, heard, watch, sync, drive } = await watching(new Directory(), options)
    await watch(KEY)
    directory.publish({ [KEY]: 'one' })
    directory.publish({ [KEY]: V })
    directory.forget()
    await drive(map.reset())
    await sync()
    await pass(harness, 70_000)
    expect(heard).toEqual([`${V} → ${V} at 3, gap`])
  })
})

describe('a condemned map', () => {
  const condemned = async () => {
    const watched = await watching(new Directory(), { mode: 'full' })
    const own = await watched.watch(KEY)
    watched.directory.network.misbehave[A] = flip(50)
    await watched.harness.failure(watched.map.get(OTHER))
    watched.directory.network.misbehave[A] = undefined
    expect(watched.map.condemned).toEqual({ server: A })
    const sync = async () => {
      expect((await watched.harness.failure(watched.map.sync())).code).toBe('condemned')
      await pass(watched.harness, 100)
    }
    return { ...watched, own, sync }
  }

  test('follows the lists, and tells what changes', async () => {
    const { directory, heard, own, sync, clock } = await condemned()
    directory.publish({ [KEY]: 'one' })
    clock.pass(60_000)
    await sync()
    expect([heard, textOf(own.value)]).toEqual([[`${V} → one at 2, list`], 'one'])
    expect(own.checked!.getTime()).toBeGreaterThanOrEqual(clock.date() - 100)
  })

  test('looks nothing up until reset(), and tells the gap then; no watch begins before', async () => {
    const { directory, harness, map, heard, marks, watch, sync, drive } = await condemned()
    await sync()
    const before = { ...marks }
    directory.publish({ [KEY]: 'one' })
    directory.publish({ [KEY]: 'two' })
    directory.forget()
    await sync()
    const { length } = directory.network.queries()
    await pass(harness, 3_600_000)
    expect([heard, marks, directory.network.queries().length]).toEqual([[], before, length])
    expect((await harness.failure(map.watch(OTHER, () => {}))).code).toBe('condemned')
    await drive(map.reset())
    await pass(harness, 400_000)
    expect(heard).toEqual([`${V} → two at 3, gap`])
    await watch(OTHER)
  })
})

test('the browser has lost the key of its storage: a watch goes on from its mark', async () => {
  const directory = new Directory()
  const disk = new MemoryStore({ durable: true })
  const visit = async () => {
    const key = await newSealingKey()
    const openStore = async () => ({ store: new SealedStore(disk, async () => key), storage: 'persistent' }) as const
    return await watching(directory, { mode: 'full', storage: 'required' }, { openStore })
  }
  const first = await visit()
  await first.watch(KEY)
  await first.drive(first.map.close())
  directory.publish({ [KEY]: 'one' })
  directory.publish({ [KEY]: V })
  const second = await visit()
  await second.watch(KEY, { since: first.marks[KEY] })
  await rest()
  expect(second.events).toContainEqual({ type: 'discarded', reason: 'unreadable' })
  expect(second.heard).toEqual([`${V} → one at 2, list`, `one → ${V} at 3, list`])
})
