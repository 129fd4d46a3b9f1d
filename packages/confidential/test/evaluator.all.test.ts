// What an evaluator answers, and what it refuses. Clients that do not keep to the protocol.

import { randomBytes } from 'node:crypto'
import { readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createEvaluator, createOwnerKey, Meter, type MeterOptions, readShare } from '@keyhush/confidential/server'
import { Metrics } from '@keyhush/server/beside'
import { ristretto255 } from '@noble/curves/ed25519.js'
import type { FastifyInstance } from 'fastify'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../../tests/support/servers.js'
import { databaseIdOf } from '../src/wire/derive.js'
import { decodeReply, encodeRequest } from '../src/wire/messages.js'

const PLENTY = { perClientDay: 1e6, perNetworkDay: 1e6, totalDay: 1e6 }
const DAY = 86_400_000

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let databaseId: Uint8Array
const at = (name: string) => join(folder.path, name)
beforeAll(async () => {
  folder = await temporaryFolder()
  const key = await createOwnerKey(at('owner.key'), { valueBytes: 8, evaluators: 2, atLeast: 2 })
  databaseId = databaseIdOf(key, false)
})
afterAll(() => folder.remove())
const apps: FastifyInstance[] = []
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close()
})

let counts = 0
const newMeter = (options: Partial<MeterOptions> = {}) =>
  Meter.open({ ...PLENTY, countIn: at(`count-${++counts}`), ...options })

async function started(options: Partial<Parameters<typeof createEvaluator>[0]> = {}) {
  const shares = [await readShare(at('share-1'))]
  const app = await createEvaluator({ shares, meter: await newMeter(), ...options })
  apps.push(app)
  return app
}

const elements = (count = 2) => {
  const { Point } = ristretto255
  return Buffer.concat(
    Array.from({ length: count }, () => Point.BASE.multiply(BigInt(1 + randomBytes(4).readUInt32LE())).toBytes()),
  )
}
const requestOf = (change: Partial<Parameters<typeof encodeRequest>[0]> = {}) =>
  encodeRequest({ databaseId, deal: 0, elements: elements(), token: new Uint8Array(), ...change })

const ask = async (
  app: FastifyInstance,
  body: Uint8Array,
  headers: Record<string, string> = {},
  remoteAddress = '192.0.2.1',
) => {
  const { statusCode, rawPayload } = await app.inject({
    ...{ method: 'POST', url: '/v1/evaluate', payload: Buffer.from(body), headers, remoteAddress },
  })
  const code = statusCode === 200 ? 'ok' : (JSON.parse(rawPayload.toString()) as { code: string }).code
  return { statusCode, code, bytes: new Uint8Array(rawPayload) }
}

test('it multiplies by its share, and says which', async () => {
  const app = await started()
  const { bytes } = await ask(app, requestOf({ elements: elements(65) }))
  expect(decodeReply(bytes)).toMatchObject({ number: 1, deal: 1 })
  expect(decodeReply(bytes).elements).toHaveLength(65 * 32)
})

test.each<[string, () => Uint8Array, string]>([
  ['another database', () => requestOf({ databaseId: new Uint8Array(16) }), 'wrong_database'],
  ['another deal', () => requestOf({ deal: 7 }), 'epoch_unknown'],
  ['the identity', () => requestOf({ elements: new Uint8Array(64) }), 'bad_request'],
  ['bytes that are no element', () => requestOf({ elements: new Uint8Array(64).fill(255) }), 'bad_request'],
  ['no elements', () => requestOf().subarray(0, 32), 'bad_request'],
  ['nothing', () => new Uint8Array(), 'bad_request'],
  ['more than the longest request', () => new Uint8Array(10_000), 'too_large'],
])('%s is refused', async (_, body, code) => {
  expect(await ask(await started(), body())).toMatchObject({ code })
})

describe('who may ask', () => {
  const authorize = (token: Uint8Array) => (token[0] === 1 ? `account ${token[1]}` : undefined)

  test('without a token that it knows nobody; a token that is spent is answered again with the same body, uncounted', async () => {
    const spent = new Set<string>()
    const once = (token: Uint8Array) => {
      const name = Buffer.from(token).toString('hex')
      if (spent.has(name)) return undefined
      spent.add(name)
      return authorize(token)
    }
    const meter = await newMeter({ totalDay: 2 })
    const app = await started({ authorize: once, meter })
    expect(await ask(app, requestOf())).toMatchObject({ code: 'unauthorized' })
    expect(await ask(app, requestOf({ token: Uint8Array.of(2, 1) }))).toMatchObject({ code: 'unauthorized' })
    const request = requestOf({ token: Uint8Array.of(1, 1) })
    const replies = await Promise.all([ask(app, request), ask(app, request)])
    expect(replies.map(({ code }) => code)).toEqual(['ok', 'ok'])
    expect(await ask(app, request)).toEqual(replies[0])
    expect(await ask(app, requestOf({ token: Uint8Array.of(1, 1) }))).toMatchObject({ code: 'unauthorized' }) // spent
    const late = requestOf({ token: Uint8Array.of(1, 2) })
    expect(await ask(app, late)).toMatchObject({ code: 'rate_limited' })
    expect(await ask(app, late)).toMatchObject({ code: 'rate_limited' }) // not spent for nothing
  })

  test.each([null, false, '', 0, true, {}])('what is no name is refused: %j', async name => {
    const app = await started({ authorize: (() => name) as never })
    expect(await ask(app, requestOf({ token: Uint8Array.of(1) }))).toMatchObject({ code: 'unauthorized' })
  })

  test('an account counts as one client, wherever it comes from', async () => {
    const app = await started({ authorize, meter: await newMeter({ perClientDay: 4 }) })
    const token = Uint8Array.of(1, 1)
    for (const address of ['192.0.2.1', '198.51.100.2']) {
      expect(await ask(app, requestOf({ token }), {}, address)).toMatchObject({ code: 'ok' })
    }
    expect(await ask(app, requestOf({ token }), {}, '203.0.113.3')).toMatchObject({ code: 'rate_limited' })
    expect(await ask(app, requestOf({ token: Uint8Array.of(1, 2) }), {}, '203.0.113.3')).toMatchObject({ code: 'ok' })
  })
})

test('what a proxy passes on is refused, unless its operator named the proxy: all would be one client', async () => {
  const forwarded = { 'x-forwarded-for': '203.0.113.9' }
  expect(await ask(await started(), requestOf(), forwarded)).toMatchObject({ code: 'bad_request' })
  expect(await ask(await started(), requestOf(), { forwarded: 'for=203.0.113.9' })).toMatchObject({
    code: 'bad_request',
  })
  const app = await started({ trustProxy: 'loopback', meter: await newMeter({ perClientDay: 2 }) })
  const of = async (client: string) => (await ask(app, requestOf(), { 'x-forwarded-for': client }, '127.0.0.1')).code
  expect([await of('203.0.113.9'), await of('203.0.113.9'), await of('203.0.113.10')]).toEqual([
    'ok',
    'rate_limited',
    'ok',
  ])
})

test('figures say what was counted, refused and is left, and nothing of who asked', async () => {
  const metrics = new Metrics()
  const meter = await newMeter({ perClientDay: 6, perNetworkDay: 8, totalDay: 10 })
  const app = await started({ meter, metrics, trustProxy: 'loopback' })
  const figures = await metrics.server(app.getDecorator('readiness'))
  apps.push(figures)
  const of = async (client: string) => (await ask(app, requestOf(), { 'x-forwarded-for': client }, '127.0.0.1')).code
  const clients = ['203.0.113.9', '203.0.113.9', '203.0.113.9', '203.0.113.9', '203.0.113.10', '203.0.113.11']
  for (const client of [...clients, '198.51.100.7', '192.0.2.8']) await of(client)
  const text = (await figures.inject('/metrics')).payload
  const page = await readFile(new URL('../../../docs/operations/confidential.md', import.meta.url), 'utf8')
  const named = new Map(
    [...page.matchAll(/^\| `(keyhush_\w+)` +\| (.*?) +\|$/gm)].map(([, name, help]) => [name, help]),
  )
  const values = Object.fromEntries(
    [...named.keys()].map(name => [name!.slice(8), Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1])]),
  )
  expect(values).toEqual({
    ...{ elements_total: 10, refused_of_client_total: 1, refused_of_network_total: 1, refused_of_all_total: 1 },
    ...{ left_of_client: 0, left_of_network: 0, left_of_all: 0, ready: 1, problems: 1 },
    multiplying_seconds_total: expect.any(Number),
  })
  expect(values['multiplying_seconds_total']).toBeGreaterThan(0)
  for (const [name, help] of named) expect(text).toContain(`# HELP ${name} ${help}\n`)
  for (const client of clients) expect(text).not.toContain(client)
})

test('/readyz says when the limit of all clients has refused somebody, until the day ends', async () => {
  let now = 5 * DAY
  const app = await started({ meter: await newMeter({ totalDay: 2, now: () => now }) })
  const problems = async () => (await app.inject('/readyz')).json().problems ?? []
  expect([(await ask(app, requestOf())).code, await problems()]).toEqual(['ok', []])
  expect([(await ask(app, requestOf())).code, await problems()]).toEqual([
    'rate_limited',
    ['the limit of all clients is used up for today'],
  ])
  now += DAY
  expect(await problems()).toEqual([])
})

describe('the meter', () => {
  const take = async (meter: Meter, client: string, count = 2, network = client) =>
    await meter.take(client, network, count).then(
      () => true,
      (error: { code?: string }) => error.code,
    )

  test('counts before it multiplies: clients, networks and all, each for themselves', async () => {
    const meter = await newMeter({ perClientDay: 4, perNetworkDay: 6, totalDay: 8 })
    expect([await take(meter, 'a', 2, 'n'), await take(meter, 'a', 2, 'n'), await take(meter, 'a', 2, 'n')]).toEqual([
      true,
      true,
      'rate_limited',
    ])
    expect([await take(meter, 'b', 2, 'n'), await take(meter, 'c', 2, 'n')]).toEqual([true, 'rate_limited'])
    expect([await take(meter, 'd', 2, 'm'), await take(meter, 'e', 2, 'o')]).toEqual([true, 'rate_limited'])
  })

  test('requests at once do not take more than there is', async () => {
    const meter = await newMeter({ perClientDay: 10, totalDay: 30 })
    const of = (client: string) => Array.from({ length: 20 }, () => take(meter, client))
    const taken = await Promise.all(['a', 'b', 'c', 'd'].flatMap(of))
    expect(taken.filter(each => each === true)).toHaveLength(15)
  })

  test('a restart, and a second process, go on with what is left; a new day begins anew; a clock set back does not', async () => {
    let now = 100 * DAY
    const options = { countIn: at('shared'), totalDay: 200, now: () => now }
    let used = 0
    for (let life = 0; life < 30; life++) {
      // Two at once, each of which is killed after a few.
      const meters = [await newMeter(options), await newMeter(options)]
      for (const meter of meters) if ((await take(meter, `client ${life}`)) === true) used += 2
    }
    expect(used).toBeGreaterThan(0)
    expect(used).toBeLessThanOrEqual(200)
    const full = await newMeter(options)
    let more = 0
    while ((await take(full, `client ${more}`)) === true) more += 2
    expect(used + more).toBeLessThanOrEqual(200)
    now -= DAY
    expect(await take(full, 'x')).toBe('rate_limited')
    expect(await take(await newMeter(options), 'x')).toBe('rate_limited')
    now += 2 * DAY
    expect(await take(full, 'x')).toBe(true)
    expect(JSON.parse(await readFile(at('shared'), 'utf8'))).toMatchObject({ day: 101 })
  })

  test.each([
    [{ perClientDay: 1 }, /--per-client-day: expected 2 or more/],
    [{ perNetworkDay: 0 }, /--per-network-day/],
    [{ totalDay: 1 }, /--total-day/],
    [{ countIn: join('no', 'such', 'folder') }, /ENOENT/],
  ])('what would refuse everybody does not start: %o', async (options, said) => {
    await expect(newMeter(options)).rejects.toThrow(said)
  })

  test('a count of a later day does not start, and a count that is deleted goes on', async () => {
    let now = 100 * DAY
    const options = { countIn: at('ahead'), totalDay: 4, now: () => now }
    const meter = await newMeter(options)
    expect([await take(meter, 'a'), await take(meter, 'b')]).toEqual([true, true])
    await rm(at('ahead'))
    expect(await take(meter, 'c')).toBe('rate_limited')
    now += DAY
    expect([await take(meter, 'a'), await take(meter, 'b')]).toEqual([true, true])
    now -= 2 * DAY
    await expect(newMeter(options)).rejects.toThrow(/expected a count of today/)
    await writeFile(at('ahead'), '{"day":99,"reserved":-1000}')
    await expect(newMeter(options)).rejects.toThrow(/expected a count/)
  })

  test('a deleted count does not begin the day anew', async () => {
    const meter = await newMeter({ countIn: at('deleted'), totalDay: 200 })
    let used = 0
    while ((await take(meter, `client ${used}`)) === true && used < 1000) {
      used += 2
      await rm(at('deleted'))
    }
    expect(used).toBe(200)
  })

  test('a lock that a full disk has refused is not held for ever', async () => {
    const meter = await newMeter({ countIn: at('full') })
    await rm(at('full.lock'), { force: true })
    await symlink('/dev/null', at('full.lock')) // it can be locked, but not cut
    expect([await take(meter, 'a'), await take(meter, 'b')]).toEqual(['EINVAL', 'EINVAL'])
    await rm(at('full.lock'))
    expect(await take(meter, 'c')).toBe(true)
  })

  test('a full table counts new clients as one; what is no count is refused', async () => {
    const meter = await newMeter({ perClientDay: 4, perNetworkDay: 1e9, totalDay: 1e9 })
    for (let client = 0; client < 200_000; client++) await meter.take(`${client}`, 'n', 1)
    const news = [await take(meter, 'new'), await take(meter, 'newer'), await take(meter, 'newest')]
    expect(news).toEqual([true, true, 'rate_limited'])
    expect(await take(meter, '7', 3)).toBe(true)
    await writeFile(at('other'), 'hello')
    await expect(newMeter({ countIn: at('other') })).rejects.toThrow(/expected a count/)
  })
})

test('shares of two keys, or of one deal twice, do not start', async () => {
  const share = await readShare(at('share-1'))
  await expect(started({ shares: [share, share] })).rejects.toThrow(/--share/)
  await expect(started({ shares: [share, { ...share, deal: 2, evaluationKey: '00'.repeat(32) }] })).rejects.toThrow(
    /--share/,
  )
  await expect(started({ shares: [] })).rejects.toThrow(/--share/)
})
