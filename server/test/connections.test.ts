// A server that has as many connections as it may: it says so, and can still open what it needs.

import { createHook } from 'node:async_hooks'
import dns from 'node:dns'
import { once } from 'node:events'
import { createServer, type RequestListener, request } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { setImmediate as nextTask } from 'node:timers/promises'
import { promisify } from 'node:util'
import { contentHash, HEADER_BYTES, type Manifest, partitionBytes, toHex } from '@keyhush/protocol'
import { expect, onTestFinished, test, vi } from 'vitest'
import { NEEDS_LINUX, NEEDS_POSIX } from '../../tests/support/needs.js'
import { slice } from '../dist/base/pace.js'
import { SLICE_BYTES } from '../dist/database/epochs.js'
import { Connections, mostConnections } from '../dist/http/limits/connections.js'
import { Turns } from '../dist/http/limits/turns.js'
import type { KeyhushOptions } from '../dist/index.js'
import {
  builtDataset,
  builtDirectory,
  logged,
  pseudoRandom,
  queryAt,
  running,
  small,
  temporaryDirectory,
} from './helpers.js'
import { deaf, served, twoKeys } from './sockets.js'
import { command, serving } from './spawned.js'

const limitsOf = (soft: string) =>
  `Limit                     Soft Limit           Hard Limit           Units\nMax processes             7                    7                    processes\nMax open files            ${soft.padEnd(21)}1048576              files\n`

test('connections: the open files that the system allows, less a reserve; and what half of the heap holds', () => {
  const heap = 8 * 1024 ** 3
  expect(mostConnections(limitsOf('65536'), heap)).toBe(65_536 - 256)
  expect(mostConnections(limitsOf('300'), heap)).toBe(150)
  expect(mostConnections(limitsOf('2'), heap)).toBe(1)
  for (const none of [limitsOf('unlimited'), '']) expect(mostConnections(none, heap)).toBe(131_072)
  expect(mostConnections(limitsOf('65536'), 620 * 1024 ** 2)).toBe(9920)
})

/** One that the other side has taken, or hung up on. */
const connected = async (port: number) => (await deaf(port)).resume()

const closed = (socket: Socket) => socket.closed || once(socket, 'close')

test('connections beyond the bound are counted, and told once a minute', async () => {
  let time = 0
  const server = createServer()
  const connections = Connections.of(server, { most: 2, now: () => time })
  const told: number[] = []
  connections.tell = refused => told.push(refused)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const asking = async () => {
    const [socket] = await Promise.all([connected(port), once(server, 'connection')])
    await Promise.all([socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), once(server, 'request')])
    return socket
  }
  const gone = await asking()
  await asking()
  const refuse = async () => closed(await connected(port))
  await refuse()
  time = 59_999
  await refuse()
  expect([connections.refused, told]).toEqual([2, [1]])
  time = 60_000
  await refuse()
  expect([connections.refused, told]).toEqual([3, [1, 3]])
  gone.destroy()
  await vi.waitFor(async () => expect(await promisify(server.getConnections.bind(server))()).toBe(1))
  const taken = once(server, 'connection')
  await connected(port)
  await taken
  expect(connections.refused).toBe(3)
})

/** A server for `most` connections that never replies, and connections to it from any network. */
function crowded(most: number, begins: RequestListener = () => {}) {
  const server = createServer(begins)
  const connections = Connections.of(server, { most })
  const open = (remoteAddress: string) => {
    const socket = Object.assign(new Duplex({ read() {} }), { remoteAddress, encrypted: false }) as unknown as Socket
    server.emit('connection', socket)
    return socket
  }
  const ask = async (from: string) => {
    const socket = open(from)
    socket.push('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(server, 'request')
    return socket
  }
  return { connections, open, ask }
}

const openOf = (sockets: readonly Socket[]) => sockets.filter(({ destroyed }) => !destroyed).length

test('a network that holds all connections gives one to each that comes from others, its idle ones first', async () => {
  const { connections, open, ask } = crowded(10)
  const [old, busy] = [open('198.51.100.1'), await ask('198.51.100.2')]
  const idle = Array.from({ length: 8 }, (_, i) => open(`198.51.100.${i}`))
  const others = [open('192.0.2.1')]
  expect([old.destroyed, openOf(idle)]).toEqual([true, 8])
  for (let i = 0; i < 3; i++) others.push(await ask('203.0.113.1'))
  expect([openOf(idle), busy.destroyed, openOf(others), connections.refused]).toEqual([5, false, 4, 4])
  const own = open('198.51.100.9')
  expect([own.destroyed, openOf(idle), openOf(others)]).toEqual([false, 4, 4])
})

test('networks that hold one idle connection each give one to a newcomer', () => {
  const { open } = crowded(10)
  const idle = Array.from({ length: 10 }, (_, i) => open(`192.0.${i}.1`))
  expect([open('198.51.100.1').destroyed, openOf(idle), idle[0]!.destroyed]).toEqual([false, 9, true])
})

test('requests under way give way to a network with fewer connections, the longest of the network with most first', async () => {
  const { open, ask } = crowded(10)
  const asking = async (from: string, count: number) => {
    const sockets: Socket[] = []
    while (sockets.length < count) sockets.push(await ask(from))
    return sockets
  }
  // Two networks have half of all each: a third one gets in, up to as many as they have left.
  const halves = [await asking('198.51.100.1', 5), await asking('203.0.113.1', 5)]
  expect(open('198.51.100.1').destroyed).toBe(true)
  const third = await asking('192.0.2.1', 3)
  expect([...halves, third].map(openOf)).toEqual([3, 4, 3])
  expect(halves.map(([first]) => first!.destroyed)).toEqual([true, true])
  const others = Array.from({ length: 8 }, (_, i) => open(`192.1.${i}.1`))
  expect([...halves, third, others].map(openOf)).toEqual([1, 1, 1, 7])
})

test('however many networks have connections, there is soon a place for newcomers', () => {
  const [networks, newcomers] = [5000, 1000]
  const { connections, open } = crowded(2 * networks)
  const begun = performance.now()
  for (let i = 0; i < 2 * networks; i++) open(`10.${i % 250}.${Math.floor(i / 250) % 20}.1`)
  const filled = performance.now()
  for (let i = 0; i < newcomers; i++) open(`172.${i % 250}.${Math.floor(i / 250)}.1`)
  expect(performance.now() - filled).toBeLessThan(filled - begun)
  expect(connections.refused).toBe(newcomers)
})

test('an iteration of the event loop begins few requests, and first those of a network with few', async () => {
  const usual = slice.milliseconds // for ever, where a simulated world has run in this process
  slice.milliseconds = 5
  onTestFinished(() => {
    slice.milliseconds = usual
  })
  const begun: string[] = []
  const server = createServer(({ socket }) => {
    begun.push(socket.remoteAddress!)
    const until = performance.now() + slice.milliseconds
    while (performance.now() < until);
  })
  Connections.of(server)
  const addresses = [...Array<string>(50).fill('198.51.100.1'), '192.0.2.1']
  for (const remoteAddress of addresses) {
    const socket = Object.assign(new Duplex({ read() {} }), { remoteAddress, encrypted: false })
    server.emit('connection', socket)
    socket.push('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n')
  }
  let turns = 0
  for (; begun.length < addresses.length; turns++) await new Promise(resolve => setImmediate(resolve))
  expect(begun.indexOf('192.0.2.1')).toBeLessThan(5)
  expect(turns).toBeGreaterThan(addresses.length / 2)
})

const FILES = 256

test('a process with few files to open says whom it refuses', NEEDS_LINUX, async () => {
  const dataset = await builtDirectory('a.bin', pseudoRandom(4096), { recordBytes: 32 })
  const serve = ['serve', '--dataset', dataset, '--port', '0', '--metrics', '0', '--drain-seconds', '0']
  const limited = ['-c', `ulimit -n ${FILES} && exec "$@"`, 'sh', process.execPath, command, ...serve]
  const { printed, url } = await serving('sh', limited)
  const figures = await vi.waitFor(() => /figures at (\S+)\n/.exec(printed.stderr)![1]!)
  // The port of figures takes few of the files.
  const watching: Socket[] = []
  for (let i = 0; i < 80; i++) watching.push(await connected(Number(new URL(figures).port)))
  await vi.waitFor(() => expect(watching.filter(({ closed }) => closed).length).toBe(80 - 64))
  for (const socket of watching) socket.destroy()
  const sockets: Socket[] = []
  for (let i = 0; i < 2 * FILES; i++) sockets.push(await connected(Number(new URL(url).port)))
  const most = FILES / 2
  const refused = sockets.length - most
  await vi.waitFor(() => expect(sockets.filter(({ closed }) => closed).length).toBe(refused))
  expect(sockets.slice(refused).some(({ closed }) => closed)).toBe(false) // the oldest gave way, for all are of one network
  const text = await vi.waitFor(async () => (await fetch(figures)).text())
  expect(text).toMatch(new RegExp(`^keyhush_connections_refused_total ${refused}$`, 'm'))
  const lines = printed.stderr.split('\n').filter(line => line.includes('connections are taken'))
  expect(lines.map(line => JSON.parse(line))).toMatchObject([{ level: 40, refused: 1, most }])
  // Whoever leaves makes room.
  for (const socket of sockets) socket.destroy()
  await vi.waitFor(async () => expect((await fetch(`${url}/v1/manifest`)).status).toBe(200))
})

test('a name with several addresses is listened for at one, where all bounds are', async () => {
  const lookup = vi.spyOn(dns, 'lookup').mockImplementation(((...of: unknown[]) => {
    const [first, second] = [1, 2].map(last => ({ address: `127.0.0.${last}`, family: 4 }))
    const found = of.at(-1) as (...found: unknown[]) => void
    const isAll = (of[1] as { all?: boolean }).all
    const one = of[0] === 'localhost' ? first!.address : of[0]
    process.nextTick(() => (isAll ? found(null, [first, second]) : found(null, one, 4)))
  }) as typeof dns.lookup)
  onTestFinished(() => lookup.mockRestore())
  const app = await running({ datasets: [{ dataset: await small() }] })
  await app.listen({ host: 'localhost', port: 0 })
  expect(app.addresses()).toHaveLength(1)
})

// The other end has reset the connection by the time that the request is handled, or the server listens at a path.
test('requests on a connection without an address are answered, and log no error', NEEDS_POSIX, async () => {
  const dataset = await small()
  const { lines, log } = logged('warn')
  const app = await running({ datasets: [{ dataset }], log, rateLimit: 100 })
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

/** Nothing begins at once, and one request of a kind in each iteration of the loop. */
function withoutSlices() {
  const usual = slice.milliseconds
  slice.milliseconds = 0
  onTestFinished(() => void Object.assign(slice, { milliseconds: usual }))
  return usual
}

test('one public read begins or goes on at a time: behind a flood of them from its own network, a fence begins at once', async () => {
  const begun: string[] = []
  const { open, connections } = crowded(1000, ({ method }) => void begun.push(method!))
  for (let i = 0; i < 100; i++) void connections.turn(open('192.0.2.1')).then(() => begun.push('slice'))
  for (let i = 0; i < 100; i++) open('192.0.2.1').push('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  open('192.0.2.1').push('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n')
  while (!begun.includes('POST')) await nextTask()
  expect(begun.indexOf('POST')).toBe(1)
})

test('what waits for its turn on a connection that goes waits no longer, and takes none', async () => {
  withoutSlices()
  const begun: string[] = []
  const { open, connections } = crowded(1000, ({ socket }) => void begun.push(socket.remoteAddress!))
  const [stays, goes] = ['192.0.2.1', '198.51.100.1']
  const turns = [open(stays), ...Array.from({ length: 50 }, () => open(goes)), open(stays)].map(socket => {
    socket.push('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    return { socket, turn: connections.turn(socket) }
  })
  const gone = turns.slice(1, -1)
  for (const { socket } of gone) socket.destroy()
  await Promise.all(gone.map(({ turn }) => turn))
  expect(begun.length).toBeLessThan(2)
  await Promise.all(turns.map(({ turn }) => turn))
  while (begun.length < 2) await nextTask()
  expect(begun).toEqual([stays, stays])
  await expect(connections.turn(gone[0]!.socket)).resolves.toBeUndefined()
})

test('each slice of a download waits for its turn', async () => {
  const large = await builtDataset('a.bin', pseudoRandom(4 * SLICE_BYTES), { recordBytes: 1024, partitions: 1 })
  const slicesOf = async (options: KeyhushOptions, manifest: Manifest) => {
    const { app, url } = await served(options)
    const turn = vi.spyOn(Connections.of(app.server), 'turn')
    const reply = await fetch(`${url}/v1/blobs/${toHex(contentHash(manifest, 0))}`)
    const { byteLength } = await reply.arrayBuffer()
    expect(byteLength).toBe(partitionBytes(manifest))
    return turn.mock.calls.length
  }
  expect(await slicesOf({ dataset: large }, large.manifest)).toBe(4)
  const updatable = await twoKeys()
  expect(await slicesOf({ updatable }, updatable.newest.manifest)).toBe(1)
})

test('an iteration of the loop has no more callbacks because more requests wait', async () => {
  withoutSlices()
  let callbacks = 0
  const count = (_id: number, type: string) => {
    if (type === 'Immediate') callbacks += 1
  }
  const hook = createHook({ init: count }).enable()
  onTestFinished(() => void hook.disable())
  const turns = new Turns(32)
  const waiting = 1000
  let begun = 0
  for (let i = 0; i < waiting; i++) turns.take('', () => void begun++)
  while (begun < waiting) await nextTask()
  expect(callbacks).toBeLessThan(50 * waiting)
})

test('what a request begins goes on before the next begins, and networks take turns', async () => {
  const usual = withoutSlices()
  const turns = new Turns(32)
  const seen: string[] = []
  const ended: Promise<void>[] = []
  const begin = (network: string, n: number) =>
    ended.push(
      new Promise(resolve =>
        turns.take(network, () => {
          seen.push(`${network}${n} begins`)
          void Promise.resolve().then(() => {
            seen.push(`${network}${n} goes on`)
            resolve()
          })
        }),
      ),
    )
  for (const [network, n] of [
    ['a', 1],
    ['a', 2],
    ['a', 3],
    ['b', 1],
  ] as const)
    begin(network, n)
  slice.milliseconds = usual // a slice has time for all
  await Promise.all(ended)
  const order = ['a1', 'b1', 'a2', 'a3']
  expect(seen).toEqual(order.flatMap(each => [`${each} begins`, `${each} goes on`]))
})
