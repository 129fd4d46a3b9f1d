// What requests carry: nothing that two servers could match, nothing that tells the role, and both at one moment.

import { decodeQuery } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { Harness, keyless, NAMES, openedOn } from './support/harness.js'
import { change, livingKeyed, openedLiving } from './support/living.js'
import { A, B, on, problem, type Seen } from './support/network.js'
import { seededRandom } from './support/random.js'

/** Everything a request would send besides the platform's own headers. */
function carried({ url, init }: Seen) {
  const request = new Request(url, init)
  return {
    method: request.method,
    headers: [...request.headers],
    credentials: request.credentials,
    cache: request.cache,
    redirect: request.redirect,
    referrerPolicy: request.referrerPolicy,
    keys: Object.keys(init).sort(),
  }
}

const COMMON = {
  headers: [],
  credentials: 'omit',
  cache: 'no-store',
  redirect: 'manual',
  referrerPolicy: 'no-referrer',
}

test('every request carries no header, cookie, referrer or type of ours, and follows no redirect and allows no cache', async () => {
  const living = livingKeyed()
  const { network, harness, map } = await openedLiving(living)
  await harness.drive(map.get('absent'))
  for (let i = 0; i < 2; i++) living.publish([change(NAMES[i]!, 'new')])
  await harness.drive(map.sync())
  const kinds = new Set(network.seen.map(seen => seen.path.split(/[/?]/)[2]))
  expect(kinds).toEqual(new Set(['info', 'manifest', 'blobs', 'fence', 'manifests', 'answer']))
  for (const seen of network.seen) {
    const method = seen.path === '/v1/answer' || seen.path === '/v1/fence' ? 'POST' : 'GET'
    expect(carried(seen)).toMatchObject({ ...COMMON, method })
  }
})

describe('the two requests of a lookup', () => {
  test('leave in the same tick, after intent is stored', async () => {
    const { network, harness, map } = await openedOn(keyless())
    for (let i = 0; i < 5; i++) {
      await harness.drive(map.at(i))
      const [a, b] = network.queries(2 * i) as [Seen, Seen]
      expect(a.tick).toBe(b.tick)
      expect([a.server, b.server]).toEqual([A, B])
    }
    const steps = harness.log.map(line => line.split(' ')[0])
    expect(steps).toEqual(Array(5).fill(['stored', 'sent', 'sent', 'committed']).flat())
  })

  test('differ in their vectors alone', async () => {
    const { network, database, harness, map } = await openedOn(keyless())
    await harness.drive(map.at(3))
    const [a, b] = network.queries() as [Seen, Seen]
    expect(carried(a)).toEqual(carried(b))
    expect(a.path).toBe(b.path)
    const [queryA, queryB] = [decodeQuery(a.body), decodeQuery(b.body)]
    expect({ ...queryA, vectors: undefined }).toEqual({ ...queryB, vectors: undefined })
    expect(queryA.vectors.length).toBe(2 * database.manifest.partitions)
    expect(queryA.vectors).not.toEqual(queryB.vectors)
  })
})

test('which server has which role is drawn at random, once for the life of a hint', async () => {
  const { network } = keyless()
  const retrieve = new Set<string>()
  for (let seed = 1; seed <= 20; seed++) {
    const { harness, map } = await openedOn({ network }, {}, seed)
    const retrieveServer = async () => (await harness.store.read())?.record.parties[0]
    const first = await retrieveServer()
    for (let i = 0; i < 3; i++) await harness.drive(map.at(i))
    expect(await retrieveServer()).toBe(first)
    retrieve.add(first!)
    await harness.drive(map.close())
  }
  expect(retrieve).toEqual(new Set([A, B]))
})

test('every lookup draws 32 fresh bytes, a resend none', async () => {
  const { network } = keyless()
  const random = seededRandom(1)
  const drawn: number[] = []
  const counting = (bytes: number) => {
    drawn.push(bytes)
    return random(bytes)
  }
  const harness = new Harness(network, 1, { random: counting })
  const map = await harness.open()
  drawn.length = 0
  for (const index of [3, 3, 3]) await harness.drive(map.at(index))
  network.misbehave[A] = on('/v1/answer', () => problem(503, 'not_ready'))
  await harness.failure(map.at(3))
  await harness.failure(map.at(3))
  expect(drawn).toEqual([32, 32, 32, 32])
})

test('the order of `servers` changes nothing that is sent', async () => {
  const transcripts = await Promise.all(
    [[A, B] as const, [B, A] as const].map(async servers => {
      const { network, harness, map } = await openedOn(keyless(), { servers }, 5)
      await harness.drive(map.at(3))
      return network.seen.map(({ server, path, body }) => [server, path, [...body]])
    }),
  )
  expect(transcripts[0]).toEqual(transcripts[1])
})

test('all lookups of one length look the same, whatever is asked, on every map', async () => {
  const shapes = new Set<string>()
  for (let seed = 1; seed <= 3; seed++) {
    const { network, harness, map } = await openedOn(keyless(), {}, seed)
    for (let i = 0; i < map.size; i++) {
      await harness.drive(map.at(i))
      shapes.add(network.shapes(2 * i).join('\n'))
    }
    await harness.drive(map.close())
  }
  expect(shapes.size).toBe(1)
})
