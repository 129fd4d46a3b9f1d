// Requests that are pipelined behind a reply which nobody reads: each would be answered at once, and its reply stand in memory
// until its turn comes. Counting bytes is not enough: a small reply has its request and streams beside it, some kilobytes
// for 38 bytes sent; 60 such connections from one address, 9 MB in all, took 700 MB of a `serve` that counted no requests.

import { toHex } from '@keyhush/protocol'
import { fastify } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { keyhushPlugin } from '../dist/index.js'
import { builtDataset, pseudoRandom } from './helpers.js'
import { deaf } from './sockets.js'

test('few replies stand unread on one connection, however small they are', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(16 * 1024 * 1024), { recordBytes: 4096, partitions: 1 })
  const app = fastify()
  let standing = 0
  let most = 0
  app.addHook('onRequest', async () => {
    most = Math.max(most, ++standing)
  })
  app.addHook('onResponse', async () => void standing--)
  await app.register(keyhushPlugin, { dataset })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => {
    app.server.closeAllConnections()
    return app.close()
  })
  const hash = toHex(dataset.manifest.contentHashes.subarray(0, 32))
  const whole = `GET /v1/blobs/${hash} HTTP/1.1\r\nHost: x\r\n\r\n`
  await deaf(Number(new URL(url).port), whole + 'GET /v1/info HTTP/1.1\r\nHost:x\r\n\r\n'.repeat(4000))
  for (let last = -1; last !== most; ) {
    last = most
    await new Promise(resolve => setTimeout(resolve, 500))
  }
  console.log({ most, standing })
  expect(most).toBeLessThan(300)
}, 60_000)
