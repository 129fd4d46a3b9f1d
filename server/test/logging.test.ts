// P7: a server logs route, status, size and duration, and nothing else that a request says or is.

import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { encodeInstantQuery, encodeQuery, HEADER_BYTES, INSTANT_PATH } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PUBLISHER, signed } from '../../tests/support/publishing.js'
import { thoroughly } from '../../tests/support/thoroughly.js'
import type { Dataset } from '../dist/index.js'
import { queriesFor } from './computing.js'
import {
  answeringWith,
  builtDataset,
  builtDirectory,
  listening,
  logged,
  post,
  queryAt,
  running,
  small,
  vectors,
} from './helpers.js'
import { deaf } from './sockets.js'
import { command, serving } from './spawned.js'
import { batchOn, keyed } from './updatable-helpers.js'

const CANARY = 'canary7f3a'

/** A server that logs all it can, the lines it wrote, and its address. */
async function loggedServer(dataset: Dataset, rateLimit = 0) {
  const { lines, log } = logged('trace')
  const datasets = [{ dataset }, { name: 'named', dataset }]
  return { ...(await listening({ datasets, rateLimit, log, onTrap: () => undefined })), lines }
}

/** Sends raw bytes, and waits for the other side to hang up. */
async function sendRaw(port: number, text: string): Promise<void> {
  const socket = await deaf(port, text)
  await once(socket.end().resume(), 'close')
}

const requestLines = (lines: string[]) =>
  lines.map(line => JSON.parse(line) as Record<string, unknown>).filter(line => 'route' in line)

describe('the log', () => {
  test('has no error for a client that hangs up while it sends', async () => {
    const dataset = await small()
    const { app, lines, url, port } = await loggedServer(dataset)
    const come = once(app.server, 'request') as Promise<[IncomingMessage]>
    const socket = await deaf(port, 'POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx')
    const [request] = await come
    const aborted = once(request, 'error')
    socket.destroy()
    await aborted
    await (await fetch(`${url}/nowhere`)).text() // which is answered later
    expect(lines.map(line => (JSON.parse(line) as { level: number }).level).filter(level => level >= 50)).toEqual([])
  })

  test('has one line a request, with route pattern, status, size and duration and no other field', async () => {
    const dataset = await small()
    const { lines, url } = await loggedServer(dataset)
    const answer = await fetch(`${url}/v1/answer`, { method: 'POST', body: queryAt(dataset.manifest, 0) })
    const size = (await answer.arrayBuffer()).byteLength
    await (await fetch(`${url}/v1/blobs/${'ab'.repeat(32)}`)).text()
    await (await fetch(`${url}/nowhere`)).text()
    await expect.poll(() => requestLines(lines).length).toBe(3)
    const [first, second, third] = requestLines(lines)
    expect(Object.keys(first!).sort()).toEqual(['bytes', 'level', 'milliseconds', 'route', 'status', 'time'])
    expect(first).toMatchObject({ route: 'POST /v1/answer', status: 200, bytes: size })
    expect(second).toMatchObject({ route: 'GET /v1/blobs/:hash', status: 404 })
    expect(third).toMatchObject({ route: 'none', status: 404 })
  })

  test('has no line of a request above level debug', async () => {
    const dataset = await small()
    const { lines, log } = logged('info')
    const app = await running({ datasets: [{ dataset }], log })
    expect((await post(app, '/v1/answer', queryAt(dataset.manifest, 0))).statusCode).toBe(200)
    await app.inject(`/${CANARY}`)
    await app.close()
    expect(requestLines(lines)).toEqual([])
    await expectNoTrace(lines)
  })

  test('holds no part of any request, at any level, whatever goes wrong', async () => {
    const dataset = await builtDataset('a.csv', `key,value\n${CANARY},${CANARY}\n`, { partitions: 4 })
    const { lines, url, port } = await loggedServer(dataset, 50)
    const headers = { 'x-canary': CANARY, 'user-agent': CANARY, referer: `https://${CANARY}/`, cookie: `a=${CANARY}` }
    const ask = (path: string, init: RequestInit = {}) =>
      fetch(url + path, { ...init, headers: { ...headers, ...(init.headers as object) } }).then(reply => reply.text())
    const query = queryAt(dataset.manifest, 0)
    // A body whose offsets spell the canary: out of range, so that errors quoting them would show.
    const spelled = encodeQuery(dataset.manifest, 1, vectors([...Buffer.from(CANARY)].slice(0, 4)))

    // An instant lookup whose seed is the canary.
    const { queries } = await queriesFor(dataset.manifest, 1)
    const instant = Buffer.from(encodeInstantQuery(dataset.manifest, 'records', 1, queries))
    instant.write(CANARY, HEADER_BYTES)
    await ask(INSTANT_PATH, { method: 'POST', body: instant })
    await ask(INSTANT_PATH, { method: 'POST', body: instant.subarray(0, -1) })

    await ask('/v1/answer', { method: 'POST', body: query })
    await ask('/v1/answer', { method: 'POST', body: spelled })
    await ask('/v1/answer', { method: 'POST', body: CANARY.repeat(10) })
    await ask('/v1/answer', { method: 'POST', body: CANARY.repeat(10_000) })
    await ask('/v1/answer', { method: 'POST', body: CANARY, headers: { 'content-encoding': CANARY } })
    await ask('/v1/answer', { method: 'POST', body: CANARY, headers: { 'content-type': CANARY } })
    await ask(`/v1/answer?key=${CANARY}`, { method: 'POST', body: query })
    await ask(`/${CANARY}`)
    await ask(`/named/v1/blobs/${CANARY}`)
    await ask(`/v1/blobs/${CANARY.repeat(100)}`)
    await ask(`/v1/manifest?generation=${CANARY}&epoch=1`)
    await ask(`/v1/manifest?${CANARY}`)
    await ask(`/%zz${CANARY}`)
    await ask('/v1/info', { method: 'OPTIONS' })
    await sendRaw(port, `${CANARY}\r\n\r\n`)
    await sendRaw(port, `GET /${CANARY} HTTP/1.1\r\n${CANARY}\r\n\r\n`)
    await sendRaw(port, `POST /v1/answer HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n${CANARY}`)
    await sendRaw(port, `POST /v1/answer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${CANARY}`)
    for (let i = 0; i < 20; i++) await ask('/v1/answer', { method: 'POST', body: spelled }) // into the rate limit

    await expect.poll(() => requestLines(lines).length).toBeGreaterThan(25)
    const said = requestLines(lines).map(({ route, status }) => `${status} ${route}`)
    expect(said).toEqual(expect.arrayContaining([`200 POST ${INSTANT_PATH}`, `400 POST ${INSTANT_PATH}`]))
    for (const status of ['200', '400', '404', '413', '415', '429']) expect(said.join()).toContain(`${status} `)
    await expectNoTrace(lines)
  })

  test('holds no part of what a publisher sends', async () => {
    const updatable = await keyed()
    const { lines, log } = logged('trace')
    const datasets = [{ updatable, publisherKeys: [PUBLISHER.publicKey] }]
    const app = await running({ datasets, log, onTrap: () => undefined })
    const publish = (operations: readonly object[] | string) => {
      const batch = batchOn(updatable, operations)
      return post(app, '/v1/epochs', batch, signed(batch))
    }
    const statuses = [
      await publish([{ op: 'add', key: CANARY, value: CANARY }]),
      await publish([{ op: 'generation' }]),
      await publish([{ op: 'edit', key: CANARY, value: 'x' }]),
      await publish([{ op: 'delete', key: `absent ${CANARY}` }]),
      await publish([{ op: 'generation', [CANARY]: CANARY }]),
      await publish(CANARY),
      await post(app, '/v1/epochs', CANARY, signed(batchOn(updatable, 'x'))),
      await post(app, '/v1/epochs', CANARY, { 'keyhush-batch-signature': CANARY }),
      await post(app, '/v1/signatures', JSON.stringify({ publicKey: CANARY })),
    ].map(({ statusCode }) => statusCode)
    expect(statuses).toEqual([200, 200, 200, 422, 422, 422, 401, 401, 400])
    // A store that fails, with a message that quotes what was to be stored.
    Object.defineProperty(updatable, 'publish', {
      value: () => Promise.reject(new Error(`${CANARY} could not be written`)),
    })
    expect((await publish([{ op: 'generation' }])).statusCode).toBe(500)
    expect(requestLines(lines).length).toBe(10)
    await expectNoTrace(lines)
  })

  test('of a fault of ours names the kind and the place, not the message; the reply says nothing of it', async () => {
    const dataset = await small()
    const faults = [
      new Error(CANARY),
      new TypeError(`\n    at ${CANARY}:1:1`),
      CANARY,
      new WebAssembly.RuntimeError(CANARY),
    ]
    for (const fault of faults) {
      const failing = answeringWith(dataset, () => {
        throw fault
      })
      const { lines, url } = await loggedServer(failing)
      const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: queryAt(dataset.manifest, 0) })
      const message = 'the server failed; the fault is not in the request'
      expect([reply.status, await reply.json()]).toEqual([500, { code: 'internal', message }])
      expect((await fetch(`${url}/readyz`)).status).toBe(fault instanceof WebAssembly.RuntimeError ? 503 : 200)
      await expect.poll(() => requestLines(lines).length).toBe(2)
      const failures = lines.map(line => JSON.parse(line)).filter(line => line.msg === 'a request failed')
      expect(failures.length).toBe(1)
      if (fault instanceof Error) {
        expect(failures[0].error).toBe(fault.name)
        expect(failures[0].at.join()).toMatch(/logging\.test\.ts/)
      }
      await expectNoTrace(lines)
    }
  })

  test('never sees what Fastify or a plugin would log through a request', async () => {
    const dataset = await small()
    const { lines, log } = logged('trace')
    const app = await running({ datasets: [{ dataset }], log })
    // The loggers of requests, and the serializers should someone use the server's own.
    app.log.error({ req: { url: CANARY }, res: { body: CANARY }, err: new Error(CANARY) }, 'planted')
    expect(lines.length).toBe(1)
    await expectNoTrace(lines)
  })
})

/** Neither the text nor its hex, base64 or fingerprint, nor an address. */
async function expectNoTrace(lines: string[]): Promise<void> {
  const core = await loadCore()
  const traces = [
    CANARY,
    Buffer.from(CANARY).toString('hex'),
    Buffer.from(CANARY).toString('base64').slice(0, 12),
    Buffer.from(core.fingerprint(Buffer.from(CANARY))).toString('hex'),
    '"127.0.0.1"',
    'x-canary',
  ]
  for (const line of lines) {
    for (const trace of traces) expect(line).not.toContain(trace)
    expect(line).not.toContain([...Buffer.from(CANARY)].slice(0, 4).join(','))
  }
}

thoroughly(
  'a log that nobody reads is cut, requests are answered, and the log counts the lines that are missing',
  async () => {
    const REQUESTS = 10_000
    const BOUND = 256 * 1024
    const SYSTEM = 512 * 1024 // what a pipe may hold by itself
    const args = ['serve', '--dataset', await builtDirectory('a.txt', 'alpha\n'), '--port', '0', '--drain-seconds', '0']
    const { child, printed, finished, url } = await serving(process.execPath, [
      command,
      ...args,
      '--log-level',
      'debug',
    ])
    child.stderr.pause()
    const agent = new Agent({ keepAlive: true, maxSockets: 16 })
    onTestFinished(() => agent.destroy())
    const ask = () =>
      new Promise<number | undefined>((resolve, reject) => {
        get(`${url}/v1/manifest`, { agent }, reply => reply.resume().once('end', () => resolve(reply.statusCode)))
          .once('error', reject)
          .setTimeout(20_000, () => reject(new Error('no reply')))
      })
    for (let asked = 0; asked < REQUESTS; asked += 500) {
      expect(new Set(await Promise.all(Array.from({ length: 500 }, ask)))).toEqual(new Set([200]))
    }

    child.stderr.resume()
    const lines = () => printed.stderr.split('\n').slice(0, -1)
    const dropped = () => lines().map(text => (JSON.parse(text) as { dropped?: number }).dropped ?? 0)
    // What stood there comes first.
    for (let more = 0; more < 100 && dropped().every(count => count === 0); more++) await ask()
    expect(printed.stderr.length).toBeLessThan(BOUND + SYSTEM)
    child.kill('SIGTERM')
    await finished
    // Every request has its line, or is counted among those that have none.
    const told = lines().filter(text => text.includes('GET /v1/manifest')).length
    const missing = dropped().reduce((sum, count) => sum + count, 0)
    expect(missing).toBeGreaterThan(0)
    expect(told + missing).toBeGreaterThanOrEqual(REQUESTS)
  },
)
