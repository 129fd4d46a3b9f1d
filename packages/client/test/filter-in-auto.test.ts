// Mode `auto` with a filter: it answers while lookups are instant, rests beside a state, and its download obeys the app and the line.

import { describe, expect, test, vi } from 'vitest'
import type { DownloadOffer } from '../src/index.js'
import { local } from '../src/scheme/local/local.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import type { Environment, OpenWithOptions } from '../src/testing.js'
import { deferred, rest, until } from './support/clock.js'
import { buildDatabase } from './support/database.js'
import { ABSENT, blobs, disk, lookups, marked, opened, withheld } from './support/filtered.js'
import { core, NAMES, type Planner, refusedBy, sameOnBoth } from './support/harness.js'
import { FakeLine } from './support/line.js'
import { A, B, type Misbehave } from './support/network.js'
import { KEYS, textOf } from './support/watched.js'

// The filters of these lists have hundreds of bytes.
vi.mock('../src/base/constants.js', async original => ({ ...(await original<object>()), UNASKED_BYTES: 16 }))

const [LISTED, OTHER] = KEYS as [string, string]
const PAYS = 3
/** A hint after so many lookups; no copy. */
const HINTS: Planner = { pays: (_core, _manifest, lookups) => lookups >= PAYS, choose: () => tapir }
/** A copy after the first lookup. */
const COPIES: Planner = { pays: () => true, choose: () => local }

const auto = (
  { filter, ...options }: Partial<OpenWithOptions> = {},
  {
    directory = marked(),
    planner = HINTS,
    ...environment
  }: Partial<Environment> & {
    directory?: ReturnType<typeof marked>
    planner?: Planner
  } = {},
) => {
  const given = { mode: 'auto', filter: { cover: 0, meanwhile: 'ask', ...filter } as never, ...options } as const
  return opened(directory, given, environment, planner)
}
const waiting = { filter: { cover: 0, meanwhile: 'wait' } } as const

test('excluded calls send nothing, and do not count towards a state; beside that the filter rests', async () => {
  const directory = marked()
  directory.network.push = true
  const { map, network, drive, clock, events } = await auto({ push: true }, { directory })
  expect([map.mode, map.filter?.state]).toEqual(['instant', 'ready'])
  for (let i = 0; i < 5 * PAYS; i++) expect(await drive(map.get(ABSENT))).toBeUndefined()
  for (let i = 1; i < PAYS; i++) expect(textOf(await drive(map.get(LISTED)))).toBe('v0..........')
  await rest()
  expect([map.mode, lookups(network).length]).toEqual(['instant', 2 * (PAYS - 1)])
  await drive(map.get(LISTED))
  await until(clock, () => map.mode === 'full')
  expect(map.filter).toBeUndefined()
  await rest()
  expect(network.streams.size).toBe(2) // the state's alone
  const [asked, told] = [network.seen.length, events.length]
  expect(await drive(map.get(ABSENT))).toBeUndefined()
  expect(network.seen.length).toBeGreaterThan(asked)
  directory.publish({ [OTHER]: 'new' })
  await until(clock, () => map.epoch === 2)
  expect(textOf(await drive(map.get(OTHER)))).toBe('new')
  expect(events.slice(told).filter(({ type }) => type === 'filter')).toEqual([])
  expect(events.slice(told)).toContainEqual({ type: 'updated', generation: 1, epoch: 2 })
})

test('once lookups are instant again the filter goes on, and moves to what is newest', async () => {
  const directory = marked()
  const download = ({ reason }: DownloadOffer) => reason !== 'outdated'
  const { map, drive, clock, sync } = await auto({ download }, { directory })
  for (let i = 0; i < PAYS; i++) await drive(map.get(LISTED))
  await until(clock, () => map.mode === 'full')
  directory.publish({ [ABSENT]: 'come' })
  directory.layOutAnew()
  directory.forget() // no list leads on from the state
  await sync().catch(() => {})
  expect([map.mode, map.filter?.epoch]).toEqual(['instant', 1])
  await drive(map.get(ABSENT)) // it was away: servers are asked
  await until(clock, () => map.filter?.epoch === 3)
  expect(textOf(await drive(map.get(ABSENT)))).toBe('come')
})

test('a closed map has its counters still', async () => {
  const { map, drive } = await auto()
  await drive(map.get(LISTED))
  await drive(map.close())
  expect([map.stats.lookups, map.filter?.epoch]).toEqual([1, 1])
})

describe('where a copy is due', () => {
  test('none is loaded', async () => {
    const { map, network, drive, clock } = await auto({}, { planner: COPIES })
    expect([map.filter, blobs(network)]).toEqual([undefined, []])
    expect(await drive(map.get(ABSENT))).toBeUndefined()
    expect(lookups(network).length).toBeGreaterThan(0)
    await until(clock, () => map.mode === 'local')
    const marks = Buffer.from(marked().newest.manifest.slotMarksHash!).toString('hex')
    expect(blobs(network).filter(({ path }) => path.endsWith(marks))).toEqual([])
  })

  test('a call that waits for a filter begins it, whatever its key is, and waits for that', async () => {
    for (const key of [ABSENT, LISTED]) {
      const { map, network, drive } = await auto(waiting, { planner: COPIES })
      expect(textOf(await drive(map.get(key)))).toBe(key === LISTED ? 'v0..........' : undefined)
      expect([map.mode, lookups(network)]).toEqual(['local', []])
    }
  })

  test('servers that withhold it get no lookup of a call that waits', async () => {
    const directory = marked()
    Object.assign(directory.network.misbehave, { [A]: withheld, [B]: withheld })
    const { map, network, harness } = await auto(waiting, { directory, planner: COPIES })
    expect(await harness.failure(map.get(LISTED, { timeoutMs: 60_000 }))).toMatchObject({ code: 'timeout' })
    expect(lookups(network)).toEqual([])
  })

  test.each([
    ['the app forbids that', { download: 'never' }],
    ['the app wants to be asked', { download: () => false }],
  ] as const)('but %s: the filter is asked for by itself, and refused as it', async (_, options) => {
    const { map, network, drive, harness } = await auto({ ...waiting, ...options }, { planner: COPIES })
    expect(await harness.failure(map.get(LISTED))).toMatchObject({
      reason: 'download',
      message: expect.stringMatching(/for mode 'filter', got none from .*; call reset\(\), which does not ask$/),
    })
    expect([map.filter?.state, blobs(network).length, lookups(network).length]).toEqual(['loading', 0, 0])
    await drive(map.reset())
    expect(await drive(map.get(ABSENT))).toBeUndefined()
    expect([map.filter?.state, lookups(network).length]).toEqual(['ready', 0])
  })
})

describe('before the download', () => {
  test('the app is asked, with the reason; meanwhile calls are sent', async () => {
    const offers: DownloadOffer[] = []
    const answer = deferred()
    const download = async (offer: DownloadOffer) => {
      offers.push(offer)
      await answer.promise
      return true
    }
    const directory = marked()
    const { map, network, drive, clock } = await auto({ download }, { directory })
    const { directoryBytes, records } = directory.newest.manifest
    await drive(map.get(ABSENT))
    await drive(map.sync())
    expect(offers).toEqual([{ mode: 'filter', bytes: directoryBytes + records, reason: 'filter' }])
    expect([blobs(network).length, lookups(network).length > 0]).toEqual([0, true])
    answer.resolve()
    await until(clock, () => map.filter?.state === 'ready')
  })

  test('an app that says no is asked once, and all calls are sent', async () => {
    let asked = 0
    const { map, network, drive } = await auto({ download: () => ++asked < 0 })
    for (let i = 1; i < PAYS; i++) {
      const before = lookups(network).length
      await drive(map.get(ABSENT))
      expect(lookups(network).length).toBeGreaterThan(before)
    }
    expect([asked, blobs(network).length]).toEqual([1, 0])
  })

  test('a metered line is left alone, until it is another', async () => {
    const connection = new FakeLine()
    connection.isMetered = true
    const { map, network, events, clock } = await auto({}, { connection })
    expect(events).toContainEqual({ type: 'postponed', mode: 'filter', bytes: expect.any(Number) })
    expect(blobs(network)).toEqual([])
    connection.become('unmetered')
    await until(clock, () => map.filter?.state === 'ready')
  })

  test('the same of a new generation, for which no list of changes leads on; nobody waits for that', async () => {
    const connection = new FakeLine()
    const directory = marked()
    const { map, sync, clock, network } = await auto({}, { connection, directory })
    connection.isMetered = true
    const before = blobs(network).length
    directory.layOutAnew()
    await sync()
    expect([blobs(network).length, map.filter?.epoch]).toEqual([before, 1])
    connection.become('unmetered')
    await until(clock, () => map.filter?.epoch === 2)
  })
})

test('with a stored filter it opens offline, and answers; with a stored state, that does', async () => {
  const { openStore } = disk()
  const directory = marked()
  const how = { storage: 'required' } as const
  const first = await auto(how, { directory, openStore })
  await first.drive(first.map.close())
  const away: Misbehave = () => new Response('', { status: 503 })
  Object.assign(directory.network.misbehave, { [A]: away, [B]: away })
  const { map, drive, harness, clock } = await auto(how, { directory, openStore })
  expect([map.mode, map.filter?.state, await drive(map.get(ABSENT))]).toEqual(['instant', 'ready', undefined])
  expect(await harness.failure(map.get(LISTED))).toMatchObject({ code: 'network' })
  Object.assign(directory.network.misbehave, { [A]: undefined, [B]: undefined })
  for (let i = 0; i < PAYS; i++) expect(textOf(await drive(map.get(LISTED)))).toBe('v0..........')
  await until(clock, () => map.mode === 'full')
  await drive(map.close())
  directory.network.push = true
  const third = await auto({ ...how, push: true }, { directory, openStore })
  await until(third.clock, () => third.map.mode === 'full')
  expect(third.map.filter).toBeUndefined()
  expect(third.events.map(({ type }) => type)).toContain('mode')
  directory.publish({ [OTHER]: 'new' })
  await until(third.clock, () => third.map.epoch === 2)
})

describe('it does not open', () => {
  test('on a list without marks', async () => {
    const values = NAMES.map(() => new Uint8Array(3).fill(1))
    const network = sameOnBoth(buildDatabase(core, { keys: NAMES, values, partitions: 4 }))
    const options = { mode: 'auto', filter: { cover: 0, meanwhile: 'ask' } } as const
    expect(await refusedBy({ network }, options)).toMatchObject({ code: 'unsupported', reason: 'offer' })
  })

  test('where no lookup is instant', async () => {
    const options = { mode: 'auto', collusion: 'tolerated', ...waiting } as const
    expect(await refusedBy(marked(), options)).toMatchObject({
      code: 'usage',
      message: expect.stringMatching(/begins with it/),
    })
  })
})
