// What a publisher sends to one server, the other server's operator has too.

import { BATCH_SIGNATURE_HEADER } from '@keyhush/protocol'
import { expect, test, vi } from 'vitest'
import { deaf, publish, publisherKeys, served, signatureOf, twoKeys } from './sockets.js'
import { batchOn } from './updatable-helpers.js'

test('nobody keeps a publisher out by sending headers of batches that were published before, and no bodies', async () => {
  const updatable = await twoKeys()
  const { url, port } = await served({ updatable, publisherKeys })
  const first = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'FIRST' }])
  expect(await publish(url, first)).toBe(200)
  // The other server's operator was sent the same header: it need not have the key.
  const again = `POST /v1/epochs HTTP/1.1\r\nHost: x\r\n${BATCH_SIGNATURE_HEADER}: ${signatureOf(first)}\r\nContent-Length: 60000000\r\n\r\n`
  for (let i = 0; i < 4; i++) await deaf(port, Buffer.from(again))
  await vi.waitFor(async () => expect((await fetch(`${url}/v1/info`)).status).toBe(200)) // they have arrived
  const next = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'fresh' }])
  await vi.waitFor(async () => expect(await publish(url, next)).toBe(200))
})
