// reset() in mode `auto` also drops a half-made hint. Apps call it on a restored or cloned machine without a fence
// (docs/threat-model.md, Old state put back), where that hint would be in use twice.

import { expect, test } from 'vitest'
import { settle } from './support/clock.js'
import { hex } from './support/harness.js'
import { problem } from './support/network.js'
import { World } from './support/world.js'

const rest = async () => {
  for (let i = 0; i < 60; i++) await settle()
}

/** Downloads stop after so many partitions, until released. */
function holding(w: World, partitions: number) {
  const gate = { open: false }
  let given = 0
  w.network.both(({ path }, genuine) =>
    !path.startsWith('/v1/blobs/') || gate.open || given++ < partitions
      ? genuine
      : Promise.resolve(problem(404, 'not_found')),
  )
  return gate
}

/** A disk with a half-made hint, and two copies of it. */
async function halfMade() {
  const first = new World()
  first.network.fence = false
  holding(first, 5)
  const life = first.life()
  await life.failure(life.openIdle({ mode: 'full', push: false }))
  expect((await first.head())?.stage).toBe('partial')
  return first
}

test.each(['stored before', 'begun in this life'])('reset() drops a state in the making that was %s', async when => {
  const w = when === 'stored before' ? await halfMade() : new World()
  const half = (await w.head())?.record.hintId
  const gate = holding(w, when === 'stored before' ? 0 : 5)
  const life = w.life()
  const map = await life.open({ mode: 'auto', push: false, pays: () => true } as never)
  await rest()
  expect(map.mode).toBe('instant')
  const before = (await w.head())!.record.hintId
  if (half !== undefined) expect(hex(before)).toBe(hex(half))
  gate.open = true
  await w.drive(map.reset())
  await rest()
  for (let i = 0; i < 3; i++) await w.drive(map.at(i))
  await rest()
  expect(map.mode).not.toBe('instant')
  const after = (await w.head())!
  expect([after.stage, hex(after.record.hintId) === hex(before)]).toEqual(['whole', false])
  await w.checkValues(map, [3, 9])
})
