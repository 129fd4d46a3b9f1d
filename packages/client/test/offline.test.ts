// The offline phase: what both servers must agree on, downloads checked before use, a server that lies or stalls
// replaced by the other, and named.

import { partitionBytes } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { sampled } from '../../../tests/support/thorough.js'
import { ProgressMeter } from '../src/base/progress.js'
import { estimate, type Progress } from '../src/index.js'
import { settle, until } from './support/clock.js'
import { buildDatabase, type Database, later, someValues } from './support/database.js'
import { core, Harness, keyed, keyless, NAMES, openedOn, refusedBy, sameOnBoth } from './support/harness.js'
import { edit, livingKeyless } from './support/living.js'
import { A, B, blobs, bytesOf, flip, hang, late, type Misbehave, Network, ok, on, problem } from './support/network.js'

const values = someValues(15, 5)
const epochs = (...numbers: number[]): Database[] =>
  numbers.map(epoch => buildDatabase(core, { values, partitions: 4, manifest: epoch === 1 ? {} : later(epoch) }))

describe('the manifest', () => {
  test('is taken at the highest epoch both have', async () => {
    const [one, two, three] = epochs(1, 2, 3) as [Database, Database, Database]
    const networks = [
      new Network({ [A]: [one, two, three], [B]: [one, two] }),
      new Network({ [A]: [one, two], [B]: [two, three] }),
    ]
    for (const network of networks) {
      const { harness, map } = await openedOn({ network })
      expect(map.epoch).toBe(2)
      expect(await harness.drive(map.at(3))).toEqual(values[3])
    }
  })

  test('a later generation is a later epoch', async () => {
    const old = buildDatabase(core, { values, partitions: 4, manifest: later(9) })
    const young = buildDatabase(core, { values, partitions: 4, manifest: later(10, 2) })
    const map = await new Harness(new Network({ [A]: [old, young], [B]: [old] })).open()
    expect(map.epoch).toBe(9)
  })

  const disagreements: [string, Network][] = [
    [
      'another database',
      new Network({
        [A]: epochs(1),
        [B]: [buildDatabase(core, { values, partitions: 4, manifest: { databaseId: new Uint8Array(16).fill(7) } })],
      }),
    ],
    [
      'other contents',
      new Network({ [A]: epochs(1), [B]: [buildDatabase(core, { values: [...values].reverse(), partitions: 4 })] }),
    ],
    ['another layout', new Network({ [A]: epochs(1), [B]: [buildDatabase(core, { values, partitions: 5 })] })],
  ]
  test.each(disagreements)('%s: ServersDisagreeError, and nothing more is sent', async (_what, network) => {
    const error = await refusedBy({ network })
    expect(error).toMatchObject({ name: 'ServersDisagreeError', code: 'servers_disagree' })
    expect(error.message).toContain(A)
    expect(error.message).toContain(B)
    await settle()
    const asked = (path: string) => network.seen.filter(seen => seen.path === path).length
    expect([asked('/v1/manifest'), asked('/v1/info') <= 6]).toEqual([2, true]) // three times at most
    expect(network.seen).toHaveLength(asked('/v1/manifest') + asked('/v1/info'))
  })

  test('no epoch in common: VersionError that names who is behind, once both have been asked again', async () => {
    for (const [behind, ahead] of [
      [A, B],
      [B, A],
    ] as const) {
      const network = new Network({ [behind]: epochs(1), [ahead]: epochs(3) })
      const error = await refusedBy({ network }, { servers: [A, B] })
      expect(error).toMatchObject({ name: 'VersionError', code: 'version', server: behind, retryable: true })
      expect(blobs(network)).toEqual([])
      expect(network.seen.filter(({ path }) => path === '/v1/info')).toHaveLength(6)
    }
  })

  /** What becomes of open() when a byte of a reply is flipped, at each of these places; the names of its errors. */
  async function flipped(path: string, places: Iterable<number>, servers: readonly string[]) {
    const [database] = epochs(1) as [Database]
    const names: string[] = []
    for (const at of places) {
      const network = sameOnBoth(database)
      const change = on(path, async genuine =>
        ok((await bytesOf(genuine)).map((byte, i) => (i === at ? byte ^ 1 : byte))),
      )
      for (const server of servers) network.misbehave[server] = change
      const harness = new Harness(network, 1 + (at % 2)) // either is asked first
      const opened = await harness.open().catch((error: Error) => error)
      if (opened instanceof Error) {
        names.push(opened.name)
        expect(blobs(network)).toEqual([])
      } else {
        expect([opened.epoch, await harness.drive(opened.at(3))]).toEqual([1, values[3]])
        await harness.drive(opened.close())
      }
    }
    return names
  }

  test.each([A, B])('any byte flipped by %s alone: of no consequence, the other server’s is used', async server => {
    const [database] = epochs(1) as [Database]
    expect(await flipped('/v1/manifest', sampled([...database.manifestBytes.keys()], 7), [server])).toEqual([])
  })

  test('any byte flipped by both: refused', async () => {
    const [database] = epochs(1) as [Database]
    const places = sampled([...database.manifestBytes.keys()])
    const names = await flipped('/v1/manifest', places, [A, B])
    expect(names).toHaveLength(places.length)
    expect(new Set(names)).toEqual(new Set(['TamperedError', 'VersionError', 'ProtocolError', 'NetworkError']))
  })

  test.each([A, B])('any byte flipped of what %s shows: refused, or of no consequence', async server => {
    const [database] = epochs(1) as [Database]
    const reply = new TextEncoder().encode(JSON.stringify(sameOnBoth(database).info(server)))
    const names = await flipped('/v1/info', reply.keys(), [server])
    // Of the hash and the database's name: most digits become another.
    expect(names.filter(name => name === 'ServersDisagreeError').length).toBeGreaterThan(64)
    // What is no JSON any more is no server's. One that seems to be a folder is refused in this mode, too.
    const others = ['ProtocolError', 'NetworkError', 'UnsupportedError']
    expect(new Set(names)).toEqual(new Set(['ServersDisagreeError', 'VersionError', ...others]))
  })

  const replies: [string, string, (genuine: Response) => Response | Promise<Response>][] = [
    ['empty', 'NetworkError', () => ok(new Uint8Array(0))],
    ['truncated', 'ProtocolError', async genuine => ok((await bytesOf(genuine)).slice(0, -1))],
    ['too long', 'ProtocolError', async genuine => ok(Uint8Array.of(...(await bytesOf(genuine)), 0))],
    ['JSON', 'NetworkError', () => Response.json({})],
    ['not found', 'ProtocolError', () => problem(404, 'not_found')],
    ['a redirect', 'NetworkError', () => new Response(null, { status: 301 })],
    [
      'of no end',
      'ProtocolError',
      () => new Response(new ReadableStream({ pull: c => c.enqueue(new Uint8Array(2 ** 20)) })),
    ],
    ['refused', 'NetworkError', () => Promise.reject(new TypeError('fetch failed'))],
    ['rate limited', 'RateLimitedError', () => problem(429, 'rate_limited')],
  ]
  test.each(replies)('%s, from both: %s', async (_what, name, reply) => {
    const network = sameOnBoth(...epochs(1))
    network.both(on('/v1/manifest', reply))
    const error = await refusedBy({ network })
    expect([A, B]).toContain(error.server)
    expect(error).toMatchObject({ name, message: expect.stringContaining(error.server === A ? B : A) })
  })

  test.each(replies)('%s, from one: the other server’s is used', async (_what, _name, reply) => {
    for (const server of [A, B]) {
      for (let seed = 1; seed <= 4; seed++) {
        const network = sameOnBoth(...epochs(1))
        network.misbehave[server] = on('/v1/manifest', reply)
        const harness = new Harness(network, seed)
        const map = await harness.open()
        expect(await harness.drive(map.at(3))).toEqual(values[3])
      }
    }
  })

  test.each(replies)(
    'what a server shows is %s: %s, or it seems to be of something else',
    async (what, name, reply) => {
      for (const server of [A, B]) {
        const network = sameOnBoth(...epochs(1))
        network.misbehave[server] = on('/v1/info', reply)
        const isOther = ['empty', 'truncated', 'too long'].includes(what)
        expect(await refusedBy({ network })).toMatchObject({ name: isOther ? 'NetworkError' : name, server })
      }
    },
  )

  test('what a server shows never comes: NetworkError at a deadline', async () => {
    const network = sameOnBoth(...epochs(1))
    network.misbehave[A] = hang('/v1/info')
    const harness = new Harness(network)
    expect(await harness.failure(harness.open())).toMatchObject({ name: 'NetworkError', server: A })
    expect(harness.clock.now()).toBe(10_000)
  })

  test.each([A, B])('of %s never comes: the other server’s is used two seconds later, at most', async server => {
    for (let seed = 1; seed <= 4; seed++) {
      const network = sameOnBoth(...epochs(1))
      network.misbehave[server] = hang('/v1/manifest')
      const harness = new Harness(network, seed)
      const map = await harness.open()
      expect(harness.clock.now()).toBeLessThanOrEqual(2_000)
      expect(await harness.drive(map.at(3))).toEqual(values[3])
    }
  })
})

describe('partitions', () => {
  test('come half from each server, all bodies together under 1.02 database lengths', async () => {
    const database = buildDatabase(core, { values: someValues(8192, 32), partitions: 16 })
    const network = sameOnBoth(database)
    const map = await new Harness(network).open()
    expect(blobs(network).filter(seen => seen.server === A)).toHaveLength(8)
    expect(blobs(network).filter(seen => seen.server === B)).toHaveLength(8)
    const down = map.stats.servers.reduce((sum, { offline }) => sum + offline.bytesDown, 0)
    expect(down).toBeLessThan(1.02 * 8192 * 32)
    expect(map.stats).toMatchObject({
      held: { parities: 512 * 32, permutations: 2 * 16 * 512 },
      lookups: 0,
      incidents: [],
    })
  })

  const halfOf = async (genuine: Response) => {
    const pieces = [(await bytesOf(genuine)).slice(0, 9)]
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      const piece = pieces.shift()
      if (piece === undefined) return new Promise<void>(() => {})
      controller.enqueue(piece)
      return undefined
    }
    return new Response(new ReadableStream({ pull }))
  }
  const faults: [string, string, Misbehave][] = [
    ['a half, and then nothing more', 'slow', on('/v1/blobs/', halfOf)],
    ['a flipped byte', 'tampered', flip(7, '/v1/blobs/')],
    ['another partition', 'tampered', on('/v1/blobs/', async g => ok((await bytesOf(g)).reverse()))],
    ['a byte too few', 'protocol', on('/v1/blobs/', async g => ok((await bytesOf(g)).slice(1)))],
    ['a byte too many', 'protocol', on('/v1/blobs/', async g => ok(Uint8Array.of(...(await bytesOf(g)), 1)))],
    ['nothing', 'protocol', on('/v1/blobs/', () => new Response(null))],
    ['404', 'version', on('/v1/blobs/', () => problem(404, 'not_found'))],
    ['a redirect', 'network', on('/v1/blobs/', () => new Response(null, { status: 307 }))],
    ['silence', 'slow', hang('/v1/blobs/')],
    ['refused connections', 'network', on('/v1/blobs/', () => Promise.reject(new TypeError('fetch failed')))],
    ['429', 'rate_limited', on('/v1/blobs/', () => problem(429, 'rate_limited'))],
  ]
  describe.each([A, B])('%s sends', server => {
    test.each(faults)('%s: the other serves its share, it is not asked again, all is right', async (_, code, fault) => {
      const { network, database } = keyless(60)
      network.misbehave[server] = fault
      const { harness, map } = await openedOn({ network })
      expect(map.stats.incidents).toEqual([{ server, code }])
      expect(new Set(blobs(network).flatMap(s => (s.server === server ? [s.path] : []))).size).toBe(1)
      network.misbehave[server] = undefined
      for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
      await harness.drive(map.close())
    })

    test.each(faults)('%s, and the other lies: TamperedError names the liar, and both', async (_, code, fault) => {
      const { network } = keyless(60)
      const other = server === A ? B : A
      network.misbehave[server] = fault
      network.misbehave[other] = on('/v1/blobs/', async g => ok((await bytesOf(g)).fill(9)))
      const harness = new Harness(network)
      const error = await harness.failure(harness.open())
      expect(error.name).toBe('TamperedError')
      if (code !== 'tampered') expect(error.server).toBe(other)
      expect(error.message).toContain(A)
      expect(error.message).toContain(B)
      await settle()
      expect(harness.clock.waiting).toBe(0)
    })
  })

  test.each([
    [A, B],
    [B, A],
  ])('%s cannot be reached, and %s does not have them any more: the first is to blame', async (lost, turned) => {
    const { network } = keyless(40)
    network.misbehave[lost] = on('/v1/blobs/', () => problem(503, 'not_ready'))
    network.misbehave[turned] = on('/v1/blobs/', () => problem(404, 'not_found'))
    expect(await refusedBy({ network })).toMatchObject({ code: 'network', server: lost })
  })

  test('a connection that breaks is tried again at the same server', async () => {
    const { network } = keyless(60)
    let broken = 0
    network.misbehave[A] = on('/v1/blobs/', genuine => {
      if (++broken < 3) throw new TypeError('network changed')
      return genuine
    })
    const map = await new Harness(network).open()
    expect(map.stats.incidents).toEqual([])
  })

  test('bodies in pieces of any size are put together', async () => {
    const { network, database } = keyless(60)
    network.both(
      on('/v1/', async genuine => {
        const bytes = await bytesOf(genuine)
        let at = 0
        return new Response(
          new ReadableStream({
            pull(controller) {
              if (at === bytes.length) return controller.close()
              const size = 1 + (at % 7)
              controller.enqueue(bytes.slice(at, at + size))
              at = Math.min(bytes.length, at + size)
            },
          }),
        )
      }),
    )
    const { harness, map } = await openedOn({ network })
    for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
  })

  test('the thread is given back at least every 256 KiB, and after every fold', async () => {
    const database = buildDatabase(core, { values: someValues(2 ** 13, 256), partitions: 2 }) // partitions of 1 MiB
    const network = sameOnBoth(database)
    let pauses = 0
    let atLastPause = 0
    let loaded = 0
    let longest = 0
    const pause = async () => {
      pauses++
      longest = Math.max(longest, loaded - atLastPause)
      atLastPause = loaded
    }
    const harness = new Harness(network, 1, { pause })
    const onProgress = ({ loadedBytes }: Progress) => {
      loaded = loadedBytes
    }
    await harness.open({ onProgress })
    expect(longest).toBeLessThanOrEqual(2 * 256 * 1024) // two lanes
    expect(pauses).toBeGreaterThanOrEqual(8 + 2 * 2)
  })
})

describe('the directory', () => {
  test.each([A, B])('by %s: a lie is replaced by the other server, and every key is right', async server => {
    const { network, database } = keyed()
    // Whatever is asked of it: A would be asked first for the directory, B only if A fails.
    network.misbehave[server] = on('/v1/blobs/', async g =>
      ok((await bytesOf(g)).map((b, i) => (i === 20 ? b ^ 1 : b))),
    )
    const harness = new Harness(network)
    let last: Progress | undefined
    const onProgress = (progress: Progress) => {
      last = progress
    }
    const map = await harness.open({ onProgress })
    expect(last).toMatchObject({ phase: 'ready', loadedBytes: last?.totalBytes })
    expect(new Set(map.stats.incidents.map(each => JSON.stringify(each)))).toEqual(
      new Set([JSON.stringify({ server, code: 'tampered' })]),
    )
    for (const [i, name] of NAMES.entries()) {
      expect(await harness.drive(map.get(name))).toEqual(database.contents.values[i])
    }
  })

  test('that is none, though both agree on it: ProtocolError naming both', async () => {
    const garbage = new Uint8Array(64).fill(1)
    const database = buildDatabase(core, {
      keys: NAMES,
      values: someValues(NAMES.length, 3),
      partitions: 4,
      manifest: { directoryBytes: 64, directoryHash: core.blake3(garbage) },
    })
    const network = sameOnBoth(database)
    const serve = (seen: { path: string }, genuine: Response) =>
      seen.path.startsWith('/v1/blobs/') && genuine.status === 404 ? ok(garbage) : undefined
    network.misbehave[A] = serve
    network.misbehave[B] = serve
    const error = await refusedBy({ network })
    expect(error).toMatchObject({ name: 'ProtocolError' })
    expect(error.message).toContain(A)
    expect(error.message).toContain(B)
  })

  test.each([
    ['directoryBlockLog', (log: number) => log + 1],
    ['directoryBlockBytes', (bytes: number) => bytes + 32],
    ['directorySeed', (seed: Uint8Array) => seed.map(byte => byte ^ 1)],
  ] as const)('whose %s is not the manifest’s, though both agree on it: the same', async (field, change) => {
    const contents = { keys: NAMES, values: someValues(NAMES.length, 3), partitions: 4 }
    const genuine = buildDatabase(core, contents).manifest[field]
    const changed = (change as (value: typeof genuine) => typeof genuine)(genuine)
    const harness = new Harness(sameOnBoth(buildDatabase(core, { ...contents, manifest: { [field]: changed } })))
    const error = await harness.failure(harness.open())
    expect(error).toMatchObject({ name: 'ProtocolError', message: expect.stringContaining('malformed') })
    expect(error.message).toContain(A)
    expect(error.message).toContain(B)
  })
})

test('progress starts once it is known of how much, ends ready with everything loaded', async () => {
  const { network, database } = keyed()
  const steps: Progress[] = []
  await new Harness(network).open({ onProgress: progress => void steps.push(progress) })
  const total = database.manifest.directoryBytes + 5 * partitionBytes(database.manifest)
  expect(steps[0]).toEqual({ phase: 'directory', loadedBytes: 0, totalBytes: total })
  expect(steps.at(-1)).toEqual({ phase: 'ready', loadedBytes: total, totalBytes: total })
  const phases = steps.map(step => step.phase).filter((phase, i, all) => phase !== all[i - 1])
  expect(phases).toEqual(['directory', 'partitions', 'ready'])
  steps.slice(1).forEach((step, i) => {
    expect(step.loadedBytes).toBeGreaterThanOrEqual(steps[i]!.loadedBytes)
  })
})

test('progress is told a hundred times and a few, however many pieces there are', async () => {
  const steps: Progress[] = []
  const meter = new ProgressMeter(progress => void steps.push(progress))
  meter.phase('directory')
  meter.expect(10_007)
  meter.phase('partitions')
  for (let i = 0; i < 10_007; i++) meter.add(1)
  for (const bytes of [-5000, 2500, 2500]) meter.add(bytes) // a server that has to be replaced
  meter.phase('ready')
  expect(steps.length).toBeLessThan(110)
  for (const { loadedBytes, totalBytes } of steps) expect(loadedBytes / totalBytes).toBeLessThanOrEqual(1)
  expect(steps.slice(-4).map(({ loadedBytes }) => loadedBytes)).toEqual([5007, 7507, 10_007, 10_007])
})

test('a listener that throws fails its own open()', async () => {
  const { network } = keyless()
  const harness = new Harness(network)
  const onProgress = () => {
    throw new Error('my own bug')
  }
  await expect(harness.open({ onProgress })).rejects.toThrow('my own bug')
  await harness.open()
})

test.each(['auto', 'tags', 'merkle'] as const)(
  'estimate() tells beforehand what open() and a lookup then cost (proofs: %s)',
  async proofs => {
    const { network } = keyed()
    const harness = new Harness(network)
    const told = await estimate([A, B], { fetch: network.fetch, proofs })
    expect(blobs(network)).toEqual([])
    const map = await harness.open({ proofs })
    await harness.drive(map.get('absent'))
    const { servers, held, lastLookup } = map.stats
    const down = servers.reduce((sum, { offline }) => sum + offline.bytesDown, 0)
    const { full, local } = told.modes
    const shown = JSON.stringify(network.info(A)).length
    expect(told.directoryBytes + full!.prepareBytes).toBe(down - 2 * (shown + 224 + 64 * 5))
    expect(told).toMatchObject({ records: 20, epoch: 1, mode: 'local' })
    expect(full).toMatchObject({ held, maxQueries: 64 })
    expect(held['tags']).toBe(proofs === 'merkle' ? 0 : 20 * 8)
    expect(lastLookup).toMatchObject({ bytesUp: full!.lookupBytesUp, bytesDown: full!.lookupBytesDown })
    expect(map.stats.lookups).toBe(1)
    // Keep it all, and ask nobody: the same download.
    const { prepareBytes } = full!
    expect(local).toMatchObject({ prepareBytes, lookupBytesUp: 0, lookupBytesDown: 0, held: { records: prepareBytes } })
  },
)

// Servers that take as long as they may: the other one does their work, and is not made to wait for them again and again.
test.each([
  [A, B],
  [B, A],
])('%s gives partitions just within their deadline: %s gives them all, the first is noted', async (slow, other) => {
  const database = buildDatabase(core, { values: someValues(1000, 8), partitions: 16 })
  const network = sameOnBoth(database)
  const harness = new Harness(network)
  network.misbehave[slow] = late(harness.clock, '/v1/blobs/', 9_000)
  const map = await harness.open({ mode: 'local' })
  const given = (server: string) => blobs(network).filter(seen => seen.server === server).length
  expect([given(slow), given(other)]).toEqual([1, 16])
  expect(harness.clock.now()).toBeLessThan(2_100)
  expect(map.stats.incidents).toEqual([{ server: slow, code: 'slow' }])
  for (let i = 0; i < map.size; i += 13) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
})

test.each([A, B])('%s keeps silent about the lists of twenty epochs: it is waited for once', async silent => {
  const living = livingKeyless()
  const { network } = living
  const harness = new Harness(network)
  const map = await harness.open({ mode: 'local' })
  const before = blobs(network).length
  const start = harness.clock.now()
  network.misbehave[silent] = hang('/v1/blobs/')
  for (let i = 0; i < 20; i++) living.publish([edit(i % 15, `n ${`${i}`.padEnd(3)}`)])
  await harness.drive(map.sync())
  const asked = blobs(network).slice(before)
  expect(asked.filter(({ server }) => server === silent)).toHaveLength(2) // of the first four
  expect(harness.clock.now() - start).toBeLessThan(2_100)
  for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(living.newest.byIndex[i])
})

// A reply that has arrived at its declared length, but never ends, for example under an encoding whose last bytes are withheld. The
// client does not wait for its end, and hangs up, so that such replies cannot hold connections open.
/** Replies without end, and how many have begun. */
function withholding(path: string, more: Uint8Array | undefined) {
  const open = new Set<object>()
  let begun = 0
  const misbehave: Misbehave = async (seen, genuine) => {
    if (!seen.path.startsWith(path) || genuine.status !== 200) return genuine
    const bytes = await bytesOf(genuine)
    const reply = {}
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(bytes)
        if (more !== undefined) controller.enqueue(more)
        open.add(reply)
        begun++
      },
      cancel: () => void open.delete(reply),
    })
    return new Response(body, { headers: { 'content-length': `${bytes.length}` } })
  }
  return { misbehave, open, begun: () => begun }
}

test.each([
  ['/v1/blobs/', undefined],
  ['/v1/answer', undefined],
  ['/v1/blobs/', new Uint8Array(1)],
  ['/v1/answer', new Uint8Array(1)],
])('replies to %s that are withheld the end of are let go, %s', async (path, more) => {
  const { network, database } = keyless()
  const harness = new Harness(network)
  const { misbehave, open, begun } = withholding(path, more)
  network.both(misbehave)
  const map = await harness.open({ push: false })
  for (const index of [3, 4]) expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
  expect(begun()).toBeGreaterThan(3)
  await until(harness.clock, () => harness.clock.waiting === 0)
  expect(open.size).toBe(0)
})
