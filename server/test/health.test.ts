// Health and figures while the thread that answers everything else is held.

import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { Health, Metrics, Readiness } from '../dist/index.js'

async function listening(heldMilliseconds?: number) {
  const metrics = new Metrics()
  const readiness = new Readiness()
  const figures = await metrics.server(readiness)
  onTestFinished(() => figures.close())
  const health = await Health.listen(figures, { host: '127.0.0.1', port: 0, heldMilliseconds })
  onTestFinished(() => health.close())
  return { readiness, url: `http://127.0.0.1:${health.address.port}` }
}

/** Asks from another thread, and holds this one until the replies are there. */
function askedWhileHeld(urls: readonly string[]): { status: number; text: string }[] {
  const shared = new SharedArrayBuffer(4 + 2 ** 20)
  const worker = new Worker(
    `const { workerData: { urls, shared } } = require('node:worker_threads')
     Promise.all(urls.map(async url => {
       const reply = await fetch(url)
       return { status: reply.status, text: await reply.text() }
     })).catch(error => [{ status: 0, text: String(error.cause ?? error) }]).then(replies => {
       const bytes = Buffer.from(JSON.stringify(replies))
       bytes.copy(Buffer.from(shared, 4))
       const length = new Int32Array(shared, 0, 1)
       Atomics.store(length, 0, bytes.length)
       Atomics.notify(length, 0)
     })`,
    { eval: true, workerData: { urls, shared }, execArgv: [] },
  )
  onTestFinished(async () => void (await worker.terminate()))
  const length = new Int32Array(shared, 0, 1)
  expect(Atomics.wait(length, 0, 0, 30_000)).not.toBe('timed-out')
  return JSON.parse(Buffer.from(shared, 4, length[0]).toString())
}

test('health answers while the event loop is held, says for how long, and has the figures that were last known', async () => {
  const { url } = await listening(20)
  let before = ''
  const scrape = async () => {
    before = await (await fetch(`${url}/metrics`)).text()
    return before
  }
  await expect.poll(scrape).toContain('process_resident_memory_bytes')
  const [healthz, readyz, metrics] = askedWhileHeld([`${url}/healthz`, `${url}/readyz`, `${url}/metrics`])
  expect([healthz!.status, JSON.parse(healthz!.text)]).toEqual([200, { status: 'running' }])
  expect(readyz!.status).toBe(503)
  expect(JSON.parse(readyz!.text)).toEqual({
    code: 'not_ready',
    message: expect.stringMatching(/^not ready: event loop held for [1-9]\d* ms$/),
  })
  expect(metrics!.status).toBe(200)
  const held = /^keyhush_event_loop_held_seconds (\S+)$/m
  expect(Number(held.exec(metrics!.text)![1])).toBeGreaterThan(0)
  expect(metrics!.text.replace(held, '')).toBe(before.replace(held, ''))
  // And goes on when the loop does.
  await expect.poll(async () => (await fetch(`${url}/readyz`)).status).toBe(200)
})

test('what the other thread says of itself is what is said, as long as it can', async () => {
  const { url, readiness } = await listening(30_000)
  const get = async (path: string, init?: RequestInit) => await fetch(url + path, init)
  expect(await (await get('/readyz')).json()).toEqual({ status: 'ready' })
  readiness.watch(() => 'the disk is full')
  expect(await (await get('/readyz?now')).json()).toEqual({ status: 'ready', problems: ['the disk is full'] })
  readiness.stop('for this test')
  const stopped = await get('/readyz')
  expect([stopped.status, await stopped.json()]).toEqual([503, { code: 'not_ready', message: 'for this test' }])
  expect((await get('/healthz')).status).toBe(200)
  expect((await get('/metrics')).headers.get('content-type')).toMatch(/^text\/plain; version=/)
  expect(await (await get('/metrics', { method: 'HEAD' })).text()).toBe('')
  for (const path of ['/', '/v1/manifest', '/metrics/']) expect((await get(path)).status).toBe(404)
  expect((await get('/readyz', { method: 'POST', body: 'x' })).status).toBe(404)
})

test('an address that is taken is an error of the system, with its code', async () => {
  const { url } = await listening()
  const figures = await new Metrics().server(new Readiness())
  onTestFinished(() => figures.close())
  const port = Number(new URL(url).port)
  await expect(Health.listen(figures, { host: '127.0.0.1', port })).rejects.toMatchObject({
    code: 'EADDRINUSE',
    syscall: 'listen',
    port,
  })
})
