// Clients that ask and do not read, over real sockets: what stands in memory for them is bounded, and others are served.

import { EventEmitter, once } from 'node:events'
import type { Socket } from 'node:net'
import { answerBytes, parseErrorReply, toHex } from '@keyhush/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Connections } from '../dist/http/limits/connections.js'
import { Unsent } from '../dist/http/limits/unsent.js'
import { MemoryStorage } from '../dist/index.js'
import { builtDataset, builtDirectory, createIn, listening, pseudoRandom, queryAt } from './helpers.js'
import { deaf, exchanged, served, twoKeys } from './sockets.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

const MIB = 1024 * 1024

const posted = (body: Uint8Array, from = '198.51.100.1') =>
  Buffer.concat([
    Buffer.from(
      `POST /v1/answer HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${from}\r\nContent-Length: ${body.length}\r\n\r\n`,
    ),
    body,
  ])

/** 32 records of 64 KiB: answers of 8 MiB to a query of 300 bytes. `room`: for how many that are not read. */
async function heavy(room?: number, patienceMilliseconds?: number) {
  const dataset = await builtDataset('a.bin', pseudoRandom(32 * 65_536), { recordBytes: 65_536, proofs: 'tags' })
  const { manifest } = dataset
  const count = manifest.maxQueries
  const bytes = answerBytes(manifest, count, 'tags')
  expect(bytes).toBeGreaterThan(7 * MIB)
  const unsent = new Unsent(room === undefined ? {} : { total: room * bytes, patienceMilliseconds })
  return { query: queryAt(manifest, 0, count, 'tags'), bytes, unsent, ...(await served({ dataset, unsent })) }
}

test('unread answers stay within their bound; more are refused until there is room', async () => {
  const { query, bytes, unsent, url, port, statuses } = await heavy(8, 60_000)
  const sockets: Socket[] = []
  for (let i = 0; i < 30; i++) sockets.push(await deaf(port, posted(query)))
  await vi.waitFor(() => expect(statuses.length).toBeGreaterThanOrEqual(30))
  // Half of all, for they are one network.
  expect(unsent.bytes).toBeLessThanOrEqual(4 * bytes)
  expect(statuses.filter(status => status === 200).length).toBe(4)
  const ask = (from: string) =>
    fetch(`${url}/v1/answer`, { method: 'POST', body: query, headers: { 'x-forwarded-for': from } })
  const refused = await ask('198.51.100.200')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
  expect(parseErrorReply(await refused.text()).code).toBe('rate_limited')
  const other = await ask('203.0.113.1')
  expect([other.status, (await other.arrayBuffer()).byteLength]).toEqual([200, bytes])
  for (const socket of sockets) socket.destroy()
  await vi.waitFor(() => expect(unsent.bytes).toBe(0))
  expect((await ask('198.51.100.200')).status).toBe(200)
})

test('connections that stand still make room for one that reads', async () => {
  const { query, bytes, unsent, url, port, statuses } = await heavy(4, 0)
  for (let i = 0; i < 4; i++) await deaf(port, posted(query, `192.0.${i}.1`))
  await vi.waitFor(() => expect(statuses).toEqual([200, 200, 200, 200]))
  const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: query })
  expect([reply.status, (await reply.arrayBuffer()).byteLength]).toEqual([200, bytes])
  await vi.waitFor(() => expect(unsent.bytes).toBeLessThanOrEqual(3 * bytes))
})

test('networks that read nothing make room, and a download that is older, slower and light does not', async () => {
  const { query, bytes, unsent, url, port, statuses } = await heavy(5, 0)
  const dataset = await builtDataset('a.bin', pseudoRandom(32 * MIB), { recordBytes: 4096, partitions: 1 })
  const slow = await served({ dataset, unsent })
  const path = `/v1/blobs/${toHex(dataset.manifest.contentHashes.subarray(0, 32))}`
  const download = await deaf(slow.port, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await vi.waitFor(() => expect(unsent.bytes).toBe(2 * 65_536))
  for (let i = 0; i < 4; i++) await deaf(port, posted(query, `192.0.${i}.1`))
  await vi.waitFor(() => expect(statuses).toEqual([200, 200, 200, 200]))
  const headers = { 'x-forwarded-for': '203.0.113.1' }
  const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: query, headers })
  expect([reply.status, (await reply.arrayBuffer()).byteLength]).toEqual([200, bytes])
  await vi.waitFor(() => expect(unsent.bytes).toBeLessThanOrEqual(3 * bytes + 2 * 65_536))
  expect(download.closed).toBe(false)
  let received = 0
  download.on('data', (piece: Buffer) => {
    received += piece.length
  })
  download.resume()
  await vi.waitFor(() => expect(received).toBeGreaterThan(32 * MIB))
})

test('of networks with more than their share, what moves stays; what stands still goes', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const unsent = new Unsent({ total: 1000, patienceMilliseconds: 5000 })
  const connection = (ip: string, bytes: number) => {
    const socket = { bytesRead: 0, bytesWritten: bytes, _handle: { writeQueueSize: bytes }, destroyed: false }
    const raw = { socket: Object.assign(socket, { destroy: () => (socket.destroyed = true) }) }
    const reply = { raw: new EventEmitter() } as unknown as FastifyReply
    unsent.reserve({ ip, raw } as unknown as FastifyRequest, reply, bytes)
    return socket
  }
  const moves = [1, 2].map(i => connection(`198.51.100.${i}`, 240))
  const stands = [1, 2].map(i => connection(`203.0.113.${i}`, 240))
  for (let second = 0; second < 10; second += 5) {
    vi.advanceTimersByTime(5000)
    for (const socket of moves) socket._handle.writeQueueSize -= 10 // one write, of which the system has taken a little
    unsent.sweep()
  }
  connection('192.0.2.1', 250)
  expect([...moves, ...stands].map(({ destroyed }) => destroyed)).toEqual([false, false, true, false])
})

/** Says how many bytes were read of it. */
class CountingStorage extends MemoryStorage {
  read = 0

  override async get(key: string): Promise<Uint8Array | undefined> {
    const bytes = await super.get(key)
    if (key.includes('list/')) this.read += bytes?.length ?? 0
    return bytes
  }
}

test('a long update list is read as it is taken, and not at all for HEAD', async () => {
  const dir = await builtDirectory('a.bin', pseudoRandom(2000 * 4096), { recordBytes: 4096 })
  const storage = await createIn(new CountingStorage(), dir)
  const updatable = await opened(storage)
  const value = Buffer.alloc(4096, 'x').toString()
  const edits = Array.from({ length: 2000 }, (_, index) => ({ op: 'edit', index, value }))
  await updatable.publish(batchOn(updatable, edits))
  const { updateListHash, updateListBytes: length } = updatable.newest.manifest
  const unsent = new Unsent()
  const { app, port, statuses } = await served({ updatable, unsent })
  const path = `/v1/blobs/${toHex(updateListHash)}`
  storage.read = 0
  for (let i = 0; i < 100; i++) {
    const head = await app.inject({ method: 'HEAD', url: path })
    expect([head.statusCode, head.headers['content-length']]).toEqual([200, String(length)])
  }
  expect(storage.read).toBe(0)
  statuses.length = 0
  const sockets: Socket[] = []
  app.server.on('connection', socket => sockets.push(socket))
  for (let i = 0; i < 20; i++) await deaf(port, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await vi.waitFor(() => expect(statuses.length).toBe(20))
  expect(unsent.bytes).toBeLessThanOrEqual(20 * 2 * 65_536)
  // In proportion to what the system's own buffers have taken, which differs: a slice is made of two reads. All of it, for
  // each of 20 that take a quarter, would be four times as much.
  const taken = () => sockets.reduce((sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength, 0)
  expect(sockets.length).toBe(20)
  await vi.waitFor(() => expect(storage.read).toBeLessThanOrEqual(2.5 * taken())) // slices that were read take turns
  for (const { writableLength } of sockets) expect(writableLength).toBeLessThanOrEqual(2 * 65_536)
  const part = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { range: 'bytes=60000-200000' } })
  const whole = new Uint8Array(await (await fetch(`http://127.0.0.1:${port}${path}`)).arrayBuffer())
  expect(whole.length).toBe(length)
  expect(new Uint8Array(await part.arrayBuffer())).toEqual(whole.subarray(60_000, 200_001))
})

test('one network has its share of event streams', async () => {
  const { port, statuses } = await served({ updatable: await twoKeys() })
  const request = (from: string) => `GET /v1/events HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${from}\r\n\r\n`
  const sockets: Socket[] = []
  for (let i = 0; i < 260; i++) sockets.push(await deaf(port, request(`198.51.100.${i % 250}`)))
  await vi.waitFor(() => expect(statuses.length).toBe(260))
  expect(statuses.filter(status => status === 200).length).toBe(256)
  await deaf(port, request('203.0.113.1'))
  await vi.waitFor(() => expect(statuses[260]).toBe(200))
  for (const socket of sockets) socket.destroy()
  await vi.waitFor(async () => {
    const before = statuses.length
    await deaf(port, request('198.51.100.7'))
    await vi.waitFor(() => expect(statuses.length).toBe(before + 1))
    expect(statuses.at(-1)).toBe(200)
  })
})

test('one network has its share of event streams once, however many databases there are', async () => {
  const [one, two] = [await twoKeys(), await twoKeys()]
  const datasets = [
    { name: 'one', updatable: one },
    { name: 'two', updatable: two },
  ]
  const { port } = await listening({ datasets })
  const statuses: number[] = []
  for (let i = 0; i < 258; i++) {
    const request = `GET /${i < 128 ? 'one' : 'two'}/v1/events HTTP/1.1\r\nHost: x\r\n\r\n`
    statuses.push(Number((await exchanged(port, request, /\r\n\r\n/)).split(' ')[1]))
  }
  expect([statuses.indexOf(429), statuses.filter(status => status === 429).length]).toEqual([256, 2])
})

test('event streams take half of the connections at most', async () => {
  const { url } = await served({ updatable: await twoKeys() }, 6)
  const statuses: number[] = []
  for (let i = 0; i < 4; i++) {
    const stream = new AbortController()
    onTestFinished(() => stream.abort())
    statuses.push((await fetch(`${url}/v1/events`, { signal: stream.signal })).status)
  }
  expect(statuses).toEqual([200, 200, 200, 429])
  expect((await fetch(`${url}/v1/manifest`)).status).toBe(200)
})

test('bodies that have begun to come have their bound; one that does not come makes room', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(16 * 4096), { recordBytes: 4096 })
  const [query, short] = [64, 1].map(count => queryAt(dataset.manifest, 0, count)) as [Buffer<ArrayBuffer>, Buffer]
  expect([short.length <= 1024, query.length > 1024]).toEqual([true, true])
  const post = async (url: string, body: BodyInit) => {
    const headers = { 'x-forwarded-for': '203.0.113.1' }
    const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body, headers, duplex: 'half' } as RequestInit)
    return [reply.status, reply.headers.get('retry-after')]
  }
  for (const patienceMilliseconds of [60_000, 0]) {
    const bodies = new Unsent({ total: 2 * query.length, patienceMilliseconds })
    const { url, port, statuses } = await served({ dataset, bodies })
    const begun: Socket[] = []
    for (const from of ['198.51.100.1', '192.0.2.1']) {
      begun.push(await deaf(port, posted(query, from).subarray(0, -1)))
      begun.push(await deaf(port, posted(short, from).subarray(0, -1))) // which takes none
    }
    await vi.waitFor(() => expect(bodies.bytes).toBe(2 * query.length))
    if (patienceMilliseconds === 0) {
      expect(await post(url, query)).toEqual([200, null])
    } else {
      expect(await post(url, query)).toEqual([429, '1'])
      begun[0]!.write(query.subarray(-1))
      await vi.waitFor(() => expect(statuses.at(-1)).toBe(200))
      expect(bodies.bytes).toBe(query.length) // though nobody has read the answer
      expect(await post(url, query)).toEqual([200, null])
    }
    for (const socket of begun) socket.destroy()
    await vi.waitFor(() => expect(bodies.bytes).toBe(0))
  }
})

test('a body takes room as it comes, whatever length its headers promise', async () => {
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(2000), { recordBytes: 1, proofs: 'tags' }))
  const bodies = new Unsent({ total: 100_000, patienceMilliseconds: 60_000 })
  const { app, url, port } = await served({ updatable, bodies })
  const connections = Connections.of(app.server)
  const head = 'POST /v1/answer HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.1\r\nContent-Length: 8000000\r\n\r\n'
  for (let i = 0; i < 20; i++) await deaf(port, head)
  await vi.waitFor(() => expect(connections.requests).toBe(20))
  expect(bodies.bytes).toBe(0)
  const begun = await deaf(port, head, Buffer.alloc(20_000))
  await vi.waitFor(() => expect(bodies.bytes).toBeGreaterThanOrEqual(20_000))
  expect(bodies.bytes).toBeLessThanOrEqual(40_000)
  const headers = { 'x-forwarded-for': '198.51.100.2' }
  const post = async () => {
    const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: Buffer.alloc(10_000), headers })
    return [reply.status, await reply.json()]
  }
  expect(await post()).toMatchObject([400, {}]) // it was read: it is no query
  begun.write(Buffer.alloc(100_000)) // more than there is: what it had is given back at once
  await vi.waitFor(() => expect(bodies.bytes).toBe(0))
  expect(begun.closed).toBe(false)
  const [reply] = (await once(begun.resume(), 'data')) as [Buffer]
  expect(reply.toString('latin1')).toMatch(/^HTTP\/1\.1 429 /)
})

test('at the bound of a network, its own bodies that stand still make room', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(16 * 4096), { recordBytes: 4096 })
  const query = queryAt(dataset.manifest, 0, 64)
  for (const [patienceMilliseconds, status] of [
    [60_000, 429],
    [0, 200],
  ] as const) {
    // prettier-ignore
    const bodies = new Unsent({ total: 4 * query.length, patienceMilliseconds })
    const { url, port } = await served({ dataset, bodies })
    const own = [1, 2].map(last => deaf(port, posted(query, `198.51.100.${last}`).subarray(0, -1)))
    const other = await deaf(port, posted(query, '192.0.2.1').subarray(0, -1))
    await vi.waitFor(() => expect(bodies.bytes).toBe(3 * query.length))
    const headers = { 'x-forwarded-for': '198.51.100.3' }
    expect((await fetch(`${url}/v1/answer`, { method: 'POST', body: query, headers })).status).toBe(status)
    const closed = async () => (await Promise.all(own)).filter(socket => socket.resume().closed).length
    await vi.waitFor(async () => expect(await closed()).toBe(status === 200 ? 1 : 0))
    expect(other.closed).toBe(false)
  }
})

test('two networks that renew their bodies before these have stalled do not keep a third one out', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(16 * 4096), { recordBytes: 4096 })
  const query = queryAt(dataset.manifest, 0, 64)
  const bodies = new Unsent({ total: 8 * query.length })
  const { url, port, statuses } = await served({ dataset, bodies })
  const begun: Socket[] = []
  for (const from of ['198.51.100.1', '192.0.2.1']) {
    for (let n = 0; n < 5; n++) {
      const socket = await deaf(port, posted(query, from).subarray(0, -1))
      begun.push(socket.resume())
    }
  }
  await vi.waitFor(() => expect(statuses).toEqual([429, 429]))
  expect(bodies.bytes).toBe(8 * query.length)
  const post = async (from: string) =>
    (await fetch(`${url}/v1/answer`, { method: 'POST', body: query, headers: { 'x-forwarded-for': from } })).status
  expect([await post('203.0.113.1'), await post('203.0.113.1')]).toEqual([200, 200])
  expect(await post('192.0.2.200')).toBe(429) // its network has half
  expect(bodies.bytes).toBe(7 * query.length) // one has made room, and has come
  await vi.waitFor(() => expect(begun.filter(socket => socket.closed).length).toBe(2 + 1)) // with those that were refused
})

test('tens of thousands of small ones make room for a long one in less time than they took', () => {
  const [count, total] = [20_000, 256 * MIB]
  const unsent = new Unsent({ total })
  const reserve = (ip: string, bytes: number) => {
    const socket = { destroy() {} }
    const request = { ip, raw: { socket } } as unknown as FastifyRequest
    const reply = { raw: new EventEmitter(), header() {} } as unknown as FastifyReply
    unsent.reserve(request, reply, bytes)
  }
  const begun = performance.now()
  for (let i = 0; i < count; i++) reserve('198.51.100.1', Math.floor(total / 2 / count))
  for (let i = 0; i < count; i++) reserve(`203.0.${i % 200}.1`, Math.floor(total / 2 / count))
  const made = performance.now()
  reserve('192.0.2.1', 64 * MIB)
  expect(performance.now() - made).toBeLessThan(made - begun)
  expect(unsent.bytes).toBeLessThanOrEqual(total)
})

test('however many networks hold bytes, there is soon room for newcomers', () => {
  const [networks, newcomers, bytes] = [5000, 1000, 1000]
  const unsent = new Unsent({ total: 2 * networks * bytes })
  const reserve = (ip: string) => {
    const request = { ip, raw: { socket: { destroy() {} } } } as unknown as FastifyRequest
    unsent.reserve(request, { raw: new EventEmitter() } as unknown as FastifyReply, bytes)
  }
  const begun = performance.now()
  for (let i = 0; i < 2 * networks; i++) reserve(`10.${i % 250}.${Math.floor(i / 250) % 20}.1`)
  const filled = performance.now()
  for (let i = 0; i < newcomers; i++) reserve(`172.${i % 250}.${Math.floor(i / 250)}.1`)
  expect(performance.now() - filled).toBeLessThan(filled - begun)
  expect(unsent.bytes).toBe(2 * networks * bytes)
})

test('a client that reads too slowly is disconnected; a reply may take as long as a slow phone needs for it', async () => {
  const { query, bytes, unsent, port } = await heavy()
  const socket = await deaf(port, posted(query))
  await vi.waitFor(() => expect(unsent.bytes).toBe(bytes))
  const closed = once(socket, 'close')
  const since = performance.now()
  unsent.sweep(since + 29_000 + bytes / 16)
  expect(unsent.bytes).toBe(bytes)
  unsent.sweep(since + 30_000 + bytes / 16)
  expect(unsent.bytes).toBe(0)
  socket.resume()
  await closed
})

test('of a partition the slices are in memory, and all of it takes its time to be read', async () => {
  const blob = 32 * MIB
  const dataset = await builtDataset('a.bin', pseudoRandom(blob), { recordBytes: 4096, partitions: 1 })
  const unsent = new Unsent()
  const { port } = await served({ dataset, unsent })
  const hash = toHex(dataset.manifest.contentHashes.subarray(0, 32))
  const since = performance.now()
  const socket = await deaf(port, `GET /v1/blobs/${hash} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await vi.waitFor(() => expect(unsent.bytes).toBe(2 * 65_536))
  unsent.sweep(since + 30_000 + blob / 16)
  expect(unsent.bytes).toBe(2 * 65_536)
  const closed = once(socket, 'close')
  unsent.sweep(performance.now() + 30_000 + blob / 16)
  expect(unsent.bytes).toBe(0)
  socket.resume()
  await closed
})
