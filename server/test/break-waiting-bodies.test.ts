// Requests that are pipelined behind a reply nobody reads wait, and so do their bodies: for what is not handled yet no room is
// reserved. Sixty connections of one address had a server hold 250 MB for as long as they liked, on newer Node four times that.

import type { Socket } from 'node:net'
import { toHex } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../dist/index.js'
import { builtDataset, pseudoRandom } from './helpers.js'
import { deaf } from './sockets.js'

const BODY = 15_000 // less than what a request's stream takes before it stops the connection

test('bodies of requests that wait are not read', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(16 * 1024 * 1024), { recordBytes: 4096, partitions: 1 })
  const app = await createServer({ datasets: [{ dataset }] })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => {
    app.server.closeAllConnections()
    return app.close()
  })
  const connections: Socket[] = []
  app.server.on('connection', socket => connections.push(socket))
  const hash = toHex(dataset.manifest.contentHashes.subarray(0, 32))
  const whole = `GET /v1/blobs/${hash} HTTP/1.1\r\nHost: x\r\n\r\n`
  const post = `POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: ${BODY}\r\n\r\n${'x'.repeat(BODY)}`
  await deaf(Number(new URL(url).port), whole + post.repeat(250))
  const read = () => connections.reduce((sum, { bytesRead }) => sum + bytesRead, 0)
  for (let last = -1; last !== read(); ) {
    last = read()
    await new Promise(resolve => setTimeout(resolve, 500))
  }
  expect(read()).toBeGreaterThan(BODY)
  expect(read()).toBeLessThan(20 * BODY)
}, 60_000)
