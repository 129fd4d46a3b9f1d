// Refresh servers that lie about the rollback fence, over real HTTP: a refusal condemns, whatever else they reply costs a
// lookup or the opening and names them, and nothing of it depends on what is asked.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Exchange, Lie } from '../support/proxy.js'
import { Rig, type RigClient } from '../support/rig.js'
import { distinctRecords } from '../support/servers.js'
import { answers, claims, shapeOf } from '../support/shapes.js'
import * as lies from './lies.js'

const values = distinctRecords(7, 8)

let rig: Rig
beforeAll(async () => {
  const data = { format: 'bin', content: Buffer.concat(values), recordBytes: 8, partitions: 2 } as const
  rig = await Rig.start(data, { living: true })
})
afterAll(() => rig.close())

const fence = '/v1/fence'
const KIND = 6 // of a claim, and the place of the verdict in a reply
const [REGISTER, REFUSED] = [1, 2]

/** `lie` about claims of one kind. */
const aboutKind =
  (isRegistration: boolean, lie: Lie): Lie =>
  (genuine, exchange, connection) =>
    exchange.path === fence && (exchange.body[KIND] === REGISTER) === isRegistration
      ? lie(genuine, exchange, connection)
      : genuine

const refusing = lies.changed(body => body.map((byte, at) => (at === KIND ? REFUSED : byte)))

const malformed: Record<string, [code: 'protocol' | 'version', lie: Lie]> = {
  'another magic': ['protocol', lies.changed(lies.flippedAt(0))],
  'another format': ['version', lies.changed(lies.flippedAt(4))],
  'a verdict that there is not': ['protocol', lies.changed(lies.flippedAt(7))],
  'a byte too few': ['protocol', lies.changed(lies.truncated)],
  'a byte too many': ['protocol', lies.changed(lies.oversized)],
  'a byte too many, unannounced': ['protocol', lies.oversizedInChunks],
  'two verdicts in one': ['protocol', lies.changed(lies.doubled)],
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

  /** The same for every index. The rest is to be right, once the server is honest again. */
  async function outcomeForAll(lie: Lie) {
    const { outcome: first, ...rest } = await outcomeOf(0, lie)
    await rest.client.run(rest.map.close())
    for (let index = 1; index < values.length; index++) {
      const { client, map, outcome } = await outcomeOf(index, lie)
      expect(outcome).toEqual(first)
      rig.proxies[1].lie = undefined
      if (outcome.code === 'condemned') await client.run(map.reset())
      await right(client, map)
      await client.run(map.close())
    }
    // In step with the fence, the queries have left with its claim; their records are not given out unheard.
    for (const requests of first.requests) {
      expect(requests.filter(({ path }) => path === '/v1/answer')).toHaveLength(inStep ? 1 : 0)
    }
    return first
  }

  test.each(Object.entries(everything))('whose claim is answered with %s', async (_, [code, lie]) => {
    expect(await outcomeForAll(lie)).toMatchObject({ code, server: rig.proxies[1].url })
  })

  test('whose claim is refused: condemned', async () => {
    expect(await outcomeForAll(refusing)).toMatchObject({ code: 'condemned', server: undefined })
  })
})
