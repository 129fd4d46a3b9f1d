// Instant lookups with three servers or more: private while one operator is honest. What each server sees is the same whatever is asked;
// a liar among them is never believed and never named, because nothing proves who it was.

import { decodeInstantQuery, HEADER_BYTES, INSTANT_PATH, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { TIMEOUT_MS } from '../src/base/constants.js'
import { estimate, type MapEvent } from '../src/index.js'
import { discardStateWith } from '../src/open.js'
import { chooseScheme, SCHEMES } from '../src/scheme/table.js'
import { type OpenWithOptions, openWith } from '../src/testing.js'
import { rest } from './support/clock.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { core, Harness, keyed, NAMES, refusedBy } from './support/harness.js'
import { change, Living, livingKeyed } from './support/living.js'
import {
  among,
  bytesOf,
  drip,
  hang,
  late,
  lying,
  type Misbehave,
  type Network,
  offersNoInstant,
  ok,
  on,
  problem,
  SERVERS,
  type Seen,
  silence,
} from './support/network.js'
import { seededRandom } from './support/random.js'
import { publisherKey, signatureOf } from './support/signed.js'
import { origin } from './support/world.js'

/** After so long another subset is asked as well: two seconds, and what the bytes of a block and a request for it take at 256 kbit/s. */
const LATE = 2_031

/** with faults */
const LOOKUPS = THOROUGH ? 10_000 : 100

/** of all tests but those that publish */
const { database } = keyed()
const { values } = database.contents

async function opened(network: Network, count: number, options: Partial<OpenWithOptions> = {}, seed = 1) {
  const harness = new Harness(network, seed)
  const events: MapEvent[] = []
  const servers = SERVERS.slice(0, count)
  const onEvent = (event: MapEvent) => void events.push(event)
  const map = await harness.open({ servers, mode: 'instant', push: false, onEvent, ...options })
  return { harness, map, network, events, drive: harness.drive }
}

const asked = ({ seen }: Network, skip = 0): Seen[] => seen.filter(({ path }) => path === INSTANT_PATH).slice(skip)

/** Of each step, a server's request alike for all that may be asked; who got the vector is drawn, so lengths are sorted. */
function shapes(seen: readonly Seen[], servers: number): string[] {
  const steps = Array.from({ length: seen.length / servers }, (_, i) => seen.slice(i * servers, (i + 1) * servers))
  return steps.map(step => {
    const of = step.map(
      ({ server, method, url, body }) => `${server} ${method} ${url} ${toHex(body.slice(0, HEADER_BYTES))}`,
    )
    return [...of, ...step.map(({ body }) => body.length).sort()].join('\n')
  })
}

const LOOKED_UP = [
  ['name-3.example', 'name-4.example'],
  ['absent', 'away'],
  ['name-3.example', 'name-3.example'],
]

/** The same keys with other values. */
function otherThan({ contents }: Database): Database {
  return buildDatabase(core, { ...contents, values: contents.values.map(value => value.map(byte => byte ^ 1)) })
}

function changed(bytes: Uint8Array, at: number, by: number): Uint8Array {
  return bytes.map((byte, i) => (i === at ? byte ^ by : byte))
}

describe.each([2, 3, 4, 5, 8])('with %i servers', count => {
  test('keys and indices are found, alone and together, after nothing but manifests and what is offered', async () => {
    const { map, drive, network } = await opened(among(count, database), count)
    expect([map.mode, map.storage, map.stats.servers.length]).toEqual(['instant', 'memory', count])
    expect(map.stats).toMatchObject({ held: {}, lookupsLeft: undefined, commonHost: undefined })
    const paths = network.seen.map(({ path }) => path).sort()
    expect(paths).toEqual(['/v1/info', '/v1/manifest'].flatMap(path => Array(count).fill(path)))
    for (const [i, name] of NAMES.entries()) expect(await drive(map.get(name))).toEqual(values[i])
    expect(await drive(map.get('absent.example'))).toBeUndefined()
    expect([await drive(map.has(NAMES[3]!)), await drive(map.has('absent.example'))]).toEqual([true, false])
    const keys = [NAMES[7]!, 'absent.example', NAMES[7]!]
    expect(await drive(map.getMany(keys, { padTo: 5 }))).toEqual([values[7], undefined, values[7]])
    for (let i = 0; i < map.size; i++) expect(await drive(map.at(i))).toEqual(database.byIndex[i])
    const one = asked(network).slice(0, 2 * count)
    expect(new Set(one.map(({ tick }) => tick)).size).toBe(2) // each step leaves at once
    const queries = one.map(({ body }) => decodeInstantQuery(body))
    expect(queries.filter(({ vectors }) => vectors).length).toBe(count === 2 ? 0 : 2)
    expect(queries.every(({ servers }) => servers === count)).toBe(true)
  })

  test('one that lies is never believed, and nobody is named', async () => {
    const liar = SERVERS[count - 2]!
    for (const [i, name] of [...NAMES.slice(0, 6), 'absent.example'].entries()) {
      const { map, harness, drive, network } = await opened(among(count, database), count)
      lying(network, liar, answer => {
        answer[HEADER_BYTES + ((37 * i) % (answer.length - HEADER_BYTES))]! ^= 1 << (i % 8)
      })
      const error = await harness.failure(map.get(name))
      expect([error.name, error.server]).toEqual(['TamperedError', undefined])
      for (const server of SERVERS.slice(0, count)) expect(error.message).toContain(server)
      expect(map.stats.incidents).toEqual([])
      network.misbehave[liar] = undefined
      expect(await drive(map.get(name))).toEqual(values[NAMES.indexOf(name)])
    }
  })
})

describe('with three servers', () => {
  test('present, absent and repeated keys look alike to each', async () => {
    const views = []
    for (const keys of LOOKED_UP) {
      const { map, drive, network, events } = await opened(among(3, database), 3)
      for (const key of keys) await drive(map.get(key))
      views.push([shapes(asked(network), 3), events])
    }
    expect(views[1]).toEqual(views[0])
    expect(views[2]).toEqual(views[0])
  })

  test('no server gets the vectors more often than the others, whatever is asked', async () => {
    for (const index of [0, 19]) {
      const { map, drive, network } = await opened(among(3, database), 3, {}, 5)
      for (let i = 0; i < 300; i++) await drive(map.at(index))
      const carriers = asked(network).filter(({ body }) => decodeInstantQuery(body).vectors)
      const counts = SERVERS.slice(0, 3).map(name => carriers.filter(({ server }) => server === name).length)
      for (const count of counts) expect(Math.abs(count - 100)).toBeLessThan(7 * Math.sqrt((300 * 2) / 9))
    }
  })

  // Otherwise those who see the lookups of both clones would hold equal seeds and other vectors.
  test('clones whose generators are in one state share no seed, unless they ask the same of the same servers', async () => {
    const sent = async (index: number, servers: readonly number[]) => {
      const harness = new Harness(among(8, database), 7)
      const names = servers.map(server => SERVERS[server]!)
      const map = await harness.open({ servers: names, mode: 'instant', push: false })
      await harness.drive(map.at(index))
      const seeds = asked(harness.network)
        .map(({ body }) => decodeInstantQuery(body))
        .filter(({ vectors }) => !vectors)
      return seeds.map(({ queries }) => toHex(queries))
    }
    const all = [
      await sent(3, [0, 1, 2]),
      await sent(4, [0, 1, 2]),
      await sent(3, [0, 1, 3]),
      await sent(3, [0, 1, 2, 3]),
    ]
    expect(new Set(all.flat()).size).toBe(2 + 2 + 2 + 3)
    expect((await sent(3, [0, 1, 2])).sort()).toEqual(all[0]!.sort())
  })

  test('one that is away fails the lookup by its name, and the next lookup works', async () => {
    const { map, harness, drive, network } = await opened(among(3, database), 3)
    for (const how of [hang(INSTANT_PATH), on(INSTANT_PATH, () => problem(503, 'not_ready'))]) {
      network.misbehave[SERVERS[1]!] = how
      const error = await harness.failure(map.get(NAMES[2]!))
      expect([error.code === 'tampered', error.server]).toEqual([false, SERVERS[1]])
      network.misbehave[SERVERS[1]!] = undefined
      expect(await drive(map.get(NAMES[2]!))).toEqual(values[2])
    }
  })

  test('a reply that is malformed is named, and asked for anew', async () => {
    const { map, drive, network } = await opened(among(3, database), 3)
    let cut = 0
    network.misbehave[SERVERS[2]!] = on(INSTANT_PATH, async genuine =>
      cut++ === 0 ? ok((await bytesOf(genuine)).subarray(1)) : genuine,
    )
    expect(await drive(map.get(NAMES[2]!))).toEqual(values[2])
    expect(map.stats.incidents.map(({ server }) => server)).toEqual([SERVERS[2]])
  })

  test('the map is at the newest epoch that all have, and follows', async () => {
    const { network: _, newest } = livingKeyed()
    const living = new Living(among(3, newest), newest)
    const { map, drive, events } = await opened(living.network, 3)
    living.publish([change(NAMES[0]!, 'new')], SERVERS.slice(0, 2))
    await drive(map.sync())
    expect(map.epoch).toBe(1)
    living.network.publish(SERVERS[2]!, living.newest)
    await drive(map.sync())
    expect([map.epoch, events.map(({ type }) => type)]).toEqual([2, ['updated']])
  })

  test('servers that contradict each other are refused, whichever of them it is', async () => {
    const other = otherThan(database)
    for (const liar of SERVERS.slice(0, 3)) {
      const network = among(3, database)
      network.replace(liar, { ...other, manifest: { ...other.manifest, databaseId: database.manifest.databaseId } })
      const error = await refusedBy({ network }, { servers: SERVERS.slice(0, 3), mode: 'instant', push: false })
      expect(error.name).toBe('ServersDisagreeError')
    }
  })

  test('a publisher signs for all, and an older epoch is refused', async () => {
    const network = among(3, database)
    network.signatures.push(signatureOf(database))
    const { map, drive } = await opened(network, 3, { publisherKey })
    expect(await drive(map.get(NAMES[5]!))).toEqual(values[5])
    network.signatures.splice(0)
    const harness = new Harness(network)
    const unsigned = harness.open({ servers: SERVERS.slice(0, 3), mode: 'instant', push: false, publisherKey })
    expect((await harness.failure(unsigned)).name).toBe('SignatureError')
  })

  test('in mode auto a small list is downloaded, and a large one gets hints for one server, none that trust two', async () => {
    const small = await opened(among(3, keyed().database), 3, { mode: 'auto' })
    await small.drive(small.map.prepare())
    expect([small.map.mode, small.network.queries()]).toEqual(['local', []])

    const large = buildDatabase(core, { values: someValues(300, 64 * 1024), partitions: 8 })
    const w = new Harness(among(3, large))
    const opening = {
      servers: SERVERS.slice(0, 3),
      mode: 'auto',
      push: false,
      timeoutMs: Number.POSITIVE_INFINITY,
    } as const
    const map = await w.drive(openWith(w.environment, opening, SCHEMES, () => false, chooseScheme))
    await w.drive(map.prepare())
    expect(map.mode).toBe('single')
    for (const index of [0, 299]) expect(await w.drive(map.at(index))).toEqual(large.byIndex[index])
    await rest()
  })
})

describe('with atLeast 3 of five servers', () => {
  const five = (options: Partial<OpenWithOptions> = {}, seed = 1) =>
    opened(among(5, database), 5, { atLeast: 3, ...options }, seed)
  const notReady = on(INSTANT_PATH, () => problem(503, 'not_ready'))

  test('a map opens and follows while two are away, and from what three show', async () => {
    const { newest } = livingKeyed()
    const living = new Living(among(5, newest), newest)
    for (const i of [1, 4]) living.network.misbehave[SERVERS[i]!] = on('', () => problem(500, 'internal'))
    const { map, drive } = await opened(living.network, 5, { atLeast: 3 })
    expect(await drive(map.get(NAMES[0]!))).toEqual(newest.contents.values[0])
    living.publish([change(NAMES[0]!, 'new')], [SERVERS[0]!, SERVERS[2]!])
    await drive(map.sync())
    expect(map.epoch).toBe(1) // two alone show it
    living.network.publish(SERVERS[3]!, living.newest)
    await drive(map.sync())
    expect(map.epoch).toBe(2)
    expect(await drive(map.getText(NAMES[0]!))).toBe('new')
  })

  test('two that show another database, alone or together, cannot stop it; three can', async () => {
    const other = otherThan(database)
    const network = among(5, database)
    for (const i of [0, 3]) network.replace(SERVERS[i]!, other)
    const { map, drive } = await opened(network, 5, { atLeast: 3 })
    for (const [i, name] of NAMES.entries()) expect(await drive(map.get(name))).toEqual(values[i])
    network.replace(SERVERS[1]!, other)
    const harness = new Harness(network)
    const opening = harness.open({ servers: SERVERS.slice(0, 5), atLeast: 4, mode: 'instant', push: false })
    expect((await harness.failure(opening)).name).toBe('ServersDisagreeError')
  })

  test('three that are away fail the call, which says who', async () => {
    const { map, harness, network } = await five()
    for (const i of [0, 1, 2]) network.misbehave[SERVERS[i]!] = notReady
    const error = await harness.failure(map.get(NAMES[0]!))
    expect([error.code, SERVERS.slice(0, 3)]).toEqual(['network', expect.arrayContaining([error.server])])
  })

  test(`${LOOKUPS} lookups, of which each meets up to two servers that are away, lag or lie: no wrong value, and none is lost`, async () => {
    const { map, drive, network, harness } = await five({}, 9)
    const random = seededRandom(77)
    const below = (bound: number) => random(1)[0]! % bound
    const waits: number[] = []
    for (let lookup = 0; lookup < LOOKUPS; lookup++) {
      for (const server of SERVERS.slice(0, 5)) network.misbehave[server] = undefined
      for (let faults = below(3); faults > 0; faults--) {
        const server = SERVERS[below(5)]!
        const byte = HEADER_BYTES + below(60)
        const flip = 1 + below(255)
        const faulty: Misbehave[] = [
          on(INSTANT_PATH, () => problem(503, 'not_ready')),
          hang(INSTANT_PATH),
          on(INSTANT_PATH, async genuine => ok(changed(await bytesOf(genuine), byte, flip))),
          on(INSTANT_PATH, async genuine => ok((await bytesOf(genuine)).subarray(1))),
        ]
        network.misbehave[server] = faulty[below(faulty.length)]
      }
      const i = below(NAMES.length + 3)
      const begun = harness.clock.now()
      expect(await drive(map.get(NAMES[i] ?? `absent ${i}`))).toEqual(values[i])
      waits.push(harness.clock.now() - begun)
    }
    expect(map.stats.lookups).toBe(LOOKUPS)
    expect(new Set(map.stats.incidents.map(({ code }) => code))).toContain('tampered')
    expect(Math.max(...waits)).toBeLessThan(TIMEOUT_MS)
  })

  test('one that says it offers no instant lookups keeps nobody out', async () => {
    const network = among(5, database)
    network.misbehave[SERVERS[2]!] = offersNoInstant(network, SERVERS[2]!)
    const { map, drive } = await opened(network, 5, { atLeast: 3 })
    expect(await drive(map.get(NAMES[0]!))).toEqual(values[0])
  })

  test('one that is slow costs one call two seconds, and then is asked last', async () => {
    const { map, drive, network, harness } = await five({ timeoutMs: 15_000 })
    network.misbehave[SERVERS[2]!] = late(harness.clock, INSTANT_PATH, 9_000)
    const waits: number[] = []
    for (const [i, name] of NAMES.slice(0, 6).entries()) {
      const begun = harness.clock.now()
      expect(await drive(map.get(name))).toEqual(values[i])
      waits.push(harness.clock.now() - begun)
    }
    expect(waits).toEqual([LATE, 0, 0, 0, 0, 0])
  })

  test('one that keeps silent costs one call two seconds, and then is asked last', async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const { map, drive, network, harness } = await five({}, seed)
      network.misbehave[SERVERS[2]!] = hang(INSTANT_PATH)
      const waits: number[] = []
      for (const other of [0, 1, 3, 4]) {
        network.misbehave[SERVERS[other]!] = notReady // says so at once
        const begun = harness.clock.now()
        await drive(map.get(NAMES[other]!))
        waits.push(harness.clock.now() - begun)
        network.misbehave[SERVERS[other]!] = undefined
      }
      expect([seed, waits]).toEqual([seed, [LATE, 0, 0, 0]])
    }
  })

  test('two that lie late cost one call two seconds, and no lookup', async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const { map, drive, network, harness } = await five({ timeoutMs: 15_000 }, seed)
      for (const liar of [1, 4]) {
        network.misbehave[SERVERS[liar]!] = on(INSTANT_PATH, async genuine => {
          await harness.clock.wait(9_000)
          return ok(changed(await bytesOf(genuine), HEADER_BYTES + 1, 1))
        })
      }
      const begun = harness.clock.now()
      expect(await drive(map.get(NAMES[3]!))).toEqual(values[3])
      expect([seed, harness.clock.now() - begun]).toEqual([seed, LATE])
    }
  })

  test('one that is slow, and another that is silent: no subset is asked once the lookup is answered', async () => {
    for (let seed = 1; seed <= 3; seed++) {
      const { map, drive, network, harness } = await five({}, seed)
      const { clock } = harness
      let slow: string | undefined
      let silent: string | undefined
      for (const server of SERVERS.slice(0, 5)) {
        network.misbehave[server] = on(INSTANT_PATH, async (genuine, { init }) => {
          slow ??= server
          if (server !== slow && clock.now() >= 2_000) silent ??= server // of the second subset
          if (server === slow) await clock.wait(2_500)
          return server === silent ? silence(init.signal) : genuine
        })
      }
      expect(await drive(map.at(3))).toEqual(database.byIndex[3])
      expect(silent).toBeDefined()
      const { length } = asked(network)
      await drive(map.close())
      await drive(clock.wait(60_000))
      expect([seed, asked(network).length]).toEqual([seed, length])
    }
  })

  test.each(['/v1/info', '/v1/manifest'])(
    'one that drips %s keeps a map from opening and following for two seconds at most',
    async path => {
      for (let seed = 1; seed <= 10; seed++) {
        const { newest } = livingKeyed()
        const living = new Living(among(5, newest), newest)
        const harness = new Harness(living.network, seed)
        living.network.misbehave[SERVERS[1]!] = drip(harness.clock, path, 9_000)
        const map = await harness.open({ servers: SERVERS.slice(0, 5), atLeast: 3, mode: 'instant', push: false })
        expect(harness.clock.now()).toBeLessThanOrEqual(2_000)
        const begun = harness.clock.now()
        living.publish([change(NAMES[0]!, 'new')], SERVERS.slice(0, 5))
        await harness.drive(map.sync())
        expect(harness.clock.now() - begun).toBeLessThanOrEqual(2_000)
        expect(await harness.drive(map.getText(NAMES[0]!))).toBe('new')
      }
    },
  )

  test('two that show newer epochs, and drip those before, keep a map from opening for two seconds at most', async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const { newest } = livingKeyed()
      const living = new Living(among(5, newest), newest)
      const harness = new Harness(living.network, seed)
      living.publish([change(NAMES[0]!, 'new')], [SERVERS[1]!, SERVERS[3]!])
      living.publish([change(NAMES[0]!, 'newer')], [SERVERS[1]!])
      for (const i of [1, 3]) living.network.misbehave[SERVERS[i]!] = drip(harness.clock, '/v1/manifest?', 9_000)
      const map = await harness.open({ servers: SERVERS.slice(0, 5), atLeast: 3, mode: 'instant', push: false })
      expect(harness.clock.now()).toBeLessThanOrEqual(2_000)
      expect(await harness.drive(map.get(NAMES[1]!))).toEqual(newest.contents.values[1])
    }
  })

  test.each([undefined, 3])(
    'a device that loses its connection for a moment loses no lookup (atLeast %s)',
    async atLeast => {
      const { map, drive, network } = await opened(among(5, database), 5, { atLeast })
      for (const server of SERVERS.slice(0, 5)) {
        let requests = 0
        network.misbehave[server] = on(INSTANT_PATH, genuine => {
          if (requests++ === 0) throw new TypeError('Failed to fetch')
          return genuine
        })
      }
      expect(await drive(map.get(NAMES[3]!))).toEqual(values[3])
    },
  )

  test('2 of three: one pair of keys is asked, and another where a server fails', async () => {
    const { map, drive, network } = await opened(among(3, database), 3, { atLeast: 2 })
    expect(await drive(map.get(NAMES[3]!))).toEqual(values[3])
    const pair = new Set(asked(network).map(({ server }) => server))
    expect([pair.size, decodeInstantQuery(asked(network)[0]!.body).servers]).toEqual([2, 2])
    network.misbehave[[...pair][0]!] = notReady
    expect(await drive(map.get(NAMES[4]!))).toEqual(values[4])
    expect(map.stats.incidents.map(({ server }) => server)).toEqual([[...pair][0]])
  })

  test('estimate() asks for no more servers than open(), and tells what a pair of them costs', async () => {
    const servers = SERVERS.slice(0, 3)
    const network = among(3, keyed().database)
    network.replace(servers[2]!, keyed({ partitions: 4 }).database)
    await expect(estimate(servers, { fetch: network.fetch })).rejects.toMatchObject({ code: 'servers_disagree' })
    const { modes } = await estimate(servers, { fetch: network.fetch, atLeast: 2 })
    const { drive, map } = await opened(network, 3, { atLeast: 2 })
    for (let i = 0; i < 2; i++) await drive(map.get('absent')) // the first may ask a pair with the third
    const { lookupBytesUp: bytesUp, lookupBytesDown: bytesDown } = modes.instant!
    expect(map.stats.lastLookup).toMatchObject({ bytesUp, bytesDown })
  })
})

describe('a stored state', () => {
  test('on which fewer servers agreed than the app now asks for answers no lookup', async () => {
    const other = otherThan(database)
    const network = among(3, database)
    for (const server of SERVERS.slice(0, 2)) network.replace(server, other)
    const { stores, openStore } = origin()
    const options = { servers: SERVERS.slice(0, 3), mode: 'local', push: false } as const
    const before = new Harness(network, 1, { openStore })
    const weaker = await before.open({ ...options, atLeast: 2 })
    expect(await before.drive(weaker.get(NAMES[3]!))).toEqual(other.contents.values[3])
    await before.drive(weaker.close())

    const now = new Harness(network, 2, { openStore })
    const asked = now.open(options).then(async map => await now.drive(map.get(NAMES[3]!)))
    await expect(asked).rejects.toMatchObject({ name: 'ServersDisagreeError' })
    await discardStateWith({ openStore }, options)
    for (const disk of stores.values()) expect(await disk.read()).toBeUndefined()
  })
})
