// What open() makes of what it finds on the disk: used whole, or discarded with an event, and never anything between.

import { partitionBytes } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { StateUnreadableError } from '../src/testing.js'
import { buildDatabase, later as laterEpoch, someValues } from './support/database.js'
import { core, hex, keyed, NAMES, sameOnBoth } from './support/harness.js'
import { A, B, blobs, busy, flip, Network } from './support/network.js'
import { type Life, type Method, openedWorld, records, World } from './support/world.js'

/** Whatever a store gives out, for tests that garble it. */
// biome-ignore lint/suspicious/noExplicitAny: each test knows what it is
type Stored = any

/** A disk on which an earlier life has left a hint, after `lookups`. */
async function lived({ lookups = 3, world = new World() } = {}): Promise<World> {
  const { life, map } = await world.opened()
  await world.checkValues(
    map,
    Array.from({ length: lookups }, (_, i) => i % 20),
  )
  life.kill()
  return world
}

/** A disk on which an earlier life has left a lookup that `silent` never answered. */
async function interrupted(silent: string): Promise<World> {
  const world = await lived()
  const { life, map } = await world.opened()
  await world.interrupt(life, map, silent)
  life.kill()
  return world
}

describe('a whole hint', () => {
  test.each([0, 1, 7])('after %i lookups: used without a byte of the database, and all is right', async lookups => {
    const world = await lived({ lookups })
    const before = world.network.seen.length
    const { life, map } = await world.opened()
    const asked = world.network.seen.slice(before).map(({ path }) => path)
    expect(asked).toEqual(['/v1/info', '/v1/info', '/v1/fence'])
    expect(life.events).toEqual([{ type: 'resumed', what: 'hint', pending: false }])
    expect([map.size, map.epoch]).toEqual([1000, 1])
    await world.checkValues(map)
  })

  test('of a keyed database: directory and all', async () => {
    const { database, network } = keyed()
    const world = new World({ network, database })
    const first = world.life()
    await world.drive((await first.open()).get(NAMES[3]!))
    first.kill()
    const downloads = blobs(world.network).length
    const map = await world.life().open()
    for (const [i, name] of NAMES.entries()) {
      expect(await world.drive(map.get(name))).toEqual(database.contents.values[i])
    }
    expect(await world.drive(map.get('absent'))).toBeUndefined()
    expect(blobs(world.network)).toHaveLength(downloads)
  })

  test('keeps its roles when `servers` are reversed, and its state (S5)', async () => {
    const world = await lived()
    const record = (await world.head())!.record
    const { life, map } = await world.opened({ servers: [`${B}/`, A] })
    expect(life.events).toEqual([{ type: 'resumed', what: 'hint', pending: false }])
    await world.checkValues(map)
    expect((await world.head())!.record).toEqual(record)
  })
})

describe.each([A, B])('a lookup that %s had not answered', silent => {
  test('is finished first, with the same bytes to the same servers, and its record is thrown away', async () => {
    const world = await interrupted(silent)
    const last = (server: string) => world.auditor.bodies.get(server)!.at(-1)
    const [a, b] = [last(A), last(B)]
    const { length } = world.network.queries()
    const { life, map } = await world.opened()
    expect(life.events).toEqual([{ type: 'resumed', what: 'hint', pending: true }])
    const resent = world.network.queries(length)
    expect(resent.map(({ server, body }) => [server, hex(body)])).toEqual([
      [A, a],
      [B, b],
    ])
    expect(await world.head()).toMatchObject({ version: 4, pending: undefined })
    // The same index again is a query of its own (P4).
    await world.checkValues(map, [6, 7])
    expect(world.network.queries(length)).toHaveLength(6)
  })

  test('and still does not: the map opens, the lookup stays, and the next lookup finishes it first', async () => {
    const world = await interrupted(silent)
    world.network.misbehave[silent] = busy
    const before = await world.head()
    const map = await world.life().open()
    expect(await world.head()).toEqual(before)
    world.network.misbehave[silent] = undefined
    await world.checkValues(map)
    expect(world.auditor.distinct(A)).toBe(3 + 1 + 6)
  })

  test('and answers with a lie after the restart: TamperedError, condemned on the disk', async () => {
    const world = await interrupted(silent)
    world.network.misbehave[silent] = flip(50)
    const life = world.life()
    expect(await life.failure(life.openIdle())).toMatchObject({ name: 'TamperedError', server: silent })
    expect((await world.head())?.condemned).toEqual({ culprit: silent })
    expect(life.events.at(-1)).toEqual({ type: 'condemned', server: silent })
  })
})

describe('a condemned hint', () => {
  async function condemned() {
    const world = await lived()
    const { life, map } = await world.opened()
    world.network.misbehave[B] = flip(50)
    expect(await life.failure(map.at(3))).toMatchObject({ name: 'TamperedError', server: B })
    expect(life.events.at(-1)).toEqual({ type: 'condemned', server: B })
    expect(map.condemned).toEqual({ server: B })
    life.kill()
    world.network.misbehave[B] = undefined
    return world
  }

  test('opens, without traffic; every call fails and names the culprit, in every life (S7)', async () => {
    const world = await condemned()
    const { length } = world.network.seen
    for (let i = 0; i < 3; i++) {
      const { life, map } = await world.opened()
      expect(life.events).toEqual([{ type: 'condemned', server: B }])
      expect(map.condemned).toEqual({ server: B })
      expect([map.size, map.epoch, map.stats.held]).toEqual([1000, 1, {}])
      for (let call = 0; call < 2; call++) {
        expect(await life.failure(map.at(1))).toMatchObject({ name: 'CondemnedError', server: B })
      }
      if (i === 1) life.kill()
      else await world.drive(map.close())
    }
    expect(world.network.seen).toHaveLength(length)
  })

  test('reset() begins a new life, which the next open() takes up', async () => {
    const world = await condemned()
    const old = (await world.head())!.record.hintId
    const { life, map } = await world.opened()
    await world.drive(map.reset())
    expect(map.condemned).toBeUndefined()
    await world.checkValues(map)
    life.kill()
    expect((await world.head())!.record.hintId).not.toEqual(old)
    await world.checkValues(await world.life().open())
  })

  test('killed at any moment of a reset(): still condemned, or whole and new', async () => {
    let ended = false
    for (let turns = 1; !ended; turns += 7) {
      const world = await condemned()
      const old = (await world.head())!.record.hintId
      const { life, map } = await world.opened()
      ended = await life.killAfter(turns, map.reset())
      const head = (await world.head())!
      const { life: next, map: again } = await world.opened()
      if (hex(head.record.hintId) === hex(old)) {
        expect(head.condemned).toEqual({ culprit: B })
        expect((await next.failure(again.at(1))).name).toBe('CondemnedError')
      } else {
        await world.checkValues(again, [5])
      }
      next.kill()
    }
  })
})

describe('state that cannot be used', () => {
  /** The next life, which reads something else. */
  const reading = (world: World, method: Method, change: (value: Stored) => unknown): Life => {
    const life = world.life()
    life.reads = (called, value) => (called === method ? change(value) : value)
    return life
  }
  const flipped = (bytes: Uint8Array, at = bytes.length >> 1) => bytes.map((byte, i) => (i === at ? byte ^ 1 : byte))
  const unreadable = () => {
    throw new StateUnreadableError('torn')
  }
  const torn: [string, Method, (value: Stored) => unknown][] = [
    ['a hint the store cannot read', 'readHint', unreadable],
    ['a checkpoint with a flipped bit', 'readHint', hint => ({ ...hint, checkpoint: flipped(hint.checkpoint) })],
    ['a checkpoint cut short', 'readHint', hint => ({ ...hint, checkpoint: hint.checkpoint.slice(1) })],
    ['no checkpoint', 'readHint', hint => ({ ...hint, checkpoint: new Uint8Array() })],
    ['no manifest', 'readHint', hint => ({ ...hint, manifest: new Uint8Array() })],
    ['a manifest with a flipped bit', 'readHint', hint => ({ ...hint, manifest: flipped(hint.manifest, 0) })],
    // It decodes, with another database's id: the checkpoint is bound to its hash.
    ['a manifest of another', 'readHint', hint => ({ ...hint, manifest: flipped(hint.manifest, 8) })],
    ['an effect with a flipped bit', 'readHint', hint => ({ ...hint, entries: hint.entries.map(flipped) })],
    ['an effect missing at the end', 'readHint', hint => ({ ...hint, entries: hint.entries.slice(0, -1) })],
    ['an effect missing in between', 'readHint', hint => ({ ...hint, entries: hint.entries.slice(1) })],
    ['effects in another order', 'readHint', hint => ({ ...hint, entries: [...hint.entries].reverse() })],
    [
      'a pending lookup with a flipped bit',
      'read',
      head => ({ ...head, pending: head.pending && flipped(head.pending) }),
    ],
    [
      'a pending lookup of another moment',
      'read',
      head => ({ ...head, pending: head.pending && flipped(head.pending, 26) }),
    ],
  ]
  test.each(torn)('%s: discarded with an event, and a new hint downloaded', async (_what, method, change) => {
    const world = await interrupted(A)
    const old = (await world.head())!.record.hintId
    const downloads = blobs(world.network).length
    const life = reading(world, method, change)
    const map = await life.open()
    expect(life.events).toEqual([{ type: 'discarded', reason: 'unreadable' }])
    expect(blobs(world.network).length - downloads).toBe(16)
    expect((await world.head())!.record.hintId).not.toEqual(old)
    await world.checkValues(map)
  })

  test('a head the store cannot read: discarded', async () => {
    const world = await lived()
    const { hintId } = (await world.head())!.record
    const { disk } = world
    const [read, discard] = [disk.read.bind(disk), disk.discard.bind(disk)]
    disk.read = async () => unreadable()
    disk.discard = async () => {
      Object.assign(disk, { read, discard })
      await discard(hintId)
    }
    const { life, map } = await world.opened()
    expect(life.events).toEqual([{ type: 'discarded', reason: 'unreadable' }])
    await world.checkValues(map)
  })

  test('a hint of another id than the record says: discarded', async () => {
    const [world, other] = [await lived(), await lived({ lookups: 0, world: new World() })]
    // The other's lives have the same randomness, so give it another hint.
    await world.drive((await world.life().open()).reset())
    const foreign = await other.disk.readHint((await other.head())!.record.hintId)
    const life = reading(world, 'readHint', () => foreign)
    await world.checkValues(await life.open())
    expect(life.events).toEqual([{ type: 'discarded', reason: 'unreadable' }])
  })

  test('a directory that is not the one of its manifest: discarded', async () => {
    const { database, network } = keyed()
    const world = new World({ network, database })
    const first = world.life()
    await first.open()
    first.kill()
    const life = reading(world, 'readHint', hint => ({ ...hint, directory: flipped(hint.directory) }))
    const map = await life.open()
    expect(life.events).toEqual([{ type: 'discarded', reason: 'unreadable' }])
    expect(await world.drive(map.get(NAMES[7]!))).toEqual(database.contents.values[7])
  })

  test.each([
    ['with a flipped bit', (bytes: Uint8Array) => flipped(bytes)],
    ['of another hint', (bytes: Uint8Array) => flipped(bytes, 9)],
    ['of nothing', () => new Uint8Array()],
  ])('a half-made hint %s: discarded', async (_what, change) => {
    const world = new World()
    await world.halfDownloaded(5)
    const life = reading(world, 'readPartial', value => ({ ...value, partial: change(value.partial) }))
    const map = await life.open()
    expect(life.events).toEqual([{ type: 'discarded', reason: 'unreadable' }])
    await world.checkValues(map)
  })

  test('that vanishes while the map is open: a new hint, with an event', async () => {
    const { world, life, map } = await openedWorld()
    await world.drive(map.at(1))
    await world.disk.discard((await world.head())!.record.hintId)
    await world.checkValues(map)
    expect(life.events).toEqual([{ type: 'discarded', reason: 'missing' }])
  })

  test('that has forgotten what it acknowledged condemns itself: a rollback that can be seen', async () => {
    const { world, life, map } = await openedWorld()
    const { record } = (await world.head())!
    const { checkpoint, directory } = await world.disk.readHint(record.hintId)
    await world.checkValues(map)
    // An old copy of the disk is put back.
    await world.disk.begin(record, new Uint8Array(), directory, record.hintId)
    await world.disk.complete(record.hintId, 0, checkpoint)
    const sent = world.network.queries().length
    expect(await life.failure(map.at(1))).toMatchObject({ name: 'CondemnedError', server: undefined })
    expect(world.network.queries()).toHaveLength(sent)
    expect((await world.head())?.condemned).toEqual({ culprit: undefined })
    expect(life.events).toEqual([{ type: 'condemned', server: undefined }])
  })
})

describe('what it belongs to', () => {
  test.each([false, true])(
    'an epoch that no update leads to: discarded, downloaded anew (half-made: %s)',
    async half => {
      const values = someValues(1000, 8)
      const next = buildDatabase(core, { values, partitions: 16, manifest: laterEpoch(2) })
      const world = new World()
      if (half) await world.halfDownloaded(5)
      else await lived({ world })
      const { world: later, life, map } = await openedWorld({}, { network: sameOnBoth(records, next), before: world })
      const what = half ? 'download' : 'hint'
      expect(life.events).toEqual([
        { type: 'resumed', what, pending: false },
        { type: 'discarded', reason: 'manifest' },
      ])
      expect(map.epoch).toBe(2)
      expect(new Set(blobs(later.network)).size).toBe(16)
      await later.checkValues(map)
    },
  )

  test.each([
    ['another second server', [A, 'https://c.example']],
    ['a new path on one', [A, `${B}/moved`]],
  ] as const)('%s: discarded', async (_what, servers) => {
    const world = await lived()
    const old = (await world.head())!.record.hintId
    const network = new Network({ [A]: [records], [B]: [records] })
    const moved = new World({ network, before: world })
    const life = moved.life({
      fetch: (url, init) => network.fetch(url.startsWith(A) ? url : url.replace(servers[1], B), init),
    })
    const map = await life.open({ servers })
    expect(life.events).toEqual([{ type: 'discarded', reason: 'servers' }])
    expect((await moved.head())!.record.hintId).not.toEqual(old)
    const { parties } = (await moved.head())!.record
    expect([...parties].sort()).toEqual([...servers].sort())
    expect(await moved.drive(map.at(5))).toEqual(records.byIndex[5])
  })

  test('other servers do not take up a condemned state of theirs, nor does it end the condemnation before they are there', async () => {
    const world = await lived()
    const { hintId } = (await world.head())!.record
    await world.disk.condemn(hintId, A)
    const servers = [A, 'https://c.example'] as const
    const down = world.life({ fetch: async () => Promise.reject(new TypeError('offline')) })
    expect((await down.failure(down.openIdle({ servers }))).code).toBe('network')
    expect((await world.head())?.condemned).toEqual({ culprit: A })
  })
})

describe('an interrupted download', () => {
  test('goes on where it was, under the roles it began with', async () => {
    const world = new World()
    await world.halfDownloaded(6)
    const { record, stage } = (await world.head())!
    expect(stage).toBe('partial')
    const before = blobs(world.network).length
    const life = world.life()
    const progress: number[] = []
    const map = await life.open({ onProgress: ({ loadedBytes }) => void progress.push(loadedBytes) })
    expect(life.events).toEqual([{ type: 'resumed', what: 'download', pending: false }])
    expect(blobs(world.network).length - before).toBeLessThanOrEqual(10)
    expect(progress.at(-1)).toBe(16 * partitionBytes(records.manifest))
    expect((await world.head())!.record).toEqual(record)
    await world.checkValues(map)
  })

  test.each([
    ['local', {}],
    ['single', { servers: [A], integrity: 'server', lookups: 60 }],
  ] as const)('goes on where it was in mode %s, whenever it was killed', async (mode, options) => {
    let resumed = 0
    for (let turns = 10, over = false; !over; turns += 45) {
      const world = new World()
      const wish = { mode, ...options } as const
      over = await world.life().killAfter(turns, world.lives.at(-1)!.openIdle(wish))
      const partial = (await world.head())?.stage === 'partial'
      const asked = blobs(world.network).length
      const { life, map } = await world.opened(wish)
      if (partial) expect(life.events[0]).toEqual({ type: 'resumed', what: 'download', pending: false })
      if (partial && asked > 8) {
        resumed++
        expect(blobs(world.network).length - asked).toBeLessThan(16)
      }
      await world.checkValues(map)
      life.kill()
    }
    expect(resumed).toBeGreaterThan(0)
  })

  test('with tags, of many partitions: two bytes are stored for each one downloaded, at most', async () => {
    const many = buildDatabase(core, { values: someValues(512, 16), partitions: 64 })
    const world = new World({ network: sameOnBoth(many), database: many, audited: false })
    let stored = 0
    const { putPartial } = world.disk
    world.disk.putPartial = (...parameters) => {
      stored += parameters[2].length
      return putPartial.apply(world.disk, parameters)
    }
    const map = await world.life().open({ proofs: 'tags' })
    const last = 64 + 8 * 512 + 512 // whatever is folded when the last one is written
    expect(stored).toBeLessThanOrEqual(2 * 512 * 16 + last)
    expect(stored).toBeGreaterThan(512 * 16)
    await world.checkValues(map, [0, 7, 511])
  })

  test('killed at random points: under 1.1 database lengths and one partition a kill, on average', async () => {
    const seeds = [1, 2, 3, 4, 5]
    let [bytes, allKills] = [0, 0]
    for (const seed of seeds) {
      const world = new World()
      let state = seed
      let kills = 0
      for (;;) {
        const life = world.life()
        state = (state * 1103515245 + 12345) & 0x7fffffff
        if (await life.killAfter(40 + (state % 100), life.openIdle())) break
        kills++
      }
      expect(kills).toBeGreaterThan(3)
      allKills += kills
      bytes += blobs(world.network).length * partitionBytes(records.manifest) // as if each had been received whole
      await world.checkValues(await world.life().open())
    }
    const most = 1.1 * seeds.length * 16 + allKills
    expect(bytes).toBeLessThan(most * partitionBytes(records.manifest))
  })

  test('with all of it folded needs no more than came since the last save', async () => {
    const world = new World()
    await world.killedAt('complete')
    const before = blobs(world.network).length
    await world.checkValues(await world.life().open())
    expect(blobs(world.network).length - before).toBeLessThanOrEqual(2) // one a server
  })

  test('on a fast line is not stored before it is whole; whoever is interrupted begins it once more', async () => {
    const world = new World()
    world.blobMs = 0
    const first = await world.killedAt('complete')
    expect(blobs(world.network)).toHaveLength(16)
    const { record } = (await world.head())!
    const { life: second, map } = await world.opened()
    expect(second.events).toEqual([{ type: 'resumed', what: 'download', pending: false }])
    expect((await world.head())!.record).toEqual(record)
    expect([...first.writes, ...second.writes].filter(method => /Partial$/.test(method))).toEqual(['readPartial'])
    expect(blobs(world.network)).toHaveLength(32)
    await world.checkValues(map)
  })
})
