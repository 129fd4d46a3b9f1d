// A lookup that could not be finished: kept, sent again byte for byte, finished before anything else, and its records
// never used (S1–S3, P4).

import { toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { BACKOFF_MS, WIRE_MS } from '../src/base/constants.js'
import { settle } from './support/clock.js'
import { Harness, keyed, keyless, NAMES, openedOn } from './support/harness.js'
import { A, B, busy, hang, on, problem } from './support/network.js'

/** A map whose lookup of index 3 was answered by one server only. */
async function interrupted(silent: string) {
  const { network, database, harness, map } = await openedOn(keyless(), {}, 11)
  network.misbehave[silent] = busy
  expect((await harness.failure(map.at(3))).code).toBe('network')
  network.misbehave[silent] = undefined
  return { network, database, harness, map, attempts: network.queries().length }
}

test.each([A, B])(
  'what %s refused for now is sent to it again, alone, whatever is asked; and is found',
  async server => {
    const shapes = []
    for (const index of [3, 9]) {
      const { network, database, harness, map } = await openedOn(keyless(), {}, 12)
      let refused = 0
      network.misbehave[server] = on('/v1/answer', genuine =>
        ++refused <= 2 ? problem(503, 'not_ready', { 'retry-after': '1' }) : genuine,
      )
      expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
      const sent = network.queries().map(({ server, body }) => [server, Buffer.from(body).toString('hex')] as const)
      expect(sent.map(([to]) => to)).toEqual([A, B, server, server])
      expect(new Set(sent.flatMap(([to, body]) => (to === server ? [body] : []))).size).toBe(1)
      expect(map.stats.incidents).toEqual(Array(2).fill({ server, code: 'network' }))
      expect(harness.clock.now()).toBe(2_000) // a pause before each attempt but the first
      shapes.push(network.shapes())
    }
    expect(shapes[1]).toEqual(shapes[0])
  },
)

/** more requests than any call sends */
const MANY = 500

test('Retry-After: 0 makes a lookup no more hurried than Retry-After: 1', async () => {
  const bodies = await Promise.all(
    ['0', '1'].map(async seconds => {
      const { network, harness, map } = await openedOn(keyless(), {}, 13)
      let refused = 0
      const refusal = () => problem(503, 'not_ready', { 'retry-after': seconds })
      network.misbehave[A] = on('/v1/answer', genuine => (++refused > MANY ? genuine : refusal()))
      expect(await harness.failure(map.at(3))).toMatchObject({ code: 'network', retryAfterMs: 1_000 })
      return network.queries().map(({ server, body }) => [server, Buffer.from(body).toString('hex')])
    }),
  )
  expect(bodies[0]).toEqual(bodies[1])
  const toB = 1
  expect(bodies[0]).toHaveLength(toB + 1 + WIRE_MS / BACKOFF_MS)
})

test('nor a question', async () => {
  const { network } = keyless()
  let refused = 0
  network.both(() => (++refused > MANY ? undefined : problem(429, 'rate_limited', { 'retry-after': '0' })))
  const harness = new Harness(network)
  expect(await harness.failure(harness.open())).toMatchObject({ code: 'rate_limited', retryAfterMs: 1_000 })
  const asked = network.seen.filter(seen => seen.server === A && seen.path === '/v1/info')
  expect(asked.length).toBeGreaterThan(1)
  expect(asked.length).toBeLessThanOrEqual(1 + WIRE_MS / BACKOFF_MS)
})

describe.each([A, B])('after %s was silent', silent => {
  test('the attempts, and the resend that the next call begins with, are the same bytes to the same servers', async () => {
    const { network, harness, map, attempts } = await interrupted(silent)
    await harness.drive(map.at(9))
    const bodies = (server: string) =>
      network.queries().flatMap(seen => (seen.server === server ? [Buffer.from(seen.body).toString('hex')] : []))
    for (const server of [A, B]) {
      const sent = bodies(server)
      const own = sent.pop() // the last is the second call's own query
      expect(new Set(sent).size).toBe(1)
      expect(own).not.toBe(sent[0])
    }
    expect(network.queries(attempts).map(seen => seen.server)).toEqual([A, B, A, B])
  })

  test('asking for the same and for another index makes equal traffic, and both get their value', async () => {
    const seen = []
    for (const index of [3, 9, 0]) {
      const { network, database, harness, map, attempts } = await interrupted(silent)
      expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
      seen.push({ shapes: network.shapes(attempts), steps: harness.log.map(line => line.split(' ')[0]) })
    }
    expect(seen[1]).toEqual(seen[0])
    expect(seen[2]).toEqual(seen[0])
  })

  test('a call given up while the earlier lookup is finished makes no query of its own', async () => {
    const { network, harness, map, attempts } = await interrupted(silent)
    const controller = new AbortController()
    const call = map.at(9, { signal: controller.signal })
    const given = expect(call).rejects.toMatchObject({ name: 'AbortError' })
    await Promise.resolve()
    await Promise.resolve()
    controller.abort()
    await given
    await harness.drive(map.at(3))
    // The earlier lookup once more, and then the query of the call that was not given up.
    expect(network.queries(attempts).map(seen => seen.server)).toEqual([A, B, A, B])
  })
})

test('an answer that comes after its attempt was given up is discarded unread', async () => {
  const { network, database, harness, map } = await openedOn(keyless())
  let late: Response | undefined
  let deliver = () => {}
  let attempts = 0
  network.misbehave[B] = on('/v1/answer', async genuine => {
    if (++attempts > 1) return genuine
    await new Promise<void>(resolve => {
      deliver = resolve // deaf to its signal, too
    })
    late = new Response(new Uint8Array(await genuine.arrayBuffer()).fill(7))
    return late
  })
  const found = harness.drive(map.at(3))
  expect(await found).toEqual(database.byIndex[3])
  deliver()
  await settle()
  expect(late?.bodyUsed || late?.body?.locked).toBeTruthy() // cancelled
  expect(await harness.drive(map.at(4))).toEqual(database.byIndex[4])
})

test('a lookup of several queries, interrupted, is finished whole', async () => {
  const { network, database, harness, map } = await openedOn(keyed())
  network.misbehave[A] = hang('/v1/answer')
  const sentToA = () => network.queries().flatMap(({ server, body }) => (server === A ? [toHex(body)] : []))
  await harness.failure(map.getMany(NAMES.slice(0, 5), { padTo: 6 }))
  const sent = sentToA()
  network.misbehave[A] = undefined
  const found = await harness.drive(map.getMany([NAMES[2]!, 'absent']))
  expect(new Set([...sent, sentToA()[sent.length]]).size).toBe(1) // all six queries again, before the next two
  expect(found).toEqual([database.contents.values[2], undefined])
  for (const [i, name] of NAMES.entries()) {
    expect(await harness.drive(map.get(name))).toEqual(database.contents.values[i])
  }
})

describe('a store that fails', () => {
  test('before intent is stored: nothing is sent, and the same bytes are stored by the next call', async () => {
    const { network, database, harness, map } = await openedOn(keyless())
    const { store } = harness
    const putPending = store.putPending
    const offered: string[] = []
    store.putPending = async (_hintId, _version, pending) => {
      offered.push(Buffer.from(pending).toString('hex'))
      throw new Error('disk full')
    }
    expect(await harness.failure(map.at(3))).toMatchObject({ name: 'StorageError', code: 'storage' })
    expect(network.queries()).toEqual([])
    store.putPending = putPending
    expect(await harness.drive(map.at(5))).toEqual(database.byIndex[5])
    expect(harness.log[0]).toBe(`stored 0 ${offered[0]}`)
  })

  test('at the effect: the map is not used again until reset()', async () => {
    const { network, database, harness, map } = await openedOn(keyless())
    harness.store.commit = async () => {
      throw new Error('disk full')
    }
    expect((await harness.failure(map.at(3))).code).toBe('storage')
    const sent = network.queries().length
    expect((await harness.failure(map.at(3))).code).toBe('storage')
    expect(network.queries()).toHaveLength(sent)
    harness.store.commit = Object.getPrototypeOf(harness.store).commit
    await harness.drive(map.reset())
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
  })
})
