// A tab freezes, in a debugger for example, while it sweeps up rows of others. A tab that prepares a hint waits for it, but not
// for ever; it can be called off meanwhile, and then blocks no other call.

import { expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import { settle } from './support/clock.js'
import { A } from './support/network.js'
import { World } from './support/world.js'

/** What a tab sees while another sweeps. */
const sweeping = { join: () => new Promise<never>(() => {}), whileNone: async () => {} }

async function opened(): Promise<{ world: World; map: KeyhushMap }> {
  const world = new World()
  const openStore = async () => ({ store: world.disk, storage: 'best-effort', preparers: sweeping }) as const
  const options = { servers: [A], integrity: 'server', mode: 'single', lookups: 8, storage: 'required' } as const
  return { world, map: await world.life({ openStore }).open(options) }
}

test('reset() goes ahead after a while, and begins anew', async () => {
  const { world, map } = await opened()
  const { hintId } = (await world.head())!.record
  await world.drive(map.reset())
  expect((await world.head())!.record.hintId).not.toEqual(hintId)
  await world.checkValues(map, [4, 999])
})

test('a reset() that is called off delays no lookup', async () => {
  const { world, map } = await opened()
  const controller = new AbortController()
  const reset = map.reset({ signal: controller.signal })
  const called = expect(reset).rejects.toThrow('aborted')
  await settle()
  controller.abort()
  await called
  const before = world.clock.now()
  await world.checkValues(map, [4, 999])
  expect(world.clock.now()).toBe(before)
})

test('close() does not wait for the sweeper, in reset() or behind lookups', async () => {
  const { world, map } = await opened()
  const reset = map.reset().catch((error: { code: string }) => error.code)
  await settle()
  await world.drive(map.close())
  expect(await reset).toBe('closed')

  const { world: other, map: spent } = await opened()
  await other.checkValues(spent, [0, 1, 2, 3, 4, 5]) // two of eight are left: others are made
  const before = other.clock.now()
  await other.drive(spent.close())
  expect(other.clock.now()).toBe(before)
})
