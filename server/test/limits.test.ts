// What a server bounds, over real sockets: one test for each rule of server/src/http/limits/README.md that has no file of its own.

import { once } from 'node:events'
import { connect } from 'node:net'
import { parseErrorReply } from '@keyhush/protocol'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Connections } from '../dist/http/limits/connections.js'
import { RateLimit } from '../dist/http/limits/rate.js'
import { Unsent } from '../dist/http/limits/unsent.js'
import { Metrics, type ServerOptions } from '../dist/index.js'
import { answeringWith, builtDataset, listening, logged, post, pseudoRandom, queryAt, small } from './helpers.js'
import { deaf, exchanged, served, twoKeys } from './sockets.js'

const MIB = 1024 * 1024
/** A whole server that listens until the test has ended, and its connections. */
async function whole(options: ServerOptions) {
  const server = await listening(options)
  return { ...server, connections: Connections.of(server.app.server) }
}

/** Status and code of a reply in the protocol's form. */
const partsOf = (reply: string) => [reply.split(' ', 2)[1], parseErrorReply(reply.split('\r\n\r\n')[1]!).code]

const EVENTS = 'GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n'

test.each([
  ['with a Host', 'GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['without a Host', 'GET /v1/info HTTP/1.1\r\n\r\n'],
  ['with an unknown expectation', 'GET /v1/info HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\n\r\n'],
  ['with long headers', `GET /v1/info HTTP/1.1\r\nHost: x\r\n${'a:\r\n'.repeat(900)}\r\n`],
])('a connection has one request under way: one behind it, %s, has it hung up on', async (_name, request) => {
  const { port, connections } = await whole({ datasets: [{ updatable: await twoKeys() }] })
  const socket = await deaf(port, EVENTS + request.repeat(200))
  socket.resume()
  await once(socket, 'close')
  // None behind that was read.
  expect([connections.requests, connections.pipelined]).toEqual([2, 1])
})

test('what a reply had reserved is given back when its connection was hung up on', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(32 * 65_536), { recordBytes: 65_536, proofs: 'tags' })
  const query = Buffer.from(queryAt(dataset.manifest, 0, dataset.manifest.maxQueries, 'tags'))
  const unsent = new Unsent({ total: 64 * MIB })
  const { port, statuses } = await served({ dataset, unsent })
  const head = `POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: ${query.length}\r\n\r\n`
  const socket = await deaf(port, Buffer.concat([Buffer.from(head), query]))
  await vi.waitFor(() => expect(unsent.bytes).toBeGreaterThan(MIB))
  socket.write(head)
  socket.resume()
  await once(socket, 'close')
  await vi.waitFor(() => expect(unsent.bytes).toBe(0))
  expect(statuses).toEqual([200])
})

test('a request that breaks off has no reply made, for thousands may break off at once', async () => {
  const half = 'POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 1500\r\n\r\nabc'
  const server = await whole({ datasets: [{ dataset: await small() }] })
  const ended = (await deaf(server.port, half)).resume().end()
  await new Promise(resolve => ended.once('close', resolve))
  expect([ended.bytesRead, server.connections.broken]).toEqual([0, 1])

  const bodies = new Unsent()
  const { port, url, statuses } = await served({ dataset: await small(), bodies })
  const torn = await deaf(port, half)
  await vi.waitFor(() => expect(bodies.bytes).toBe(1500))
  torn.resetAndDestroy()
  await vi.waitFor(() => expect(bodies.bytes).toBe(0))
  await fetch(`${url}/v1/info`)
  expect(statuses).toEqual([200])
})

test('what Node would answer by itself is answered as any request, and counted', async () => {
  const { port, connections } = await whole({ datasets: [{ dataset: await small() }] })
  expect(partsOf(await exchanged(port, '\x16\x03\x01 not http\r\n\r\n'))).toEqual(['400', 'bad_request'])
  expect(connections.broken).toBe(1)
  const without = await exchanged(port, 'GET /v1/info HTTP/1.1\r\nConnection: close\r\n\r\n')
  expect(partsOf(without)).toEqual(['400', 'bad_request'])
  expect(await exchanged(port, 'GET /v1/info HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /)
  const expecting = 'GET /v1/info HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\nConnection: close\r\n\r\n'
  expect(await exchanged(port, expecting)).toMatch(/^HTTP\/1\.1 200 /)
  expect(connections.requests).toBe(3)
})

test('headers are no longer than 4 KiB', async () => {
  const { port, connections } = await whole({ datasets: [{ dataset: await small() }] })
  const head = (bytes: number) =>
    `GET /v1/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ${'x'.repeat(bytes)}\r\n\r\n`
  expect(await exchanged(port, head(3 * 1024))).toMatch(/^HTTP\/1\.1 200 /)
  expect(partsOf(await exchanged(port, head(4 * 1024)))).toEqual(['431', 'bad_request'])
  expect(connections.broken).toBe(1)
})

test('headers are no more than 100, and what has more gets no further', async () => {
  const { port, connections } = await whole({ datasets: [{ dataset: await small() }] })
  const head = (count: number) =>
    `GET /v1/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${'a:\r\n'.repeat(count - 2)}\r\n`
  expect(await exchanged(port, head(100))).toMatch(/^HTTP\/1\.1 200 /)
  expect([connections.requests, connections.broken]).toEqual([1, 0])
  const received = await exchanged(port, head(101).repeat(2))
  expect(received.match(/HTTP\/1\.1 431 /g)).toHaveLength(1)
  expect([connections.requests, connections.broken]).toEqual([1, 1])
})

test('what is broken behind a request writes nothing into the reply to that', async () => {
  const { port, connections } = await whole({ datasets: [{ updatable: await twoKeys() }] })
  const received = await exchanged(port, `${EVENTS}nothing\r\n\r\n`)
  expect(received).not.toContain('400')
  const socket = connect(port, '127.0.0.1')
  const [reply] = (await Promise.all([once(socket, 'data'), socket.write(EVENTS)]))[0] as [Buffer]
  expect(reply.toString('latin1')).toMatch(/^HTTP\/1\.1 200 /)
  let more = ''
  socket.setEncoding('latin1').on('data', chunk => {
    more += chunk
  })
  socket.write('nothing\r\n\r\n')
  await once(socket, 'close')
  expect(more).not.toContain('HTTP/1.1')
  expect(connections.broken).toBe(2)
})

test('a body that no route takes is not waited for, whatever its type', async () => {
  const metrics = new Metrics()
  const { app, port } = await whole({ datasets: [{ dataset: await small() }], metrics })
  const figures = await metrics.server(app.readiness)
  onTestFinished(() => figures.close())
  const other = Number(new URL(await figures.listen({ host: '127.0.0.1', port: 0 })).port)
  for (const type of ['application/json', 'text/plain', 'application/octet-stream']) {
    const head = `POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: 500000\r\n\r\n{"a":`
    for (const each of [port, other]) expect(await exchanged(each, head, /\r\n\r\n\{.*\}/)).toMatch(/^HTTP\/1\.1 404 /)
  }
})

test.each([
  ['/v1/answer', 411],
  ['/nothing', 404],
])('a body in chunks is refused, and one read of it at most is parsed: %s', async (path, status) => {
  const { app, port } = await whole({ datasets: [{ dataset: await small() }] })
  const reads: number[] = []
  app.server.on('connection', socket => {
    const { bytesRead: before } = socket
    socket.on('close', () => reads.push(socket.bytesRead - before))
  })
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`
  expect(await exchanged(port, head, /\r\n\r\n\{.*\}/)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  await exchanged(port, head + '1\r\na\r\n'.repeat(700_000))
  await vi.waitFor(() => expect(reads).toHaveLength(2))
  expect(Math.max(...reads)).toBeLessThan(3 * 64 * 1024)
})

test('a body in pieces of one byte is one buffer', async () => {
  const dataset = await small()
  const { port } = await whole({ datasets: [{ dataset }] })
  const query = queryAt(dataset.manifest, 0)
  const socket = await deaf(port, `POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: ${query.length}\r\n\r\n`)
  socket.setNoDelay()
  for (const byte of query) await new Promise(resolve => socket.write(Buffer.of(byte), resolve))
  const [reply] = (await once(socket.resume(), 'data')) as [Buffer]
  expect(reply.toString('latin1')).toMatch(/^HTTP\/1\.1 200 /)
})

test('what Fastify refuses is the request’s fault, and is not logged', async () => {
  const { lines, log } = logged('warn')
  const { port } = await whole({ datasets: [{ dataset: await small() }], log })
  for (const path of ['/v1/answer', '/nothing']) {
    for (const more of ['', 'Content-Length: 3\r\n']) {
      const request = `QUERY ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n${more && 'abc'}`
      expect(await exchanged(port, request, /\r\n\r\n\{.*\}/)).toMatch(/^HTTP\/1\.1 4\d\d /)
    }
  }
  expect(lines).toEqual([])
})

test('the log is told of the same error once a second, with how often it came', async () => {
  const dataset = await small()
  const { lines, log } = logged('warn')
  const failing = answeringWith(dataset, () => {
    throw new Error('for this test')
  })
  const { app } = await whole({ datasets: [{ dataset: failing }], log })
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  const ask = async (now: number) => {
    clock.mockReturnValue(now)
    expect((await post(app, '/v1/answer', queryAt(dataset.manifest, 0))).statusCode).toBe(500)
  }
  const begin = Math.ceil(performance.now())
  for (const after of [0, 1, 500, 999, 1000]) await ask(begin + after)
  expect(lines.map(line => JSON.parse(line).more)).toEqual([undefined, 3])
})

test('rates begin anew each minute of a monotonic clock, and weigh requests by cost', () => {
  // The clock is the one that a server has: given another, nothing would be said of it.
  vi.useFakeTimers({ toFake: ['Date', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const rate = new RateLimit({ perMinute: 3 })
  const said: unknown[] = []
  const reply = { header: (_name: string, value: unknown) => said.push(value) } as never
  const take = (ip: string, weight: number) => {
    try {
      rate.take({ ip }, reply, weight)
      return true
    } catch {
      return false
    }
  }
  expect([1, 1, 1, 1].map(weight => take('192.0.2.1', weight))).toEqual([true, true, true, false])
  expect([1, 20, 1].map(weight => take('192.0.2.2', weight))).toEqual([true, true, false])
  expect(['2001:db8:0:1::1', '2001:db8:0:1:f::2', '2001:db8:0:2::1'].map(ip => take(ip, 3))).toEqual([
    true,
    false,
    true,
  ])
  vi.setSystemTime(Date.now() - 3_600_000)
  vi.advanceTimersByTime(59_001)
  expect(take('192.0.2.1', 1)).toBe(false)
  expect(said.at(-1)).toBe(1)
  vi.advanceTimersByTime(999)
  expect(take('192.0.2.1', 1)).toBe(true)
})

test('addresses that rates are counted for are few', () => {
  const rate = new RateLimit({ perMinute: 1, now: () => 0 })
  const reply = { header: () => {} } as never
  const take = (n: number) => rate.take({ ip: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}` }, reply, 1)
  for (let n = 0; n < 100_000; n++) take(n)
  expect(() => take(0)).toThrow('too many queries')
  take(100_000) // and they are forgotten
  take(0)
})

test('HEAD requests hold no event streams', async () => {
  const { url } = await served({ updatable: await twoKeys() })
  for (let i = 0; i < 256; i++) await fetch(`${url}/v1/events`, { method: 'HEAD' })
  const reply = await fetch(`${url}/v1/events`)
  await reply.body?.cancel()
  expect(reply.status).toBe(200)
})

test('the addresses of one network (/48) are too few to have the rates forgotten', () => {
  const rate = new RateLimit({ perMinute: 1, now: () => 0 })
  const reply = { header: () => {} } as never
  const take = (n: number) => rate.take({ ip: `2001:db8:7:${n.toString(16)}::1` }, reply, 1)
  rate.take({ ip: '192.0.2.1' }, reply, 1)
  for (let n = 0; n < 65_536; n++) take(n)
  for (const n of [0, 32_768, 65_535]) expect(() => take(n)).toThrow('too many queries')
  expect(() => rate.take({ ip: '192.0.2.1' }, reply, 1)).toThrow('too many queries')
})

test('requests that do not arrive in time get 408, in the protocol’s form, soon: few of them become late in between', async () => {
  const { app, port } = await listening({ datasets: [{ dataset: await small() }] })
  app.server.requestTimeout = 1
  const begun = performance.now()
  for (let i = 0; i < 8; i++) {
    expect(partsOf(await exchanged(port, 'GET /v1/info HTTP/1.1\r\n'))).toEqual(['408', 'bad_request'])
  }
  expect(performance.now() - begun).toBeLessThan(4000)
})

test('a client that goes on sending a request that was too slow is hung up on', async () => {
  const { app, port } = await listening({ datasets: [{ dataset: await small() }] })
  const { headersTimeout, requestTimeout } = app.server
  expect([headersTimeout, requestTimeout]).toEqual([30_000, 30_000]) // Node takes the longer one for bodies
  Object.assign(app.server, { headersTimeout: 1, requestTimeout: 1 })
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {}) // it is reset
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  socket.write('POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n')
  const trickle = setInterval(() => socket.write('x'), 100)
  onTestFinished(() => clearInterval(trickle))
  await new Promise(resolve => socket.once('close', resolve))
  expect(partsOf(Buffer.concat(chunks).toString())).toEqual(['408', 'bad_request'])
  expect(await new Promise(resolve => app.server.getConnections((_, count) => resolve(count)))).toBe(0)
})
