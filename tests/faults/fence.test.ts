// Refresh servers that lie about the rollback fence, by itself or behind an answer, over real HTTP: a refusal condemns,
// whatever else they reply costs a lookup or the opening and names them, and nothing of it depends on what is asked.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Exchange, Lie } from '../support/proxy.js'
import { Rig, type RigClient } from '../support/rig.js'
import { distinctRecords } from '../support/servers.js'
import { answers, claimIn, claims, shapeOf } from '../support/shapes.js'
import { THOROUGH } from '../support/thorough.js'
import * as lies from './lies.js'

const values = distinctRecords(7, 8)

let rig: Rig
beforeAll(async () => {
  const data = { format: 'bin', content: Buffer.concat(values), recordBytes: 8, partitions: 2 } as const
  rig = await Rig.start(data, { living: true })
})
afterAll(() => rig.close())

const KIND = 6 // of a claim, and the place of the number in a verdict
const [REGISTER, REFUSED] = [1, 2]

/** `lie` about claims of one kind, wherever they stand. */
const aboutKind =
  (isRegistration: boolean, lie: Lie): Lie =>
  (genuine, exchange, connection) => {
    const claim = claimIn(exchange)
    const isMeant = claim !== undefined && (claim[KIND] === REGISTER) === isRegistration
    return isMeant ? lie(genuine, exchange, connection) : genuine
  }

/** Another verdict, alone or behind the genuine answer. */
const verdict = (change: lies.Change): Lie =>
  lies.changed(body => Uint8Array.of(...body.subarray(0, -8), ...change(body.subarray(-8))))

const refusing = verdict(bytes => bytes.map((byte, at) => (at === KIND ? REFUSED : byte)))

const malformed: Record<string, [code: 'protocol' | 'version', lie: Lie]> = {
  'another magic': ['protocol', verdict(lies.flippedAt(0))],
  'another format': ['version', verdict(lies.flippedAt(4))],
  'a verdict that there is not': ['protocol', verdict(lies.flippedAt(7))],
  'a byte too few': ['protocol', verdict(lies.truncated)],
  'a byte too many': ['protocol', verdict(lies.oversized)],
  'a byte too many, unannounced': ['protocol', lies.oversizedInChunks],
  'two verdicts in one': ['protocol', verdict(lies.doubled)],
  'no verdict': ['protocol', verdict(lies.empty)],
  'zeros for a verdict': ['protocol', verdict(() => new Uint8Array(8))],
  'no bytes': ['protocol', lies.changed(lies.empty)],
  'a compressed verdict': ['protocol', lies.compressed],
  'status 200 and JSON': ['protocol', lies.refused(200, 'internal')],
  'status 404, another database': ['protocol', lies.refused(404, 'wrong_database')],
}

const everything: Record<string, [code: string, lie: Lie]> = {
  ...malformed,
  'status 503': ['network', lies.refused(503, 'not_ready')],
  'a redirect to the other server': ['network', lies.redirected(307, () => rig.proxies[0].url)],
  'a broken connection': ['network', lies.hungUp],
  nothing: ['network', lies.silent],
  'half, and then nothing': ['network', lies.silentHalfWay],
  'status 429': ['rate_limited', lies.refused(429, 'rate_limited')],
}

/** Of the first client that has drawn the second server as its refresh server. Each has its own hint, and so its own seed. */
let clients = 0
async function opened(options: { rollback?: 'strict' } = {}) {
  for (;;) {
    const client = rig.client(`fence ${clients++}`)
    const map = await client.open(options)
    if ((await client.refreshServer()) === 1) return { client, map }
    await client.run(map.close())
  }
}

/** What a client fails to open with whose registration meets with `lie`, at the second server. */
async function failureToOpen(lie: Lie, options: { rollback?: 'strict' } = {}) {
  for (;;) {
    const client = rig.client(`fence ${clients++}`)
    rig.proxies[1].lie = aboutKind(true, lie)
    const outcome = await client.open(options).then(
      map => ({ map, failure: undefined }),
      failure => ({ map: undefined, failure }),
    )
    if (claims(rig.proxies[1].seen).length > 0) return { client, ...outcome }
    await client.run(outcome.map!.close())
  }
}

const right = async (client: RigClient, map: Awaited<ReturnType<RigClient['open']>>) => {
  for (const [index, value] of values.entries()) expect(await client.run(map.at(index))).toEqual(new Uint8Array(value))
}

describe('a registration', () => {
  test.each(Object.entries(everything))(
    'is answered with %s: no map, and the server is named',
    async (_, [code, lie]) => {
      const { client, failure } = await failureToOpen(lie)
      expect(failure).toMatchObject({ code, server: rig.proxies[1].url })
      expect(await client.store.read()).toBeUndefined()
      for (const { seen } of rig.proxies) expect(answers(seen)).toEqual([])
    },
  )

  test('is refused, as a random id never is: the server is at fault', async () => {
    const { failure } = await failureToOpen(refusing)
    expect(failure).toMatchObject({ code: 'protocol', server: rig.proxies[1].url })
  })

  test.each([
    ['there is no fence', lies.refused(404, 'not_found')],
    ['the fence is full', lies.refused(503, 'fence_full')],
  ])('%s: a map without it, unless it is asked for', async (_, lie) => {
    const { client, map } = await failureToOpen(lie)
    await right(client, map!)
    expect(claims(rig.proxies[1].seen)).toHaveLength(1)
    await client.run(map!.close())
    const { failure } = await failureToOpen(lie, { rollback: 'strict' })
    expect(failure).toMatchObject({ code: 'unsupported' })
  })
})

describe.each([{}, { rollback: 'strict' }] as const)('a lookup (%o)', options => {
  const inStep = !('rollback' in options)

  /** What a caller and the servers notice of a lookup after the fence has begun to lie. */
  async function outcomeOf(index: number, lie: Lie) {
    const { client, map } = await opened(options)
    for (const { seen } of rig.proxies) seen.length = 0
    rig.proxies[1].lie = aboutKind(false, lie)
    const { code, server } = await client.failure(map.at(index))
    const inOrder = (seen: readonly Exchange[]) => [...seen].sort((a, b) => a.number - b.number)
    const requests = rig.proxies.map(({ seen }) => inOrder(seen).map(exchange => shapeOf(exchange).request))
    return { client, map, outcome: { code, server, requests } }
  }

  /** The same for every index. The rest is to be right, once the server is honest again. It is told a claim `times`. */
  async function outcomeForAll(lie: Lie, times: number) {
    const { outcome: first, ...rest } = await outcomeOf(0, lie)
    await rest.client.run(rest.map.close())
    for (const index of THOROUGH ? [1, 2, 3, 4, 5, 6] : [6]) {
      const { client, map, outcome } = await outcomeOf(index, lie)
      expect(outcome).toEqual(first)
      rig.proxies[1].lie = undefined
      if (outcome.code === 'condemned') await client.run(map.reset())
      await right(client, map)
      await client.run(map.close())
    }
    // In step with the fence, the queries have left with its claim; their records are not given out unheard.
    const paths = first.requests.map(requests => requests.map(({ path }) => path))
    const told = Array(times).fill(inStep ? '/v1/answer' : '/v1/fence')
    expect(paths).toEqual([inStep ? ['/v1/answer'] : [], told])
    return first
  }

  test.each(Object.entries(everything))('whose claim is answered with %s', async (what, [code, lie]) => {
    // A fence by itself is asked again only if nothing has come of it.
    const times = inStep || !(what in malformed) ? 3 : 1
    expect(await outcomeForAll(lie, times)).toMatchObject({ code, server: rig.proxies[1].url })
  })

  test('whose claim is refused: condemned', async () => {
    expect(await outcomeForAll(refusing, 1)).toMatchObject({ code: 'condemned', server: undefined })
  })
})

describe('an answer with a verdict', () => {
  /** What a lookup fails with if the refresh server lies about its answer, and the other like this. */
  async function failureOf(lie: Lie, other?: Lie) {
    const { client, map } = await opened()
    for (const { seen } of rig.proxies) seen.length = 0
    rig.proxies[0].lie = other
    rig.proxies[1].lie = aboutKind(false, lie)
    const { code, server } = await client.failure(map.at(3))
    const times = rig.proxies.map(({ seen }) => answers(seen).length)
    const condemned = (await client.store.read())?.condemned
    for (const proxy of rig.proxies) proxy.lie = undefined
    const later = condemned && (await client.failure(map.at(3)))
    if (later !== undefined) await client.run(map.reset())
    await right(client, map)
    await client.run(map.close())
    return { code, server, times, condemned, later: later && [later.code, later.server] }
  }

  const forged = lies.flippedAt(40)
  const both =
    (first: Lie, second: Lie): Lie =>
    (genuine, exchange, connection) =>
      second(first(genuine, exchange, connection)!, exchange, connection)

  test.each([
    ['a forged answer and the genuine verdict', lies.changed(forged)],
    ['a forged answer and a refusal', both(lies.changed(forged), refusing)],
  ])('%s: the liar is named', async (_, lie) => {
    const culprit = rig.proxies[1].url
    const later = ['condemned', culprit]
    const expected = { code: 'tampered', server: culprit, times: [1, 1], condemned: { culprit }, later }
    expect(await failureOf(lie)).toEqual(expected)
  })

  test('a refusal beside a forged answer of the other server: the liar is named', async () => {
    const { code, server, later } = await failureOf(refusing, lies.about('/v1/answer', lies.changed(forged)))
    expect({ code, server }).toEqual({ code: 'tampered', server: rig.proxies[0].url })
    expect(later?.[0]).toBe('condemned')
  })

  test('a refusal beside silence: condemned', async () => {
    const later = ['condemned', undefined]
    const expected = { code: 'condemned', server: undefined, condemned: { culprit: undefined }, later }
    expect(await failureOf(refusing, lies.about('/v1/answer', lies.silent))).toMatchObject(expected)
  })

  const malformedAnswers: Record<string, lies.Change> = {
    'a forged answer and no verdict': body => forged(body).subarray(0, -8),
    'a forged answer and zeros': body => Uint8Array.of(...forged(body).subarray(0, -8), ...new Uint8Array(8)),
    'the verdict first': body => Uint8Array.of(...body.subarray(-8), ...body.subarray(0, -8)),
    'a verdict alone': body => body.subarray(-8),
    'an answer a byte too short': body => Uint8Array.of(...body.subarray(0, -9), ...body.subarray(-8)),
    'an answer a byte too long': body => Uint8Array.of(...body.subarray(0, -8), 0, ...body.subarray(-8)),
    'a verdict behind an answer and a verdict': body => Uint8Array.of(...body, ...body.subarray(-8)),
  }
  test.each(Object.entries(malformedAnswers))('%s: nobody is condemned, and the server is named', async (_, change) => {
    const expected = { code: 'protocol', server: rig.proxies[1].url, times: [1, 3], condemned: undefined }
    expect(await failureOf(lies.changed(change))).toEqual(expected)
  })

  test.each([
    ['no fence any more', 'protocol', lies.refused(404, 'not_found')],
    ['a fence that is full', 'network', lies.refused(503, 'fence_full')],
  ])('%s: nobody is condemned, and the server is named', async (_, code, lie) => {
    const expected = { code, server: rig.proxies[1].url, times: [1, 3], condemned: undefined }
    expect(await failureOf(lie)).toEqual(expected)
  })

  test('lost once is asked for again in the same bytes, and the fence grants it again', async () => {
    const { client, map } = await opened()
    for (const { seen } of rig.proxies) seen.length = 0
    let left = 1
    rig.proxies[1].lie = aboutKind(false, (...reply) => (left-- > 0 ? lies.hungUp(...reply) : reply[0]))
    expect(await client.run(map.at(3))).toEqual(new Uint8Array(values[3]!))
    const [first, second, ...others] = rig.proxies[1].seen
    expect(second!.body).toEqual(first!.body)
    expect([others.length, rig.proxies[0].seen.length]).toEqual([0, 1])
    await right(client, map)
    await client.run(map.close())
  })
})
