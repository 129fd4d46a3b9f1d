// Servers under load: replies are compared, refusals are not taken for answers.

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { putUnderLoad, type RecordedLookup, repliesAsBefore } from './load.js'
import { offer, requestOf } from './overload.js'
import { processorMs } from './stage.js'

let server: Server
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

/** Replies with what it is sent, and `more` behind it. */
async function echo(status = 200, more = ''): Promise<string> {
  server = createServer((request, response) => {
    void buffer(request).then(body => {
      const reply = Buffer.concat([body, Buffer.from(more)])
      response.writeHead(status, { 'content-length': reply.length }).end(reply)
    })
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

const asked = (url: string) =>
  [1, 2, 3].map(i => ({ request: requestOf(url, Uint8Array.of(i, 7)), answer: Buffer.of(i, 7) }))

test.each([{ clients: 3 }, { perSecond: 500 }])(
  'what is offered, %o, is counted by what has become of it',
  async how => {
    const url = await echo()
    const good = await offer(url, asked(url), { ...how, milliseconds: 100 })
    expect(good.inTimePerSecond).toBeGreaterThan(0)
    expect([good.late, good.refused]).toEqual([0, 0])
    server.closeAllConnections()
    server.close()
    const refusing = await echo(503)
    const refused = await offer(refusing, asked(refusing), { ...how, milliseconds: 100 })
    expect(refused.refused).toBeGreaterThan(0)
    expect([refused.late, refused.inTimePerSecond]).toEqual([0, 0])
  },
)

test('an offer ends where an answer is wrong, or longer than it was', async () => {
  for (const [status, more] of [
    [200, '!'],
    [400, ''],
  ] as const) {
    const url = await echo(status, more)
    await expect(offer(url, asked(url), { perSecond: 500, milliseconds: 10_000 })).rejects.toThrow('neither')
    server.closeAllConnections()
    server.close()
  }
  const url = await echo()
  const other = asked(url).map(({ request }) => ({ request, answer: Buffer.of(9, 9) }))
  await expect(offer(url, other, { clients: 1, milliseconds: 10_000 })).rejects.toThrow('neither')
})

test('processor time of a process never falls, and of none there is none', async () => {
  const before = await processorMs(process.pid)
  const after = await processorMs(process.pid)
  if (process.platform === 'linux') expect(before! > 0 && after! >= before!).toBe(true)
  expect(await processorMs(2 ** 30)).toBeUndefined()
})
