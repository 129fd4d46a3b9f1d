// Mode `local`: the whole database is kept, verified, followed by updates, and never asked about again.

import { describe, expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import type { OpenWithOptions } from '../src/testing.js'
import { settle } from './support/clock.js'
import type { Database } from './support/database.js'
import { laidOutAnew, nextEpoch, type Operation } from './support/epochs.js'
import { core, keyed, keyless, NAMES, refusedBy } from './support/harness.js'
import {
  checkAll,
  edit,
  expectGrown,
  Living,
  livingKeyless,
  livingWorld,
  openedLiving,
  someEdits,
  utf8,
} from './support/living.js'
import { A, B, blobs, flip, hang, type Network, on, problem } from './support/network.js'
import { World } from './support/world.js'

const mode = 'local'
const secret = (network: Network) => network.seen.filter(({ path }) => path === '/v1/answer' || path === '/v1/fence')

const opened = (living: Living, options: Partial<OpenWithOptions> = {}) => openedLiving(living, { mode, ...options })

describe('lookups', () => {
  test('by index: every record is right, and no request leaves', async () => {
    const { network, database, map, drive } = await opened(livingKeyless())
    const before = network.seen.length
    await checkAll(drive, map, database)
    expect(network.seen).toHaveLength(before)
    expect(secret(network)).toEqual([])
    expect([map.mode, map.stats.held, map.stats.fenced]).toEqual(['local', { records: 16 * 5 }, undefined])
    expect(map.stats).toMatchObject({ lookups: 15, lastLookup: { bytesUp: 0, bytesDown: 0 } })
  })

  test('by key: present keys have their values, absent ones are absent; no request leaves', async () => {
    const { network, database } = keyed()
    const { map, harness, drive } = await opened(new Living(network, database))
    const before = network.seen.length
    for (const [i, name] of NAMES.entries()) expect(await drive(map.get(name))).toEqual(database.contents.values[i])
    expect(await drive(map.getMany(['absent', NAMES[3]!], { padTo: 5 }))).toEqual([
      undefined,
      database.contents.values[3],
    ])
    expect(await drive(map.has('absent'))).toBe(false)
    expect((await harness.failure(map.at(20))).code).toBe('usage')
    expect(network.seen).toHaveLength(before)
  })

  test('go on while the queue is busy, and whatever the servers do', async () => {
    const living = livingKeyless()
    const { network } = living
    const { map, harness } = await opened(living)
    network.both(hang('/v1/'))
    const reset = map.reset().catch(() => {})
    await settle()
    expect(await map.at(3)).toEqual(living.newest.byIndex[3])
    await expect(map.at(3, { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' })
    await harness.drive(map.close())
    await reset
    await expect(map.at(3)).rejects.toMatchObject({ code: 'closed' })
  })
})

describe('the download', () => {
  const wrong = flip(3, '/v1/blobs/')

  test.each([A, B])('%s sends partitions not of the database: noticed as they arrive, the other serves', async liar => {
    const { network, database } = keyless()
    network.misbehave[liar] = wrong
    const { map, drive } = await opened(new Living(network, database))
    expect(map.stats.incidents).toEqual([{ server: liar, code: 'tampered' }])
    await checkAll(drive, map, database)
  })

  test('of a directory of 4 GiB that one server promises, it takes memory for what has come', async () => {
    const { network } = keyed({ manifest: { directoryBytes: 2 ** 32 - 1 } })
    const taken: number[] = []
    network.both((seen, genuine) => {
      if (seen.path.startsWith('/v1/blobs/')) taken.push(process.memoryUsage().arrayBuffers)
      return genuine
    })
    const error = await refusedBy({ network }, { mode, servers: [A], integrity: 'server' })
    expect(error).toMatchObject({ code: 'protocol', message: expect.stringContaining(`${2 ** 32 - 1} bytes`) })
    expect(Math.max(...taken)).toBeLessThan(2 ** 30)
  })
})

describe('a database that changes', () => {
  test('by index: what changes, and comes, opening several partitions at once', async () => {
    const living = livingKeyless()
    const { network, ...there } = await opened(living)
    await expectGrown(living, there)
    expect(secret(network)).toEqual([])
  })

  test('a list that both publish, and that does not lead to the contents they publish: nothing changes', async () => {
    const { living, map, harness, network, drive } = await opened(livingKeyless())
    const old = living.newest
    const next = nextEpoch(core, old, [edit(3, 'three')])
    const other = nextEpoch(core, old, [edit(3, 'other')])
    const { updateListHash, updateListBytes } = other.manifest
    const contradictory = nextEpoch(core, old, [edit(3, 'three')], { updateListHash, updateListBytes })
    const blobsOfBoth = new Map([...next.blobs, ...other.blobs])
    network.publishOnBoth({ ...contradictory, blobs: blobsOfBoth })
    expect(await harness.failure(map.sync())).toMatchObject({ code: 'protocol' })
    await checkAll(drive, map, old)
  })

  test('a new generation, with another layout: the old one answers until the new one is whole', async () => {
    const { living, map, harness, events, network, drive } = await opened(livingKeyless())
    const old = living.newest
    const next = laidOutAnew(old, 3)
    network.publishOnBoth(next)
    network.both(on('/v1/blobs/', () => problem(503, 'not_ready')))
    expect((await harness.failure(map.sync())).code).toBe('network')
    expect(await map.at(3)).toEqual(old.byIndex[3])
    network.both(undefined)
    await drive(map.sync())
    await checkAll(drive, map, next)
    expect(events.map(({ type }) => type)).toEqual(['outdated', 'slow', 'outdated', 'updated'])
  })
})

describe('stored', () => {
  const isDown = () => Promise.reject(new TypeError('offline'))

  const checkSome = (w: World, map: KeyhushMap, database: Database) =>
    checkAll(work => w.drive(work), map, database, 13)

  test('opens and answers while the servers are away, at the epoch it was at', async () => {
    const { living, world: w } = livingWorld()
    const { map } = await w.opened({ mode })
    living.publish(someEdits(1))
    await w.drive(map.sync())
    await w.drive(map.close())
    w.network.both(isDown)
    const { life: next, map: offline } = await w.opened({ mode: 'auto' })
    expect(offline.mode).toBe('local')
    expect(next.events).toEqual([{ type: 'resumed', what: 'copy', pending: false }])
    await checkSome(w, offline, living.newest)
    living.publish(someEdits(2))
    expect((await next.failure(offline.sync())).code).toBe('network')
    w.network.both(undefined)
    await w.drive(offline.sync())
    await checkSome(w, offline, living.newest)
    expect(blobs(w.network)).toHaveLength(16 + 2)
  })

  test('a later life follows what it has missed, after a checkpoint as well', async () => {
    const { living, world: w } = livingWorld()
    const map = await w.life().open({ mode })
    let bytes = 0
    for (let round = 1; bytes < 256 * 1024; round++) {
      const all = Array.from(
        { length: 1000 },
        (_, i): Operation => ({ op: 'edit', index: i, value: utf8(`${round} ${i}`.padEnd(8)) }),
      )
      living.publish(all)
      await w.drive(map.sync())
      bytes += living.newest.manifest.updateListBytes
    }
    await w.drive(map.close())
    expect(w.lives[0]!.writes).toContain('putCheckpoint')
    living.publish(someEdits(1))
    const again = await w.life().open({ mode })
    await checkSome(w, again, living.newest)
    expect(blobs(w.network).length).toBeLessThan(16 + 30)
  })

  test.each<[string, (bytes: Uint8Array) => Uint8Array]>([
    ['a bit flipped', bytes => bytes.map((byte, i) => (i === 300 ? byte ^ 1 : byte))],
    ['cut short', bytes => bytes.subarray(0, -9)],
    ['nothing left', () => new Uint8Array()],
  ])('%s: unreadable, and downloaded again', async (_what, spoil) => {
    const { living, world: w } = livingWorld()
    await w.drive((await w.life().open({ mode })).close())
    const readHint = w.disk.readHint.bind(w.disk)
    w.disk.readHint = async hintId => {
      const hint = await readHint(hintId)
      return { ...hint, checkpoint: spoil(hint.checkpoint) }
    }
    const { life, map } = await w.opened({ mode })
    expect(life.events).toEqual([{ type: 'discarded', reason: 'unreadable' }])
    await checkSome(w, map, living.newest)
  })

  test('keeps its mode and its proofs; an app that names others gets them', async () => {
    const w = new World()
    const lives: [Partial<OpenWithOptions>, kept: 'records' | 'tags' | 'parities', string | undefined][] = [
      [{ mode: 'local' }, 'records', undefined],
      [{ mode: 'full', proofs: 'tags' }, 'tags', 'discarded'],
      [{ mode: 'full', proofs: 'auto' }, 'tags', 'resumed'],
      [{ mode: 'full', proofs: 'merkle' }, 'parities', 'discarded'],
      [{ mode: 'full', proofs: 'auto' }, 'parities', 'resumed'],
      [{ mode: 'auto' }, 'parities', 'resumed'],
      [{ mode: 'local' }, 'records', 'discarded'],
      [{ mode: 'auto' }, 'records', 'resumed'],
    ]
    for (const [wish, kept, event] of lives) {
      const { life, map } = await w.opened(wish)
      const { records, tags } = map.stats.held
      expect([records ? 'records' : tags ? 'tags' : 'parities', life.events[0]?.type]).toEqual([kept, event])
      await w.checkValues(map, [1, 999])
      await w.drive(map.close())
    }
  })

  test('strict about rollbacks, it needs no fence', async () => {
    const { living, world: w } = livingWorld()
    w.network.fence = false
    const map = await w.life().open({ mode, rollback: 'strict' })
    await checkSome(w, map, living.newest)
    const copy = w.copy()
    const twin = await copy.life().open({ mode, rollback: 'strict' })
    await checkSome(copy, twin, living.newest)
    expect(secret(w.network)).toEqual([])
  })
})

describe("mode: 'auto'", () => {
  test.each<[number, string]>([
    [1 << 20, 'local'],
    [(1 << 20) + 32, 'full'],
  ])('%i records of 16 bytes: %s', (slots, expected) => {
    const layout = core.layout(slots, 16, 32, slots / 32)
    expect(core.chooseMode(layout, { directoryBytes: 0 }, { instant: false }, 0)).toBe(expected)
    layout.free()
  })
})
