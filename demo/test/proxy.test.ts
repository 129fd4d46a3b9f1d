// The proxy records queries, forwards everything unchanged, and if told to lie changes answers only.

import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { encodeInstantQuery, encodeParityQuery, encodeQuery, type Manifest, withClaim } from '@keyhush/protocol'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { keyless } from '../../packages/protocol/test/manifests.js'
import { closeServer, listen, startProxy, type Watcher } from '../src/node/proxy.js'

const digests = new Uint8Array(4 * 32)
const manifest: Manifest = {
  ...{ ...keyless, records: 64, recordBytes: 16, valueBytes: 16, partitions: 4, partitionRecords: 16 },
  ...{ commitments: digests, contentHashes: digests },
}
const vectors = [
  [3, 15, 0, 7],
  [1, 1, 2, 9],
]
const query = encodeQuery(manifest, 2, new Uint8Array(new Uint16Array(vectors.flat()).buffer))
/** As the refresh server gets it. */
const claim = {
  databaseId: manifest.databaseId,
  hintId: new Uint8Array(16).fill(1),
  version: 5,
  requestHash: new Uint8Array(32).fill(2),
}
const claimed = withClaim(query, claim)
const answer = new Uint8Array(200).map((_, i) => i)

// Stands for a server: remembers requests, answers with `answer`.
const requests: { method: string | undefined; url: string | undefined; body: Buffer }[] = []
const server = createServer((request, response) => {
  void buffer(request).then(body => {
    requests.push({ method: request.method, url: request.url, body })
    if (request.url === '/keys/v1/events') {
      response.writeHead(200).write('first\n')
      nextLine = () => response.end('second\n')
      return
    }
    const status = request.url === '/keys/v1/missing' ? 404 : 200
    response.writeHead(status, { 'x-own': 'kept' }).end(answering)
  })
})
let nextLine = () => {}
let answering = answer
let proxy: Watcher

beforeAll(async () => {
  proxy = await startProxy(await listen(server, 0))
})
beforeEach(() => {
  proxy.lie = undefined
  answering = answer
  requests.length = 0
})
afterAll(async () => {
  await proxy.close()
  await closeServer(server)
})

const post = async (path: string, body: Uint8Array) => {
  const response = await fetch(`${proxy.url}${path}`, { method: 'POST', body: new Uint8Array(body) })
  return { status: response.status, headers: response.headers, bytes: new Uint8Array(await response.arrayBuffer()) }
}

test.each([
  ['a query', query],
  ['a query with a claim', claimed],
])('%s is forwarded as it came, its answer too, and its vectors are kept', async (_, body) => {
  const before = proxy.seen.length
  const { headers, bytes } = await post('/keys/v1/answer', body)
  expect(bytes).toEqual(answer)
  expect(headers.get('x-own')).toBe('kept')
  expect(requests).toHaveLength(1)
  expect(requests[0]?.url).toBe('/keys/v1/answer')
  expect(new Uint8Array(requests[0]!.body)).toEqual(body)
  expect(proxy.seen).toHaveLength(before + 1)
  expect(proxy.seen.at(-1)).toMatchObject({ database: 'keys', bytes: body.length, of: 'offsets', columns: 4, vectors })
  expect(proxy.seen.at(-1)!.claimed).toBe(body === claimed)
})

test.each([false, true])(
  'of a lookup with one server the offsets are kept, whether it has a claim (%s) or not',
  async withOne => {
    const stripes = Array.from({ length: 34 }, (_, k) => 7 * k)
    const parity = Uint8Array.of(0xff, 0xff, 1, 0, 0, ...new Uint8Array(new Uint16Array(stripes).buffer))
    const bare = encodeParityQuery(manifest, 2, Uint8Array.of(...parity, ...parity))
    const body = withOne ? withClaim(bare, claim) : bare
    await post('/keys/v1/answer', body)
    const seen = { bytes: body.length, claimed: withOne, of: 'stripes', columns: 34, vectors: [stripes, stripes] }
    expect(proxy.seen.at(-1)).toMatchObject(seen)
  },
)

test('instant lookups: their keys are recorded, and the proxy lies about their answers too', async () => {
  const keys = [
    [1, 2, 3],
    [250, 0, 9],
  ]
  const body = encodeInstantQuery(manifest, 'records', 2, Uint8Array.from(keys.flat()))
  expect((await post('/keys/v1/instant', body)).bytes).toEqual(answer)
  const seen = { database: 'keys', bytes: body.length, claimed: false, of: 'bytes', columns: 3, vectors: keys }
  expect(proxy.seen.at(-1)).toMatchObject(seen)
  proxy.lie = 'byte'
  const { bytes } = await post('/keys/v1/instant', body)
  const changed = [...bytes.keys()].filter(at => bytes[at] !== answer[at])
  expect(changed).toHaveLength(1)
  expect(changed[0]).toBeGreaterThanOrEqual(40)
})

test('lie `byte` flips one bit after the header, at another place each time', async () => {
  proxy.lie = 'byte'
  const places = new Set<number>()
  for (let i = 0; i < 20; i += 1) {
    const { bytes } = await post('/keys/v1/answer', query)
    const changed = [...bytes.keys()].filter(at => bytes[at] !== answer[at])
    expect(changed).toHaveLength(1)
    expect(changed[0]).toBeGreaterThanOrEqual(40)
    places.add(changed[0]!)
  }
  expect(places.size).toBeGreaterThan(1)
})

test('lies `zeros` and `again` leave header and verdict as they are', async () => {
  await post('/keys/v1/answer', claimed)
  answering = answer.map(byte => byte ^ 0xff)
  const lies = [
    ['zeros', () => 0],
    ['again', (at: number) => answer[at]!],
  ] as const
  for (const [lie, expected] of lies) {
    proxy.lie = lie
    const { bytes } = await post('/keys/v1/answer', claimed)
    expect(bytes).toEqual(answering.map((byte, at) => (at >= 40 && at < 192 ? expected(at) : byte)))
  }
})

test('lie `half` ends half-way, and lie `nothing` sends nothing', async () => {
  proxy.lie = 'half'
  const response = await fetch(`${proxy.url}/keys/v1/answer`, { method: 'POST', body: new Uint8Array(query) })
  expect(response.status).toBe(200)
  await expect(response.arrayBuffer()).rejects.toThrow()
  proxy.lie = 'nothing'
  await expect(post('/keys/v1/answer', query)).rejects.toThrow()
})

test('a lie never changes the verdict behind the answer', async () => {
  proxy.lie = 'byte'
  const places = new Set<number>()
  for (let i = 0; i < 400; i += 1) {
    const { bytes } = await post('/keys/v1/answer', claimed)
    places.add([...bytes.keys()].find(at => bytes[at] !== answer[at])!)
  }
  // If lies changed its last eight of 160 bytes too, this would miss it with a probability below 10⁻⁸.
  expect(Math.min(...places)).toBeGreaterThanOrEqual(40)
  expect(Math.max(...places)).toBeLessThan(192)
})

test('only answers are changed, and only queries are recorded', async () => {
  proxy.lie = 'byte'
  const before = proxy.seen.length
  const response = await fetch(`${proxy.url}/keys/v1/manifest?epoch=1`)
  expect(new Uint8Array(await response.arrayBuffer())).toEqual(answer)
  expect(requests[0]?.url).toBe('/keys/v1/manifest?epoch=1')
  expect(proxy.seen.length).toBe(before)
})

test('other requests are forwarded and not recorded; errors come back unchanged', async () => {
  const before = proxy.seen.length
  await post('/keys/v1/answer', new Uint8Array([1, 2, 3]))
  expect(requests).toHaveLength(1)
  expect(proxy.seen.length).toBe(before)
  expect((await fetch(`${proxy.url}/keys/v1/missing`)).status).toBe(404)
})

test('a stream is forwarded line by line, and ends with its source', async () => {
  const response = await fetch(`${proxy.url}/keys/v1/events`)
  const lines = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  expect((await lines.read()).value).toBe('first\n') // before there is another
  nextLine()
  expect((await lines.read()).value).toBe('second\n')
  expect((await lines.read()).done).toBe(true)
})

test('an unreachable server is an error, not a crash', async () => {
  const gone = createServer()
  const url = await listen(gone, 0)
  await closeServer(gone)
  const lonely = await startProxy(url)
  expect((await fetch(`${lonely.url}/keys/v1/manifest`)).status).toBe(502)
  await lonely.close()
})
