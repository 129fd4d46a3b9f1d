// A lookup that finds its hints used up waits for new ones, for as long as the server takes for their download. It has shown nothing
// yet: so it can be called off, close() does not wait for it, and reset() goes ahead.

import { describe, expect, test } from 'vitest'
import { settle } from './support/clock.js'
import { keyless, openedOn } from './support/harness.js'
import { A, hang } from './support/network.js'

const one = { servers: [A], integrity: 'server', mode: 'single', lookups: 2, storage: 'memory' } as const

const rest = async () => {
  for (let i = 0; i < 10; i++) await settle()
}

/** A map without hints left, and a lookup that waits for new ones, which do not come. */
async function waiting(signal?: AbortSignal) {
  const { network, database, harness, map } = await openedOn(keyless(), one)
  network.misbehave[A] = hang('/v1/blobs/')
  for (let i = 0; i < 2; i++) await harness.drive(map.at(i))
  const lookup = map.at(2, { signal }).then(
    () => 'a value',
    (error: Error) => error.name,
  )
  await rest()
  expect(map.lookupsLeft).toBe(0)
  return { network, database, harness, map, lookup, now: harness.clock.now() }
}

describe('a lookup that waits for other hints', () => {
  test('ends at once when the map is closed', async () => {
    const { harness, map, lookup, now } = await waiting()
    await harness.drive(map.close())
    expect(await lookup).toBe('ClosedError')
    expect(harness.clock.now()).toBe(now)
  })

  test('does not block reset() once it is called off', async () => {
    const giving = new AbortController()
    const { network, database, harness, map, lookup, now } = await waiting(giving.signal)
    giving.abort()
    expect(await lookup).toBe('AbortError')
    network.misbehave[A] = undefined
    await harness.drive(map.reset())
    expect(harness.clock.now()).toBe(now)
    expect(await harness.drive(map.at(2))).toEqual(database.byIndex[2])
    expect(network.queries()).toHaveLength(3)
  })
})
