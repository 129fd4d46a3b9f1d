// The proxy keeps queries, forwards everything unchanged, and if told to lie changes answers only.

import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { HEADER_BYTES } from '@keyhush/protocol'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { closeServer, listen, startProxy, type Watcher } from '../src/node/proxy.js'

const query = new Uint8Array(300).map((_, i) => 7 * i)
const answer = new Uint8Array(200).map((_, i) => i)

// Stands for a server: remembers requests, answers with `answer`.
const requests: { method: string | undefined; url: string | undefined; body: Buffer }[] = []
const server = createServer((request, response) => {
  void buffer(request).then(body => {
    requests.push({ method: request.method, url: request.url, body })
    if (request.url === '/keys/v1/events') {
      response.writeHead(200).write('first\n')
      nextLine = () => response.end('second\n')
      return
    }
    const status = request.url === '/keys/v1/missing' ? 404 : 200
    response.writeHead(status, { 'x-own': 'kept' }).end(answer)
  })
})
let nextLine = () => {}
let proxy: Watcher
let target: string

beforeAll(async () => {
  target = await listen(server, 0)
  proxy = await startProxy(target)
})
beforeEach(() => {
  proxy.lies = false
  requests.length = 0
})
afterAll(async () => {
  await proxy.close()
  await closeServer(server)
})

const post = async (path: string, body: Uint8Array) => {
  const response = await fetch(`${proxy.url}${path}`, { method: 'POST', body: new Uint8Array(body) })
  return { status: response.status, headers: response.headers, bytes: new Uint8Array(await response.arrayBuffer()) }
}

test('a query is forwarded as it came, its answer too, and it is kept', async () => {
  const before = proxy.seen.length
  const { headers, bytes } = await post('/keys/v1/instant', query)
  expect(bytes).toEqual(answer)
  expect(headers.get('x-own')).toBe('kept')
  expect(requests).toHaveLength(1)
  expect(requests[0]?.url).toBe('/keys/v1/instant')
  expect(new Uint8Array(requests[0]!.body)).toEqual(query)
  expect(proxy.seen).toHaveLength(before + 1)
  expect(proxy.seen.at(-1)).toEqual({ database: 'keys', body: Buffer.from(query) })
})

test('a lie flips one bit after the header, at another place each time', async () => {
  proxy.lies = true
  const places = new Set<number>()
  for (let i = 0; i < 20; i += 1) {
    const { bytes } = await post('/keys/v1/instant', query)
    const changed = [...bytes.keys()].filter(at => bytes[at] !== answer[at])
    expect(changed).toHaveLength(1)
    expect((changed[0]! - HEADER_BYTES) % 7).toBe(6) // never of a bit that says nothing where one server answers
    places.add(changed[0]!)
  }
  expect(places.size).toBeGreaterThan(1)
})

test('only answers are changed, and only queries are kept', async () => {
  proxy.lies = true
  const before = proxy.seen.length
  const response = await fetch(`${proxy.url}/keys/v1/manifest?epoch=1`)
  expect(new Uint8Array(await response.arrayBuffer())).toEqual(answer)
  expect(requests[0]?.url).toBe('/keys/v1/manifest?epoch=1')
  expect((await fetch(`${proxy.url}/keys/v1/missing`)).status).toBe(404)
  expect(proxy.seen.length).toBe(before)
})

test('a stream is forwarded line by line, and ends with its source', async () => {
  const response = await fetch(`${proxy.url}/keys/v1/events`)
  const lines = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  expect((await lines.read()).value).toBe('first\n') // before there is another
  nextLine()
  expect((await lines.read()).value).toBe('second\n')
  expect((await lines.read()).done).toBe(true)
})

test('an unreachable server is an error, not a crash', async () => {
  const gone = createServer()
  const url = await listen(gone, 0)
  await closeServer(gone)
  const lonely = await startProxy(url, path => (path.startsWith('/other/') ? new URL(path, target) : undefined))
  expect((await fetch(`${lonely.url}/keys/v1/manifest`)).status).toBe(502)
  expect((await fetch(`${lonely.url}/other/v1/manifest`)).status).toBe(200) // of another server
  await lonely.close()
})
