// Servers that withhold downloads (`offers.blobs` is false): nothing is asked that they do not give, and lookups without a state go on.

import { describe, expect, test } from 'vitest'
import { estimate, type KeyhushMap } from '../src/index.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import type { OpenWithOptions } from '../src/testing.js'
import { rest, settle } from './support/clock.js'
import { nextEpoch } from './support/epochs.js'
import { core } from './support/harness.js'
import { edit, livingWorld } from './support/living.js'
import { A, B, blobs, type Network, problem, showing } from './support/network.js'
import { publisherKey, publishSigned, signedOnBoth } from './support/signed.js'
import { Directory, KEYS, watching } from './support/watched.js'
import { type Life, records, World } from './support/world.js'

const WITHHELD = {
  code: 'unsupported',
  reason: 'offer',
  message: expect.stringContaining('keeps its downloads to itself'),
}

/** Where a state pays after two lookups. */
const opened = async (life: Life, full = false, options: Partial<OpenWithOptions> = {}): Promise<KeyhushMap> => {
  const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= 2
  const given = { mode: 'auto', push: false, proofs: undefined, ...options } as const
  const map = await life.open(given, full ? { pays, choose: () => tapir } : { pays })
  await rest()
  return map
}
const lookUp = async (w: World, map: KeyhushMap, times: number) => {
  for (let index = 0; index < times; index++) {
    await w.checkValues(map, [index])
    await rest()
  }
}

/** One server of all that withholds downloads. */
function withholdsAt(network: Network, server: string): void {
  const shows = showing(network, server, ({ offers, ...info }) => ({ ...info, offers: { ...offers, blobs: false } }))
  network.misbehave[server] = (seen, genuine) =>
    seen.path.startsWith('/v1/blobs/') ? problem(404, 'not_found') : shows(seen, genuine)
}

const withholding = () => {
  const w = new World()
  w.network.blobs = false
  return w
}

test('mode auto stays instant, whatever would pay; once downloads are offered again, a state is made', async () => {
  const w = withholding()
  const life = w.life()
  const map = await opened(life)
  await lookUp(w, map, 6)
  expect([map.mode, life.events, blobs(w.network)]).toEqual(['instant', [], []])
  expect(await life.failure(map.prepare())).toMatchObject(WITHHELD)
  await lookUp(w, map, 6)
  expect([map.mode, blobs(w.network)]).toEqual(['instant', []])
  w.network.blobs = true
  await w.drive(map.sync())
  await lookUp(w, map, 8)
  expect(map.mode).toBe('local')
})

test('prepare() asks anew what servers offer', async () => {
  const w = withholding()
  const map = await opened(w.life())
  w.network.blobs = true
  await w.drive(map.prepare())
  expect(map.mode).toBe('local')
})

test.each<[string, Partial<OpenWithOptions>]>([
  ['local', { mode: 'local' }],
  ['full', { mode: 'full' }],
  ['local with a key', { mode: 'local', publisherKey }],
  ['single', { mode: 'single', servers: [A], integrity: 'server' }],
  ['auto with one server', { mode: 'auto', servers: [A], integrity: 'server' }],
])('mode %s is refused, and nothing is asked', async (_what, options) => {
  const network = signedOnBoth(records)
  network.blobs = false
  const w = new World({ network })
  const life = w.life()
  expect(await life.failure(life.openIdle({ proofs: undefined, ...options }))).toMatchObject(WITHHELD)
  expect(blobs(network)).toEqual([])
})

test('a watch is refused', async () => {
  const w = withholding()
  const life = w.life()
  const map = await opened(life)
  const error = await life.failure(map.watch('key', () => {}))
  expect(error).toMatchObject({
    code: 'unsupported',
    reason: 'offer',
    message: expect.stringContaining('lists of changes'),
  })
})

test('a watch under which servers begin to withhold stands still, says so by its time, and goes on later', async () => {
  const directory = new Directory()
  const { network } = directory
  const { watch, sync, heard, clock } = await watching(directory, { mode: 'instant' })
  const [key] = KEYS as [string]
  const own = await watch(key)
  await sync()
  const { checked } = own
  network.blobs = false
  directory.publish({ [key]: 'new' })
  clock.pass(1000)
  await sync()
  expect([heard, own.epoch, own.checked]).toEqual([[], 1, checked])
  network.blobs = true
  await sync()
  expect(heard).toEqual(['v0.......... → new at 2, list'])
  expect(own.checked!.getTime()).toBeGreaterThan(checked!.getTime())
})

test('estimate() has mode instant alone, and says so where there is none', async () => {
  const { network } = withholding()
  const { mode, download, paysAfter, modes } = await estimate([A, B], { fetch: network.fetch })
  expect([mode, download, paysAfter, Object.keys(modes)]).toEqual(['instant', 'instant', undefined, ['instant']])
  network.instant = false
  await expect(estimate([A, B], { fetch: network.fetch })).rejects.toMatchObject({ reason: 'offer' })
})

describe.each([true, false])('under a map with a state (full: %s)', full => {
  const begun = async (options: Partial<OpenWithOptions> = {}) => {
    const { living, world: w } = livingWorld()
    const life = w.life()
    const map = await opened(life, full, options)
    await lookUp(w, map, 3)
    expect(map.mode).toBe(full ? 'full' : 'local')
    life.events.length = 0
    w.network.blobs = false
    const asked = blobs(w.network).length
    const publish = (value: string) => living.publish([edit(1, value)])
    return { w, life, map, asked, publish }
  }
  const goesOn = async ({ w, life, map, asked, publish }: Awaited<ReturnType<typeof begun>>) => {
    await rest()
    expect([map.mode, map.epoch, blobs(w.network).length]).toEqual(['instant', 2, asked])
    expect(life.events.map(({ type }) => type)).toEqual(['mode', 'updated'])
    await lookUp(w, map, 4)
    publish('third...')
    await w.drive(map.sync())
    await lookUp(w, map, 2)
    expect([map.mode, map.epoch, blobs(w.network).length]).toEqual(['instant', 3, asked])
    w.network.blobs = true
    await w.drive(map.sync())
    await lookUp(w, map, 1)
    expect([map.mode, map.epoch]).toEqual([full ? 'full' : 'local', 3])
    await lookUp(w, map, 2)
  }

  test('mode auto: sync() leads to lookups without it, and back once downloads are offered', async () => {
    const it = await begun()
    it.publish('second..')
    await it.w.drive(it.map.sync())
    await goesOn(it)
  })

  test('mode auto: so do events', async () => {
    const { living, world: w } = livingWorld()
    w.network.push = true
    const life = w.life()
    const map = await opened(life, full, { push: true })
    await lookUp(w, map, 3)
    await settle()
    life.events.length = 0
    w.network.blobs = false
    const asked = blobs(w.network).length
    const publish = (value: string) => living.publish([edit(1, value)])
    publish('second..')
    await w.drive(w.clock.wait(5_000))
    await goesOn({ w, life, map, asked, publish })
  })

  test('mode auto, at the next visit: the state stays, and goes on later', async () => {
    const { w, map, asked, publish } = await begun()
    publish('second..')
    await w.drive(map.close())
    const before = (await w.head())!.record.hintId
    const again = await opened(w.life(), full)
    await lookUp(w, again, 3)
    expect([again.mode, again.epoch, blobs(w.network).length]).toEqual(['instant', 2, asked])
    await w.drive(again.close())
    w.network.blobs = true
    const later = await opened(w.life(), full)
    await lookUp(w, later, 2)
    expect([later.mode, later.epoch, blobs(w.network).length]).toEqual([full ? 'full' : 'local', 2, asked + 1])
    expect((await w.head())!.record.hintId).toEqual(before)
  })

  test('a mode that needs a state: sync() and open() say so; a copy still answers', async () => {
    const mode = full ? 'full' : 'local'
    const { living, world: w } = livingWorld()
    const life = w.life()
    const map = await life.open({ mode, push: false })
    const old = w.database.byIndex[1]
    w.network.blobs = false
    const asked = blobs(w.network).length
    living.publish([edit(1, 'second..')])
    expect(await life.failure(map.sync())).toMatchObject(WITHHELD)
    if (full) expect(await life.failure(map.at(1))).toMatchObject(WITHHELD)
    else expect(await w.drive(map.at(1))).toEqual(old)
    const other = w.life()
    expect(await other.failure(other.openIdle({ mode, push: false }))).toMatchObject(WITHHELD)
    expect(blobs(w.network).length).toBe(asked)
    w.network.blobs = true
    await w.drive(map.sync())
    await w.checkValues(map, [1])
  })
})

test.each([A, B])('%s alone withholds downloads: a copy comes from the other, and follows', async server => {
  for (const key of [{}, { publisherKey }]) {
    const network = signedOnBoth(records)
    const w = new World({ network })
    withholdsAt(network, server)
    const life = w.life()
    const map = await life.open({ mode: 'local', push: false, ...key })
    await w.checkValues(map)
    const next = nextEpoch(core, records, [edit(1, 'second..')])
    publishSigned(network, next)
    await w.drive(map.sync())
    expect(await w.drive(map.at(1))).toEqual(next.byIndex[1])
    const other = w.life()
    expect(await other.failure(other.openIdle({ mode: 'full', push: false, ...key }))).toMatchObject(WITHHELD)
  }
})
