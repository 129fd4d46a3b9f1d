// What a server does that is asked for more than it can: who waits, who is answered, who is refused, and by what.

import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { Shedding } from '../dist/http/shedding.js'
import { createServer, type ServerOptions } from '../dist/index.js'
import { builtDataset, pseudoRandom, queryAt } from './helpers.js'

const MOST = 100

/** A clock and an event loop that go when they are told to. */
function rig() {
  let time = 0
  let after: (() => void)[] = []
  const done: string[] = []
  const shedding = new Shedding({ milliseconds: MOST, now: () => time, afterTurn: call => void after.push(call) })
  return {
    shedding,
    done,
    /** A request, whose answer takes so long. */
    come(name: string, milliseconds = 1, gone = () => false) {
      const answer = () => {
        done.push(name)
        time += milliseconds
      }
      shedding.come({ answer, refuse: () => void done.push(`no ${name}`), isGone: gone })
    },
    comeFirst(name: string) {
      shedding.comeFirst({ answer: () => void done.push(name), refuse: () => {}, isGone: () => false })
    },
    pass(milliseconds: number) {
      time += milliseconds
    },
    /** Ends a turn of the loop; whether there is to be another. */
    turn() {
      const calls = after
      after = []
      for (const call of calls) call()
      return after.length > 0
    },
  }
}

test('where nobody waits a request is answered at once, and the loop is let go', () => {
  const { come, turn, done } = rig()
  for (let i = 0; i < 3; i++) {
    come(`${i}`)
    expect(done.length).toBe(i + 1)
    expect(turn()).toBe(false)
  }
})

test('what a turn has no time for waits, and is answered oldest first, one in a turn', () => {
  const { shedding, come, turn, done } = rig()
  for (const name of ['a', 'b', 'c', 'd', 'e']) come(name, 3)
  expect([done, shedding.waiting]).toEqual([['a', 'b'], 3]) // after them five milliseconds are over
  come('f')
  let turns = 0
  let before = done.length
  while (turn()) {
    expect(done.length - before).toBeLessThanOrEqual(1)
    before = done.length
    expect(++turns).toBeLessThan(20)
  }
  expect(done).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
  expect([shedding.waiting, shedding.refused]).toEqual([0, 0])
})

test('while turns bring somebody, others are read before one is answered, but not for ever', () => {
  const { shedding, come, turn, pass, done } = rig()
  for (const name of ['a', 'b', 'c']) come(name, 5)
  turn() // its time for answers is over
  let turns = 0
  while (done.length === 1) {
    shedding.connected()
    pass(1)
    turn()
    expect(++turns).toBeLessThan(10)
  }
  expect(turns).toBeGreaterThan(2)
  expect(done).toEqual(['a', 'b'])
})

test('what has waited too long is refused, told once, and what has gone is neither', () => {
  const { shedding, come, turn, pass, done } = rig()
  const told: number[] = []
  shedding.tell = refused => void told.push(refused)
  come('a', 5)
  come('b')
  come('c', 1, () => true)
  come('d')
  pass(MOST)
  come('young')
  while (turn()) {}
  expect(done).toEqual(['a', 'no b', 'no d', 'young'])
  expect([shedding.refused, told]).toEqual([2, [1]])
})

test('health goes first, but not so often that nobody else is answered', () => {
  const { shedding, come, comeFirst, turn, pass, done } = rig()
  for (const name of ['a', 'b', 'c']) come(name, 5)
  for (let i = 0; i < 100; i++) comeFirst('health')
  expect(done).toEqual(['a', ...Array.from({ length: 20 }, () => 'health')])
  expect(shedding.waiting).toBe(2 + 80)
  while (!done.includes('c')) expect(turn()).toBe(true)
  expect(done.slice(21)).toEqual(['b', 'c']) // those of health that were too many wait behind them
  pass(100)
  comeFirst('health later')
  expect(done.at(-1)).toBe('health later')
})

test('three times what it can do leaves it nearly all it can: seeing who comes takes time, waiting takes none', () => {
  const { shedding, come, turn, pass, done } = rig()
  const [cost, seen] = [4, 0.05]
  let [asked, time] = [0, 0]
  for (time = 0; time < 10_000; time += cost) {
    const before = done.filter(name => !name.startsWith('no')).length
    // In the time of one answer three requests come, each of which takes some to be read.
    for (let i = 0; i < 3; i++) {
      pass(seen)
      come(`${asked++}`, cost)
    }
    while (turn() && done.filter(name => !name.startsWith('no')).length === before) {}
  }
  const answered = done.filter(name => !name.startsWith('no')).length
  expect(answered).toBeGreaterThanOrEqual(asked / 3)
  expect(shedding.refused).toBeGreaterThan(asked / 2)
  expect(shedding.waiting).toBeLessThan((3 * MOST) / cost + 3)
})

/** A server whose event loop does not turn before so many requests have come, by a clock that has them wait for too long. */
async function hurried(options: Omit<ServerOptions, 'shedding'>) {
  let [time, isOpen] = [0, false]
  const held: (() => void)[] = []
  const now = () => {
    time += MOST
    return time
  }
  const afterTurn = (call: () => void) => void (isOpen ? setImmediate(call) : held.push(call))
  const app = await createServer({ ...options, shedding: { milliseconds: MOST, now, afterTurn } })
  onTestFinished(() => app.close())
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  /** Each over a connection of its own, in this order. */
  const replies = async (requests: readonly string[]) => {
    const received: Promise<string>[] = []
    for (const request of requests) {
      const come = once(app.server, 'request')
      const socket = connect(port, '127.0.0.1')
      received.push(text(socket))
      socket.write(request.replace('\r\n', '\r\nConnection: close\r\n'), 'latin1')
      await come
    }
    isOpen = true
    for (const call of held) call()
    return await Promise.all(received)
  }
  return replies
}

test('a refusal is the same whatever is asked, says when to come again, and is readable by pages', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(800), { recordBytes: 8 })
  const replies = await hurried({ datasets: [{ dataset }] })
  const post = (path: string, body: string) =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nOrigin: https://app.example\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const queries = [0, 7, 99].map(i => Buffer.from(queryAt(dataset.manifest, i)).toString('latin1'))
  const [first, ...refused] = await replies([
    ...queries.map(query => post('/v1/answer', query)),
    post('/v1/answer', 'malformed'),
    post('/v1/nothing', queries[0]!),
    'GET /v1/manifest HTTP/1.1\r\nHost: x\r\n\r\n',
  ])
  expect(first).toMatch(/^HTTP\/1\.1 200 /)
  const constant = refused.map(reply => reply.replace(/\r\nDate: [^\r]*/, ''))
  expect(new Set(constant).size).toBe(1)
  expect(constant[0]).toMatch(/^HTTP\/1\.1 503 /)
  const [head, body] = constant[0]!.split('\r\n\r\n')
  expect(JSON.parse(body!)).toMatchObject({ code: 'overloaded' })
  for (const header of [
    'Retry-After: 1',
    'Cache-Control: no-store',
    'access-control-allow-origin: *',
    'access-control-expose-headers: Content-Encoding, Content-Length, Content-Range, ETag, Retry-After',
  ]) {
    expect(head!.split('\r\n')).toContain(header)
  }
})

test('pages that may not read replies may not read refusals; health and publishers are never refused', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(800), { recordBytes: 8 })
  const options = { datasets: [{ dataset }], allowOrigins: ['https://app.example', 'localhost'] }
  const ask = await hurried(options)
  const get = (path: string, origin: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nOrigin: ${origin}\r\n\r\n`
  const origins = ['https://app.example', 'http://localhost:5173', 'https://other.example']
  const replies = await ask([
    get('/v1/info', origins[0]!),
    ...origins.map(origin => get('/v1/info', origin)),
    get('/readyz?from=balancer', origins[0]!),
    get('/healthz', origins[0]!),
    get('/v1/epochs/1', origins[0]!),
  ])
  expect(replies.map(reply => Number(reply.slice(9, 12)))).toEqual([200, 503, 503, 503, 200, 200, 404])
  const allowed = replies.slice(1, 4).map(reply => /\r\nAccess-Control-Allow-Origin: (\S+)/i.exec(reply)?.[1])
  expect(allowed).toEqual([origins[0], origins[1], undefined])
  for (const reply of replies.slice(1, 4)) expect(reply).toContain('\r\nvary: Origin')
})
