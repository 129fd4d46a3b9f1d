// Every route, status and error code of docs/protocol.md, through a server without a socket.

import { mkdir, rm } from 'node:fs/promises'
import {
  contentHash,
  decodeAnswer,
  ERROR_CODES,
  encodeQuery,
  parseErrorReply,
  parseInfo,
  toHex,
  withClaim,
} from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { buildInto, temporaryFolder } from '../../tests/support/servers.js'
import { createServer, type Dataset, loadDataset, type ServerOptions } from '../dist/index.js'
import {
  answeringWith,
  builtDataset,
  builtDirectory,
  partitionHashes,
  pseudoRandom,
  queryAt,
  running,
  small,
  vectors,
} from './helpers.js'
import { twoKeys } from './sockets.js'

const serverFor = (dataset: Dataset, options: Partial<ServerOptions> = {}) =>
  running({ datasets: [{ dataset }], ...options })

async function serving(options: Partial<ServerOptions> = {}) {
  const dataset = await small()
  return { dataset, app: await serverFor(dataset, options) }
}

/** Without commitments. */
const bareSmall = () => small({ proofs: 'tags' })

const post = (app: FastifyInstance, payload: Uint8Array, headers: Record<string, string> = {}, from = '127.0.0.1') =>
  app.inject({ method: 'POST', url: '/v1/answer', payload: Buffer.from(payload), headers, remoteAddress: from })

type Reply = Awaited<ReturnType<typeof post>>

/** An error in the protocol's form, with its code's status, and not to be cached. */
function expectError(reply: Reply, code: keyof typeof ERROR_CODES, status: number = ERROR_CODES[code]): void {
  expect(parseErrorReply(reply.body).code).toBe(code)
  const members = code === 'epoch_unknown' ? ['code', 'epoch', 'generation', 'message'] : ['code', 'message']
  const paths = code === 'not_found' ? ['databases'] : [] // where the path is of no database
  const others = Object.keys(reply.json()).filter(name => !paths.includes(name))
  expect(others.sort()).toEqual(members)
  expect(reply.statusCode).toBe(status)
  expect(reply.headers['content-type']).toMatch(/^application\/json/)
  expect(reply.headers['cache-control']).toBe('no-store')
}

test('GET /v1/manifest gives the newest manifest, or the one asked for', async () => {
  const { dataset, app } = await serving()
  for (const url of ['/v1/manifest', '/v1/manifest?generation=1&epoch=1', '/v1/manifest?epoch=1&generation=1']) {
    const reply = await app.inject(url)
    expect(reply.statusCode).toBe(200)
    expect(reply.headers['content-type']).toBe('application/octet-stream')
    expect([reply.headers['cache-control'], reply.headers.vary]).toEqual(['no-store', '*'])
    expect(reply.rawPayload.equals(dataset.manifestBytes)).toBe(true)
  }
})

test('GET /v1/info says what is offered', async () => {
  const { dataset, app } = await serving()
  const reply = await app.inject('/v1/info')
  expect(reply.statusCode).toBe(200)
  const info = parseInfo(reply.json())
  expect(info.epochs).toEqual([{ generation: 1, epoch: 1, manifest: toHex(blake3(dataset.manifestBytes)) }])
  expect(info.offers).toEqual({
    proofs: ['merkle', 'tags'],
    updates: false,
    push: false,
    blobs: true,
    fence: false,
    instant: true,
    single: true,
    oneServer: false,
    history: 0,
  })
  const bare = parseInfo((await (await serverFor(await bareSmall())).inject('/v1/info')).json())
  expect(bare.offers.proofs).toEqual(['tags'])
  expect(info.software).toMatch(/^keyhush\/\d/)
  expect(info.signatures).toEqual([])
})

describe('GET /v1/blobs/<hash>', () => {
  let app: FastifyInstance
  let dataset: Dataset
  let hash: string
  let bytes: Buffer

  beforeAll(async () => {
    const folder = await temporaryFolder()
    const content = `key,value\n${Array.from({ length: 300 }, (_, i) => `k${i},v${i}\n`).join('')}`
    dataset = await loadDataset(await buildInto(folder.path, { format: 'csv', content }))
    app = await createServer({ datasets: [{ dataset }] })
    hash = toHex(contentHash(dataset.manifest, 1))
    bytes = (await app.inject(`/v1/blobs/${hash}`)).rawPayload
    return async () => {
      await app.close()
      dataset.close()
      await folder.remove()
    }
  })

  const get = (headers: Record<string, string>, method: 'GET' | 'HEAD' = 'GET') =>
    app.inject({ method, url: `/v1/blobs/${hash}`, headers })

  test('gives every partition and the directory under its BLAKE3, cacheable for ever', async () => {
    const { manifest } = dataset
    for (const each of [...partitionHashes(manifest), toHex(manifest.directoryHash)]) {
      const reply = await app.inject(`/v1/blobs/${each}`)
      expect(reply.statusCode).toBe(200)
      expect(toHex(blake3(reply.rawPayload))).toBe(each)
      expect(reply.headers).toMatchObject({
        etag: `"${each}"`,
        'cache-control': 'public, max-age=31536000, immutable',
        'accept-ranges': 'bytes',
        'content-length': String(reply.rawPayload.length),
        'content-type': 'application/octet-stream',
      })
    }
  })

  test('answers HEAD with the same headers and no body', async () => {
    const reply = await get({}, 'HEAD')
    expect([reply.statusCode, reply.rawPayload.length]).toEqual([200, 0])
    expect(reply.headers['content-length']).toBe(String(bytes.length))
    expect(reply.headers.etag).toBe(`"${hash}"`)
  })

  test('gives the range asked for', async () => {
    const last = bytes.length - 1
    const ranges: [string, number, number][] = [
      ['bytes=0-0', 0, 0],
      ['bytes=10-19', 10, 19],
      [`bytes=10-${last}`, 10, last],
      ['bytes=10-', 10, last],
      ['bytes=10-999999999', 10, last],
      ['bytes=-1', last, last],
      ['bytes=-999999999', 0, last],
      [`bytes=${last}-`, last, last],
      ['Bytes=10-19', 10, 19],
    ]
    for (const [range, first, end] of ranges) {
      const reply = await get({ range })
      expect(reply.statusCode).toBe(206)
      expect(reply.headers['content-range']).toBe(`bytes ${first}-${end}/${bytes.length}`)
      expect(reply.headers['content-length']).toBe(String(end - first + 1))
      expect(reply.rawPayload.equals(bytes.subarray(first, end + 1))).toBe(true)
    }
  })

  test('gives the whole for a range it does not understand, for several, and for one of other bytes', async () => {
    const others: Record<string, string>[] = [
      { range: 'bytes=-' },
      { range: 'bytes=a-b' },
      { range: 'bytes=5-2' },
      { range: 'bytes=0-1,3-4' },
      { range: 'records=0-1' },
      { range: 'bytes=0-1', 'if-range': '"another"' },
      { range: 'bytes=0-1', 'if-range': `W/"${hash}"` },
    ]
    for (const headers of others) {
      const reply = await get(headers)
      expect([reply.statusCode, reply.rawPayload.length]).toEqual([200, bytes.length])
    }
    expect((await get({ range: 'bytes=0-1', 'if-range': `"${hash}"` })).statusCode).toBe(206)
  })

  test('refuses a range beyond the end', async () => {
    for (const range of [`bytes=${bytes.length}-`, 'bytes=999999999-', 'bytes=-0']) {
      const reply = await get({ range })
      expectError(reply, 'bad_request', 416)
      expect(reply.headers['content-range']).toBe(`bytes */${bytes.length}`)
    }
  })

  test('any Range header gives 200, 206 or 416, and the bytes it says', async () => {
    const number = fc.oneof(
      fc.constant(''),
      fc.nat({ max: 2 * bytes.length }).map(String),
      fc.bigInt({ min: 0n }).map(String),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.tuple(number, number).map(ends => `bytes=${ends.join('-')}`),
          fc.string(),
        ),
        async text => {
          const reply = await get({ range: text.replace(/[^\x20-\x7e]/g, '') })
          expect([200, 206, 416]).toContain(reply.statusCode)
          const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(String(reply.headers['content-range'])) ?? []
          if (reply.statusCode === 206) {
            expect(reply.rawPayload.equals(bytes.subarray(Number(first), Number(last) + 1))).toBe(true)
          }
        },
      ),
      { numRuns: 200 },
    )
  })

  test('is 304 without a body where the client has it', async () => {
    for (const tag of [`"${hash}"`, `W/"${hash}"`, `"x", "${hash}"`, '*']) {
      const reply = await get({ 'if-none-match': tag })
      expect([reply.statusCode, reply.rawPayload.length]).toEqual([304, 0])
      expect(reply.headers.etag).toBe(`"${hash}"`)
    }
    expect((await get({ 'if-none-match': '"another"' })).statusCode).toBe(200)
    expect((await get({ 'if-none-match': hash })).statusCode).toBe(200)
  })

  test.each([
    'ab'.repeat(32),
    'AB'.repeat(32),
    'ab',
    '..%2fmanifest.bin',
    '%2e%2e/manifest.bin',
    'manifest.bin',
    '',
    'x'.repeat(5000),
  ])('%.70s is not found', async name => {
    expectError(await app.inject(`/v1/blobs/${name}`), 'not_found')
  })
})

test('a Range is for GET alone: HEAD ignores it', async () => {
  const { dataset, app } = await serving()
  const url = `/v1/blobs/${toHex(contentHash(dataset.manifest, 0))}`
  const whole = await app.inject({ method: 'HEAD', url })
  for (const range of ['bytes=0-0', 'bytes=3-', 'bytes=-1', 'bytes=999999999-']) {
    const reply = await app.inject({ method: 'HEAD', url, headers: { range } })
    expect([reply.statusCode, reply.headers['content-range']]).toEqual([200, undefined])
    expect(reply.headers['content-length']).toBe(whole.headers['content-length'])
  }
})

test('the hash of a partition in memory has one spelling: digits in lower case, and nothing behind them', async () => {
  const updatable = await twoKeys()
  const app = await running({ datasets: [{ updatable }] })
  const hash = toHex(contentHash(updatable.newest.manifest, 0))
  expect((await app.inject(`/v1/blobs/${hash}`)).statusCode).toBe(200)
  for (const name of [hash.toUpperCase(), `${hash}zz`, `${hash}%0d%0ax: y`, hash.slice(2), `0${hash}`]) {
    expectError(await app.inject(`/v1/blobs/${name}`), 'not_found')
  }
})

describe('POST /v1/answer', () => {
  test('gives an answer of exactly the length that the manifest implies', async () => {
    const { dataset, app } = await serving()
    for (const count of [1, 2, 64]) {
      const reply = await post(app, queryAt(dataset.manifest, 3, count), { 'accept-encoding': 'gzip, br' })
      expect(reply.statusCode).toBe(200)
      expect(reply.headers['content-type']).toBe('application/octet-stream')
      expect(reply.headers['content-encoding']).toBeUndefined()
      expect(reply.headers['transfer-encoding']).toBeUndefined()
      expect(reply.headers['content-length']).toBe(String(40 + count * 16 * (8 + 3 * 32)))
      expect(reply.headers['cache-control']).toBe('no-store, no-transform')
      expect(decodeAnswer(dataset.manifest, count, reply.rawPayload).length).toBe(reply.rawPayload.length - 40)
    }
  })

  test('of records alone is as long as they are, whether there are commitments or not', async () => {
    const records = pseudoRandom(800)
    for (const dataset of [await small(), await bareSmall()]) {
      const app = await serverFor(dataset)
      for (const count of [1, 2, 64]) {
        const reply = await post(app, queryAt(dataset.manifest, 3, count, 'tags'))
        expect([reply.statusCode, reply.headers['content-length']]).toEqual([200, String(40 + count * 16 * 8)])
        const entries = decodeAnswer(dataset.manifest, count, reply.rawPayload, 'tags')
        for (let q = 0; q < 14; q++) {
          const [entry, record] = [entries.subarray(8 * q, 8 * q + 8), records.subarray(8 * (7 * q + 3)).subarray(0, 8)]
          expect(Buffer.from(entry).equals(record)).toBe(true)
        }
      }
    }
  })

  test('in a suite that is not offered is refused by name', async () => {
    const dataset = await bareSmall()
    const app = await serverFor(dataset)
    const proved = queryAt(dataset.manifest, 0)
    proved.writeUInt16LE(1, 6)
    const reply = await post(app, proved)
    expectError(reply, 'bad_request')
    expect(reply.json().message).toBe('suite: expected 2 or 3, got 1')
    proved.writeUInt16LE(3, 6)
    expectError(await post(app, proved), 'bad_request')
  })

  test('is the same for the same query, and takes it with any Content-Type or none', async () => {
    const { dataset, app } = await serving()
    const query = queryAt(dataset.manifest, 2)
    const first = await post(app, query)
    for (const type of ['application/octet-stream', 'application/json', 'text/plain', 'multipart/form-data', 'junk']) {
      const reply = await post(app, query, { 'content-type': type })
      expect([reply.statusCode, reply.rawPayload.equals(first.rawPayload)]).toEqual([200, true])
    }
  })

  test('refuses an offset of M and beyond, in any place, and says nothing of it', async () => {
    const { manifest } = await small()
    const app = await serverFor(await small())
    for (let place = 0; place < 16; place++) {
      for (const offset of [7, 8, 0x100, 0xffff]) {
        const offsets = Array(16).fill(6)
        offsets[place] = offset
        const reply = await post(app, encodeQuery(manifest, 1, vectors(offsets)))
        expectError(reply, 'bad_request')
        expect(reply.json().message).not.toMatch(/\d/)
      }
    }
  })

  test('is refused by its length where it is longer than any', async () => {
    const { dataset, app } = await serving()
    const query = queryAt(dataset.manifest, 0)
    // Longer than 64 queries of any suite and a claim: the length says it first. Those of one server are the longest here.
    const [each, most] = dataset.database.queryLimits(3, false)
    expect([most, each! > 32]).toEqual([64, true])
    const longest = 64 * each! + 80
    const many = Buffer.concat([query.subarray(0, 40), Buffer.alloc(longest + 1)])
    many.writeUInt16LE(67, 36)
    expectError(await post(app, many), 'too_large')
    expectError(await post(app, many.subarray(0, -1)), 'bad_request')
    expectError(await post(app, Buffer.alloc(1_000_000)), 'too_large')
    expectError(await app.inject({ method: 'POST', url: '/v1/answer' }), 'bad_request')
  })

  test('holds batches to the limit in the manifest, whichever suite they name', async () => {
    // 32 partitions of two records of 4 KiB: 63 queries with proofs fit 8 MiB.
    const dataset = await builtDataset('a.bin', new Uint8Array(64 * 4096), { recordBytes: 4096, partitions: 32 })
    const app = await serverFor(dataset)
    expect((await post(app, queryAt(dataset.manifest, 1, 63))).statusCode).toBe(200)
    expect((await post(app, queryAt(dataset.manifest, 1, 63, 'tags'))).statusCode).toBe(200)
    for (const proofs of ['merkle', 'tags'] as const) {
      const reply = await post(app, queryAt({ ...dataset.manifest, maxQueries: 64 }, 1, 64, proofs))
      expectError(reply, 'bad_request')
      expect(reply.json().message).toBe('count: expected at most 63, got 64')
    }
  })

  test('has no fence to judge a claim by', async () => {
    for (const [dataset, proofs] of [
      [await small(), 'merkle'],
      [await small(), 'tags'],
      [await bareSmall(), 'tags'],
    ] as const) {
      const app = await serverFor(dataset)
      const { databaseId } = dataset.manifest
      const claim = { databaseId, hintId: pseudoRandom(16), version: 1, requestHash: pseudoRandom(32) }
      const query = queryAt(dataset.manifest, 3, 2, proofs)
      expectError(await post(app, withClaim(query, claim)), 'not_found')
      expect((await post(app, query)).statusCode).toBe(200)
      // What is wrong with the query comes first.
      expectError(await post(app, withClaim(queryAt(dataset.manifest, 7, 2, proofs), claim)), 'bad_request')
      query.writeUInt32LE(2, 28)
      expectError(await post(app, withClaim(query, claim)), 'epoch_unknown')
    }
  })
})

describe('every reply', () => {
  test('may be read by pages of any origin, and exposes what a client must check', async () => {
    const { dataset, app } = await serving()
    const origin = 'https://app.example'
    const replies = [
      await app.inject({ url: '/v1/manifest', headers: { origin } }),
      await app.inject({ url: '/v1/info', headers: { origin } }),
      await app.inject({ url: '/nowhere', headers: { origin } }),
      await post(app, queryAt(dataset.manifest, 0), { origin }),
      await post(app, new Uint8Array(), { origin }),
      await post(app, Buffer.alloc(1_000_000), { origin }),
    ]
    for (const { headers } of replies) {
      expect(headers['access-control-allow-origin']).toBe('*')
      expect(headers['access-control-allow-credentials']).toBeUndefined()
      for (const name of ['Content-Encoding', 'Content-Length', 'ETag', 'Retry-After']) {
        expect(headers['access-control-expose-headers']).toContain(name)
      }
      expect(headers['cross-origin-resource-policy']).toBe('cross-origin')
      expect(headers['x-content-type-options']).toBe('nosniff')
      for (const name of ['set-cookie', 'x-request-id', 'server', 'x-powered-by', 'strict-transport-security']) {
        expect(headers[name]).toBeUndefined()
      }
    }
  })

  test('can be limited to some origins', async () => {
    const { dataset, app } = await serving({ allowOrigins: ['https://a.example', 'https://b.example'] })
    const allowed = async (origin: string) =>
      (await app.inject({ url: '/v1/info', headers: { origin } })).headers['access-control-allow-origin']
    expect(await allowed('https://b.example')).toBe('https://b.example')
    expect(await allowed('https://c.example')).toBeUndefined()
    const posted = async (headers: Record<string, string>) => {
      const { statusCode, body } = await post(app, queryAt(dataset.manifest, 0), headers)
      return [statusCode, statusCode === 200 ? '' : parseErrorReply(body).code]
    }
    expect(await posted({ origin: 'https://c.example' })).toEqual([403, 'unauthorized'])
    expect(await posted({ origin: 'null' })).toEqual([403, 'unauthorized'])
    expect(await posted({ origin: 'https://b.example' })).toEqual([200, ''])
    // A page can have the name of its own host lead to this server, which then is in both headers.
    expect(await posted({ origin: 'https://own.example', host: 'own.example' })).toEqual([403, 'unauthorized'])
    expect(await posted({})).toEqual([200, ''])
    const blob = `/v1/blobs/${toHex(dataset.manifest.directoryHash)}`
    expect((await app.inject(blob)).headers.vary).toMatch(/Origin/)
  })

  test('to a preflight is remembered for a day', async () => {
    const app = await serverFor(await small())
    const headers = { origin: 'https://app.example', 'access-control-request-method': 'POST' }
    const reply = await app.inject({ method: 'OPTIONS', url: '/v1/answer', headers })
    expect(reply.statusCode).toBe(204)
    expect(reply.headers['access-control-max-age']).toBe('86400')
    expect(reply.headers['access-control-allow-methods']).toContain('POST')
    expect(reply.headers['access-control-allow-headers']).toMatch(/content-type/i)
    expect((await app.inject({ method: 'OPTIONS', url: '/v1/answer' })).statusCode).toBe(204)
  })
})

describe('several databases in one process', () => {
  test('answer each under its own name', async () => {
    const first = await builtDataset('a.txt', 'alpha\n')
    const second = await builtDataset('a.txt', 'beta\ngamma\n')
    const app = await running({
      datasets: [{ dataset: first }, { name: 'other', dataset: second }, { name: 'third', dataset: first }],
    })
    for (const [prefix, dataset] of [
      ['', first],
      ['/other', second],
      ['/third', first],
    ] as const) {
      expect((await app.inject(`${prefix}/v1/manifest`)).rawPayload.equals(dataset.manifestBytes)).toBe(true)
      const payload = queryAt(dataset.manifest, 0)
      expect((await app.inject({ method: 'POST', url: `${prefix}/v1/answer`, payload })).statusCode).toBe(200)
      expect((await app.inject(`${prefix}/healthz`)).statusCode).toBe(200)
      expect((await app.inject(`${prefix}/readyz`)).statusCode).toBe(200)
    }
    const reply = await app.inject({ method: 'POST', url: '/other/v1/answer', payload: queryAt(first.manifest, 0) })
    expectError(reply, 'wrong_database')
    expectError(await app.inject('/other/v2'), 'not_found')
    for (const url of ['/nowhere/v1/manifest', '/v1/nothing', '/other/v2']) {
      expect(parseErrorReply((await app.inject(url)).body).databases).toEqual(['/', '/other', '/third'])
    }
  })

  test('have health checks at the root even if all have names, and name no place there', async () => {
    const app = await running({ datasets: [{ name: 'one', dataset: await small() }] })
    expect((await app.inject('/healthz')).statusCode).toBe(200)
    expect((await app.inject('/readyz')).json()).toEqual({ status: 'ready' })
    app.readiness.watch('the store is away', () => 'db.example:5432 does not reply')
    for (const url of ['/readyz', '/one/readyz']) {
      expect((await app.inject(url)).json()).toEqual({ status: 'ready', problems: ['the store is away'] })
    }
    expectError(await app.inject('/v1/manifest'), 'not_found')
  })

  test('cannot share a name, take a route’s, or be none', async () => {
    const dataset = await small()
    const names = (...list: (string | undefined)[]) => createServer({ datasets: list.map(name => ({ name, dataset })) })
    await expect(names()).rejects.toThrow(/expected a database to serve, got none/)
    await expect(names('a', 'a')).rejects.toThrow(/got two/)
    await expect(names(undefined, undefined)).rejects.toThrow(/got two/)
    for (const name of ['v1', 'healthz', 'a/b', '', '..', '-a', ':hash', '*']) {
      await expect(names(name)).rejects.toThrow(/expected a name of letters/)
    }
  })
})

describe('the rate limit', () => {
  test('holds for queries of one client, says when to come again, and leaves the rest alone', async () => {
    const { dataset, app } = await serving({ rateLimit: 2 })
    const query = queryAt(dataset.manifest, 0)
    const ask = (from: string) => post(app, query, {}, from)
    expect((await ask('192.0.2.1')).statusCode).toBe(200)
    expect((await ask('192.0.2.1')).statusCode).toBe(200)
    const refused = await ask('192.0.2.1')
    expectError(refused, 'rate_limited')
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
    expect(refused.headers['x-ratelimit-remaining']).toBeUndefined()
    expect((await ask('192.0.2.2')).statusCode).toBe(200)
    expect((await app.inject({ url: '/v1/manifest', remoteAddress: '192.0.2.1' })).statusCode).toBe(200)
  })

  test('counts the queries of a batch; whoever has any left may send one of any size', async () => {
    const { dataset, app } = await serving({ rateLimit: 3 })
    const statuses = async (client: string, ...counts: number[]) => {
      const found: number[] = []
      for (const count of counts) {
        found.push((await post(app, queryAt(dataset.manifest, 0, count), {}, client)).statusCode)
      }
      return found
    }
    expect(await statuses('192.0.2.1', 1, 1, 1, 1)).toEqual([200, 200, 200, 429])
    expect(await statuses('192.0.2.2', 2, 4, 1)).toEqual([200, 200, 429])
    expect(await statuses('192.0.2.3', 3, 1)).toEqual([200, 429])
    expect(await statuses('192.0.2.4', 8, 1)).toEqual([200, 429])
    // What says more than it holds is refused, and counts for no more than it has bytes.
    const payload = queryAt(dataset.manifest, 0)
    payload.set([255, 255], 36)
    const send = (payload: Buffer) => post(app, payload, {}, '192.0.2.5')
    expectError(await send(payload), 'bad_request')
    // In the order of docs/protocol.md: too long comes before too many, and too many before malformed.
    expectError(await send(Buffer.alloc(2 ** 20)), 'too_large')
    expectError(await send(Buffer.alloc(1)), 'rate_limited')
  })

  test('follows X-Forwarded-For of trusted proxies only', async () => {
    const dataset = await small()
    const payload = queryAt(dataset.manifest, 0)
    const statuses = async (trustProxy: string | undefined, remoteAddress: string) => {
      const app = await serverFor(dataset, { rateLimit: 1, trustProxy })
      const ask = (client: string) => post(app, payload, { 'x-forwarded-for': client }, remoteAddress)
      return [(await ask('192.0.2.1')).statusCode, (await ask('192.0.2.2')).statusCode]
    }
    expect(await statuses('loopback', '127.0.0.1')).toEqual([200, 200])
    expect(await statuses(undefined, '127.0.0.1')).toEqual([200, 429])
    expect(await statuses('loopback', '198.51.100.1')).toEqual([200, 429])
  })
})

test('readiness ends when the core traps: one 500, then 503, and the owner is told once', async () => {
  const dataset = await small()
  const told: Error[] = []
  let calls = 0
  const answer = () => {
    calls++
    throw new WebAssembly.RuntimeError('unreachable')
  }
  const app = await serverFor(answeringWith(dataset, answer), { onTrap: error => told.push(error) })
  expectError(await post(app, queryAt(dataset.manifest, 0)), 'internal')
  expectError(await post(app, queryAt(dataset.manifest, 0)), 'not_ready')
  expectError(await app.inject('/readyz'), 'not_ready')
  expect([told.length, calls]).toEqual([1, 1])
})

test.each<[string, (file: string) => Promise<unknown>]>([
  ['whose file is gone', async () => {}],
  ['that fails at its first byte', mkdir], // opens, and cannot be read
])('a blob %s is the server’s fault, not the client’s, and refused as anything else is', async (_, replace) => {
  const dir = await builtDirectory('a.txt', 'alpha\n')
  const dataset = await loadDataset(dir)
  onTestFinished(() => dataset.close())
  const app = await serverFor(dataset)
  const hash = toHex(dataset.manifest.directoryHash)
  const file = `${dir}/blobs/${hash}`
  await rm(file)
  await replace(file)
  const reply = await app.inject(`/v1/blobs/${hash}`)
  expectError(reply, 'internal')
  expect([reply.headers.etag, reply.headers['cache-control']]).toEqual([undefined, 'no-store'])
})
