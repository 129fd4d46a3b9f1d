// Servers that replace the database again and again: no update leads on, so each time a hint is downloaded anew. How often
// one call does that, and how often by itself a map that listens, does not follow from what servers say.

import { encodeEvent } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { settle, until } from './support/clock.js'
import type { Database } from './support/database.js'
import { laidOutAnew } from './support/epochs.js'
import { Harness, openedOn } from './support/harness.js'
import { edit, type Living, livingKeyless } from './support/living.js'
import { A, blobs, epochUnknown, problem } from './support/network.js'

const one = { servers: [A], integrity: 'server', storage: 'memory' } as const

/** The same values in a generation of their own. */
function nextGeneration(living: Living): Database {
  const { manifest, byIndex } = living.newest
  const values = byIndex.slice(0, 15).map(value => value!)
  living.newest = laidOutAnew(living.newest, 3 + ((manifest.generation + 1) % 2), values)
  return living.newest
}

test('a server that answers every query with a new generation: the lookup fails after a few downloads', async () => {
  const living = livingKeyless()
  const { network } = living
  const { harness, map } = await openedOn({ network }, { ...one, mode: 'single', lookups: 60 })
  let answered = 0
  network.misbehave[A] = (seen, genuine) => {
    if (seen.path !== '/v1/answer' || answered++ >= 20) return genuine
    network.publish(A, nextGeneration(living))
    return epochUnknown(living.newest.manifest)
  }
  const error = await harness.failure(map.at(5))
  expect([error.code, error.message]).toEqual(['protocol', expect.stringContaining('it was replaced 3 times')])
  expect(answered).toBeLessThan(10)
  answered = 20
  expect(await harness.drive(map.at(5))).toEqual(living.newest.byIndex[5])
})

test.each(['open', 'reset'] as const)(
  'a server with another generation at each download: %s() fails after a few',
  async call => {
    const living = livingKeyless()
    const { network } = living
    const harness = new Harness(network)
    const options = { ...one, mode: 'single', lookups: 60 } as const
    const map = call === 'reset' ? await harness.open(options) : undefined
    let asked = 0
    network.misbehave[A] = (seen, genuine) => {
      if (!seen.path.startsWith('/v1/blobs/') || asked++ >= 100) return genuine
      network.publish(A, nextGeneration(living))
      return problem(404, 'not_found')
    }
    const error = await harness.failure(map === undefined ? harness.open(options) : map.reset())
    expect([error.code, error.message]).toEqual(['protocol', expect.stringContaining('it was replaced 3 times')])
    expect(asked).toBeLessThan(20)
    asked = 100
    const after = map ?? (await harness.open(options))
    await harness.drive(after.reset())
    expect(await harness.drive(after.at(5))).toEqual(living.newest.byIndex[5])
  },
)

test('a server that announces a new generation as soon as the last one is there: each is downloaded later after the last', async () => {
  const living = livingKeyless()
  const { network } = living
  network.push = true
  const { harness, map } = await openedOn({ network }, { ...one, mode: 'local', push: true })
  await settle()
  const end = harness.clock.now() + 120_000
  let generations = 0
  const tell = () => {
    if (harness.clock.now() >= end) return
    if (map.epoch === living.newest.manifest.epoch) {
      generations++
      network.publish(A, nextGeneration(living))
    } else for (const stream of network.streams) stream.tell(encodeEvent(living.newest.manifest))
    harness.clock.setTimeout(tell, 500)
  }
  tell()
  await until(harness.clock, () => harness.clock.now() >= end)
  // after 1 s, 2 s, … 16 s, and every 16 s
  expect(generations).toBeGreaterThan(4)
  expect(generations).toBeLessThan(15)
  expect(blobs(network).length).toBeLessThan(60)
  expect(map.epoch).toBeGreaterThan(4)
})

// Without signatures, a single server can answer every query with another new epoch. A lookup follows a bounded number of them;
// otherwise it would never end, and keep all update lists.
test('a server that always has a newer epoch: the lookup fails, and the next one goes on', async () => {
  const living = livingKeyless()
  const { network } = living
  const { harness, map } = await openedOn({ network }, { ...one, mode: 'single', lookups: 60 })
  let turns = 0
  network.misbehave[A] = async (seen, genuine) => {
    if (seen.path !== '/v1/answer' || turns++ >= 200) return genuine
    living.publish([edit(1, `${turns}aaaaa`.slice(0, 5))])
    return epochUnknown(living.newest.manifest)
  }
  expect((await harness.failure(map.at(5))).code).toBe('version')
  expect(turns).toBeLessThan(100)
  expect(map.condemned).toBeUndefined()
  turns = 200
  expect(await harness.drive(map.at(5))).toEqual(living.newest.byIndex[5])
  expect(new Set(network.queries().map(({ body }) => body.length)).size).toBe(1)
})
