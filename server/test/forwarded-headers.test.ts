// A batch's signature is in a header, and both operators are sent it. One of them could send it on to the other at once, four
// times and without the bodies, and have all places for the next batch: the publisher itself must find one all the same.

import type { Socket } from 'node:net'
import { BATCH_SIGNATURE_HEADER } from '@keyhush/protocol'
import { expect, test, vi } from 'vitest'
import { deaf, publish, publisherKeys, served, signatureOf, twoKeys } from './sockets.js'
import { batchOn } from './updatable-helpers.js'

test('nobody keeps a publisher out by sending its signature on before it', async () => {
  const updatable = await twoKeys()
  const { url, port } = await served({ updatable, publisherKeys })
  const next = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'fresh' }])
  const head = `POST /v1/epochs HTTP/1.1\r\nHost: x\r\n${BATCH_SIGNATURE_HEADER}: ${signatureOf(next)}\r\nContent-Length: ${next.length}\r\n\r\n`
  for (let i = 0; i < 4; i++) await deaf(port, head)
  await new Promise(resolve => setTimeout(resolve, 300))
  expect(await publish(url, next)).toBe(200)
})

test('nor by sending it on while the batch is on its way, however often', async () => {
  const updatable = await twoKeys()
  const { app, port, statuses } = await served({ updatable, publisherKeys })
  const next = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'fresh' }])
  const head = `POST /v1/epochs HTTP/1.1\r\nHost: x\r\n${BATCH_SIGNATURE_HEADER}: ${signatureOf(next)}\r\nContent-Length: ${next.length}\r\n\r\n`
  const there: Socket[] = []
  app.server.on('connection', socket => there.push(socket))
  const come = (bytes: number) => vi.waitFor(() => expect(there[0]?.bytesRead).toBe(bytes))
  const publisher = await deaf(port, head)
  await come(head.length)
  publisher.write(next.subarray(0, -1))
  await come(head.length + next.length - 1)
  for (let i = 0; i < 12; i++) await deaf(port, head)
  await vi.waitFor(() => expect(there.filter(({ destroyed }) => destroyed).length).toBe(9))
  publisher.write(next.subarray(-1))
  await vi.waitFor(() => expect(statuses).toContain(200))
  expect(updatable.newest.manifest.epoch).toBe(2)
})
