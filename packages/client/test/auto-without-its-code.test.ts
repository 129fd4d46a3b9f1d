// Mode `auto` loads the code for states when it prepares one. If the app's host delays these files, or has removed them, lookups go
// on, and no stored state is lost.

import { expect, test } from 'vitest'
import type { Environment } from '../src/testing.js'
import { rest } from './support/clock.js'
import { core, hex } from './support/harness.js'
import { type Life, World } from './support/world.js'

const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= 2

const opened = (life: Life) => life.open({ mode: 'auto', push: false }, { pays })

/** Loads the code for states by `ofHints`. */
const parts = (ofHints: () => Promise<typeof core>): Partial<Environment> => ({
  loadCore: async build => (build === 'client' ? await ofHints() : core),
})

const gone = () => Promise.reject(new TypeError('Failed to fetch dynamically imported module'))

test('code that never loads: lookups go on, reset() and close() end', async () => {
  const world = new World()
  let asked = 0
  const never = () => {
    asked++
    return new Promise<never>(() => {})
  }
  const map = await opened(world.life(parts(never)))
  await world.checkValues(map, [1, 2, 3])
  await rest()
  expect([map.mode, asked]).toEqual(['instant', 1])
  await world.drive(map.reset())
  await world.checkValues(map, [6, 7])
})

test('missing code: lookups go on, and the state is prepared once the code is there', async () => {
  const world = new World()
  let load: () => Promise<typeof core> = gone
  const map = await opened(world.life(parts(() => load())))
  for (let i = 0; i < 6; i++) await world.checkValues(map, [i])
  await rest()
  expect(map.mode).toBe('instant')
  load = async () => core
  for (let i = 0; i < 12; i++) await world.checkValues(map, [i])
  await rest()
  expect(map.mode).not.toBe('instant')
  await world.checkValues(map)
})

test('missing code for a stored state: open() fails and says so, and the state stays', async () => {
  const world = new World()
  const map = await opened(world.life())
  await world.checkValues(map, [1, 2, 3])
  await rest()
  await world.drive(map.close())
  const { record, version } = (await world.head())!
  const life = world.life(parts(gone))
  const asked = world.network.seen.length
  expect(await life.failure(opened(life))).toMatchObject({ code: 'unsupported', reason: 'module' })
  expect(world.network.seen).toHaveLength(asked)
  const again = await opened(world.life())
  expect(again.mode).not.toBe('instant')
  await world.checkValues(again)
  const head = (await world.head())!
  expect([hex(head.record.hintId), head.version >= version]).toEqual([hex(record.hintId), true])
})
