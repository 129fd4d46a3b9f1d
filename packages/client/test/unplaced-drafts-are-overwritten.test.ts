// A map is closed when new hints are complete but not in use, because another tab gets the lock first. close() overwrites them
// in memory, like all secrets.

import { expect, test } from 'vitest'
import { LOCK_LEASE_MS } from '../src/base/constants.js'
import { deferred, settle } from './support/clock.js'
import { core } from './support/harness.js'
import { A } from './support/network.js'
import { World } from './support/world.js'

test('close() overwrites complete hints that are not yet in use', async () => {
  const made: { isOver: boolean }[] = []
  const newSingleBuilder: typeof core.newSingleBuilder = (...parameters) => {
    const builder = core.newSingleBuilder(...parameters)
    const seen = { isOver: false }
    made.push(seen)
    return new Proxy(builder, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target)
        if (name === 'finish' || name === 'free') seen.isOver = true
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }
  const world = new World()
  const life = world.life({ loadCore: async () => ({ ...core, newSingleBuilder }) })
  const options = {
    servers: [A],
    integrity: 'server',
    mode: 'single',
    lookups: 4,
    proofs: undefined,
    push: false,
  } as const
  const map = await life.open(options as never)
  await world.checkValues(map, [1, 2])
  const [asked, answered, downloaded] = [deferred(), deferred(), deferred()]
  world.network.misbehave[A] = async ({ path }, genuine) => {
    if (path.startsWith('/v1/blobs/')) await downloaded.promise
    if (path === '/v1/answer' && made.length === 2) {
      asked.resolve()
      await answered.promise
    }
    return genuine
  }
  await world.checkValues(map, [3]) // and others are begun
  const rest = async () => {
    for (let i = 0; i < 40; i++) await settle()
  }
  await rest()
  const last = map.at(4)
  await asked.promise
  downloaded.resolve()
  await rest()
  expect(made.map(({ isOver }) => isOver)).toEqual([true, false])
  // Another tab asks for the lock, and a lease is over.
  const other = world.life().environment.locks.hold(`keyhush ${A}`, 45_000, async () => {})
  world.clock.pass(LOCK_LEASE_MS)
  const closed = map.close()
  answered.resolve()
  expect(await world.drive(last)).toEqual(world.database.byIndex[4])
  await world.drive(Promise.all([closed, other]))
  expect(made.map(({ isOver }) => isOver)).toEqual([true, true])
})
