// A condemned hint stays condemned until reset(). Hints that are being made meanwhile, because lookups run out or a new generation
// began, do not replace it: otherwise a server that lies would be asked again without the app's consent.

import { HEADER_BYTES } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { deferred, settle } from './support/clock.js'
import { hex } from './support/harness.js'
import { A, after, flip } from './support/network.js'
import { openedWorld } from './support/world.js'

const one = { servers: [A], integrity: 'server', mode: 'single', lookups: 8, push: false } as const

const rest = async () => {
  for (let i = 0; i < 60; i++) await settle()
}

test.each(['this', 'another'])('a hint condemned by %s tab is not replaced by hints in the making', async tab => {
  const { world, life, map } = await openedWorld(one)
  const { promise: held, resolve: release } = deferred()
  world.network.misbehave[A] = after('/v1/blobs/', held)
  for (let i = 0; i < 6; i++) await world.drive(map.at(i))
  await rest()
  expect(life.events.map(({ type }) => type)).toEqual(['outdated'])
  const hint = (await world.head())!.record.hintId
  const other = tab === 'this' ? map : await world.life().open(one)
  const before = world.network.misbehave[A]!
  world.network.misbehave[A] = (seen, genuine) =>
    seen.path === '/v1/answer' ? flip(HEADER_BYTES)(seen, genuine) : before(seen, genuine)
  expect((await life.failure(other.at(3))).code).toBe('tampered')
  world.network.misbehave[A] = undefined
  release()
  await rest()
  expect(hex((await world.head())!.record.hintId)).toBe(hex(hint))
  for (const each of [map, other]) expect((await life.failure(each.at(3))).code).toBe('condemned')
  expect(map.condemned).toEqual({ server: A })
  await world.drive(map.reset())
  await world.checkValues(map, [3, 9])
})
