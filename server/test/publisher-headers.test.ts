// A batch's signature is in a header, and both operators are sent it. An operator that sends such headers to the other server,
// without the bodies, could take all places for the next batch. The publisher must find a place all the same.

import type { Socket } from 'node:net'
import { BATCH_SIGNATURE_HEADER } from '@keyhush/protocol'
import { expect, test, vi } from 'vitest'
import type { UpdatableDatabase } from '../dist/index.js'
import { listening } from './helpers.js'
import { deaf, publish, publisherKeys, served, signatureOf, twoKeys } from './sockets.js'
import { batchOn } from './updatable-helpers.js'

const headOf = (batch: Uint8Array, length: number, of = '') =>
  `POST ${of}/v1/epochs HTTP/1.1\r\nHost: x\r\n${BATCH_SIGNATURE_HEADER}: ${signatureOf(batch)}\r\nContent-Length: ${length}\r\n\r\n`

/** A server that takes batches, and how one is made. */
async function rig() {
  const updatable = await twoKeys()
  const edit = (value: string) => batchOn(updatable, [{ op: 'edit', key: 'one', value }])
  return { updatable, edit, ...(await served({ updatable, publisherKeys })) }
}

test('a signature that is sent on before its batch keeps no publisher out', async () => {
  const { url, port, edit } = await rig()
  const next = edit('fresh')
  const head = headOf(next, next.length)
  for (let i = 0; i < 4; i++) await deaf(port, head)
  await new Promise(resolve => setTimeout(resolve, 300))
  expect(await publish(url, next)).toBe(200)
})

test('a signature that is sent on while its batch is on its way, however often, keeps no publisher out', async () => {
  const { updatable, app, port, statuses, edit } = await rig()
  const next = edit('fresh')
  const head = headOf(next, next.length)
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

test('batches on their way are bounded once, however many databases there are', async () => {
  const [one, two] = [await twoKeys(), await twoKeys()]
  const datasets = [
    { name: 'one', updatable: one, publisherKeys },
    { name: 'two', updatable: two, publisherKeys },
  ]
  const { port } = await listening({ datasets })
  const next = (updatable: UpdatableDatabase) => batchOn(updatable, [{ op: 'edit', key: 'one', value: 'fresh' }])
  const sockets: Socket[] = []
  for (const [path, updatable] of [
    ['/one', one],
    ['/two', two],
  ] as const) // prettier-ignore
    for (let i = 0; i < 3; i++) sockets.push((await deaf(port, headOf(next(updatable), 1000, path))).resume())
  await vi.waitFor(() => expect(sockets.filter(({ closed }) => closed).length).toBe(2))
})

test('headers of batches that were published before, without bodies, keep no publisher out', async () => {
  const { url, port, edit } = await rig()
  const first = edit('FIRST')
  expect(await publish(url, first)).toBe(200)
  // The other server's operator was sent the same header: it need not have the key.
  for (let i = 0; i < 4; i++) await deaf(port, headOf(first, 60_000_000))
  await vi.waitFor(async () => expect((await fetch(`${url}/v1/info`)).status).toBe(200)) // they have arrived
  const next = edit('fresh')
  await vi.waitFor(async () => expect(await publish(url, next)).toBe(200))
})
