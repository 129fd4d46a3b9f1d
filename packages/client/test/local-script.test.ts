// Where WebAssembly does not run, mode `local` keeps a small database all the same, in memory, by the core in JavaScript.

import { partitionBytes } from '@keyhush/protocol'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { thoroughly } from '../../../tests/support/thoroughly.js'
import type { MapEvent } from '../src/index.js'
import { buildDatabase, someValues } from './support/database.js'
import { laidOutAnew, nextEpoch } from './support/epochs.js'
import { core, Harness, keyed, keyless, NAMES, sameOnBoth } from './support/harness.js'
import {
  checkAll,
  edit,
  expectFollowed,
  expectGrown,
  Living,
  livingKeyed,
  livingKeyless,
  openedLiving,
} from './support/living.js'
import { A, B, blobs, flip } from './support/network.js'
import { forbidden, noSimd } from './support/no-webassembly.js'
import { World } from './support/world.js'

const mode = 'local'

beforeEach(() => void vi.stubGlobal('WebAssembly', noSimd))
afterEach(() => void vi.unstubAllGlobals())

/** Of so many values of 32 KiB. */
const valuesOf = (count: number) => someValues(count, 1 << 15)
const databaseOf = (count: number) => buildDatabase(core, { values: valuesOf(count), partitions: 1 })

const noCore = () => Promise.reject(new EvalError('Refused to create it'))

describe.each<[string, typeof WebAssembly | undefined]>([
  ['no WebAssembly', undefined],
  ['no SIMD', noSimd],
  ['a policy that forbids it', forbidden],
])('with %s', (_, wasm) => {
  beforeEach(() => void vi.stubGlobal('WebAssembly', wasm))

  test.each([[[A, B]], [[A]]])(
    '%j: present keys have their values, absent ones are absent; no request leaves',
    async servers => {
      const { network, database } = keyed()
      const harness = new Harness(network, 1, { loadCore: noCore })
      const events: MapEvent[] = []
      const integrity = servers.length === 1 ? 'server' : undefined
      const map = await harness.open({ servers, mode, integrity, onEvent: event => void events.push(event) })
      expect([map.mode, map.storage, map.stats.core]).toEqual(['local', 'memory', 'script'])
      expect(map.stats.held).toEqual({ records: database.manifest.partitions * partitionBytes(database.manifest) })
      const own = events.filter(({ type }) => type !== 'without-webassembly')
      expect(own).toEqual([{ type: 'storage', storage: 'memory', reason: 'unavailable' }])
      const before = network.seen.length
      for (const [i, name] of NAMES.entries())
        expect(await harness.drive(map.get(name))).toEqual(database.contents.values[i])
      expect(await harness.drive(map.getMany(['absent', NAMES[3]!], { padTo: 5 }))).toEqual([
        undefined,
        database.contents.values[3],
      ])
      expect(network.seen).toHaveLength(before)
    },
  )

  test('a database that is too large is refused before it is downloaded, with what to do', async () => {
    const network = sameOnBoth(databaseOf(257))
    const harness = new Harness(network, 1, { loadCore: noCore })
    const error = await harness.failure(harness.open({ mode }))
    expect(error).toMatchObject({ code: 'unsupported', reason: 'memory' })
    for (const part of ['got 8421376', 'at most 8388608', 'allow WebAssembly', "'instant'"])
      expect(error.message).toContain(part)
    expect(blobs(network)).toEqual([])
  })
})

thoroughly(
  'a database of 8 MiB is not too large; with the next generation it is, and the old one answers on',
  async () => {
    const first = databaseOf(256)
    const network = sameOnBoth(first)
    const harness = new Harness(network)
    const map = await harness.open({ mode })
    network.publishOnBoth(laidOutAnew(first, 1, valuesOf(257)))
    expect(await harness.failure(map.sync())).toMatchObject({ code: 'unsupported', reason: 'memory' })
    await checkAll(harness.drive, map, first, 51)
  },
)

describe('the download', () => {
  test.each([A, B])('%s sends other bytes: noticed as they arrive, the other serves', async liar => {
    for (const { network, database } of [keyless(), keyed()]) {
      network.misbehave[liar] = flip(3, '/v1/blobs/')
      const { map, drive } = await openedLiving(new Living(network, database), { mode })
      expect(map.stats.incidents).toContainEqual({ server: liar, code: 'tampered' })
      await checkAll(drive, map, database)
    }
  })

  test('both do: refused', async () => {
    const { network } = keyed()
    network.both(flip(3, '/v1/blobs/'))
    const harness = new Harness(network)
    expect(await harness.failure(harness.open({ mode }))).toMatchObject({ code: 'tampered' })
  })

  test('durable storage that is required is not to be had', async () => {
    const harness = new Harness(keyed().network)
    expect(await harness.failure(harness.open({ mode, storage: 'required' }))).toMatchObject({ code: 'storage' })
  })
})

describe('a database that changes', () => {
  test('by index: what changes, and comes, opening several partitions at once', async () => {
    const living = livingKeyless()
    const { network: _, ...there } = await openedLiving(living, { mode })
    await expectGrown(living, there)
  })

  test('by key: what goes, changes and comes', async () => {
    const living = livingKeyed()
    await expectFollowed(living, await openedLiving(living, { mode }))
  })

  test('lookups go on while an update is hashed in pieces, and see the old epoch or the new one', async () => {
    const first = buildDatabase(core, { values: someValues(1 << 14, 64), partitions: 1 })
    const living = new Living(sameOnBoth(first), first)
    let meanwhile = async () => {}
    const harness = new Harness(living.network, 1, { pause: () => meanwhile() })
    const map = await harness.open({ mode })
    living.publish([edit(3, 'three'.padEnd(64))])
    const seen: unknown[] = []
    meanwhile = async () => {
      seen.push(await map.at(3))
    }
    await harness.drive(map.sync())
    meanwhile = async () => {}
    const [old, next] = [first.byIndex[3], living.newest.byIndex[3]]
    expect(seen.filter(value => Buffer.compare(value as Uint8Array, old!) === 0).length).toBeGreaterThanOrEqual(8)
    for (const value of seen) expect([old, next]).toContainEqual(value)
    await checkAll(harness.drive, map, living.newest, 97)
  })

  test('a list that both publish, and that does not lead to the contents they publish: nothing changes', async () => {
    const { living, map, harness, network, drive } = await openedLiving(livingKeyless(), { mode })
    const old = living.newest
    const next = nextEpoch(core, old, [edit(3, 'three')])
    const other = nextEpoch(core, old, [edit(3, 'other')])
    const { updateListHash, updateListBytes } = other.manifest
    const contradictory = nextEpoch(core, old, [edit(3, 'three')], { updateListHash, updateListBytes })
    network.publishOnBoth({ ...contradictory, blobs: new Map([...next.blobs, ...other.blobs]) })
    expect(await harness.failure(map.sync())).toMatchObject({ code: 'protocol' })
    await checkAll(drive, map, old)
  })

  test('a new generation, with another layout', async () => {
    const { living, map, network, drive } = await openedLiving(livingKeyless(), { mode })
    const next = laidOutAnew(living.newest, 3)
    network.publishOnBoth(next)
    await drive(map.sync())
    await checkAll(drive, map, next)
  })
})

test('what is stored of another life stays, and is used again where WebAssembly is there again', async () => {
  const w = new World()
  const open = async () => {
    const life = w.life()
    const map = await life.open({ mode })
    await w.checkValues(map)
    const { storage, stats } = map
    await w.drive(map.close())
    return [storage, stats.core, ...life.events.map(({ type }) => type)]
  }
  vi.unstubAllGlobals()
  const [storage] = await open()
  vi.stubGlobal('WebAssembly', noSimd)
  expect(await open()).toEqual(['memory', 'script', 'storage'])
  vi.unstubAllGlobals()
  expect(await open()).toEqual([storage, 'wasm', 'resumed'])
})
