// A connection whose other end has no address: it has reset the connection by the time that the request is handled, or the server
// listens at a path. Each such request was answered 500 and had a line of its own in the log of errors, for whoever cared to reset.

import { request } from 'node:http'
import { join } from 'node:path'
import { HEADER_BYTES } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { NEEDS_POSIX } from '../../tests/support/needs.js'
import { createServer } from '../dist/index.js'
import { builtDataset, pseudoRandom, queryAt, temporaryDirectory } from './helpers.js'

test('requests without an address are answered, and log nothing', NEEDS_POSIX, async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(800), { recordBytes: 8 })
  const lines: string[] = []
  const log = { level: 'warn', stream: { write: (line: string) => void lines.push(line) } }
  const app = await createServer({ datasets: [{ dataset }], log, rateLimit: 100 })
  onTestFinished(() => app.close())
  const socketPath = join(await temporaryDirectory(), 'listening')
  await app.listen({ path: socketPath })
  const ask = (path: string, body?: Uint8Array) =>
    new Promise<[number, number]>((resolve, reject) => {
      const sent = request({ socketPath, path, method: body === undefined ? 'GET' : 'POST' }, reply => {
        let bytes = 0
        reply.on('data', (chunk: Buffer) => {
          bytes += chunk.length
        })
        reply.on('end', () => resolve([reply.statusCode!, bytes]))
      })
      sent.on('error', reject).end(body)
    })
  expect(await ask('/v1/manifest')).toEqual([200, dataset.manifestBytes.length])
  const [status, bytes] = await ask('/v1/answer', queryAt(dataset.manifest, 0, 2))
  expect([status, bytes > HEADER_BYTES]).toEqual([200, true])
  expect(lines).toEqual([])
})
