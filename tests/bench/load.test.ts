// Servers under load: replies are compared, refusals are not taken for answers.

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { putUnderLoad, type RecordedLookup, repliesAsBefore } from './load.js'
import { processorMs } from './stage.js'

let server: Server
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

/** Replies with what it is sent, and `more` behind it. */
async function echo(status = 200, more = ''): Promise<string> {
  server = createServer((request, response) => {
    void buffer(request).then(body => response.writeHead(status).end(Buffer.concat([body, Buffer.from(more)])))
  })
  await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Lookups of two servers, of which replies were equal to requests. */
const lookups = (url: string): RecordedLookup[] =>
  [1, 2, 3].map(i =>
    [url, 'http://elsewhere.example'].map(server => ({
      ...{ url: `${server}/v1/instant`, body: Uint8Array.of(i, 7), reply: Uint8Array.of(i, 7) },
    })),
  )

test('a server that replies as before is measured, by the requests that are its own', async () => {
  const url = await echo()
  const load = repliesAsBefore(lookups(url), url)
  expect(load.requests.map(({ url, body }) => [url, [...body!]])).toEqual(
    [1, 2, 3].map(i => [`${url}/v1/instant`, [i, 7]]),
  )
  const { answered, latencyMs, perSecond } = await putUnderLoad(load, 2, 0.05)
  expect(latencyMs.length).toBeGreaterThan(0)
  expect(answered).toBeGreaterThan(latencyMs.length)
  expect(perSecond).toBeGreaterThan(0)
})

test('another reply, or a refusal, ends the measurement', async () => {
  const wrong = await echo(200, '!')
  await expect(putUnderLoad(repliesAsBefore(lookups(wrong), wrong), 1, 0.05)).rejects.toThrow('another than')
  server.closeAllConnections()
  server.close()
  const refusing = await echo(503)
  await expect(putUnderLoad(repliesAsBefore(lookups(refusing), refusing), 1, 0.05)).rejects.toThrow('got 503')
})

test('processor time of a process never falls, and of none there is none', async () => {
  const before = await processorMs(process.pid)
  const after = await processorMs(process.pid)
  if (process.platform === 'linux') expect(before! > 0 && after! >= before!).toBe(true)
  expect(await processorMs(2 ** 30)).toBeUndefined()
})
