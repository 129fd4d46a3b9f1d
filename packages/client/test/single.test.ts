// Mode `single`: one server answers from hints that run out, and what it sees is the same whatever is asked, whatever it
// does. Verified whole before anything is used; stored before anything is sent.

import { HEADER_BYTES, SUITE_PARITIES } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { LOCK_LEASE_MS } from '../src/base/constants.js'
import { estimate, type KeyhushMap } from '../src/index.js'
import type { OpenWithOptions } from '../src/testing.js'
import { deferred, rest, settle } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import {
  core,
  Harness,
  hex,
  keyed,
  keyless,
  NAMES,
  openedOn,
  refusedBy,
  sameOnBoth,
  withHandles,
} from './support/harness.js'
import { add, append, change, edit, Living, livingKeyless, openedLiving, remove, utf8 } from './support/living.js'
import {
  A,
  after,
  among,
  B,
  busy,
  bytesOf,
  claimedQuery,
  flip,
  hang,
  type Misbehave,
  type Network,
  ok,
  on,
  problem,
  queryIn,
  SERVERS,
} from './support/network.js'
import { publisherKey, signedOnBoth } from './support/signed.js'
import { type Life, openedWorld, World } from './support/world.js'

const one = { servers: [A], integrity: 'server', mode: 'single', lookups: 60 } as const

const opened = (living: Living, options: Partial<OpenWithOptions> = {}) => openedLiving(living, { ...one, ...options })

describe('one server', () => {
  test('needs somebody to vouch for its database, or the app to do without', async () => {
    const { network } = keyless()
    const harness = new Harness(network)
    const refused = async (options: object) => (await harness.failure(harness.open(options))).code
    expect(await refused({ servers: [A], mode: 'auto' })).toBe('usage')
    expect(await refused({ servers: [A], mode: 'full', integrity: 'server' })).toBe('usage')
    expect(await refused({ servers: [A], mode: 'instant', publisherKey: '00'.repeat(32) })).toBe('usage')
    expect(await refused({ servers: [A], mode: 'auto', integrity: 'publisher' })).toBe('usage')
    expect(await refused({ servers: [A, B], mode: 'single' })).toBe('usage')
    expect(await refused({ servers: [A, B], mode: 'full', lookups: 5 })).toBe('usage')
    expect(await refused({ ...one, lookups: 0 })).toBe('usage')
    expect(await refused({ ...one, lookups: 2 ** 20 + 1 })).toBe('usage')
    expect(network.seen).toEqual([])
    const unsigned = await harness.failure(harness.open({ servers: [A], mode: 'auto', publisherKey }))
    expect(unsigned.code).toBe('signature')
  })

  test('a signed database is kept while it is small, else asked from hints; nobody else is spoken to', async () => {
    const { database } = keyless()
    const network = signedOnBoth(database)
    for (const [mode, chosen] of [
      ['local', 'local'],
      ['single', 'single'],
    ] as const) {
      const harness = new Harness(network, 1, { loadCore: async () => ({ ...core, chooseMode: () => chosen }) })
      const map = await harness.open({ servers: [A], mode: 'auto', publisherKey, storage: 'memory' })
      expect(map.mode).toBe(mode)
      expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
      await harness.drive(map.close())
    }
    expect(network.seen.filter(({ server }) => server !== A)).toEqual([])
  })

  test('that does not offer such lookups is refused before anything is downloaded', async () => {
    const { network } = keyless()
    network.single = false
    expect(await refusedBy({ network }, one)).toMatchObject({ code: 'unsupported', reason: 'offer' })
    expect(network.seen.filter(({ path }) => path.startsWith('/v1/blobs/'))).toEqual([])
  })

  test('estimates are what it costs', async () => {
    const { network } = keyed()
    const told = await estimate([A], { fetch: network.fetch })
    expect(Object.keys(told.modes).sort()).toEqual(['local', 'single'])
    expect(told.mode).toBe('local')
    const { map, drive } = await opened(new Living(network, keyed().database), { lookups: 16_384 })
    const { lookupBytesUp, lookupBytesDown, held, lookups } = told.modes['single']!
    await drive(map.get(NAMES[3]!))
    expect(map.stats.lastLookup).toMatchObject({ bytesUp: lookupBytesUp, bytesDown: lookupBytesDown })
    expect([map.lookupsLeft, lookups]).toEqual([16_383, 16_384])
    expect(map.stats.held['tags']).toBe(held['tags'])
    expect(map.stats.held['hints']! / held['hints']!).toBeCloseTo(1, 1)
  })
})

describe('lookups', () => {
  test('by index: every record is right, one request each, all alike', async () => {
    const { network, database, map, drive } = await opened(livingKeyless())
    for (let i = 0; i < map.size; i++) expect(await drive(map.at(i))).toEqual(database.byIndex[i])
    const asked = network.queries()
    expect(asked).toHaveLength(15)
    expect(
      new Set(asked.map(({ server, path, body }) => `${server} ${path} ${hex(body.subarray(0, 40))} ${body.length}`))
        .size,
    ).toBe(1)
    expect(new Set(asked.map(({ body }) => hex(body))).size).toBe(15)
    expect(claimedQuery(asked[0]!.body).query.suite).toBe(SUITE_PARITIES)
    expect([map.mode, map.lookupsLeft, map.stats.fenced]).toEqual(['single', 45, true])
    expect(network.seen.filter(({ server }) => server !== A)).toEqual([])
  })

  test('by key: present keys have their values, absent ones are absent; several at once in one request', async () => {
    const { network, database } = keyed()
    const { map, drive } = await opened(new Living(network, database))
    for (const [i, name] of NAMES.entries()) expect(await drive(map.get(name))).toEqual(database.contents.values[i])
    const { length } = network.queries()
    const found = await drive(map.getMany(['absent', NAMES[3]!, NAMES[3]!, NAMES[4]!], { padTo: 6 }))
    expect(found).toEqual([undefined, ...[3, 3, 4].map(i => database.contents.values[i])])
    expect(network.queries(length)).toHaveLength(1)
    expect(map.lookupsLeft).toBe(60 - 20 - 6)
    expect(await drive(map.has('absent'))).toBe(false)
  })

  test('of more queries than hints are made for are refused, with no traffic', async () => {
    const { network, database } = keyed()
    const { map, harness } = await opened(new Living(network, database), { lookups: 3 })
    const { length } = network.seen
    expect((await harness.failure(map.getMany(NAMES.slice(0, 4)))).code).toBe('usage')
    expect(network.seen).toHaveLength(length)
    expect(await harness.drive(map.getMany(NAMES.slice(0, 3)))).toHaveLength(3)
  })

  test('with no hint for what is asked fail, and show nothing of it', async () => {
    const { network, database } = keyless()
    let missed = 0
    const loadCore = async () => withHandles('newSingleBuilder', (_, name) => (name === 'missed' ? missed : undefined))
    const harness = new Harness(network, 1, { loadCore })
    const map = await harness.open(one)
    missed = 1
    expect((await harness.failure(map.at(4))).code).toBe('storage')
    missed = 0
    expect(map.condemned).toBeUndefined()
    expect(await harness.drive(map.at(4))).toEqual(database.byIndex[4])
    expect(new Set(network.shapes()).size).toBe(1)
  })
})

describe('a server that lies', () => {
  const { database } = keyless()

  /** One lookup, and all that it could notice of it. */
  async function outcome(misbehave: Misbehave, index: number) {
    const network = sameOnBoth(database)
    const { map, harness } = await opened(new Living(network, database))
    network.misbehave[A] = misbehave
    const { error, seen } = await harness.failingLookup(map, index)
    return { seen, error, network, map, harness }
  }

  const PARITY_BYTES = 2 * 5
  const bits = Array.from({ length: 8 * PARITY_BYTES }, (_, bit) => bit).filter(bit => THOROUGH || bit % 5 === 0)

  test('in any bit of either parity: one error whatever was asked, condemned for good, and reset() begins anew', async () => {
    let first: Awaited<ReturnType<typeof outcome>> | undefined
    for (const bit of bits) {
      const lie = on('/v1/answer', async genuine => {
        const bytes = await bytesOf(genuine)
        bytes[HEADER_BYTES + (bit >> 3)]! ^= 1 << (bit & 7)
        return ok(bytes)
      })
      for (let index = bit % 3; index < 15; index += 3) {
        const found = await outcome(lie, index)
        expect(found.error).toMatchObject({ code: 'tampered', server: A })
        first ??= found
        expect(found.seen).toEqual(first.seen)
        expect(found.network.queries()).toHaveLength(1)
        found.network.misbehave[A] = undefined
        expect((await found.harness.failure(found.map.at(index))).code).toBe('condemned')
        expect(found.network.queries()).toHaveLength(1)
      }
    }
    const { map, harness, network } = first!
    network.misbehave[A] = undefined
    await harness.drive(map.reset())
    expect(await harness.drive(map.at(7))).toEqual(database.byIndex[7])
  })

  test.each([
    ['too short by a byte', on('/v1/answer', async genuine => ok((await bytesOf(genuine)).slice(0, -1)))],
    ['too long by a byte', on('/v1/answer', async genuine => ok(Uint8Array.of(...(await bytesOf(genuine)), 0)))],
    ['of another suite', flip(6)],
    ['of another database', flip(8)],
    ['of another epoch', flip(28)],
    ['of another count', flip(36)],
    ['a refusal', on('/v1/answer', () => problem(400, 'bad_request'))],
    ['none', hang('/v1/answer')],
    ['busy', busy],
  ])('an answer that is %s: the same bytes again, and later again, until there is one', async (_what, misbehave) => {
    const first = await outcome(misbehave, 0)
    expect(['protocol', 'version', 'network']).toContain(first.error.code)
    for (const index of [6, 14]) expect((await outcome(misbehave, index)).seen).toEqual(first.seen)
    const { map, harness, network } = first
    expect(map.condemned).toBeUndefined()
    const bodies = () => network.queries().map(({ body }) => hex(body))
    expect(new Set(bodies()).size).toBe(1)
    network.misbehave[A] = undefined
    // What was pending comes first, by the same bytes; its answer is nobody's any more.
    const { length } = bodies()
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
    expect(bodies()[length]).toBe(bodies()[0])
    expect(bodies()).toHaveLength(length + 2)
  })

  test('that answers some lookups and not others learns nothing from what comes again', async () => {
    const { network, database, map, harness } = await opened(livingKeyless())
    let asked = 0
    network.misbehave[A] = on('/v1/answer', genuine => (asked++ % 4 === 0 ? problem(503, 'not_ready') : genuine))
    for (const index of [3, 3, 9, 3, 14, 3]) expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
    const bodies = network.queries().map(({ body }) => hex(body))
    expect(new Set(bodies).size).toBe(6)
    expect(bodies.filter((body, i) => bodies.indexOf(body) !== i && bodies[i - 1] !== body)).toEqual([])
  })
})

describe('updates', () => {
  test('are applied in steps that yield the thread while no lookup waits; a lookup applies the rest before it ends', async () => {
    const living = livingKeyless()
    const seen: string[] = []
    let left = 0
    const loadCore = async () =>
      withHandles('newSingleBuilder', (handle, name) => {
        if (name === 'update') {
          return (...update: Parameters<typeof handle.update>) => {
            left = 3
            return handle.update(...update)
          }
        }
        return name === 'step' && left > 0
          ? () => {
              seen.push('step')
              return --left > 0 || handle.step()
            }
          : undefined
      })
    let found: Promise<void> | undefined
    const pause = async (when?: 'background') => {
      if (left === 0) return
      seen.push(when === undefined ? 'pause' : 'pause in the background')
      found ??= map.at(5).then(value => void seen.push(`found ${new TextDecoder().decode(value)}`))
      await settle()
    }
    const harness = new Harness(living.network, 1, { loadCore, pause })
    const map: KeyhushMap = await harness.open({ ...one, storage: 'memory' })
    living.publish([edit(5, 'epoch')])
    living.publish([edit(5, 'later')])
    const { length } = living.network.queries()
    await harness.drive(map.sync())
    await harness.drive(found!)
    expect(living.network.queries(length)).toHaveLength(1)
    expect(seen).toEqual(['step', 'pause in the background', 'step', 'pause', 'step', 'found later'])
  })

  test('between a lookup and its answer: the same bytes at the next epoch, and the newest value', async () => {
    const { living, map, harness, network, drive } = await opened(livingKeyless())
    network.misbehave[A] = busy
    await harness.failure(map.at(5))
    living.publish([edit(5, 'epoch')])
    living.publish([edit(6, 'later')])
    network.misbehave[A] = undefined
    expect(await drive(map.at(6))).toEqual(utf8('later'))
    const vectors = network.queries().map(({ body }) => hex(body.subarray(40)))
    expect(new Set(vectors).size).toBe(2)
    expect(await drive(map.at(5))).toEqual(utf8('epoch'))
    expect(map.epoch).toBe(3)
  })

  test('that fill empty slots are followed; one that outgrows the stripes has hints made anew, behind the old ones', async () => {
    const { living, map, events, network, drive } = await opened(livingKeyless())
    living.publish([append('added')]) // the last slot of the last partition
    await drive(map.sync())
    expect(await drive(map.at(15))).toEqual(utf8('added'))
    expect(events.splice(0)).toEqual([{ type: 'updated', generation: 1, epoch: 2 }])
    const blobs = () => network.seen.filter(({ path }) => path.startsWith('/v1/blobs/')).length
    const before = blobs()
    living.publish([append('grown'), edit(2, 'other')])
    await drive(map.sync())
    expect(events.map(({ type }) => type)).toEqual(['outdated', 'updated'])
    expect(events[0]).toMatchObject({ reason: 'generation' })
    expect(blobs() - before).toBe(5)
    expect(await drive(map.at(16))).toEqual(utf8('grown'))
    expect(await drive(map.at(2))).toEqual(utf8('other'))
    expect(map.lookupsLeft).toBe(58)
  })
})

describe('hints that run out', () => {
  const partitions = ({ seen }: Network) => seen.filter(({ path }) => path.startsWith('/v1/blobs/')).length

  test('are replaced beside the lookups, at a quarter left, and no call is lost', async () => {
    const { network, database, map, events, drive } = await opened(livingKeyless(), { lookups: 8 })
    const left: (number | undefined)[] = []
    for (let i = 0; i < 20; i++) {
      expect(await drive(map.at(i % 15))).toEqual(database.byIndex[i % 15])
      left.push(map.lookupsLeft)
      await settle() // what is made behind is made
    }
    expect(left.slice(0, 8)).toEqual([7, 6, 5, 4, 3, 8, 7, 6]) // at 2
    expect(events).toEqual(Array(3).fill({ type: 'outdated', reason: 'spent' }))
    expect(partitions(network)).toBe(4 * 4)
    expect(network.queries()).toHaveLength(20)
  })

  test('when none is left, or too few for what is asked, a lookup waits for others', async () => {
    const { network, database } = keyed()
    const { map, harness, drive } = await opened(new Living(network, database), { lookups: 8 })
    network.misbehave[A] = on('/v1/blobs/', () => problem(503, 'not_ready')) // what is made behind fails
    const ask = (names: readonly string[]) => drive(map.getMany(names))
    expect(await ask(NAMES.slice(0, 6))).toEqual(database.contents.values.slice(0, 6))
    await settle()
    expect((await harness.failure(map.getMany(NAMES.slice(0, 3)))).code).toBe('network')
    expect(await ask(NAMES.slice(6, 8))).toEqual(database.contents.values.slice(6, 8))
    expect(map.lookupsLeft).toBe(0)
    expect((await harness.failure(map.get(NAMES[0]!))).code).toBe('network')
    network.misbehave[A] = undefined
    const all = NAMES.slice(0, 8)
    expect(await ask(all)).toEqual(database.contents.values.slice(0, 8))
    expect(await Promise.all(all.map(name => drive(map.get(name))))).toEqual(database.contents.values.slice(0, 8))
  })

  test('while others are made, epochs are followed, and what is made follows too', async () => {
    const { living, map, network, drive } = await opened(livingKeyless(), { lookups: 8 })
    const { promise: held, resolve: release } = deferred()
    network.misbehave[A] = after('/v1/blobs/', held)
    for (let i = 0; i < 6; i++) await drive(map.at(i))
    await settle()
    network.misbehave[A] = on('/v1/blobs/', async (genuine, { path }) => {
      if (living.lists.has(path.slice('/v1/blobs/'.length))) return genuine
      await held
      return genuine
    })
    living.publish([edit(5, 'epoch')])
    await drive(map.sync())
    expect([map.epoch, map.lookupsLeft]).toEqual([2, 2])
    release()
    await settle()
    expect(await drive(map.at(5))).toEqual(utf8('epoch'))
    expect([map.epoch, map.lookupsLeft]).toEqual([2, 7])
  })
})

describe('stored', () => {
  const options = { ...one, lookups: 200 } as const
  const LOOKUPS = [1, 2, 6]

  async function begun(seed = 1): Promise<{ world: World; life: Life; map: KeyhushMap }> {
    const { world, life, map } = await openedWorld(options, { seed })
    await world.checkValues(map, LOOKUPS)
    return { world, life, map }
  }

  test('is taken up with all that lookups and updates have changed', async () => {
    const { network, database } = keyed({ partitions: 6, partitionRecords: 4 })
    const living = new Living(network, database)
    const world = new World({ network, database })
    for (let round = 0; round < 3; round++) {
      const { life, map } = await world.opened(options)
      if (round > 0) expect(life.events.map(({ type }) => type)).toEqual(['resumed'])
      expect(map.lookupsLeft).toBe(200 - 4 * round)
      expect(await world.drive(map.getText(NAMES[3]!))).toBe(round === 0 ? 'vvv' : `round ${round - 1}`)
      living.publish([
        change(NAMES[3]!, `round ${round}`),
        round === 1 ? remove(NAMES[4]!) : add(`new ${round}`, 'new'),
      ])
      await world.drive(map.sync())
      expect(await world.drive(map.getText(NAMES[3]!))).toBe(`round ${round}`)
      expect(await world.drive(map.has(NAMES[4]!))).toBe(round < 1)
      expect(await world.drive(map.has('new 0'))).toBe(true)
      await life.killAfter(200, world.drive(map.close()))
    }
  })

  test('two tabs use it up together, and never show one hint twice', async () => {
    const { world, map } = await begun()
    const other = await world.life().open(options)
    for (const index of [6, 7, 6]) await world.checkValues(index === 7 ? other : map, [index, 1, 999])
    await world.drive(Promise.all([map.at(3), other.at(3), map.at(4), other.at(5)]))
    expect([map.lookupsLeft, other.lookupsLeft].sort()).toContain(200 - 3 - 9 - 4)
  })

  test('a copy that is put back is refused by the fence of the one server, and condemned', async () => {
    const { world, map } = await begun()
    const copy = world.copy()
    await world.checkValues(map, [9])
    const { life, map: restored } = await copy.opened(options)
    expect(restored.condemned).toEqual({ server: undefined })
    expect((await life.failure(restored.at(4))).code).toBe('condemned')
    await world.checkValues(map, [10])
    expect(copy.network.queries().length).toBe(world.network.queries().length)
  })
})

describe('two servers that may be one party', () => {
  const two = { servers: [A, B], collusion: 'tolerated', mode: 'single', lookups: 60 } as const

  /** A map in memory that has asked once, and whom. */
  async function inUse() {
    const there = await opened(livingKeyless(), { ...two, integrity: undefined })
    const { network, database } = there
    expect(await there.drive(there.map.at(1))).toEqual(database.byIndex[1])
    const home = network.queries()[0]!.server
    return { ...there, database, home, other: home === A ? B : A }
  }

  test('vouch for the data together, and one of them answers', async () => {
    const { network, database, map, drive } = await opened(livingKeyless(), { ...two, integrity: undefined })
    for (let i = 0; i < map.size; i++) expect(await drive(map.at(i))).toEqual(database.byIndex[i])
    expect(new Set(network.queries().map(({ server }) => server)).size).toBe(1)
    expect(network.queries()).toHaveLength(15)
    const other = buildDatabase(core, { values: someValues(15, 5).reverse(), partitions: 4 })
    network.replace(B, other)
    const harness = new Harness(network, 2)
    expect((await harness.failure(harness.open(two))).code).toBe('servers_disagree')
  })

  test('the same bytes go to the other if the first fails, and both keep the fence', async () => {
    const { network, database, map, harness, drive, home, other } = await inUse()
    network.misbehave[home] = busy
    expect(await drive(map.at(2))).toEqual(database.byIndex[2])
    const asked = network.queries(1)
    expect(asked.map(({ server }) => server)).toEqual([home, home, home, other])
    expect(new Set(asked.map(({ body }) => hex(body))).size).toBe(1)
    expect(network.claims().filter(({ server, kind }) => server === other && kind === 'register')).toHaveLength(1)
    network.misbehave[other] = busy
    expect((await harness.failure(map.at(3))).code).toBe('network')
    network.misbehave[home] = network.misbehave[other] = undefined
    const { length } = network.queries()
    expect(await drive(map.at(4))).toEqual(database.byIndex[4])
    expect(network.queries(length).map(({ server }) => server)).toEqual([home, home])
    expect(hex(network.queries(length)[0]!.body)).toBe(hex(network.queries(length - 1)[0]!.body))
  })

  test.each(['memory', 'required'] as const)(
    'of state in %s, the one asked later remembers the hint',
    async storage => {
      const world = new World()
      const { network } = world
      const map = await world.life().open({ ...two, storage })
      await world.drive(map.at(1))
      const home = network.queries()[0]!.server
      // In hours fences forget what nothing has confirmed.
      const confirmed = new Set(network.claims().flatMap(({ server, kind }) => (kind === 'confirm' ? [server] : [])))
      for (const id of network.hints.keys()) if (!confirmed.has(id.split(' ')[0]!)) network.hints.delete(id)
      network.misbehave[home] = busy
      await world.checkValues(map, [2])
      expect(map.condemned).toBeUndefined()
    },
  )

  test('both fences confirm a state that is opened: a copy is refused by the one that has heard of the lookup', async () => {
    const world = new World()
    const { network } = world
    const map = await world.life().open(two)
    await world.checkValues(map, [1])
    const home = network.queries()[0]!.server
    const other = home === A ? B : A
    const copy = world.copy()
    // A lookup of which the first server never hears.
    const [[id, known]] = [...network.hints].filter(([id]) => id.startsWith(home)) as [
      [string, { version: number; hash: string }],
    ]
    network.misbehave[home] = hang('/v1/answer')
    await world.checkValues(map, [2])
    network.misbehave[home] = undefined
    network.hints.set(id, known)
    const { length } = network.claims()
    const restored = await copy.life().open(two)
    expect(
      network
        .claims(length)
        .map(({ server }) => server)
        .sort(),
    ).toEqual([A, B])
    expect(restored.condemned).toEqual({ server: undefined })
    // Who is at the newest place opens, also while the second one's fence is away.
    await world.checkValues(await world.life().open(two), [3])
    network.misbehave[other] = on('/v1/fence', () => problem(503, 'not_ready'))
    await world.checkValues(await world.life().open(two), [4])
  })

  test.each([A, B])('%s has no fence: the other one is used, and nothing is claimed there', async without => {
    const world = new World()
    const { network } = world
    network.misbehave[without] = on('/v1/fence', () => problem(404, 'not_found'))
    const { life, map } = await world.opened(two)
    await world.checkValues(map, [1])
    const other = without === A ? B : A
    expect((await world.head())!.record.fenced).toEqual([other])
    expect(life.events).toContainEqual({ type: 'unfenced', server: without, reason: 'none' })
    expect(map.stats.fenced).toBe(false)
    for (const away of [A, B]) {
      network.both(undefined)
      network.misbehave[away] = busy
      const [{ length: queries }, { length: claims }] = [network.queries(), network.claims()]
      await world.checkValues(map, [2])
      expect(network.queries(queries).at(-1)!.server).toBe(away === A ? B : A)
      expect(network.claims(claims).map(({ server }) => server)).not.toContain(without)
      if (away === without) expect(network.claims(claims).at(-1)!.server).toBe(other)
    }
    network.both(undefined)
    const strict = await life.failure(world.life().open({ ...two, rollback: 'strict' }))
    expect(strict).toMatchObject({ code: 'unsupported', reason: 'fence' })
  })

  test('a lie of either is noticed as that of one server is', async () => {
    const { network, map, harness, home, other } = await inUse()
    network.misbehave[home] = busy
    network.misbehave[other] = flip(HEADER_BYTES)
    expect(await harness.failure(map.at(2))).toMatchObject({ code: 'tampered', server: other })
    expect(map.condemned).toEqual({ server: other })
  })
})

// A lookup that finds its hints used up waits for new ones, for as long as the server takes for their download. It has shown nothing
// yet: so it can be called off, close() does not wait for it, and reset() goes ahead.
/** A map without hints left, and a lookup that waits for new ones, which do not come. */
async function waiting(signal?: AbortSignal) {
  const { network, database, harness, map } = await openedOn(keyless(), { ...one, lookups: 2, storage: 'memory' })
  network.misbehave[A] = hang('/v1/blobs/')
  for (let i = 0; i < 2; i++) await harness.drive(map.at(i))
  const lookup = map.at(2, { signal }).then(
    () => 'a value',
    (error: Error) => error.name,
  )
  await rest()
  expect(map.lookupsLeft).toBe(0)
  return { network, database, harness, map, lookup, now: harness.clock.now() }
}

describe('a lookup that waits for other hints', () => {
  test('ends at once when the map is closed', async () => {
    const { harness, map, lookup, now } = await waiting()
    await harness.drive(map.close())
    expect(await lookup).toBe('ClosedError')
    expect(harness.clock.now()).toBe(now)
  })

  test('does not block reset() once it is called off', async () => {
    const giving = new AbortController()
    const { network, database, harness, map, lookup, now } = await waiting(giving.signal)
    giving.abort()
    expect(await lookup).toBe('AbortError')
    network.misbehave[A] = undefined
    await harness.drive(map.reset())
    expect(harness.clock.now()).toBe(now)
    expect(await harness.drive(map.at(2))).toEqual(database.byIndex[2])
    expect(network.queries()).toHaveLength(3)
  })
})

// A condemned hint stays condemned until reset(). Hints that are being made meanwhile, because lookups run out or a new generation
// began, do not replace it: otherwise a server that lies would be asked again without the app's consent.
test.each(['this', 'another'])('a hint condemned by %s tab is not replaced by hints in the making', async tab => {
  const { world, life, map } = await openedWorld({ ...one, lookups: 8 })
  const { promise: held, resolve: release } = deferred()
  world.network.misbehave[A] = after('/v1/blobs/', held)
  for (let i = 0; i < 6; i++) await world.drive(map.at(i))
  await rest()
  expect(life.events.map(({ type }) => type)).toEqual(['outdated'])
  const hint = (await world.head())!.record.hintId
  const other = tab === 'this' ? map : await world.life().open({ ...one, lookups: 8 })
  const before = world.network.misbehave[A]!
  world.network.misbehave[A] = (seen, genuine) =>
    seen.path === '/v1/answer' ? flip(HEADER_BYTES)(seen, genuine) : before(seen, genuine)
  expect((await life.failure(other.at(3))).code).toBe('tampered')
  world.network.misbehave[A] = undefined
  release()
  await rest()
  expect(hex((await world.head())!.record.hintId)).toBe(hex(hint))
  for (const each of [map, other]) expect((await life.failure(each.at(3))).code).toBe('condemned')
  expect(map.condemned).toEqual({ server: A })
  await world.drive(map.reset())
  await world.checkValues(map, [3, 9])
})

// A map is closed when new hints are complete but not in use, because another tab gets the lock first. close() overwrites them
// in memory, like all secrets.
test('close() overwrites complete hints that are not yet in use', async () => {
  const made: { isOver: boolean }[] = []
  const newSingleBuilder: typeof core.newSingleBuilder = (...parameters) => {
    const builder = core.newSingleBuilder(...parameters)
    const seen = { isOver: false }
    made.push(seen)
    return new Proxy(builder, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target)
        if (name === 'finish' || name === 'free') seen.isOver = true
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }
  const world = new World()
  const life = world.life({ loadCore: async () => ({ ...core, newSingleBuilder }) })
  const map = await life.open({ ...one, lookups: 4 })
  await world.checkValues(map, [1, 2])
  const [asked, answered, downloaded] = [deferred(), deferred(), deferred()]
  world.network.misbehave[A] = async ({ path }, genuine) => {
    if (path.startsWith('/v1/blobs/')) await downloaded.promise
    if (path === '/v1/answer' && made.length === 2) {
      asked.resolve()
      await answered.promise
    }
    return genuine
  }
  await world.checkValues(map, [3]) // and others are begun
  await rest()
  const last = map.at(4)
  await asked.promise
  downloaded.resolve()
  await rest()
  expect(made.map(({ isOver }) => isOver)).toEqual([true, false])
  // Another tab asks for the lock, and a lease is over.
  const other = world.life().environment.locks.hold(`keyhush ${A}`, 45_000, async () => {})
  world.clock.pass(LOCK_LEASE_MS)
  const closed = map.close()
  answered.resolve()
  expect(await world.drive(last)).toEqual(world.database.byIndex[4])
  await world.drive(Promise.all([closed, other]))
  expect(made.map(({ isOver }) => isOver)).toEqual([true, true])
})

describe('three servers that may be one party, of which the first is slow', () => {
  const servers = SERVERS.slice(0, 3)
  const faults = [
    ['keeps silent', hang('/v1/answer')],
    ['refuses connections', on('/v1/answer', () => Promise.reject(new TypeError('fetch failed')))],
  ] as const
  const kinds = faults.flatMap(([what, fault]) => [1, 2, 3].map(seed => [what, seed, fault] as const))

  test.each(kinds)(
    'and the second %s: no way begins once the lookup is answered, and nobody sees two lookups under one claim (seed %i)',
    async (_what, seed, fault) => {
      const network = among(3, keyless().database)
      const harness = new Harness(network, seed)
      const { clock, drive } = harness
      const map = await harness.open({ servers, collusion: 'tolerated', mode: 'single', lookups: 60, push: false })
      const order: string[] = []
      const sent: { server: string; query: string; claim: string; lookup: number }[] = []
      let lookup = 1
      for (const server of servers) {
        network.misbehave[server] = async (seen, genuine) => {
          if (seen.path !== '/v1/answer') return genuine
          const { version, requestHash } = claimedQuery(seen.body).claim!
          const claim = `${version} ${hex(requestHash)}`
          sent.push({ server, query: hex(queryIn(seen.body)), claim, lookup })
          if (!order.includes(server)) order.push(server)
          if (server === order[1]) return (await fault(seen, genuine))!
          await clock.wait(server === order[0] ? 2_500 : 1_800)
          return genuine
        }
      }
      for (const index of [3, 5]) {
        expect(await drive(map.at(index))).toEqual(keyless().database.byIndex[index])
        lookup++
      }
      await drive(clock.wait(30_000))
      // A way that has begun may send the same bytes again.
      const ways = sent.filter(
        way => sent.find(({ server, query }) => server === way.server && query === way.query) === way,
      )
      const queriesIn = (lookup: number) => new Set(ways.filter(way => way.lookup === lookup).map(({ query }) => query))
      expect([1, 2, 3].map(lookup => queriesIn(lookup).size)).toEqual([1, 1, 0])
      const claims = new Set(sent.map(({ server, claim }) => `${server} ${claim}`))
      const lookups = new Set(sent.map(({ server, claim, query }) => `${server} ${claim} ${query}`))
      expect([lookups.size, map.condemned]).toEqual([claims.size, undefined])
    },
  )
})
