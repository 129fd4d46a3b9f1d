// Replies that wait behind another one of their connection never get a socket, and so never hear that it has closed.

import { BATCH_SIGNATURE_HEADER } from '@pirouette/protocol'
import { expect, test, vi } from 'vitest'
import { Unsent } from '../dist/http/unsent.js'
import { builtDataset, pseudoRandom, queryAt } from './helpers.js'
import { deaf, publish, publisherKeys, served, signatureOf, twoKeys } from './sockets.js'
import { batchOn } from './updatable-helpers.js'

const MIB = 1024 * 1024

test('what pipelined replies had reserved is given back when their connection has gone', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(32 * 65_536), { recordBytes: 65_536, proofs: 'tags' })
  const query = Buffer.from(queryAt(dataset.manifest, 0, 1, 'tags'))
  const unsent = new Unsent({ total: 64 * MIB })
  const { url, port, statuses } = await served({ dataset, unsent })
  const request = Buffer.concat([
    Buffer.from(`POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: ${query.length}\r\n\r\n`),
    query,
  ])
  for (let i = 0; i < 4; i++) {
    const before = statuses.length
    const socket = await deaf(port, Buffer.concat(Array(10).fill(request)))
    await vi.waitFor(() => expect(statuses.length).toBeGreaterThanOrEqual(before + 5), { timeout: 10_000 })
    socket.destroy()
  }
  await vi.waitFor(() => expect(unsent.bytes).toBe(0), { timeout: 5000 })
  const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: new Uint8Array(query) })
  expect(reply.status).toBe(200)
}, 60_000)

const STREAM = 'GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n'

test('event streams that were pipelined end with their connection', async () => {
  const { url, port, statuses } = await served({ updatable: await twoKeys() })
  const socket = await deaf(port, Buffer.from(STREAM.repeat(256)))
  await vi.waitFor(() => expect(statuses.length).toBe(256), { timeout: 10_000 })
  socket.destroy()
  await vi.waitFor(
    async () => {
      const reply = await fetch(`${url}/v1/events`)
      await reply.body?.cancel()
      expect(reply.status).toBe(200)
    },
    { timeout: 3000 },
  )
}, 60_000)

test('nobody keeps a publisher out by sending its last signature again, pipelined', async () => {
  const updatable = await twoKeys()
  const { url, port, statuses } = await served({ updatable, publisherKeys })
  const first = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'FIRST' }])
  expect(await publish(url, first)).toBe(200)
  // The other server's operator was sent the same header: it need not have the key.
  const again = `POST /v1/epochs HTTP/1.1\r\nHost: x\r\n${BATCH_SIGNATURE_HEADER}: ${signatureOf(first)}\r\nContent-Length: 1\r\n\r\nx`
  const before = statuses.length
  const socket = await deaf(port, Buffer.from(STREAM + again.repeat(4)))
  await vi.waitFor(() => expect(statuses.length).toBe(before + 5), { timeout: 10_000 })
  socket.destroy()
  const next = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'fresh' }])
  await vi.waitFor(async () => expect(await publish(url, next)).toBe(200), { timeout: 3000 })
}, 60_000)
