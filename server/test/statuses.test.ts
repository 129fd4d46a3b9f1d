// The exact statuses of refused requests and ranges, on which proxies, logs and tools rely.

import { once } from 'node:events'
import { connect } from 'node:net'
import { parseErrorReply, toHex } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { builtDataset, pseudoRandom, running } from './helpers.js'

async function listening() {
  const dataset = await builtDataset('a.bin', pseudoRandom(800), { recordBytes: 8 })
  const app = await running({ datasets: [{ dataset }] })
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { app, dataset, port: (app.server.address() as { port: number }).port }
}

/** All that comes until the server hangs up. */
async function replyTo(port: number, request: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  socket.write(request)
  await once(socket, 'close')
  return Buffer.concat(chunks).toString()
}

const partsOf = (reply: string) => [reply.split(' ', 2)[1], parseErrorReply(reply.split('\r\n\r\n')[1]!).code]

test('headers that are too long get 431, in the protocol’s form', async () => {
  const { port } = await listening()
  const reply = await replyTo(port, `GET /v1/info HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`)
  expect(partsOf(reply)).toEqual(['431', 'bad_request'])
})

test('a request that does not arrive in time gets 408, in the protocol’s form', async () => {
  const { app, port } = await listening()
  // What Node says of it, at once instead of after half a minute.
  const late = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  app.server.once('connection', socket => socket.once('data', () => app.server.emit('clientError', late, socket)))
  expect(partsOf(await replyTo(port, 'GET /v1/info HTTP/1.1\r\n'))).toEqual(['408', 'bad_request'])
})

test('the server checks every second how long requests take', async () => {
  const { app, port } = await listening()
  app.server.requestTimeout = 1
  expect(partsOf(await replyTo(port, 'GET /v1/info HTTP/1.1\r\n'))).toEqual(['408', 'bad_request'])
})

test('a client that goes on sending a request that was too slow is hung up on', async () => {
  const { app, port } = await listening()
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

test('a Range is for GET alone: HEAD ignores it', async () => {
  const { app, dataset } = await listening()
  const url = `/v1/blobs/${toHex(dataset.manifest.contentHashes.subarray(0, 32))}`
  const whole = await app.inject({ method: 'HEAD', url })
  for (const range of ['bytes=0-0', 'bytes=3-', 'bytes=-1', 'bytes=999999999-']) {
    const reply = await app.inject({ method: 'HEAD', url, headers: { range } })
    expect([reply.statusCode, reply.headers['content-range']]).toEqual([200, undefined])
    expect(reply.headers['content-length']).toBe(whole.headers['content-length'])
  }
})
