// Replies that waited behind another one of their connection had no socket, and so never heard that it had closed. Now nothing is
// begun before the reply ahead of it has left.

import { BATCH_SIGNATURE_HEADER } from '@keyhush/protocol'
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
    await vi.waitFor(() => expect(unsent.bytes).toBeGreaterThan(MIB), { timeout: 10_000 })
    expect(statuses.length).toBeLessThan(before + 10) // the others wait
    socket.destroy()
  }
  await vi.waitFor(() => expect(unsent.bytes).toBe(0), { timeout: 5000 })
  const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: new Uint8Array(query) })
  expect(reply.status).toBe(200)
}, 60_000)

const STREAM = 'GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n'

test('of event streams that are pipelined one is begun: none ends before its connection', async () => {
  const { url, port, statuses } = await served({ updatable: await twoKeys() })
  const socket = await deaf(port, Buffer.from(STREAM.repeat(256)))
  await vi.waitFor(() => expect(statuses).toEqual([200]), { timeout: 10_000 })
  const beside = await fetch(`${url}/v1/events`)
  await beside.body?.cancel()
  expect([beside.status, statuses]).toEqual([200, [200, 200]])
  socket.destroy()
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
  await vi.waitFor(() => expect(statuses.length).toBe(before + 1), { timeout: 10_000 })
  const next = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'fresh' }])
  await vi.waitFor(async () => expect(await publish(url, next)).toBe(200), { timeout: 3000 })
  socket.destroy()
}, 60_000)
