// Connections that do anything: well-formed requests and none, whole and cut, one after the other or all at once, read or not, and
// ended in every way there is. Of no use to who makes them: nothing fails, nothing is logged, nothing stays reserved.

import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate as nextTask } from 'node:timers/promises'
import { HEADER_BYTES } from '@keyhush/protocol'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { THOROUGH } from '../../tests/support/thorough.js'
import { Metrics } from '../dist/index.js'
import { listening, logged, pseudoRandom, queryAt } from './helpers.js'
import { opened, storageOf } from './updatable-helpers.js'

const CONNECTIONS = THOROUGH ? 2000 : 600
const AT_ONCE = 40
const PATHS = ['answer', 'instant', 'fence', 'info', 'manifest', 'events', 'epochs', `blobs/${'0'.repeat(64)}`]

const NAMED = '/v1/manifest?generation=1&epoch=4294967296'
const path = fc.oneof(
  fc.constantFrom(NAMED, ...PATHS.map(name => `/v1/${name}`)),
  fc.constantFrom('/readyz', '/x', '/%zz'),
)
const number = (max: number) => fc.integer({ min: 0, max })
const head = (method: string, more = '') => path.map(where => `${method} ${where} HTTP/1.1\r\nHost: x\r\n${more}\r\n`)
const garbage = fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes).toString('latin1'))
const post = (query: string) =>
  fc
    .oneof(
      fc.tuple(head('POST', `Content-Length: ${query.length}\r\n`), fc.constant(query)),
      fc.tuple(head('POST', 'Content-Length: 40\r\n'), garbage),
      fc.tuple(
        head('POST', 'Content-Length: 5000000\r\n'),
        number(100_000).map(length => 'x'.repeat(length)),
      ),
      fc.tuple(head('POST', 'Expect: 100-continue\r\nContent-Length: 9000\r\n'), fc.constant('')),
      fc.tuple(
        head('POST', 'Transfer-Encoding: chunked\r\n'),
        fc.constantFrom('5\r\nabcde\r\n0\r\n\r\n', 'ffffffff\r\nabc'),
      ),
    )
    .map(parts => parts.join('')) // prettier-ignore
const pieces = (query: string) =>
  fc.oneof(
    head('GET'),
    fc.tuple(head('GET'), number(300)).map(([one, times]) => one.repeat(times)),
    head('HEAD'),
    head('OPTIONS', 'Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n'),
    head('GET', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'),
    number(20_000).chain(length => head('GET', `X: ${'a'.repeat(length)}\r\n`)),
    fc.constant('CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n'),
    garbage,
    { weight: 4, arbitrary: post(query) },
  )
const connection = (query: string) =>
  fc.record({
    isRead: fc.boolean(),
    sent: fc.array(fc.record({ piece: pieces(query), share: fc.constantFrom(1, 1, 1, 0.7), waits: fc.boolean() }), {
      maxLength: 6,
    }),
    end: fc.constantFrom('reset', 'destroy', 'half', 'later'),
  })

test('connections that do anything leave nothing behind', async () => {
  const seed = Math.floor(Math.random() * 2 ** 32)
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(600 * 24), { recordBytes: 24 }))
  const { manifest } = updatable.newest
  const query = queryAt(manifest, 3)
  const { lines, log } = logged('warn')
  const metrics = new Metrics()
  const { app, url, port } = await listening({ datasets: [{ updatable }], log, metrics })
  const figures = await metrics.server(app.readiness)
  const ask = async () => {
    const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: query })
    return { status: reply.status, body: Buffer.from(await reply.arrayBuffer()) }
  }
  const before = await ask()
  const plans = fc.sample(connection(Buffer.from(query).toString('latin1')), { numRuns: CONNECTIONS, seed })

  const make = async ({ isRead, sent, end }: (typeof plans)[number]) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    const closed = once(socket, 'close').catch(() => {})
    if (isRead) socket.resume()
    await once(socket, 'connect').catch(() => {})
    for (const { piece, share, waits } of sent) {
      if (socket.destroyed) break
      socket.write(piece.slice(0, Math.ceil(share * piece.length)), 'latin1')
      if (waits) await nextTask()
    }
    if (end === 'reset') socket.resetAndDestroy()
    else if (end === 'destroy') socket.destroy()
    else {
      if (end === 'half') socket.end().resume()
      for (let task = 0; task < 50 && !socket.destroyed; task++) await nextTask()
      socket.resetAndDestroy()
    }
    await closed
  }
  const left = plans[Symbol.iterator]()
  const lane = async () => {
    for (const plan of left) await make(plan)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))

  expect(lines, `seed ${seed}`).toEqual([])
  const unsent = async () => /^keyhush_unsent_bytes (\d+)$/m.exec((await figures.inject('/metrics')).body)![1]
  await vi.waitFor(async () => expect(await unsent(), `seed ${seed}`).toBe('0'))
  const after = await ask()
  expect(after, `seed ${seed}`).toEqual(before)
  expect(after.body.length).toBeGreaterThan(HEADER_BYTES)
  await figures.close()
})
