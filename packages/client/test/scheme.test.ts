// The seam: a scheme that is no part of this package answers lookups like any other. It has two equal servers, keeps
// nothing, and knows a forged answer only from both together.

import { describe, expect, test } from 'vitest'
import type { MapEvent } from '../src/index.js'
import { openWith } from '../src/testing.js'
import { settle } from './support/clock.js'
import { Harness, keyed, keyless, NAMES } from './support/harness.js'
import { edit, expectFollowed, Living, livingKeyed, livingKeyless, utf8 } from './support/living.js'
import { A, B, type Network, on, problem, type Seen } from './support/network.js'
import { PATH, serveXor, withXor } from './support/xor.js'

const asked = (network: Network): Seen[] => network.seen.filter(({ path }) => path === PATH)
const bodies = (seen: readonly Seen[]) => seen.map(({ body }) => Buffer.from(body).toString('hex'))

async function opened(living: Living, lie?: Parameters<typeof serveXor>[2], push = false) {
  const { network } = living
  const epochs = [living.newest]
  const publish = living.publish.bind(living)
  living.publish = (...parameters) => {
    const next = publish(...parameters)
    epochs.push(next)
    return next
  }
  serveXor(network, () => epochs, lie)
  const openStore = async () => {
    throw new Error('a stateless scheme opens no store')
  }
  const harness = new Harness(network, 1, { openStore })
  const events: MapEvent[] = []
  const options = { servers: [A, B], mode: 'xor', push, onEvent: (event: MapEvent) => void events.push(event) } as const
  const map = await harness.drive(openWith(harness.environment, options, withXor))
  return { harness, map, network, events }
}

test('answers by index and by key, and nothing is downloaded', async () => {
  const { network, database } = keyed()
  const { harness, map } = await opened(new Living(network, database))
  expect([map.mode, map.storage, map.stats.held]).toEqual(['xor', 'memory', {}])
  expect(network.seen.filter(({ path }) => path.startsWith('/v1/blobs/'))).toHaveLength(0)
  expect(network.seen.filter(({ path }) => path === '/v1/fence')).toEqual([])
  const wanted = [...NAMES, 'absent.example', NAMES[3]!]
  const expected = wanted.map(name =>
    NAMES.includes(name) ? database.contents.values[NAMES.indexOf(name)] : undefined,
  )
  expect(await harness.drive(map.getMany(wanted))).toEqual(expected)
  for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
})

test('every lookup is one request to each server, in one tick, and has nothing in common with any other', async () => {
  const { harness, map, network } = await opened(livingKeyless())
  for (const index of [3, 3, 3]) await harness.drive(map.at(index))
  const seen = asked(network)
  expect(seen.map(({ server }) => server)).toEqual([A, B, A, B, A, B])
  for (let i = 0; i < 6; i += 2) expect(seen[i]!.tick).toBe(seen[i + 1]!.tick)
  expect(new Set(bodies(seen)).size).toBe(6)
  expect(new Set(seen.map(({ body }) => body.length)).size).toBe(1)
  expect(map.stats.lastLookup).toMatchObject({ bytesUp: 2 * (5 + 2), bytesDown: 2 * (5 + 8) })
})

test('lookups run side by side, and none waits for another', async () => {
  const living = livingKeyless()
  const { harness, map, network } = await opened(living)
  const found = Promise.all([map.at(1), map.at(2), map.at(3)])
  await settle()
  expect(asked(network)).toHaveLength(6)
  expect(await harness.drive(found)).toEqual([1, 2, 3].map(index => living.newest.byIndex[index]))
})

test('a server that lies is noticed by both answers together; nobody is named, and nothing is condemned', async () => {
  let lying = true
  const living = livingKeyless()
  const { harness, map, events } = await opened(living, (server, answer) => {
    if (lying && server === B) answer[2]! ^= 1
  })
  const failure = await harness.failure(map.at(3))
  expect(failure).toMatchObject({ name: 'TamperedError', server: undefined })
  expect(failure.message).toContain(A)
  expect(failure.message).toContain(B)
  lying = false
  expect(await harness.drive(map.at(3))).toEqual(living.newest.byIndex[3])
  expect(events).toEqual([])
})

test('a reply that is none is asked for again, the same bytes from the same server; then its sender is named', async () => {
  let times = 0
  const living = livingKeyless()
  const { harness, map, network } = await opened(living, (server, answer) => {
    if (server === A && times++ < 3) answer.fill(0xff)
  })
  expect(await harness.failure(map.at(3))).toMatchObject({ name: 'ProtocolError', server: A })
  expect(new Set(bodies(asked(network).filter(({ server }) => server === A))).size).toBe(1)
  expect(await harness.drive(map.at(3))).toEqual(living.newest.byIndex[3])
})

describe('a database that changes', () => {
  test('is followed by sync(), keys included', async () => {
    const living = livingKeyed()
    await expectFollowed(living, await opened(living))
  })

  test('is followed when a lookup is not answered any more: it asks anew, out of fresh randomness', async () => {
    const living = livingKeyless()
    const { harness, map, network } = await opened(living)
    for (let round = 0; round < 3; round++) living.publish([edit(3, `no. ${round}`)])
    expect(await harness.drive(map.at(3))).toEqual(utf8('no. 2'))
    const seen = asked(network)
    expect(seen).toHaveLength(4)
    expect(new Set(bodies(seen)).size).toBe(4)
  })

  test('is followed when the servers say so', async () => {
    const living = livingKeyless()
    living.network.push = true
    const { harness, map } = await opened(living, undefined, true)
    await settle()
    living.publish([edit(3, 'three')])
    await settle()
    expect(map.epoch).toBe(2)
    await harness.drive(map.close())
    expect([living.network.streams.size, harness.clock.waiting]).toEqual([0, 0])
  })
})

test('given up at any await after its beginning, the servers see the same', async () => {
  const views: string[][] = []
  for (let turns = -1; turns < 60; turns += 3) {
    const living = livingKeyless()
    const { harness, map, network } = await opened(living)
    for (let round = 0; round < 3; round++) living.publish([edit(3, `no. ${round}`)])
    const controller = new AbortController()
    const call = map.at(3, { signal: controller.signal }).catch(() => {})
    if (turns >= 0) {
      for (let i = 0; i < turns; i++) await Promise.resolve()
      controller.abort()
    }
    await call
    await harness.drive(map.close())
    views.push(network.seen.map(({ server, path, body }) => `${server}${path} ${[...body]}`))
  }
  for (const view of views) expect(view).toEqual(views[0])
})

test('a server that is away is named, and the other is not asked again and again', async () => {
  const { network, database } = keyless()
  const { harness, map } = await opened(new Living(network, database))
  network.misbehave[B] = on(PATH, () => problem(503, 'not_ready'))
  expect(await harness.failure(map.at(3))).toMatchObject({ code: 'network', server: B })
  expect(asked(network).map(({ server }) => server)).toEqual([A, B, B, B])
})
