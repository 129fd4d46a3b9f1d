// Servers that keep silent, drip or break off, wherever they may: a call ends by its deadline; where enough others reply it takes two seconds
// more than it would, once; and who was late is asked last until it replies in time.

import { INSTANT_PATH, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { sampled, THOROUGH } from '../../../tests/support/thorough.js'
import type { KeyhushMap } from '../src/index.js'
import { askAll } from '../src/servers/ask.js'
import { Standing } from '../src/servers/standing.js'
import type { Link, Links } from '../src/servers/transport.js'
import type { OpenWithOptions } from '../src/testing.js'
import { drive, ManualClock, turns, until } from './support/clock.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { core, Harness, keyed, NAMES, sameOnBoth } from './support/harness.js'
import { FakeLine } from './support/line.js'
import { change, Living } from './support/living.js'
import {
  A,
  among,
  B,
  bytesOf,
  drip,
  hang,
  late,
  type Misbehave,
  type Network,
  on,
  SERVERS,
  type Seen,
} from './support/network.js'
import { publisherKey, signatureOf } from './support/signed.js'
import { World } from './support/world.js'

type Options = Partial<OpenWithOptions>
/** Requests that a fault befalls. */
type Stage = (seen: Seen, living: Living) => boolean

const isBlob = ({ path }: Seen, hash: Uint8Array) => path === `/v1/blobs/${toHex(hash)}`
const STAGES: Readonly<Record<string, Stage>> = {
  'what it shows': ({ path }) => path === '/v1/info',
  manifests: ({ path }) => path.startsWith('/v1/manifest') && !path.startsWith('/v1/manifests'),
  'chains of manifests': ({ path }) => path.startsWith('/v1/manifests'),
  'update lists': ({ path }, { lists }) => lists.has(path.slice('/v1/blobs/'.length)),
  'the directory': (seen, { newest }) => isBlob(seen, newest.manifest.directoryHash),
  partitions: (seen, { lists, newest: { manifest } }) =>
    seen.path.startsWith('/v1/blobs/') &&
    !lists.has(seen.path.slice('/v1/blobs/'.length)) &&
    !isBlob(seen, manifest.directoryHash),
  lookups: ({ path }) => path === '/v1/answer' || path === INSTANT_PATH,
  'its fence': ({ path }) => path === '/v1/fence',
}
/** Any server's will do. */
const OF_ANY = ['manifests', 'chains of manifests', 'update lists', 'the directory', 'partitions']

const breakingOff = on('', async genuine => {
  const bytes = await bytesOf(genuine)
  const pieces = [bytes.slice(0, bytes.length >> 1)]
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    const piece = pieces.shift()
    if (piece?.length) controller.enqueue(piece)
    else controller.error(new TypeError('terminated'))
  }
  return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { status: genuine.status })
})
const refusing = on('', () => Promise.reject(new TypeError('fetch failed')))

type Clock = Harness['clock']
const FAULTS: Readonly<Record<string, (clock: Clock) => Misbehave>> = {
  'keeps silent about': () => hang(''),
  drips: clock => drip(clock, '', 500),
  'drips slowly': clock => drip(clock, '', 5_000),
  'breaks off': () => breakingOff,
  'refuses connections for': () => refusing,
  'replies within nine seconds with': clock => late(clock, '', 9_000),
}
const EITHER = { servers: [A, B], collusion: 'tolerated', mode: 'single', lookups: 60 } as const
const MODES: readonly [string, Options][] = [
  ['full', { mode: 'full' }],
  ['instant', { mode: 'instant' }],
  ['local', { mode: 'local' }],
  ['local, signed', { mode: 'local', publisherKey }],
  ['full, signed', { mode: 'full', publisherKey }],
  ['single, two servers', EITHER],
]
const CASES = MODES.flatMap(([mode, options]) =>
  [A, B].flatMap(server =>
    Object.entries(FAULTS).flatMap(([how, fault]) =>
      Object.entries(STAGES).map(([what, stage]) => {
        const isSpared = OF_ANY.includes(what) || (mode === 'local, signed' && what === 'what it shows')
        return [`mode ${mode}: ${server} ${how} ${what}`, { options, server, fault, stage, isSpared }] as const
      }),
    ),
  ),
)

function started(options: Options, seed = 1) {
  const { network, database } = keyed({ partitions: 6, partitionRecords: 4 })
  network.signatures.push(signatureOf(database))
  const living = new Living(network, database)
  const world = new World({ network, database, audited: false, seed })
  world.blobMs = 0
  const { clock } = world
  const open = (more: Options = {}) => world.life().openIdle({ push: false, ...options, ...more })
  return { network, living, world, clock, open, drive: world.drive.bind(world) as World['drive'] }
}

/** From now on a server fails so. */
function failing(living: Living, server: string, clock: Clock, fault: (clock: Clock) => Misbehave, stage: Stage) {
  const how = fault(clock)
  let times = 0
  living.network.misbehave[server] = (seen, genuine) => {
    if (!stage(seen, living)) return undefined
    times++
    return how(seen, genuine)
  }
  return () => times
}

function publish(living: Living, epochs: number, servers: readonly string[] = [A, B]): Database {
  for (let i = 0; i < epochs; i++) {
    living.publish([change(NAMES[i]!, `e ${living.newest.manifest.epoch}`)], servers)
    living.network.signatures.push(signatureOf(living.newest))
  }
  return living.newest
}

/** Whatever a call comes to, and how long it takes. */
async function timed(clock: Clock, drive: Harness['drive'], call: () => Promise<unknown>) {
  const start = clock.now()
  const outcome = await drive(
    call().then(
      value => ({ value, error: undefined }),
      (error: { code: string; message: string }) => ({ value: undefined, error }),
    ),
  )
  return { ...outcome, ms: clock.now() - start }
}

test.each(sampled(CASES, 32))('%s: every call ends by its deadline', async (_, { options, server, fault, stage }) => {
  const [timeoutMs, patiently] = [5_000, { timeoutMs: Number.POSITIVE_INFINITY }]
  const { living, clock, open, drive } = started(options)
  const ends = async (call: () => Promise<unknown>) => {
    const { ms, error, value } = await timed(clock, drive, call)
    // Blobs that arrive give time back: there are few, and small ones.
    expect(ms).toBeLessThanOrEqual(timeoutMs + 1_000)
    if (error !== undefined) expect(['timeout', 'network', 'protocol', 'version']).toContain(error.code)
    return value
  }
  failing(living, server, clock, fault, stage)
  const opened = (await ends(() => open({ timeoutMs }))) as KeyhushMap | undefined
  living.network.misbehave[server] = undefined
  const map = opened ?? (await drive(open({ timeoutMs })))
  for (const epochs of [1, 2]) {
    failing(living, server, clock, fault, stage)
    publish(living, epochs)
    await ends(() => map.sync())
    await ends(() => map.get(NAMES[5]!))
    living.network.misbehave[server] = undefined
    await drive(map.sync(patiently))
    expect(map.epoch).toBe(living.newest.manifest.epoch)
  }
  failing(living, server, clock, fault, stage)
  await ends(() => map.close())
  living.network.misbehave[server] = undefined
  const again = await drive(open(patiently))
  expect(await drive(again.get(NAMES[5]!))).toEqual(living.newest.contents.values[5])
})

const spared = CASES.filter(([, { isSpared }]) => isSpared)
test.each(sampled(spared, 32))(
  '%s: the other suffices, two seconds later',
  async (_, { options, server, fault, stage }) => {
    for (let seed = 1; seed <= (THOROUGH ? 3 : 1); seed++) {
      const { living, clock, open, drive } = started(options, seed)
      failing(living, server, clock, fault, stage)
      const opening = await timed(clock, drive, () => open())
      expect([opening.error, opening.ms < 3_000]).toEqual([undefined, true])
      const map = opening.value as KeyhushMap
      for (const epochs of [1, 3]) {
        publish(living, epochs)
        const syncing = await timed(clock, drive, () => map.sync())
        expect(syncing.error).toBeUndefined()
        expect(syncing.ms).toBeLessThan(3_000)
        expect(map.epoch).toBe(living.newest.manifest.epoch)
      }
      expect(await drive(map.get(NAMES[0]!))).toEqual(new TextEncoder().encode(`e ${living.newest.manifest.epoch - 3}`))
    }
  },
)

describe('manifests that come late, of a map with a key', () => {
  const modes = ['local', 'full', 'instant'] as const
  const isManifest: Stage = ({ path }) => path.startsWith('/v1/manifest?')
  const silent = FAULTS['keeps silent about']!
  const slow = (clock: Clock) => late(clock, '', 2_500)
  const kinds: readonly [string, readonly string[], (clock: Clock) => Misbehave][] = [
    ['one is silent about them', [A], silent],
    ['the other is silent about them', [B], silent],
    ['both take 2.5 seconds', [A, B], slow],
  ]
  describe.each(modes)('mode %s', mode => {
    test.each(kinds)('%s: an open map is at the newest epoch after each sync()', async (_, servers, fault) => {
      const { living, clock, open, drive } = started({ mode, publisherKey })
      const map = await drive(open())
      const faults = servers.map(server => [server, fault(clock)] as const)
      for (const [server, how] of faults) {
        living.network.misbehave[server] = (seen, genuine) =>
          isManifest(seen, living) ? how(seen, genuine) : undefined
      }
      for (let epoch = 2; epoch <= 5; epoch++) {
        publish(living, 1)
        const { error, ms } = await timed(clock, drive, () => map.sync())
        expect([error, map.epoch]).toEqual([undefined, epoch])
        expect(ms).toBeLessThan(3_000)
      }
    })

    test('both take six seconds: a map opens', async () => {
      const { living, clock, open, drive } = started({ mode, publisherKey })
      living.network.both(late(clock, '/v1/manifest', 6_000))
      const { value, error } = await timed(clock, drive, () => open())
      expect(error).toBeUndefined()
      expect(await drive((value as KeyhushMap).get(NAMES[5]!))).toEqual(living.newest.contents.values[5])
    })
  })

  test('one alone has the newest epoch, and takes six seconds: sync() waits for it, and stops at no older one', async () => {
    const { living, clock, open, drive } = started({ mode: 'local', publisherKey })
    const map = await drive(open())
    publish(living, 2)
    publish(living, 1, [A])
    living.network.misbehave[A] = late(clock, '/v1/manifest?', 6_000)
    await drive(map.sync())
    expect(map.epoch).toBe(4)
  })
})

describe('partitions of 200 kB', () => {
  const database = buildDatabase(core, { values: someValues(400, 1_000), partitions: 2 })
  const faults = ['keeps silent about', 'drips', 'drips slowly']
  test.each(faults)('one that %s them: the other has given them all within three seconds', async how => {
    for (const server of [A, B]) {
      const network = sameOnBoth(database)
      const harness = new Harness(network)
      const fault = FAULTS[how]!(harness.clock)
      network.misbehave[server] = (seen, genuine) =>
        seen.path.startsWith('/v1/blobs/') ? fault(seen, genuine) : undefined
      const map = await harness.open({ mode: 'local', storage: 'memory', push: false })
      expect(harness.clock.now()).toBeLessThan(3_000)
      expect(await harness.drive(map.at(399))).toEqual(database.byIndex[399])
    }
  })
})

describe('where some of five servers suffice', () => {
  const stages = Object.entries(STAGES).filter(([what]) => ['what it shows', 'manifests', 'lookups'].includes(what))
  const kinds = Object.entries(FAULTS).flatMap(([how, fault]) =>
    stages.map(([what, stage]) => [how, what, fault, stage] as const),
  )
  test.each(kinds)('two of which each %s %s: a call takes two seconds more, once', async (_how, what, fault, stage) => {
    for (let seed = 1; seed <= 5; seed++) {
      const { database } = keyed()
      const network = among(5, database)
      const living = new Living(network, database)
      const harness = new Harness(network, seed)
      const { clock, drive } = harness
      for (const i of [1, 3]) failing(living, SERVERS[i]!, clock, fault, stage)
      const wish = { servers: SERVERS.slice(0, 5), atLeast: 3, mode: 'instant', push: false } as const
      const opening = await timed(clock, drive, () => harness.open(wish))
      expect([opening.error, opening.ms <= 2_000]).toEqual([undefined, true])
      const map = opening.value as KeyhushMap
      const waits: number[] = []
      for (let i = 0; i < 4; i++) {
        const { value, ms } = await timed(clock, drive, () => map.get(NAMES[i]!))
        expect(value).toEqual(database.contents.values[i])
        waits.push(ms)
      }
      expect(waits.slice(1)).toEqual([0, 0, 0])
      expect(waits[0]).toBeLessThan(what === 'lookups' ? 3_000 : 1)
      publish(living, 1, SERVERS.slice(0, 5))
      const syncing = await timed(clock, drive, () => map.sync())
      expect([syncing.error, syncing.ms <= 2_000, map.epoch]).toEqual([undefined, true, 2])
    }
  })
})

describe('of two servers that may be one party', () => {
  test.each(Object.entries(FAULTS))(
    'one that %s lookups: the other is sent the same bytes two seconds later, once',
    async (_, fault) => {
      for (const server of [A, B]) {
        const { living, network, clock, open, drive } = started(EITHER)
        const map = await drive(open())
        failing(living, server, clock, fault, STAGES['lookups']!)
        const waits: number[] = []
        for (let i = 0; i < 4; i++) {
          const before = network.queries().length
          const { value, ms } = await timed(clock, drive, () => map.get(NAMES[i]!))
          expect(value).toEqual(living.newest.contents.values[i])
          waits.push(ms)
          const sent = network.queries(before).map(({ body }) => toHex(body))
          expect(new Set(sent).size).toBe(1)
        }
        expect(waits.slice(1)).toEqual([0, 0, 0])
        expect(waits[0]).toBeLessThan(3_000)
      }
    },
  )

  test.each(Object.entries(FAULTS))(
    'one that %s its fence: the other is enough to open a stored state, and to make one',
    async (_, fault) => {
      for (const server of [A, B]) {
        const { living, clock, open, drive } = started(EITHER)
        failing(living, server, clock, fault, STAGES['its fence']!)
        const made = await timed(clock, drive, () => open())
        expect([made.error, made.ms < 3_000]).toEqual([undefined, true])
        await drive((made.value as KeyhushMap).close())
        const taken = await timed(clock, drive, () => open())
        expect([taken.error, taken.ms < 3_000]).toEqual([undefined, true])
        const { value } = await timed(clock, drive, () => (taken.value as KeyhushMap).get(NAMES[3]!))
        expect(value).toEqual(living.newest.contents.values[3])
      }
    },
  )
})

describe('memory', () => {
  /** Who is asked for the next list first, and how long sync() takes. */
  async function asked(living: Living, map: KeyhushMap, clock: Clock, drive: Harness['drive'], network: Network) {
    const before = network.seen.length
    publish(living, 1)
    const { ms } = await timed(clock, drive, () => map.sync())
    const lists = network.seen.slice(before).filter(({ path }) => path.startsWith('/v1/blobs/'))
    return { servers: lists.map(({ server }) => server), ms }
  }

  test.each([A, B])(
    '%s was late with lists of one sync(): it is asked last for the others, and first again once it replies in time',
    async server => {
      const { living, network, clock, open, drive } = started({ mode: 'local' })
      const map = await drive(open())
      failing(living, server, clock, FAULTS['keeps silent about']!, STAGES['update lists']!)
      publish(living, 6)
      const before = network.seen.length
      const { ms } = await timed(clock, drive, () => map.sync())
      expect(ms).toBeLessThan(3_000)
      const lists = () => network.seen.slice(before).filter(({ path }) => path.startsWith('/v1/blobs/'))
      expect(lists().filter(seen => seen.server === server)).toHaveLength(2) // of the first four
      expect(lists()).toHaveLength(8)
      living.network.misbehave[server] = undefined
      const firsts: string[] = []
      for (let i = 0; i < 4; i++) firsts.push((await asked(living, map, clock, drive, network)).servers[0]!)
      expect(firsts).toContain(server)
    },
  )

  test('sync() waits once for a server that falls silent while a new generation is downloaded', async () => {
    const { living, network, clock, open, drive } = started({ mode: 'local', publisherKey })
    const map = await drive(open())
    const { contents, manifest, manifestBytes } = living.newest
    const { databaseId } = manifest
    const next = { databaseId, generation: 2, epoch: 2, previousManifest: core.blake3(manifestBytes) }
    living.newest = buildDatabase(core, { ...contents, partitions: 7, manifest: next })
    network.publishOnBoth(living.newest)
    network.signatures.push(signatureOf(living.newest))
    let downloads = false
    network.both(({ server, path }, genuine) => {
      downloads ||= path.startsWith('/v1/blobs/')
      return downloads && server === B ? new Promise<never>(() => {}) : genuine
    })
    const { error, ms } = await timed(clock, drive, () => map.sync())
    expect([error, map.epoch]).toEqual([undefined, 2])
    expect(ms).toBeLessThan(3_000)
  })

  test('servers that are all late are all waited for', async () => {
    const { living, network, clock, open, drive } = started({ mode: 'full' })
    const map = await drive(open())
    network.both(late(clock, '/v1/', 6_000))
    for (let i = 0; i < 2; i++) {
      publish(living, 1)
      await drive(map.sync())
      expect(await drive(map.get(NAMES[5]!))).toEqual(living.newest.contents.values[5])
    }
    expect(map.epoch).toBe(3)
  })

  test('a device that goes offline while it waits for one that was late does not look at its clock all the time', async () => {
    const [clock, connection, standing] = [new ManualClock(), new FakeLine(), new Standing()]
    const meter = { asking: <T>(work: () => T) => work() }
    const shared = { environment: { clock, connection }, standing, meter }
    const links = [A, B].map(name => ({ server: { name }, ...shared })) as unknown as Links
    standing.note(links[1]!, 'late')
    const work = async (link: Link) => {
      connection.isOffline = true
      return link.server.name === A ? 'replied' : await new Promise<never>(() => {})
    }
    // The late one gets as long again as the other has taken, which is no time.
    const asking = askAll(links, { enough: 1 }, new AbortController().signal, work)
    await until(clock, () => clock.now() >= 5_000)
    connection.goOnline()
    expect(await drive(clock, asking)).toEqual(['replied', undefined])
  })

  test('a page that was held up notes nobody as late, and asks nobody else', async () => {
    const { living, network, clock, open, drive } = started({ mode: 'local' })
    const map = await drive(open())
    // The page is held up while it waits. Replies are there when it goes on, but its timers are run first.
    network.both(async ({ path }, genuine) => {
      if (path === '/v1/info') return genuine // two are under way together
      await turns(50)
      clock.pass(5_000)
      await clock.wait(1)
      return genuine
    })
    const before = network.seen.length
    publish(living, 1)
    await drive(map.sync())
    expect(map.epoch).toBe(2)
    const asked = network.seen.slice(before).filter(({ path }) => path !== '/v1/info')
    expect(asked.filter(({ path }) => path.startsWith('/v1/blobs/'))).toHaveLength(1)
    expect(asked.filter(({ path }) => path.startsWith('/v1/manifest'))).toHaveLength(1)
  })
})
