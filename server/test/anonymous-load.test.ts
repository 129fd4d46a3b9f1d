// What an anonymous client can make a server do at little cost to itself.

import { get } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { latch, listening, pseudoRandom } from './helpers.js'
import { deaf, exchanged, publisherKeys, served, twoKeys } from './sockets.js'
import { opened, signatureOf, storageOf } from './updatable-helpers.js'

const MIB = 1024 * 1024

test('a signature that the server has already is not sent to listeners again', async () => {
  const updatable = await twoKeys()
  const { url } = await served({ updatable, publisherKeys })
  const body = JSON.stringify(signatureOf(updatable))
  const post = async () => (await fetch(`${url}/v1/signatures`, { method: 'POST', body })).status
  expect(await post()).toBe(200)
  let lines = 0
  const { open, opened } = latch()
  const stream = get(`${url}/v1/events`, reply => {
    reply.setEncoding('utf8')
    reply.on('data', (text: string) => {
      lines += text.split('\n').length - 1
      open()
    })
  })
  stream.on('error', () => {})
  onTestFinished(() => void stream.destroy())
  await opened
  const first = lines
  // Nobody has signed anything since; each of these writes to the disk and to every reader of events, up to 10 000 of them.
  for (let i = 0; i < 20; i++) expect(await post()).toBe(200)
  await new Promise(resolve => setTimeout(resolve, 200))
  expect(lines - first).toBe(0)
})

/** A database with tags, of records of a byte: the longest query is 64 · 65 536 offsets and a claim, 8 MiB and 120 bytes. */
async function smallRecords() {
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(2000), { recordBytes: 1, proofs: 'tags' }))
  const longest = 40 + 2 * updatable.newest.manifest.maxQueries * 65_536 + 80
  return { ...(await listening({ datasets: [{ updatable }] })), longest }
}

test('a body longer than any query of this database, in any layout to come, is too large', async () => {
  const { port, longest } = await smallRecords()
  // More than three times as long.
  const head = `POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: ${3 * longest}\r\n\r\n`
  expect(await exchanged(port, head, /\r\n\r\n\{.*\}/)).toContain('too_large')
})

test('bodies that clients have begun to send take at most 256 MiB, as much as replies that they do not read', async () => {
  const { port, longest } = await smallRecords()
  const connections = 12
  const body = 30 * MIB // with a limit of `longest`, the server hangs up
  const piece = pseudoRandom(MIB)
  const before = process.memoryUsage().arrayBuffers
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const head = `POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: ${body + 1}\r\n\r\n`
      const socket = await deaf(port, head)
      for (let sent = 0; sent < body && !socket.destroyed; sent += piece.length) {
        await new Promise<void>(resolve => void socket.write(piece, () => resolve()))
      }
    }),
  )
  await new Promise(resolve => setTimeout(resolve, 500))
  const held = (process.memoryUsage().arrayBuffers - before) / MIB
  console.log({ connections, longest, heldMiB: held })
  expect(held).toBeLessThan(256)
})
