// Servers that lie about answers, over real HTTP. Each lie has its own error, which names the server; none leads to a
// wrong value; and for every index of a small database the outcome and the traffic are the same. So for both kinds of proof.

import type { Proofs } from '@keyhush/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Lie } from '../support/proxy.js'
import { Rig } from '../support/rig.js'
import { distinctRecords } from '../support/servers.js'
import { answers, shapeOf } from '../support/shapes.js'
import { THOROUGH } from '../support/thorough.js'
import * as lies from './lies.js'

// N = 7, ℓ = 8, Q = 2, M = 4: an answer is 40 bytes of header and two entries of 8 + 2·32 bytes, or of 8.
const values = distinctRecords(7, 8)
/** indices compared with index 0, of the other partition; `packages/client/test/malicious.test.ts` has all, without HTTP */
const others = THOROUGH ? [1, 2, 3, 4, 5, 6] : [6]
const HEADER_BYTES = 40
const ENTRY_BYTES = { merkle: 72, tags: 8 } as const

let rig: Rig
beforeAll(async () => {
  rig = await Rig.start({ format: 'bin', content: Buffer.concat(values), recordBytes: 8, partitions: 2 })
})
afterAll(() => rig.close())

/** `lie` about answers, told by one server. */
function tell(server: 0 | 1, lie: Lie): void {
  rig.proxies[server].lie = lies.about('/v1/answer', lie)
}

/** The kind of proof that clients ask for. */
let proofs: Proofs

async function opened(seed: string) {
  const client = rig.client(seed)
  return { client, map: await client.open({ proofs }) }
}

/** All that a caller and the servers can notice of one lookup after one server has begun to lie. */
async function outcomeOf(index: number, server: 0 | 1, lie: Lie) {
  const { client, map } = await opened('a client')
  tell(server, lie)
  const { name, code, message, server: culprit, timedOut } = await client.failure(map.at(index))
  const incidents = map.stats.incidents
  await client.run(map.close())
  return {
    error: { name, code, message, culprit, timedOut },
    incidents,
    requests: rig.proxies.map(({ seen }) => answers(seen).map(exchange => shapeOf(exchange).request)),
  }
}

/** The outcome for every index, which is one and the same. */
async function outcomeForAll(server: 0 | 1, lie: Lie) {
  const outcome = await outcomeOf(0, server, lie)
  for (const index of others) {
    expect(await outcomeOf(index, server, lie)).toEqual(outcome)
  }
  expect(outcome.error.culprit).toBe(rig.proxies[server].url)
  const attempts = (s: number) => outcome.requests[s]!.length
  return { ...outcome.error, attempts: attempts(server), attemptsAtTheOther: attempts(1 - server) }
}

/** Another entry in place of a genuine one. */
function forgedEntries(entryBytes: number): Record<string, lies.Change> {
  const proofPlaces = {
    "proof's first sibling": 8,
    "proof's second sibling": 8 + 32,
    "proof's last byte": entryBytes - 1,
  }
  const places = {
    "record's first byte": 0,
    "record's last byte": 7,
    ...(entryBytes > 8 ? proofPlaces : {}),
  }
  const forged: Record<string, lies.Change> = Object.fromEntries(
    [0, 1].flatMap(entry =>
      Object.entries(places).map(([place, at]) => [
        `partition ${entry}, ${place}`,
        lies.flippedAt(HEADER_BYTES + entry * entryBytes + at),
      ]),
    ),
  )
  forged['all entries'] = lies.flippedEverywhere
  forged['entries in another order'] = body =>
    Uint8Array.of(
      ...body.subarray(0, HEADER_BYTES),
      ...body.subarray(HEADER_BYTES + entryBytes),
      ...body.subarray(HEADER_BYTES, HEADER_BYTES + entryBytes),
    )
  return forged
}

const malformed: Record<string, [code: 'protocol' | 'version', lie: Lie]> = {
  'another magic': ['protocol', lies.changed(lies.flippedAt(3))],
  'another format': ['version', lies.changed(lies.flippedAt(4))],
  'another suite': ['version', lies.changed(lies.flippedAt(6))],
  'another database': ['protocol', lies.changed(lies.flippedAt(23))],
  'another generation': ['protocol', lies.changed(lies.flippedAt(24))],
  'another epoch': ['protocol', lies.changed(lies.flippedAt(28))],
  'another Q': ['protocol', lies.changed(lies.flippedAt(32))],
  'another count': ['protocol', lies.changed(lies.flippedAt(36))],
  'a reserved byte': ['protocol', lies.changed(lies.flippedAt(39))],
  'a byte too few': ['protocol', lies.changed(lies.truncated)],
  'a byte too many': ['protocol', lies.changed(lies.oversized)],
  'a byte too many, unannounced': ['protocol', lies.oversizedInChunks],
  'two answers in one': ['protocol', lies.changed(lies.doubled)],
  'no bytes': ['protocol', lies.changed(lies.empty)],
  'a compressed answer': ['protocol', lies.compressed],
  'an answer said to be encoded': ['protocol', lies.saidToBeEncoded],
  'status 204': ['protocol', () => ({ status: 204, headers: {}, body: new Uint8Array() })],
  'status 206': ['protocol', genuine => ({ ...genuine, status: 206 })],
  'status 200 and JSON': ['protocol', lies.refused(200, 'internal')],
  'status 400': ['protocol', lies.refused(400, 'bad_request')],
  'status 404 and garbage': ['protocol', lies.refusal(404, '{"code": "epoch_unk')],
  'status 404 and an unknown code': ['protocol', lies.refused(404, 'constructor')],
  'status 404, epoch unknown': ['version', lies.refused(404, 'epoch_unknown')],
}

const unreachable: Record<string, Lie> = {
  'a redirect to server 0 (307)': lies.redirected(307, () => rig.proxies[0].url),
  'a redirect to itself (302)': lies.redirected(302, () => ''),
  'a broken connection': lies.hungUp,
  'a broken connection, half way': lies.hungUpHalfWay,
  'status 500': lies.refused(500, 'internal'),
  'status 502 of a gateway': lies.refusal(502, '<html>'),
  'status 503': lies.refused(503, 'not_ready'),
}

describe.each(['merkle', 'tags'] as const)('proofs: %s', kind => {
  beforeAll(() => {
    proofs = kind
  })

  describe.each([0, 1] as const)('server %d', server => {
    test.each(Object.entries(forgedEntries(ENTRY_BYTES[kind])))('forges: %s', async (_, change) => {
      const outcome = await outcomeForAll(server, lies.changed(change))
      expect(outcome).toMatchObject({ name: 'TamperedError', code: 'tampered', attempts: 1, attemptsAtTheOther: 1 })
    })

    test.each(Object.entries(malformed))('sends %s', async (_, [code, lie]) => {
      const outcome = await outcomeForAll(server, lie)
      expect(outcome).toMatchObject({ code, attempts: 3, attemptsAtTheOther: 1 })
    })

    test.each(Object.entries(unreachable))('sends %s', async (_, lie) => {
      const outcome = await outcomeForAll(server, lie)
      expect(outcome).toMatchObject({ code: 'network', timedOut: false, attempts: 3, attemptsAtTheOther: 1 })
    })

    test.each([
      ['from the start', lies.silent],
      ['half way', lies.silentHalfWay],
    ])('is silent %s', async (_, lie) => {
      const outcome = await outcomeForAll(server, lie)
      expect(outcome).toMatchObject({ code: 'network', timedOut: true, attempts: 3, attemptsAtTheOther: 1 })
    })

    test('is asked too often', async () => {
      const outcome = await outcomeForAll(server, lies.refused(429, 'rate_limited', { 'retry-after': '17' }))
      expect(outcome).toMatchObject({ name: 'RateLimitedError', code: 'rate_limited', attemptsAtTheOther: 1 })
    })

    test('replays an earlier answer', async () => {
      const { client, map } = await opened('replay')
      tell(server, lies.replayed())
      expect(await client.run(map.at(1))).toEqual(new Uint8Array(values[1]!))
      const failure = await client.failure(
        (async () => {
          // An earlier answer is genuine by chance if the vectors are equal: with M = 4 and Q = 2, one time in 16.
          for (let i = 0; i < 20; i++) expect(await map.at(i % 7)).toEqual(new Uint8Array(values[i % 7]!))
        })(),
      )
      expect(failure).toMatchObject({ code: 'tampered', server: rig.proxies[server].url })
      await client.run(map.close())
    })

    test('lies while the other is silent: condemned before any time passes, and asked once', async () => {
      const { client, map } = await opened('lie and silence')
      tell(server, lies.changed(lies.flippedAt(HEADER_BYTES)))
      tell(server === 0 ? 1 : 0, lies.silent)
      const condemned: boolean[] = []
      const isCondemned = async () => (await client.store.read())?.condemned !== undefined
      client.beforeTimePasses = () => void isCondemned().then(is => condemned.push(is))
      expect(await client.failure(map.at(2))).toMatchObject({ code: 'tampered', server: rig.proxies[server].url })
      expect(condemned.length).toBeGreaterThan(0)
      expect(condemned).not.toContain(false)
      expect((await client.store.read())?.condemned).toEqual({ culprit: rig.proxies[server].url })
      for (const { seen } of rig.proxies) expect(answers(seen)).toHaveLength(1)
      await client.run(map.close())
    })

    test('has lied: nothing is asked any more until reset(), which needs no trust in it', async () => {
      const { client, map } = await opened('condemned')
      tell(server, lies.changed(lies.flippedAt(HEADER_BYTES)))
      const culprit = rig.proxies[server].url
      expect(await client.failure(map.at(2))).toMatchObject({ code: 'tampered', server: culprit })
      for (const { seen } of rig.proxies) seen.length = 0
      for (const index of [0, ...others]) {
        expect(await client.failure(map.at(index))).toMatchObject({ code: 'condemned', server: culprit })
      }
      for (const { seen } of rig.proxies) expect(seen).toEqual([])

      rig.proxies[server].lie = undefined
      await client.run(map.reset())
      for (const [index, value] of values.entries())
        expect(await client.run(map.at(index))).toEqual(new Uint8Array(value))
      await client.run(map.close())
    })
  })

  test('a redirect brings the server it points to no query of the other', async () => {
    const { client, map } = await opened('redirect')
    const elsewhere = lies.redirected(307, () => rig.proxies[0].url)
    tell(1, elsewhere)
    await client.failure(map.at(3))
    expect(answers(rig.proxies[0].seen)).toHaveLength(1)
    await client.run(map.close())
  })

  test('both servers lie: one of them is named, and the hint is condemned', async () => {
    const { client, map } = await opened('both')
    for (const server of [0, 1] as const) tell(server, lies.changed(lies.flippedAt(HEADER_BYTES)))
    const failure = await client.failure(map.at(3))
    expect(failure.code).toBe('tampered')
    expect(rig.proxies.map(({ url }) => url)).toContain(failure.server)
    expect((await client.failure(map.at(3))).code).toBe('condemned')
    await client.run(map.close())
  })

  test('what one server gets wrong in passing is asked again, and told in stats', async () => {
    const { client, map } = await opened('in passing')
    tell(0, (genuine, exchange, connection) =>
      answers(rig.proxies[0].seen).length <= 2 ? lies.hungUp(genuine, exchange, connection) : genuine,
    )
    expect(await client.run(map.at(6))).toEqual(new Uint8Array(values[6]!))
    const incident = { server: rig.proxies[0].url, code: 'network' }
    expect(map.stats.incidents).toEqual([incident, incident])
    await client.run(map.close())
  })

  test('without lies every record is right', async () => {
    const { client, map } = await opened('honest')
    for (const [index, value] of values.entries())
      expect(await client.run(map.at(index))).toEqual(new Uint8Array(value))
    expect(map.stats.incidents).toEqual([])
    await client.run(map.close())
  })
})
