// Servers that lie, break the protocol or keep silent. Each has its own error, names the culprit, never yields a wrong
// value, and looks the same whatever was asked: the same error, the same traffic for every index of a small database.

import { HEADER_BYTES } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { deferred, settle, watch } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { core, Harness, keyed, keyless, openedOn, sameOnBoth } from './support/harness.js'
import { A, after, B, bytesOf, flip, hang, type Misbehave, ok, on, problem, queryIn } from './support/network.js'

const RECORDS = 15
const { database } = keyless(RECORDS)
const PROOF_BYTES = 64 // M = 4
const ENTRY_BYTES = 5 + PROOF_BYTES
const ENTRIES = database.manifest.partitions

const other = (server: string) => (server === A ? B : A)

/** One lookup against a misbehaving server: everything the caller and the servers could notice. */
async function outcome(server: string, misbehave: Misbehave, index: number) {
  const network = sameOnBoth(database)
  const { harness, map } = await openedOn({ network }, {}, 7)
  network.misbehave[server] = misbehave
  const { error, seen } = await harness.failingLookup(map, index)
  await harness.drive(map.close())
  return { seen, error, network }
}

/** The outcome, after checking that it is the same for every index, or in `npm test` for one of each partition. */
async function sameForAll(server: string, misbehave: Misbehave) {
  const first = await outcome(server, misbehave, 0)
  for (let index = 1; index < RECORDS; index += THOROUGH ? 1 : 4) {
    expect((await outcome(server, misbehave, index)).seen).toEqual(first.seen)
  }
  return first
}

describe.each([A, B])('a byte flipped by %s', server => {
  const header = [
    ['magic', 0, 'ProtocolError'],
    ['format', 4, 'VersionError'],
    ['suite', 6, 'VersionError'],
    ['database id', 8, 'ProtocolError'],
    ['generation', 24, 'ProtocolError'],
    ['epoch', 28, 'ProtocolError'],
    ['Q', 32, 'ProtocolError'],
    ['count', 36, 'ProtocolError'],
    ['reserved', 38, 'ProtocolError'],
  ] as const
  test.each(header)('in the header (%s) is asked for again, then refused', async (_field, at, name) => {
    const { error, network } = await sameForAll(server, flip(at))
    expect(error).toMatchObject({ name, server })
    expect(network.queries().filter(seen => seen.server === server)).toHaveLength(2)
    expect(network.queries().filter(seen => seen.server !== server)).toHaveLength(1)
  })

  const entries = [
    ['first', 0],
    ['middle', Math.floor(ENTRIES / 2)],
    ['last', ENTRIES - 1],
  ] as const
  const places = [
    ['the record', 0],
    ["the record's last byte", 4],
    ['the proof', 5],
    ['the proof, second node', 5 + 32],
    ["the proof's last byte", ENTRY_BYTES - 1],
  ] as const
  const both = entries.flatMap(([which, entry]) =>
    places.map(([where, at]) => [where, which, HEADER_BYTES + entry * ENTRY_BYTES + at] as const),
  )
  test.each(both)('in %s of the %s entry condemns, at the first attempt', async (_where, _which, at) => {
    const { error, network } = await sameForAll(server, flip(at))
    expect(error).toMatchObject({ name: 'TamperedError', code: 'tampered', server })
    expect(network.queries()).toHaveLength(2)
  })
})

const answers = (change: (bytes: Uint8Array) => Response) =>
  on('/v1/answer', async genuine => change(await bytesOf(genuine)))
const chunks = (...parts: (Uint8Array | 'break' | 'hang')[]) =>
  new ReadableStream<Uint8Array>({
    async pull(controller) {
      const part = parts.shift()
      if (part === undefined) controller.close()
      else if (part === 'break') controller.error(new TypeError('terminated'))
      else if (part === 'hang') await new Promise(() => {})
      else controller.enqueue(part)
    },
  })
const redirected = (response: Response) => Object.defineProperty(response, 'redirected', { value: true })

const PROTOCOL: [string, Misbehave][] = [
  ['truncated by a byte', answers(bytes => ok(bytes.slice(0, -1)))],
  [
    'truncated, with the right Content-Length',
    answers(bytes => new Response(bytes.slice(0, -1), { headers: { 'content-length': `${bytes.length}` } })),
  ],
  ['cut off after the header', answers(bytes => ok(bytes.slice(0, HEADER_BYTES)))],
  ['too long by a byte', answers(bytes => ok(Uint8Array.of(...bytes, 0)))],
  ['too long by a byte, without Content-Length', answers(bytes => new Response(Uint8Array.of(...bytes, 0)))],
  ['empty', answers(() => ok(new Uint8Array(0)))],
  ['without a body', answers(() => new Response(null))],
  ['of two answers', answers(bytes => ok(Uint8Array.of(...bytes, ...bytes)))],
  ['under Content-Encoding gzip', answers(bytes => ok(bytes, { 'content-encoding': 'gzip' }))],
  ['under Content-Encoding identity', answers(bytes => ok(bytes, { 'content-encoding': 'identity' }))],
  ['with another Content-Length', answers(bytes => ok(bytes, { 'content-length': `${bytes.length - 9}` }))],
  ['bad_request', answers(() => problem(400, 'bad_request'))],
]
const NETWORK: [string, Misbehave][] = [
  ['that never comes', hang('/v1/answer')],
  [
    'that stops half way',
    answers(bytes => new Response(chunks(bytes.slice(0, 50) as Uint8Array<ArrayBuffer>, 'hang'))),
  ],
  ['that breaks off', answers(bytes => new Response(chunks(bytes.slice(0, 50), 'break')))],
  ['of a refused connection', on('/v1/answer', () => Promise.reject(new TypeError('fetch failed')))],
  ['internal', answers(() => problem(500, 'internal'))],
  ['not_ready', answers(() => problem(503, 'not_ready'))],
  ['of JSON', answers(() => Response.json({ hello: 'world' }))],
  ['of status 206', answers(bytes => new Response(bytes as Uint8Array<ArrayBuffer>, { status: 206 }))],
  ['of status 302', answers(() => new Response(null, { status: 302, headers: { location: 'https://c.example' } }))],
  ['that was redirected', answers(bytes => redirected(ok(bytes)))],
  ['of garbage and status 404', answers(() => new Response('{"code', { status: 404 }))],
  ["a proxy's 502", answers(() => new Response('<html>', { status: 502 }))],
]
/** Those that take up the time for an attempt. */
const SILENT = new Set(['that never comes', 'that stops half way'])

describe.each([A, B])('an answer from %s', server => {
  const kinds = [
    ...PROTOCOL.map(each => [...each, 'protocol', 2] as const),
    ...NETWORK.map(each => [...each, 'network', SILENT.has(each[0]) ? 2 : 3] as const),
  ]
  test.each(kinds)('%s: an error after as many attempts as it may take', async (_what, misbehave, code, most) => {
    const { error, network } = await sameForAll(server, misbehave)
    expect(error).toMatchObject({ name: code === 'network' ? 'NetworkError' : 'ProtocolError', code, server })
    const asked = network.queries().map(seen => seen.server)
    const attempts = Array.from({ length: most }, () => server)
    expect(asked.sort()).toEqual([...attempts, other(server)].sort())
  })

  test('that is malformed costs no wait: the error comes without a pause', async () => {
    const harness = new Harness(sameOnBoth(database))
    const map = await harness.open()
    const before = harness.clock.now()
    harness.network.misbehave[server] = answers(bytes => ok(bytes.slice(1)))
    expect(await harness.failure(map.at(3))).toMatchObject({ code: 'protocol', server })
    expect(harness.clock.now()).toBe(before)
  })

  test('wrong_database: an error after one attempt, once the other server shows the database', async () => {
    const { error, network } = await sameForAll(
      server,
      answers(() => problem(404, 'wrong_database')),
    )
    expect(error).toMatchObject({ name: 'ProtocolError', code: 'protocol', server })
    expect(network.queries().map(seen => seen.server)).toHaveLength(2)
  })

  test('rate_limited: RateLimitedError with the seconds to wait', async () => {
    const { error } = await sameForAll(
      server,
      answers(() => problem(429, 'rate_limited', { 'retry-after': '17' })),
    )
    expect(error).toMatchObject({ name: 'RateLimitedError', code: 'rate_limited', server, retryAfterMs: 17_000 })
  })

  test('epoch_unknown: VersionError', async () => {
    const { error } = await sameForAll(
      server,
      answers(() => problem(404, 'epoch_unknown')),
    )
    expect(error).toMatchObject({ name: 'VersionError', code: 'version', server })
  })

  test('that drips a byte at a time is given up at a deadline that depends on lengths alone', async () => {
    const harness = new Harness(sameOnBoth(database))
    const map = await harness.open()
    harness.network.misbehave[server] = answers(bytes => {
      let at = 0
      const drip = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
        await harness.clock.wait(5_000)
        controller.enqueue(bytes.slice(at, ++at) as Uint8Array<ArrayBuffer>)
      }
      return new Response(new ReadableStream({ pull: drip }))
    })
    expect(await harness.failure(map.at(3))).toMatchObject({ name: 'NetworkError', server })
    expect(harness.clock.now()).toBeLessThan(15_100)
  })

  test('without end is cut off at the length it should have', async () => {
    let pulled = 0
    const endless = () =>
      new ReadableStream<Uint8Array>({
        pull: controller => {
          pulled++
          controller.enqueue(new Uint8Array(64))
        },
      })
    const { error } = await outcome(
      server,
      answers(() => new Response(endless())),
      3,
    )
    expect(error.name).toBe('ProtocolError')
    expect(pulled).toBeLessThan(3 * 10)
  })
})

describe('a lie', () => {
  const lie = flip(HEADER_BYTES)

  test('condemns at once while the other server hangs; one attempt each; raised at the deadline', async () => {
    const { network, harness, map } = await openedOn(keyless(RECORDS))
    network.misbehave[A] = lie
    network.misbehave[B] = hang('/v1/answer')
    const raised = watch(map.at(3))
    await settle()
    expect((await harness.store.read())?.condemned).toEqual({ culprit: A })
    expect(raised).toEqual({}) // P6
    await harness.failure(map.at(4)) // waits for its turn, hence for the deadline
    expect(raised.error).toMatchObject({ name: 'TamperedError', server: A })
    expect(network.queries()).toHaveLength(2)
  })

  test('is raised only when the other answer is in', async () => {
    const { network, harness, map } = await openedOn(keyless(RECORDS))
    const { promise: released, resolve: release } = deferred()
    network.misbehave[A] = lie
    network.misbehave[B] = after('/v1/answer', released)
    const call = map.at(3)
    const raised = watch(call)
    await settle()
    expect(raised).toEqual({})
    release()
    expect(await harness.failure(call)).toMatchObject({ name: 'TamperedError', server: A })
    expect(harness.clock.now()).toBeLessThan(10_000)
  })

  test('stops the retries of the other server', async () => {
    const { network, harness, map } = await openedOn(keyless(RECORDS))
    network.misbehave[A] = on('/v1/answer', async (genuine, seen) => {
      await harness.clock.wait(500) // during B's backoff
      return (await lie(seen, genuine))!
    })
    network.misbehave[B] = on('/v1/answer', () => problem(503, 'not_ready'))
    expect(await harness.failure(map.at(3))).toMatchObject({ name: 'TamperedError', server: A })
    expect(network.queries()).toHaveLength(2)
  })

  test('condemns every later call, without traffic, until reset() begins anew', async () => {
    const { network, database, harness, map } = await openedOn(keyless(RECORDS))
    network.misbehave[B] = lie
    expect((await harness.failure(map.at(3))).name).toBe('TamperedError')
    network.misbehave[B] = undefined
    for (let i = 0; i < RECORDS; i++) {
      expect(await harness.failure(map.at(i))).toMatchObject({ name: 'CondemnedError', code: 'condemned', server: B })
    }
    expect(network.queries()).toHaveLength(2)

    const before = network.seen.length
    await harness.drive(map.reset())
    const paths = network.seen.slice(before).map(seen => seen.path)
    expect(paths.filter(path => path === '/v1/info')).toHaveLength(2)
    expect(paths.filter(path => path.startsWith('/v1/manifest'))).toHaveLength(2)
    expect(paths.filter(path => path.startsWith('/v1/blobs/'))).toHaveLength(database.manifest.partitions)
    expect((await harness.store.read())?.condemned).toBeUndefined()
    for (let i = 0; i < RECORDS; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
  })

  test('keeps the map condemned if reset() fails', async () => {
    const { network, harness, map } = await openedOn(keyless(RECORDS))
    network.misbehave[B] = lie
    await harness.failure(map.at(3))
    network.misbehave[B] = on('/v1/info', () => problem(503, 'not_ready'))
    expect(await harness.failure(map.reset())).toMatchObject({ name: 'NetworkError', server: B })
    expect(await harness.failure(map.at(3))).toMatchObject({ name: 'CondemnedError', server: B })
    expect((await harness.store.read())?.condemned).toEqual({ culprit: B })
  })

  test('of both servers names one of them', async () => {
    const { network, harness, map } = await openedOn(keyless(RECORDS))
    network.misbehave[A] = lie
    network.misbehave[B] = lie
    const error = await harness.failure(map.at(3))
    expect(error.name).toBe('TamperedError')
    expect([A, B]).toContain(error.server)
  })

  test('among several queries condemns, wherever it is', async () => {
    const { database, network } = keyed()
    const entryBytes = database.manifest.recordBytes + 64
    const entries = 3 * database.manifest.partitions
    for (let entry = 0; entry < entries; entry++) {
      const { harness, map } = await openedOn({ network }, {}, 1 + entry)
      network.misbehave[A] = flip(HEADER_BYTES + entry * entryBytes + 17)
      expect(await harness.failure(map.getMany(['x', 'y', 'z']))).toMatchObject({ name: 'TamperedError', server: A })
      network.misbehave[A] = undefined
      await harness.drive(map.close())
    }
  })
})

const foreign = buildDatabase(core, { values: someValues(RECORDS + 1, 5).slice(1), partitions: 4 })
const fromForeign = on('/v1/answer', async (genuine, { body }) => {
  const bytes = await bytesOf(genuine)
  bytes.set(foreign.handle.answer(queryIn(body).subarray(HEADER_BYTES)), HEADER_BYTES)
  return ok(bytes)
})
const swapped = answers(bytes => {
  const [first, second] = [0, 1].map(k => bytes.slice(HEADER_BYTES + k * ENTRY_BYTES).slice(0, ENTRY_BYTES))
  bytes.set(second!, HEADER_BYTES)
  bytes.set(first!, HEADER_BYTES + ENTRY_BYTES)
  return ok(bytes)
})
describe.each([A, B])('%s is caught with', server => {
  test.each([
    ['an answer from another database of the same shape', fromForeign],
    ['the right records in another order', swapped],
  ])('%s', async (_what, misbehave) => {
    expect((await sameForAll(server, misbehave)).error).toMatchObject({ name: 'TamperedError', server })
  })
})

test('messages name the server and no secret', async () => {
  const { network } = keyed()
  for (const [i, [, misbehave]] of [...PROTOCOL, ...NETWORK].entries()) {
    const { harness, map } = await openedOn({ network }, {}, 1 + i)
    network.misbehave[A] = misbehave
    const { message, stack } = await harness.failure(map.get('secret-name'))
    expect(message).toContain(A)
    expect(message + stack).not.toContain('secret-name')
    network.misbehave[A] = undefined
    await harness.drive(map.close())
  }
})
