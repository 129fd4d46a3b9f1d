// The figures for whoever watches a server: what they count, on which port, and that nothing of a request is in them (P7).

import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, Metrics, Readiness } from '../dist/index.js'
import { listening, pseudoRandom, queryAt, small } from './helpers.js'
import { deaf } from './sockets.js'
import { batchOn, keyed } from './updatable-helpers.js'

const CANARY = 'canary51d9'

/** A server with a database that does not change, at /fixed, and one that does, and where its figures are. */
async function watchedServer() {
  const dataset = await small()
  const updatable = await keyed({}, { fence: { entries: 100 } })
  const metrics = new Metrics()
  const { app, url } = await listening({ datasets: [{ updatable }, { name: 'fixed', dataset }], metrics })
  const figures = await metrics.server(app.readiness)
  onTestFinished(() => figures.close())
  const at = await figures.listen({ port: 0, host: '127.0.0.1' })
  const scrape = async () => await (await fetch(`${at}/metrics`)).text()
  /** The value of a line, by all that stands before it. */
  const figure = async (name: string) => {
    const line = (await scrape()).split('\n').find(line => line.startsWith(`${name} `))
    return line === undefined ? undefined : Number(line.slice(name.length + 1))
  }
  return { app, url, at, dataset, updatable, scrape, figure }
}

test('requests are counted by route and status, and those under way, streams too, as they come and go', async () => {
  const { url, dataset, figure } = await watchedServer()
  const ask = async (path: string, init?: RequestInit) => (await fetch(url + path, init)).arrayBuffer()
  for (let n = 0; n < 3; n++) await ask('/fixed/v1/answer', { method: 'POST', body: queryAt(dataset.manifest, n) })
  await ask('/fixed/v1/answer', { method: 'POST', body: 'malformed' })
  await ask('/nowhere')
  await ask('/v1/epochs/1')
  const count = (route: string, status: number) =>
    figure(`keyhush_request_seconds_count{route="${route}",status="${status}"}`)
  await expect.poll(() => count('POST /fixed/v1/answer', 200)).toBe(3)
  await expect.poll(() => count('POST /fixed/v1/answer', 400)).toBe(1)
  await expect.poll(() => count('none', 404)).toBe(1)
  await expect.poll(() => count('GET /v1/epochs/:epoch', 200)).toBe(1)

  const half = await deaf(Number(new URL(url).port), 'POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n')
  await expect.poll(() => figure('keyhush_requests_under_way{route="POST /v1/answer"}')).toBe(1)
  half.destroy()
  await expect.poll(() => count('POST /v1/answer', 499)).toBe(1)

  const streams = () => figure('keyhush_requests_under_way{route="GET /v1/events"}')
  const open = [new AbortController(), new AbortController()]
  const replies: Response[] = [] // kept: Node ends the stream of one that is collected
  for (const { signal } of open) replies.push(await fetch(`${url}/v1/events`, { signal }))
  expect(await streams()).toBe(2)
  open[0]!.abort()
  await expect.poll(streams).toBe(1)
  open[1]!.abort()
  await expect.poll(streams).toBe(0)
  expect(replies.map(({ status }) => status)).toEqual([200, 200])
})

test('what a database is at is there, and what is stored that cannot be written', async () => {
  const { updatable, url, at, figure, app } = await watchedServer()
  const ofDatabase = (name: string, database = '') => figure(`keyhush_${name}{database="${database}"}`)
  expect(await ofDatabase('epoch')).toBe(1)
  expect(await ofDatabase('records')).toBe(3)
  expect(await ofDatabase('records', 'fixed')).toBe(100)
  expect(await ofDatabase('fence_hints', 'fixed')).toBeUndefined()
  const { databaseId } = updatable
  const [hintId, requestHash] = [pseudoRandom(16), pseudoRandom(32)]
  await updatable.fence.judge({ kind: 'register', databaseId, hintId, version: 0, requestHash })
  expect([await ofDatabase('fence_hints'), await ofDatabase('fence_room')]).toEqual([1, 100])
  expect(await ofDatabase('fence_turned_away')).toBe(0)
  await updatable.publish(batchOn(updatable, '{"op":"edit","key":"one","value":"other"}\n'))
  expect([await ofDatabase('epoch'), await ofDatabase('generation')]).toEqual([2, 1])
  expect(await ofDatabase('store_failing')).toBe(0)
  expect(await ofDatabase('store_free_bytes')).toBeUndefined() // it is in memory

  expect([await figure('keyhush_ready'), await figure('keyhush_problems')]).toEqual([1, 0])
  await updatable.publish(
    batchOn(updatable, '{"op":"edit","key":"one","value":"third"}\n', { expires: 1 }),
    undefined,
    true,
  )
  expect([await figure('keyhush_ready'), await figure('keyhush_problems')]).toEqual([1, 1])
  const problems = [expect.stringContaining('epoch 3 has expired')]
  expect(await (await fetch(`${at}/readyz`)).json()).toEqual({ status: 'ready', problems })
  const publicly = { status: 'ready', problems: ['the newest epoch has expired'] }
  for (const path of ['/readyz', '/fixed/readyz']) expect(await (await fetch(url + path)).json()).toEqual(publicly)
  expect((await fetch(`${at}/metrics`)).headers.get('content-type')).toMatch(/^text\/plain; version=/)
  for (const path of ['/', '/v1/manifest', '/metrics/']) expect((await fetch(at + path)).status).toBe(404)
  expect((await fetch(`${at}/readyz`, { method: 'POST', body: 'x' })).status).toBe(404)
  app.readiness.stop('for this test')
  expect(await figure('keyhush_ready')).toBe(0)
  expect([(await fetch(`${at}/healthz`)).status, (await fetch(`${at}/readyz`)).status]).toEqual([200, 503])
})

test('nothing of a request is in them, and they are not on the port that the world asks', async () => {
  const { url, dataset, scrape } = await watchedServer()
  const headers = {
    'x-canary': CANARY,
    'user-agent': CANARY,
    referer: `https://${CANARY}/`,
    origin: `https://${CANARY}`,
  }
  const ask = async (path: string, init: RequestInit = {}) => {
    const reply = await fetch(url + path, { ...init, headers })
    await reply.arrayBuffer()
    return reply.status
  }
  await ask(`/fixed/v1/answer?key=${CANARY}`, { method: 'POST', body: queryAt(dataset.manifest, 0) })
  await ask('/fixed/v1/answer', { method: 'POST', body: CANARY.repeat(100) })
  await ask('/v1/fence', { method: 'POST', body: CANARY })
  await ask(`/${CANARY}`)
  await ask(`/v1/blobs/${CANARY}`)
  await ask('/v1/answer', { method: CANARY.toUpperCase() })
  const text = await scrape()
  expect(text).toContain('keyhush_request_seconds_count')
  expect(text.toLowerCase()).not.toContain(CANARY)
  expect(text).not.toContain('127.0.0.1')
  expect(await ask('/metrics')).toBe(404)
})

test('every figure that the dashboard draws is there', async () => {
  const { url, scrape } = await watchedServer()
  await (await fetch(`${url}/v1/manifest`)).arrayBuffer()
  await expect.poll(scrape).toContain('route="GET /v1/manifest"')
  const text = await scrape()
  const dashboard = JSON.parse(await readFile(new URL('../../docs/dashboard.json', import.meta.url), 'utf8')) as {
    panels: { title: string; targets: { expr: string }[] }[]
  }
  const drawn = dashboard.panels.flatMap(({ targets }) =>
    targets.flatMap(({ expr }) => expr.match(/\b(keyhush|nodejs|process)_\w+/g)!),
  )
  expect(new Set(drawn).size).toBeGreaterThan(10)
  expect(drawn.filter(name => !new RegExp(`^(# TYPE )?${name}[{ ]`, 'm').test(text))).toEqual([])
})

test.each<[string, () => Promise<FastifyInstance>]>([
  ['a server', async () => createServer({ datasets: [{ dataset: await small() }] })],
  ['the port of the figures', () => new Metrics().server(new Readiness())],
])('%s closes although a connection has sent nothing, as a load balancer’s probe', async (_, begun) => {
  const app = await begun()
  const come = once(app.server, 'connection')
  const socket = await deaf(Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port))
  await come
  const closed = once(socket.resume(), 'close')
  await app.close() // Node would for a minute, which is more than a test may take
  await closed
})

test('docs/operations/monitoring.md has a row for each figure of ours, with its words, and alerts of figures that there are', async () => {
  const { scrape } = await watchedServer()
  const text = await scrape()
  const figures = [...text.matchAll(/^# HELP (keyhush_\w+) (.+)$/gm)].map(([, name, help]) => [name, help])
  expect(figures.length).toBeGreaterThan(15)
  const page = await readFile(new URL('../../docs/operations/monitoring.md', import.meta.url), 'utf8')
  const rows = [...page.matchAll(/^\| `(keyhush_\w+)` *\| (.+?) *\|$/gm)].map(([, name, words]) => [name, words])
  expect(rows.sort()).toEqual(figures.sort())
  const alerts = [...page.matchAll(/^ +expr: (.+)$/gm)].map(([, expr]) => expr!.match(/\b(keyhush|nodejs)_\w+|^up\b/g))
  expect(alerts.length).toBeGreaterThan(3)
  expect(
    alerts.flat().filter(
      name =>
        name !== 'up' && // Prometheus has that itself
        !text.includes(`# HELP ${name} `),
    ),
  ).toEqual([])
})
