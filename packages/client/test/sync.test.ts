// Following a database that changes: whatever comes between whatever, lookups are right, nothing else is downloaded than
// what changed, and servers see the vectors they have seen before, extended.

import { contentHash, decodeQuery, encodeEvent, encodeManifest, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { MemoryStore, type OpenWithOptions, type Tabs } from '../src/testing.js'
import { deferred, settle, until } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { laidOutAnew, nextEpoch } from './support/epochs.js'
import { core, Harness, keyed, NAMES, openedOn } from './support/harness.js'
import {
  add,
  append,
  change,
  checkAll,
  edit,
  expectFollowed,
  expectGrown,
  forgetFirst,
  Living,
  livingKeyed,
  livingKeyless,
  livingWorld,
  newestAlone,
  openedLiving,
  remove,
  someEdits,
  utf8,
} from './support/living.js'
import { A, after, B, blobs, bytesOf, epochUnknown, flip, hang, ok, on, problem, queryIn } from './support/network.js'
import { noLocks, World } from './support/world.js'

const lineOf = ({ newest }: Living, epoch: number) => encodeEvent({ ...newest.manifest, generation: 1, epoch })

describe.each(['merkle', 'tags'] as const)('with %s', proofs => {
  const opened = (living: Living, options = {}) => openedLiving(living, { proofs, ...options })

  /** Opens a map that follows the servers' events. */
  async function hearing(living: Living) {
    living.network.push = true
    const open = await opened(living, { push: true })
    await settle()
    return open
  }

  describe('sync()', () => {
    test('with nothing new: two requests, and no change', async () => {
      const { harness, map, network } = await opened(livingKeyless())
      const before = network.seen.length
      await harness.drive(map.sync())
      expect(network.seen.slice(before).map(({ path }) => path)).toEqual(['/v1/info', '/v1/info'])
      expect(map.epoch).toBe(1)
    })

    test('by index: what changes, and comes, opening several partitions at once', async () => {
      const living = livingKeyless()
      await expectGrown(living, await opened(living))
    })
  })

  describe('a server that has turned', () => {
    test('both at the next epoch: a client behind is answered at its own', async () => {
      const { living, harness, map } = await opened(livingKeyless())
      const old = living.newest
      living.publish([edit(3, 'three')])
      expect(await harness.drive(map.at(3))).toEqual(old.byIndex[3])
      expect(map.epoch).toBe(1)
    })

    test.each([A, B])('one epoch apart, %s ahead, a client two behind: it goes to the one both have', async ahead => {
      const { living, harness, map, events } = await opened(livingKeyless())
      living.publish([edit(3, 'three')])
      const common = living.newest
      living.publish([edit(3, 'ahead')], [ahead])
      expect(await harness.drive(map.at(3))).toEqual(common.byIndex[3])
      expect(events).toEqual([{ type: 'updated', generation: 1, epoch: 2 }])
    })

    test('both two epochs on: the same vectors go out again, extended, at the newest', async () => {
      const { living, harness, map, events, network } = await opened(livingKeyless())
      living.publish([edit(3, 'three')])
      living.publish([edit(7, 'seven'), ...Array.from({ length: 9 }, (_, i) => append(`new ${i}`))])
      const before = network.queries().length
      expect(await harness.drive(map.at(3))).toEqual(utf8('three'))
      const sent = network.queries(before).map(({ server, body }) => ({ server, ...decodeQuery(body) }))
      const epochs = sent.map(({ server, epoch }) => [server, epoch])
      expect(epochs).toEqual([A, B, A, B].map((server, i) => [server, i < 2 ? 1 : 3]))
      for (const server of [A, B]) {
        const [first, second] = sent.filter(query => query.server === server)
        expect(toHex(second!.vectors.subarray(0, 8))).toBe(toHex(first!.vectors))
        expect(second!.vectors).toHaveLength(2 * living.newest.manifest.partitions)
      }
      expect(events.map(({ type }) => type)).toEqual(['updated', 'updated'])
      await checkAll(harness.drive, map, living.newest)
    })

    test('with a lookup under way: extended through its own swaps, keys moved meanwhile from the list', async () => {
      const living = livingKeyed()
      const { values } = living.newest.contents
      const { harness, map, network } = await opened(living)
      living.publish([change(NAMES[1]!, 'one')])
      living.publish([
        ...Array.from({ length: 30 }, (_, i) => add(`k${i}`, `${i}`)),
        remove(NAMES[6]!),
        remove(NAMES[7]!),
        add(NAMES[7]!, 'moved'),
      ])
      living.publish([change('k3', 'three'), change(NAMES[7]!, 'and edited')])
      const before = network.queries().length
      const keys = [NAMES[1]!, NAMES[2]!, NAMES[1]!, 'k3', 'absent', NAMES[6]!, NAMES[7]!]
      const expected: unknown[] = ['one', undefined, 'one', 'three', undefined, undefined, 'and edited'].map(
        v => v && utf8(v),
      )
      expected[1] = values[2]
      expect(await harness.drive(map.getMany(keys))).toEqual(expected)
      expect(network.queries(before)).toHaveLength(4) // one lookup, sent twice: no second query for what moved
      for (let i = 4; i < 30; i++) expect(await harness.drive(map.get(`k${i}`))).toEqual(utf8(`${i}`))
      expect(await harness.drive(map.getMany(keys))).toEqual(expected)
    })

    test.each([
      [A, B],
      [B, A],
    ])('a forged answer of %s beside %s that has turned: condemned, nothing goes out again', async (liar, turned) => {
      const { living, harness, map, network } = await opened(livingKeyless())
      living.publish([edit(3, 'three')])
      network.misbehave[turned] = on('/v1/answer', () => epochUnknown({ generation: 1, epoch: 2 }))
      network.misbehave[liar] = flip(50)
      const before = network.queries().length
      expect(await harness.failure(map.at(3))).toMatchObject({ name: 'TamperedError', server: liar })
      network.both(undefined)
      expect(await harness.failure(map.at(3))).toMatchObject({ name: 'CondemnedError', server: liar })
      expect(network.queries(before)).toHaveLength(2)
    })

    test.each([A, B])(
      '%s claims an epoch of its own: the lookup fails, nothing is lost, nothing repeats',
      async liar => {
        const { living, harness, map, network } = await opened(livingKeyless())
        network.misbehave[liar] = on('/v1/answer', () => epochUnknown({ generation: 1, epoch: 9 }))
        const before = network.seen.length
        expect(await harness.failure(map.at(3))).toMatchObject({ code: 'version', server: liar })
        expect(network.seen.slice(before).filter(({ path }) => path === '/v1/answer')).toHaveLength(2)
        expect(network.seen.length - before).toBeLessThan(8)
        network.misbehave[liar] = undefined
        await checkAll(harness.drive, map, living.newest)
      },
    )
  })

  test.each([A, B])('%s pretends to have forgotten what lies between: the other’s chain suffices', async liar => {
    const { living, harness, map, events, network } = await opened(livingKeyless())
    const old = living.newest
    const downloaded = blobs(network).length
    let turned = false
    network.misbehave[liar] = ({ path, body }) => {
      const { manifest } = living.newest
      const behind = path === '/v1/answer' && decodeQuery(queryIn(body)).epoch < manifest.epoch
      return turned && (path.startsWith('/v1/manifests') || behind) ? epochUnknown(manifest) : undefined
    }
    for (let round = 1; round <= 3; round++) {
      living.publish([edit(4, `no: ${round}`)])
      living.publish([edit(3, `no. ${round}`)])
      turned = true
      expect(await harness.drive(map.at(3))).toEqual(living.newest.byIndex[3])
    }
    expect(blobs(network).slice(downloaded)).toHaveLength(6) // the lists
    expect(events.map(({ type }) => type)).toEqual(Array(6).fill('updated'))
    expect(old.manifest.epoch).toBe(1)
    await checkAll(harness.drive, map, living.newest)
  })

  describe('servers that lie about what changed', () => {
    test.each([A, B])('a list by %s that has another hash: the other server is asked', async liar => {
      const { living, harness, map, network } = await opened(livingKeyless())
      network.misbehave[liar] = flip(45, '/v1/blobs/')
      for (let i = 0; i < 2; i++) living.publish([edit(i, `new ${i}`)]) // both take their turns to be first
      await harness.drive(map.sync())
      expect(map.stats.incidents).toEqual([{ server: liar, code: 'tampered' }])
      await checkAll(harness.drive, map, living.newest)
    })

    test('both: TamperedError, and the map stays where it was', async () => {
      const { living, harness, map, network } = await opened(livingKeyless())
      const old = living.newest
      living.publish([edit(3, 'three')])
      network.both(flip(45, '/v1/blobs/'))
      expect(await harness.failure(map.sync())).toMatchObject({ code: 'tampered' })
      network.both(undefined)
      expect(await harness.drive(map.at(3))).toEqual(old.byIndex[3])
      await harness.drive(map.sync())
      await checkAll(harness.drive, map, living.newest)
    })

    test.each([A, B])('what %s showed before the other forgot that epoch: it is asked again', async late => {
      const living = livingKeyless()
      const { network } = living
      const before = network.info(late)
      for (let i = 0; i < 3; i++) living.publish([edit(3, `no. ${i}`)])
      let asked = 0
      network.misbehave[late] = on('/v1/info', genuine => (asked++ === 0 ? Response.json(before) : genuine))
      const { harness, map } = await opened(living)
      expect(asked).toBe(2)
      await checkAll(harness.drive, map, living.newest)
    })

    const badChains: [string, (bytes: Uint8Array) => Uint8Array, string | undefined][] = [
      ['cut short', bytes => bytes.subarray(0, -1), 'protocol'],
      ['that is none', bytes => bytes.map(() => 7), 'protocol'],
      ['with another expiry of an epoch', bytes => bytes.map((byte, at) => (at === 56 ? 1 : byte)), undefined],
      ['with an epoch left out', bytes => bytes.subarray(bytes.length / 2), undefined],
      [
        'that goes on to an epoch of its own',
        bytes => Buffer.concat([bytes, bytes.subarray(bytes.length / 2)]),
        undefined,
      ],
    ]
    test.each(badChains)('a chain %s, from one of them: the other’s is used', async (_what, spoil) => {
      for (const liar of [A, B]) {
        const { living, harness, map, events, network } = await opened(livingKeyless())
        living.publish([edit(3, 'three')])
        living.publish([edit(4, 'four.')])
        network.misbehave[liar] = on('/v1/manifests', async genuine => ok(spoil(await bytesOf(genuine))))
        await harness.drive(map.sync())
        expect(events.map(({ type }) => type)).toEqual(['updated', 'updated'])
        await checkAll(harness.drive, map, living.newest)
      }
    })

    test.each(badChains.slice(0, 4))('a chain %s, from both: it is not followed', async (_what, spoil, code) => {
      const { living, harness, map, events, network } = await opened(livingKeyless())
      const old = living.newest
      living.publish([edit(3, 'three')])
      living.publish([edit(4, 'four.')])
      network.both((seen, genuine) => {
        if (seen.path.startsWith('/v1/blobs/')) return problem(503, 'not_ready')
        return seen.path.startsWith('/v1/manifests') ? bytesOf(genuine).then(bytes => ok(spoil(bytes))) : genuine
      })
      // Where it is well-formed and leads nowhere, both may have forgotten the epochs between: a new state would be downloaded.
      expect(await harness.failure(map.sync())).toMatchObject({ code: code ?? 'network' })
      expect(events.map(({ type }) => type)).toEqual(code === undefined ? ['outdated', 'slow'] : [])
      expect([map.epoch, old.manifest.epoch]).toEqual([1, 1])
      network.both(undefined)
      await harness.drive(map.sync())
      await checkAll(harness.drive, map, living.newest)
    })

    test.each([
      ['an index twice', (list: Uint8Array) => list.copyWithin(50, 40, 44)],
      ['a record beyond the last', (list: Uint8Array) => list.fill(200, 50, 51)],
      ['a kind there is none of', (list: Uint8Array) => list.fill(9, 44, 45)],
    ])('both publish a list with %s: ProtocolError, and nothing changes', async (_what, spoil) => {
      const { living, harness, map, network } = await opened(livingKeyless())
      const old = living.newest
      const next = living.publish([edit(3, 'three'), edit(4, 'four.')], [])
      const list = spoil(next.blobs.get(toHex(next.manifest.updateListHash))!.slice())
      const manifest = { ...next.manifest, updateListHash: core.blake3(list) }
      const spoilt = { ...next, manifest, manifestBytes: encodeManifest(manifest) }
      network.publishOnBoth({ ...spoilt, blobs: new Map([[toHex(manifest.updateListHash), list]]) })
      expect(await harness.failure(map.sync())).toMatchObject({ code: 'protocol' })
      expect(map.epoch).toBe(1)
      expect(await harness.drive(map.at(4))).toEqual(old.byIndex[4])
    })
  })

  describe('a database that no update leads to', () => {
    test('history exceeded while open: a new hint is made, and the lookup that found out is answered', async () => {
      const { living, harness, map, events } = await opened(livingKeyless())
      for (let i = 0; i < 4; i++) living.publish([edit(i, `new ${i}`)])
      forgetFirst(living)
      expect(await harness.drive(map.at(2))).toEqual(utf8('new 2'))
      expect(events).toEqual([
        { type: 'outdated', reason: 'history' },
        { type: 'updated', generation: 1, epoch: 5 },
      ])
      await checkAll(harness.drive, map, living.newest)
    })

    test('history exceeded between a chain and its lists: a new hint is made', async () => {
      const { living, harness, map, events, network } = await opened(livingKeyless())
      const list = living.publish([edit(0, 'new 0')]).manifest
      living.publish([edit(1, 'new 1')])
      let told = 0
      network.both((seen, genuine) => {
        if (seen.path.endsWith(toHex(list.updateListHash))) return problem(404, 'not_found')
        if (seen.path !== '/v1/manifests?since=1' || ++told <= 1) return genuine
        return epochUnknown({ generation: 1, epoch: 5 })
      })
      await harness.drive(map.sync())
      expect(told).toBeGreaterThan(1)
      expect(events[0]).toEqual({ type: 'outdated', reason: 'history' })
      network.both(undefined)
      await checkAll(harness.drive, map, living.newest)
    })

    test('another database in its place: sync() makes a new hint', async () => {
      const { harness, map, events, network } = await opened(livingKeyless())
      const other = buildDatabase(core, { values: someValues(30, 5).slice(9), partitions: 3 })
      const manifest = { ...other.manifest, databaseId: new Uint8Array(16).fill(7) }
      network.replaceOnBoth({ ...other, manifest, manifestBytes: encodeManifest(manifest) })
      await harness.drive(map.sync())
      expect(events[0]).toEqual({ type: 'outdated', reason: 'manifest' })
      await checkAll(harness.drive, map, other)
    })
  })

  describe('a half-made hint', () => {
    test.each([0, 1, 2, 3])('%i partitions in, the database moves on, twice: every record is right', async folded => {
      const living = livingKeyless()
      const { network } = living
      let moved = 0
      let fetched = 0
      network.both(
        on('/v1/blobs/', (genuine, seen) => {
          if (fetched++ >= folded && moved < 2) {
            moved++
            living.publish([edit(moved, `new ${moved}`), append(`n ${moved}..`.slice(0, 5))])
          }
          return newestAlone(living, genuine, seen)
        }),
      )
      const { harness, map } = await openedOn({ network }, { proofs })
      expect(map.epoch).toBe(living.newest.manifest.epoch)
      await checkAll(harness.drive, map, living.newest)
    })
  })

  describe('push', () => {
    test('an open map follows when both servers have turned, and not before', async () => {
      const { living, harness, map, network } = await hearing(livingKeyless())
      expect([...network.streams].map(({ server }) => server)).toEqual([A, B])
      living.publish([edit(3, 'three')], [A])
      await settle()
      expect(map.epoch).toBe(1)
      network.publish(B, living.newest)
      await settle()
      expect(map.epoch).toBe(2)
      await harness.drive(map.close())
      expect([network.streams.size, harness.clock.waiting]).toEqual([0, 0])
    })

    test('a stream that ends, breaks or falls silent is opened again; one that is not there is not asked for again', async () => {
      const living = livingKeyless()
      living.network.misbehave[B] = on('/v1/events', () => problem(404, 'not_found'))
      const { harness, map, network } = await hearing(living)
      const asked = (server: string) => network.seen.filter(s => s.server === server && s.path === '/v1/events').length
      for (let times = 1; times <= 3; times++) {
        expect([asked(A), asked(B)]).toEqual([times, 1])
        const [stream] = network.streams
        if (times === 1) stream!.end()
        if (times === 2) stream!.tell('x'.repeat(96))
        await until(harness.clock, () => asked(A) > times)
      }
      living.publish([edit(3, 'three')])
      await settle()
      expect(map.epoch).toBe(2)
      await harness.drive(map.close())
      expect(harness.clock.waiting).toBe(0)
    })

    test('a stream that does not begin is opened again as soon as any other reply would be missed', async () => {
      const living = livingKeyless()
      living.network.both(hang('/v1/events'))
      const { harness, map, network } = await hearing(living)
      living.publish([edit(3, 'three')])
      network.both(undefined)
      const before = harness.clock.now()
      await until(harness.clock, () => map.epoch === 2)
      expect(harness.clock.now() - before).toBe(10_000)
    })

    test('a server that announces an epoch, and for a while says no more of it, is looked at again as soon as it does', async () => {
      const living = livingKeyless()
      living.network.misbehave[B] = on('/v1/events', () => problem(404, 'not_found'))
      const { harness, map, network } = await hearing(living)
      network.misbehave[A] = on('/v1/info', () => Promise.reject(new TypeError('fetch failed')))
      const asked = () => network.seen.filter(({ server, path }) => server === A && path === '/v1/info').length
      const atFirst = asked()
      living.publish([edit(3, 'three')])
      const [stream] = network.streams
      for (let look = 1; look <= 6; look++) {
        await until(harness.clock, () => asked() === atFirst + 3 * look) // each look asks it three times
        stream!.tell(lineOf(living, 2))
      }
      network.misbehave[A] = undefined
      const before = harness.clock.now()
      await until(harness.clock, () => map.epoch === 2)
      expect(harness.clock.now() - before).toBeLessThan(1_000)
    })

    test('a stream that has lasted is opened again as soon as it breaks, as when a phone has another address', async () => {
      const { living, harness, map, network } = await hearing(livingKeyless())
      harness.clock.sleep(10_000)
      const before = harness.clock.now()
      for (const stream of [...network.streams]) stream.end()
      await settle()
      expect([network.streams.size, harness.clock.now()]).toEqual([2, before])
      living.publish([edit(3, 'three')])
      await settle()
      expect(map.epoch).toBe(2)
      for (const stream of [...network.streams]) stream.end() // it has not lasted
      await settle()
      expect(network.streams.size).toBe(0)
    })

    /** A server tells of one epoch after the other, five times a second for ten minutes. What the other is asked meanwhile. */
    async function flood(living: Living, told: (line: number) => number) {
      const { harness, map, network } = await hearing(living)
      const before = network.seen.length
      const end = harness.clock.now() + 600_000
      const tell = (line: number) => {
        if (harness.clock.now() >= end) return
        for (const { server, tell } of network.streams) {
          if (server === A) tell(lineOf(living, told(line)))
        }
        harness.clock.setTimeout(() => tell(line + 1), 200)
      }
      tell(0)
      await until(harness.clock, () => harness.clock.now() >= end)
      const asked = network.seen.slice(before).filter(({ path }) => path !== '/v1/events')
      const counts = [A, B].map(server => asked.filter(seen => seen.server === server).length)
      await checkAll(harness.drive, map, living.newest)
      return { map, network, counts }
    }

    test('a stream that tells of epochs its own server has not is closed; the other server hears nothing of it', async () => {
      const { network, counts } = await flood(livingKeyless(), line => 900 + line)
      expect(counts).toEqual([1, 0])
      expect([...network.streams].map(({ server }) => server)).toEqual([B])
    })

    test('when a server announces epochs that the other lacks, the other is asked less and less often', async () => {
      const living = livingKeyless()
      const { network } = living
      const next = nextEpoch(core, living.newest, [edit(3, 'three')])
      network.publish(A, next)
      const { map, counts } = await flood(living, line => 2 + line)
      expect(counts[1]).toBeGreaterThan(3)
      expect(counts[1]).toBeLessThan(15) // once each: after 2 s, 4 s, … 120 s
      network.publish(B, next) // the other server's own word counts at once
      await settle()
      expect(map.epoch).toBe(2)
    })

    test('a stream of true lines without end is not read on, and opened again after a pause', async () => {
      const { living, harness, map, network } = await hearing(livingKeyless())
      const flooded = [...network.streams][0]!
      expect(flooded.server).toBe(A)
      for (let lines = 0; lines < 1_000; lines++) flooded.tell(lineOf(living, 1))
      await settle()
      expect([...network.streams].map(({ server }) => server)).toEqual([B])
      const before = harness.clock.now()
      await until(harness.clock, () => network.streams.size === 2)
      expect(harness.clock.now() - before).toBeGreaterThanOrEqual(5_000)
      living.publish([edit(3, 'three')])
      await settle()
      expect(map.epoch).toBe(2)
    })

    test('what another tab reads is followed as if it were read here; false lines are heard no more', async () => {
      const living = livingKeyless()
      const { network } = living
      const heard = new Map<string, (message: unknown) => void>()
      const tabs: Tabs = {
        elect: (_name, _task, signal) => new Promise(resolve => signal.addEventListener('abort', () => resolve())),
        subscribe(name, listener) {
          heard.set(name, listener)
          return () => heard.delete(name)
        },
        notify() {},
      }
      const harness = new Harness(network, 1, { tabs })
      const map = await harness.open({ push: true, proofs })
      const tell = async (server: string, message: unknown) => {
        heard.get(`keyhush events ${server}`)!(typeof message === 'string' ? [message, 0] : message)
        await settle()
      }
      const before = network.seen.length
      for (let line = 0; line < 10; line++) {
        await tell(A, lineOf(living, 900 + line))
        harness.clock.pass(60_000)
      }
      for (const foreign of [
        undefined,
        null,
        '2',
        2,
        {},
        [],
        [lineOf(living, 9)],
        [lineOf(living, 9), -1],
        [lineOf(living, 9), 1n],
      ])
        await tell(B, foreign)
      expect(network.seen.slice(before).map(({ server }) => server)).toEqual([A])
      living.publish([edit(3, 'three')])
      await tell(A, lineOf(living, 2))
      expect(map.epoch).toBe(1)
      await tell(B, lineOf(living, 2))
      expect(map.epoch).toBe(2)
      await harness.drive(map.close())
      expect([heard.size, harness.clock.waiting]).toEqual([0, 0])
    })
  })

  describe('durable state', () => {
    test('a tab that is too far behind finds in the store what another tab has followed in time', async () => {
      const { living, world: w } = livingWorld()
      const [{ map: a }, { life: two, map: b }] = [await w.opened({ proofs }), await w.opened({ proofs })]
      living.publish(someEdits(1))
      await w.drive(a.sync())
      living.publish(someEdits(2))
      forgetFirst(living)
      await w.drive(b.sync())
      expect(b.epoch).toBe(3)
      expect(two.events.map(({ type }) => type)).not.toContain('outdated')
      expect(await w.drive(b.at(1000))).toEqual(living.newest.byIndex[1000])
    })

    test('a tab takes up a half-made hint that another finishes and takes further: it is not discarded', async () => {
      const { living, world: w } = livingWorld()
      await w.halfDownloaded(3, { proofs })
      const [two, three] = [w.life(noLocks), w.life(noLocks)]
      const { promise: late, resolve: release } = deferred()
      two.at('readPartial', 'after', () => late)
      const opening = two.openIdle({ proofs })
      await settle()
      const map = await three.open({ proofs })
      for (let round = 1; round < 3; round++) {
        living.publish(someEdits(round))
        await w.drive(map.sync())
      }
      forgetFirst(living)
      release()
      const other = await w.drive(opening)
      expect(two.events.map(({ type }) => type)).not.toContain('discarded')
      for (const each of [map, other]) expect(await w.drive(each.at(1000))).toEqual(living.newest.byIndex[1000])
    })

    test('a tab whose download comes too late finds that another has finished and taken it further', async () => {
      const { living, world: w } = livingWorld()
      const { network } = w
      const last = toHex(contentHash(living.newest.manifest, 15))
      const { promise: released, resolve: release } = deferred()
      let asked = 0
      network.both(
        on('/v1/blobs/', async (genuine, seen) => {
          if (seen.path.endsWith(last) && asked++ === 0) await released
          return newestAlone(living, genuine, seen)
        }),
      )
      const [two, three] = [w.life(noLocks), w.life(noLocks)]
      const opening = two.openIdle({ proofs })
      while (asked === 0) await settle()
      for (let i = 0; i < 10; i++) await settle()
      const map = await three.open({ proofs })
      expect(three.events[0]).toEqual({ type: 'resumed', what: 'download', pending: false })
      for (let round = 1; round < 3; round++) {
        living.publish(someEdits(round))
        await w.drive(map.sync())
      }
      const blobs = network.misbehave[A]! // of both
      network.both((seen, genuine) =>
        seen.path === '/v1/manifests?since=1' ? epochUnknown({ generation: 1, epoch: 3 }) : blobs(seen, genuine),
      )
      release()
      const other = await w.drive(opening)
      expect(two.events.map(({ type }) => type)).not.toContain('discarded')
      for (const each of [map, other]) expect(await w.drive(each.at(1000))).toEqual(living.newest.byIndex[1000])
    })

    test('two tabs that open an outdated state at once both end at the newest epoch', async () => {
      const { living, world: w } = livingWorld()
      const first = w.life()
      await first.open({ proofs })
      first.kill()
      for (let round = 1; round < 3; round++) living.publish(someEdits(round))
      forgetFirst(living)
      const lives = [w.life(noLocks), w.life(noLocks)]
      const maps = await w.drive(Promise.all(lives.map(life => life.openIdle({ proofs }))))
      for (const map of maps) {
        expect(map.epoch).toBe(3)
        expect(await w.drive(map.at(1000))).toEqual(living.newest.byIndex[1000])
      }
    })
  })

  describe('a new generation', () => {
    test('the old hint answers while the new one is downloaded, and then the new one does', async () => {
      const { living, harness, map, events, network } = await opened(livingKeyless())
      const old = living.newest
      const next = laidOutAnew(living.newest, 3)
      const { promise: held, resolve: letGo } = deferred()
      network.publishOnBoth(next)
      network.both(after('/v1/blobs/', held))
      const syncing = map.sync()
      await settle()
      expect(events).toEqual([{ type: 'outdated', reason: 'generation' }])
      for (const index of [0, 7, 7, 14]) expect(await harness.drive(map.at(index))).toEqual(old.byIndex[index])
      expect(map.epoch).toBe(1)
      letGo()
      await harness.drive(syncing)
      expect(events.slice(1)).toEqual([{ type: 'updated', generation: 2, epoch: 2 }])
      await checkAll(harness.drive, map, next)
    })

    test('once the old one is not answered any more, a lookup waits for the new hint', async () => {
      const { living, harness, map, network } = await opened(livingKeyless())
      const next = laidOutAnew(living.newest, 3)
      network.publishOnBoth(next)
      const after = nextEpoch(core, next, [edit(3, 'three')])
      network.publishOnBoth(after)
      const calls = [map.at(3), map.at(4), map.sync()]
      const [three, four] = await harness.drive(Promise.all(calls))
      expect([three, four]).toEqual([utf8('three'), after.byIndex[4]])
      await checkAll(harness.drive, map, after)
    })

    test('stored state of the old one: the map opens with it at once, and moves over', async () => {
      const w = new World()
      const { network, database: first } = w
      const life = w.life()
      await w.drive((await life.open({ proofs })).at(1))
      life.kill()
      const next = laidOutAnew(first, 20)
      network.publishOnBoth(next)
      const { life: later, map } = await w.opened({ proofs })
      await w.checkValues(map)
      await w.drive(map.sync())
      expect(map.epoch).toBe(2)
      await w.checkValues(map)
      expect(later.events).toEqual([
        { type: 'resumed', what: 'hint', pending: false },
        { type: 'outdated', reason: 'generation' },
        { type: 'updated', generation: 2, epoch: 2 },
      ])
    })

    test('fetched by two tabs: the one that comes late does not put its own in place of what is newer', async () => {
      const w = new World()
      const { network, database: first } = w
      const [{ map: a }, { map: b }] = [await w.opened({ proofs }), await w.opened({ proofs })]
      const next = laidOutAnew(first, 20)
      const { promise: released, resolve: release } = deferred()
      let asked = 0
      network.publishOnBoth(next)
      network.both(
        on('/v1/blobs/', async genuine => {
          if (asked++ < 2) await released
          return genuine
        }),
      )
      const late = b.sync()
      while (asked < 2) await settle()
      await w.drive(a.sync())
      const after = nextEpoch(core, next, [edit(3, 'three...')])
      network.publishOnBoth(after)
      await w.drive(a.sync())
      const { record } = (await w.head())!
      release()
      await w.drive(late)
      expect((await w.head())!.record).toEqual(record)
      for (const map of [a, b]) {
        expect(map.epoch).toBe(3)
        expect(await w.drive(map.at(3))).toEqual(utf8('three...'))
      }
    })

    test('with fewer records: a lookup by index that was under way asks again whether its record has gone or not', async () => {
      const views = []
      for (const index of [3, 14]) {
        const { living, harness, map, network } = await opened(livingKeyless())
        let next = living.newest
        for (const partitions of [3, 2]) {
          next = laidOutAnew({ ...next, byIndex: next.byIndex.slice(0, 10) }, partitions)
          network.publishOnBoth(next)
        }
        const before = network.queries().length
        if (index < 10) expect(await harness.drive(map.at(index))).toEqual(next.byIndex[index])
        else expect(await harness.failure(map.at(index))).toMatchObject({ code: 'usage' })
        views.push(network.shapes(before))
        expect(await harness.failure(map.at(index + 10))).toMatchObject({ code: 'usage' })
        expect(network.shapes(before)).toEqual(views.at(-1)) // one that begins now is refused without traffic
      }
      expect(views[0]).toHaveLength(4)
      expect(views[1]).toEqual(views[0])
    })

    test('that is fetched, but cannot be put in place: sync() says so, and the next one makes up for it', async () => {
      const { living, harness, map, network } = await opened(livingKeyless())
      const next = laidOutAnew(living.newest, 3)
      network.publishOnBoth(next)
      network.both(on('/v1/fence', () => problem(503, 'not_ready')))
      expect(await harness.failure(map.sync())).toMatchObject({ code: 'network' })
      expect(map.epoch).toBe(1)
      network.both(undefined)
      await harness.drive(map.sync())
      await checkAll(harness.drive, map, next)
    })

    test('that cannot be put in place while a lookup is pending: the old hint goes on', async () => {
      const { living, harness, map, events, network } = await opened(livingKeyless())
      const old = living.newest
      network.misbehave[A] = on('/v1/answer', () => problem(503, 'not_ready'))
      expect(await harness.failure(map.at(1))).toMatchObject({ code: 'network' })
      network.publishOnBoth(laidOutAnew(living.newest, 3))
      network.both(on('/v1/fence', () => problem(503, 'not_ready')))
      expect(await harness.failure(map.sync())).toMatchObject({ code: 'network' })
      network.both(undefined)
      expect(await harness.drive(map.at(2))).toEqual(old.byIndex[2])
      expect(events.map(({ type }) => type)).not.toContain('discarded')
    })

    test('closed while it is downloaded: nothing is left running', async () => {
      const { living, harness, map, network } = await opened(livingKeyless())
      network.publishOnBoth(laidOutAnew(living.newest, 3))
      network.both(hang('/v1/blobs/'))
      const syncing = harness.failure(map.sync())
      await settle()
      await harness.drive(map.close())
      expect(await syncing).toMatchObject({ code: 'closed' })
      expect(harness.clock.waiting).toBe(0)
    })
  })
})

test.each<[string, Partial<OpenWithOptions>]>([
  ['full', { proofs: 'merkle' }],
  ['full', { proofs: 'tags' }],
  ['local', {}],
  ['instant', {}],
  ['single', { servers: [A], integrity: 'server', lookups: 60 }],
])('mode %s follows by key what goes, changes, comes and stays (%o)', async (mode, options) => {
  const { network, database } = keyed({ partitions: 6, partitionRecords: 4 }) // with room for a key more
  const living = new Living(network, database)
  await expectFollowed(living, await openedLiving(living, { mode: mode as 'full', ...options }))
})

// Bringing a hint to the next epoch, while the effect of the lookup before is still being stored.
/** A store on disk that takes its time over effects. */
class SlowStore extends MemoryStore {
  readonly calls: string[] = []
  readonly stored = deferred()

  override async commit(...effect: Parameters<MemoryStore['commit']>): Promise<{ journalBytes: number }> {
    this.calls.push('commit')
    await this.stored.promise
    const committed = await super.commit(...effect)
    this.calls.push('committed')
    return committed
  }

  override advance(...update: Parameters<MemoryStore['advance']>): Promise<{ journalBytes: number }> {
    this.calls.push('advance')
    return super.advance(...update)
  }
}

// Otherwise the store refuses one of the two, and the state is read anew.
test('an epoch is applied to the state once the effect before it is stored, and never before', async () => {
  const living = livingKeyless()
  const store = new SlowStore({ durable: true })
  const openStore = async () => ({ store, storage: 'best-effort' }) as const
  const [manifests, answers] = [deferred(), deferred()]
  const fetch = async (url: string, init: RequestInit) => {
    if (url.includes('/v1/manifest?')) await manifests.promise
    if (url.endsWith('/v1/answer')) await answers.promise
    return living.network.fetch(url, init)
  }
  const harness = new Harness(living.network, 1, { openStore, fetch })
  const map = await harness.open({ storage: 'required' })
  const old = living.newest
  living.publish([edit(3, 'three')])
  const synced = map.sync()
  await settle()
  const found = map.at(3)
  await settle()
  manifests.resolve()
  await settle()
  answers.resolve() // the epoch is applied next, under the same lock
  expect(await harness.drive(found)).toEqual(old.byIndex[3])
  await settle()
  expect(store.calls).toEqual(['commit'])
  store.stored.resolve()
  await harness.drive(synced)
  expect(store.calls).toEqual(['commit', 'committed', 'advance'])
  expect(await harness.drive(map.at(3))).toEqual(living.newest.byIndex[3])
})
