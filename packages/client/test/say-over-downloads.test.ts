// The app's say over downloads: `open({ download })` and `map.prepare()`. What is asked, and when, follows from the manifest and the
// number of lookups, never from a key or a reply (I3).

import { describe, expect, test } from 'vitest'
import type { DownloadOffer, KeyhushMap } from '../src/index.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import type { OpenWithOptions } from '../src/testing.js'
import { deferred, rest, settle, watch } from './support/clock.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { laidOutAnew, nextEpoch } from './support/epochs.js'
import { core, hex, NAMES, sameOnBoth } from './support/harness.js'
import { A, blobs, hang, late, on, problem } from './support/network.js'
import { publisherKey, publishSigned, signedOnBoth } from './support/signed.js'
import { type Life, World } from './support/world.js'

/** 2.3 MiB: more than is downloaded without asking. */
const large = buildDatabase(core, { values: someValues(300, 8 * 1024), partitions: 8 })
const BYTES = large.manifest.partitions * large.manifest.partitionRecords * 8 * 1024
const epochs: Database[] = [large]
for (let i = 1; i < 5; i++) {
  epochs.push(nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: i, value: new Uint8Array(8 * 1024).fill(i) }]))
}
const PAYS = 4

interface How extends Partial<OpenWithOptions> {
  readonly full?: boolean
  readonly pays?: (lookups: number) => boolean
}

const opening = (life: Life, { full = false, pays = lookups => lookups >= PAYS, ...options }: How) => {
  const planner = { pays: (_core: unknown, _manifest: unknown, lookups: number) => pays(lookups) }
  const given = { mode: 'auto', push: false, proofs: undefined, timeoutMs: undefined, ...options } as const
  return life.openIdle(given, full ? { ...planner, choose: () => tapir } : planner)
}
const opened = async (life: Life, how: How = {}): Promise<KeyhushMap> => {
  const map = await life.world.drive(opening(life, how))
  if (map.mode === 'instant' && how.pays?.(0)) await life.world.drive(map.at(0)) // the first state waits for a lookup
  await rest()
  return map
}
const lookUp = async (w: World, map: KeyhushMap, times: number) => {
  for (let i = 0; i < times; i++) {
    expect(hex((await w.drive(map.at(200 + i)))!)).toBe(hex(w.database.byIndex[200 + i]!))
    await rest()
  }
}
const world = (...databases: Database[]) => {
  const all = databases.length === 0 ? [large] : databases
  return new World({ network: sameOnBoth(...all), database: all.at(-1)! })
}
const begun = async (how: How = {}) => {
  const w = world()
  const life = w.life()
  return { w, life, map: await opened(life, how) }
}
const types = (life: Life) => life.events.map(({ type }) => type)

describe('a function', () => {
  test.each([
    [true, 'full', 'lookups'],
    [false, 'local', 'small'],
  ] as const)('is asked before the download, and told what and why', async (full, mode, reason) => {
    const w = world()
    const offers: DownloadOffer[] = []
    const download = (offer: DownloadOffer) => {
      expect(blobs(w.network)).toEqual([])
      return offers.push(offer) > 0
    }
    const life = w.life()
    const map = await opened(life, { download, full, ...(full ? {} : { pays: () => true }) })
    if (full) {
      await lookUp(w, map, PAYS - 1)
      expect([map.mode, offers]).toEqual(['instant', []])
      await lookUp(w, map, 1)
    }
    expect([map.mode, offers]).toEqual([mode, [{ mode, bytes: BYTES, reason }]])
    expect(types(life).filter(type => type !== 'storage')).toEqual(['preparing', 'prepared', 'mode'])
  })

  test('is not asked for less than a mebibyte', async () => {
    const w = new World()
    const small = w.database
    const map = await opened(w.life(), { download: () => expect.fail('asked') })
    await w.drive(map.at(1))
    for (let i = 0; i < PAYS; i++) await w.drive(map.at(1))
    await rest()
    expect(map.mode).toBe('local')
    const edits = [1, 2, 3].map(index => ({ op: 'edit' as const, index, value: new Uint8Array(8) }))
    const later = edits.reduce((database, edit) => nextEpoch(core, database, [edit]), small)
    w.network.replaceOnBoth(later) // no list of changes leads there
    await w.drive(map.sync())
    expect([map.mode, map.epoch]).toEqual(['local', 4])
  })

  test.each<[string, How['download'], boolean]>([
    ['says no', () => false, false],
    ['says no later', async () => false, false],
    ['says nothing', (() => {}) as never, false],
    [
      'throws',
      () => {
        throw new Error('my own bug')
      },
      true,
    ],
    ['rejects', () => Promise.reject(new Error('my own bug')), true],
  ])('that %s is asked once, and nothing is downloaded before prepare()', async (_what, answer, told) => {
    const w = world()
    const life = w.life()
    let asked = 0
    const download = (offer: DownloadOffer) => {
      asked++
      return (answer as (offer: DownloadOffer) => boolean)(offer)
    }
    const map = await opened(life, { download })
    await lookUp(w, map, 3 * PAYS)
    expect([map.mode, asked, blobs(w.network).length]).toEqual(['instant', 1, 0])
    const events = life.events.filter(({ type }) => type !== 'storage')
    expect(events.length).toBe(told ? 1 : 0)
    if (told) {
      const cause = expect.objectContaining({ message: 'my own bug' })
      const error = expect.objectContaining({ code: 'unsupported', reason: 'download', cause })
      expect(events[0]).toEqual({ type: 'preparing-failed', error, retryAfterLookups: undefined })
    }
    await w.drive(map.prepare())
    expect([map.mode, asked]).toEqual(['local', 1])
    await w.checkValues(map, [0, 299])
  })

  test('that takes its time keeps no lookup waiting, and prepare() does not wait for it', async () => {
    const w = world()
    const answer = deferred()
    const download = () => answer.promise.then(() => false)
    const map = await opened(w.life(), { download })
    await lookUp(w, map, 2 * PAYS)
    expect([map.mode, blobs(w.network).length]).toEqual(['instant', 0])
    await w.drive(map.prepare())
    expect(map.mode).toBe('local')
    answer.resolve()
  })
})

describe("'never'", () => {
  test('downloads nothing, however many lookups, and not what an earlier visit had begun', async () => {
    const w = world()
    const life = w.life()
    w.network.both(hang('/v1/blobs/'))
    const before = await opened(life, { pays: () => true })
    await w.drive(before.close())
    expect((await w.head())?.stage).toBe('partial')
    w.network.both(undefined)
    const asked = blobs(w.network).length
    const map = await opened(w.life(), { download: 'never', pays: () => true })
    await lookUp(w, map, 20)
    expect([map.mode, blobs(w.network).length]).toEqual(['instant', asked])
  })

  test('after prepare() the state answers, in the next visit too', async () => {
    const { w, map } = await begun({ download: 'never' })
    await w.drive(map.prepare())
    expect(map.mode).toBe('local')
    await w.drive(map.close())
    const again = await opened(w.life(), { download: 'never' })
    expect(again.mode).toBe('local')
    await w.checkValues(again, [0, 299])
  })

  test('prepare() that fails is not tried again by itself', async () => {
    const { w, life, map } = await begun({ download: 'never', pays: () => true })
    w.network.both(on('/v1/blobs/', () => problem(404, 'not_found')))
    expect(await life.failure(map.prepare())).toMatchObject({ code: 'version' })
    const asked = blobs(w.network).length
    expect(life.events.at(-1)).toMatchObject({ type: 'preparing-failed', retryAfterLookups: undefined })
    await lookUp(w, map, 10)
    expect([map.mode, blobs(w.network).length]).toEqual(['instant', asked])
  })
})

describe('a state from which no update leads on', () => {
  /** A disk with a state of epoch 1, and servers that keep epoch 5 alone. */
  const outdated = async (full: boolean) => {
    const before = world(large)
    const map = await opened(before.life(), { full, pays: () => true })
    expect(map.mode).toBe(full ? 'full' : 'local')
    await before.drive(map.close())
    return new World({ network: sameOnBoth(epochs[4]!), database: epochs[4]!, before })
  }

  test.each([true, false])("at open(): lookups without it, and no download for 'never' (full: %s)", async full => {
    const w = await outdated(full)
    const map = await opened(w.life(), { full, download: 'never' })
    await lookUp(w, map, 5)
    expect([map.mode, map.epoch, blobs(w.network).length]).toEqual(['instant', 5, 0])
    await w.drive(map.prepare())
    expect([map.mode, map.epoch]).toEqual([full ? 'full' : 'local', 5])
    await lookUp(w, map, 2)
  })

  test.each([true, false])('a function is asked beside the lookups (full: %s)', async full => {
    const w = await outdated(full)
    const offers: DownloadOffer[] = []
    const map = await opened(w.life(), { full, download: offer => offers.push(offer) > 0 })
    expect([map.mode, offers]).toEqual([
      full ? 'full' : 'local',
      [{ mode: map.mode, bytes: BYTES, reason: 'outdated' }],
    ])
    await lookUp(w, map, 2)
  })

  test.each([true, false])('while the map is open: back to lookups without it (full: %s)', async full => {
    const w = world(large)
    const life = w.life()
    let leave = true
    const offers: DownloadOffer[] = []
    const download = (offer: DownloadOffer) => {
      offers.push(offer)
      return leave
    }
    const map = await opened(life, { full, download, pays: () => true })
    expect(map.mode).toBe(full ? 'full' : 'local')
    leave = false
    const before = blobs(w.network).length
    w.network.replaceOnBoth(epochs[4]!)
    await w.drive(map.sync())
    await rest()
    expect([map.mode, map.epoch, blobs(w.network).length]).toEqual(['instant', 5, before])
    for (let lookup = 0; lookup < 3; lookup++) {
      expect(hex((await w.drive(map.at(1)))!)).toBe(hex(epochs[4]!.byIndex[1]!))
      await rest()
    }
    expect(offers.map(({ reason }) => reason)).toEqual(['small', 'outdated'])
    await w.drive(map.prepare())
    expect([map.mode, map.epoch]).toEqual([full ? 'full' : 'local', 5])
    expect(hex((await w.drive(map.at(1)))!)).toBe(hex(epochs[4]!.byIndex[1]!))
  })
})

test.each([true, false])(
  "a state, then a new generation, with a key, for 'never': lookups without it in this visit and the next (full: %s)",
  async full => {
    const next = laidOutAnew(large, 4)
    const network = signedOnBoth(large)
    const before = new World({ network, database: large })
    const map = await opened(before.life(), { full, publisherKey, pays: () => true })
    expect(map.mode).toBe(full ? 'full' : 'local')
    await before.drive(map.close())
    publishSigned(network, next)
    const asked = blobs(network).length
    const w = new World({ network, database: next, before })
    for (let visits = 0; visits < 2; visits++) {
      const without = await opened(w.life(), { full, publisherKey, download: 'never' })
      expect([without.mode, without.epoch]).toEqual(['instant', 2])
      await lookUp(w, without, 2)
      await w.drive(without.close())
    }
    expect(blobs(network).length).toBe(asked)
  },
)

test.each([
  ['never' as const, 'merkle'],
  [() => false, 'tags'],
] as const)('a state with other proofs stays where the app says no to its successor (%s)', async (download, stored) => {
  const w = world()
  const wishes = [{ proofs: stored }, { proofs: stored === 'tags' ? 'merkle' : 'tags', download }] as const
  const made = await opened(w.life(), { ...wishes[0], full: true, pays: () => true })
  await w.drive(made.close())
  const head = await w.head()
  const other = await opened(w.life(), { ...wishes[1], full: true })
  expect(other.mode).toBe('instant')
  await lookUp(w, other, 2)
  await w.drive(other.close())
  expect((await w.head())?.record.hintId).toEqual(head?.record.hintId)
  const before = blobs(w.network).length
  const again = await opened(w.life(), { ...wishes[0], full: true, download })
  expect(again.mode).toBe('full')
  await w.checkValues(again, [0, 299])
  expect(blobs(w.network).length).toBe(before)
  await w.drive(again.close())
  const asked = await opened(w.life(), { ...wishes[1], full: true, download: () => true })
  expect([asked.mode, blobs(w.network).length]).toEqual(['full', before + 8])
  await w.drive(asked.close())
  await w.auditor.assertSound()
})

describe('servers that answer nothing without a state', () => {
  const alone: How = { servers: [A], integrity: 'server' }
  test.each<[string, How, boolean]>([
    ['one server', alone, true],
    ['two without instant lookups', {}, false],
  ])('%s: the app is asked in open()', async (_what, how, instant) => {
    const w = world()
    w.network.instant = instant
    for (const download of ['never', () => false] as const) {
      const life = w.life()
      const error = await life.failure(opening(life, { ...how, download }))
      expect(error).toMatchObject({ code: 'unsupported', reason: 'download' })
      expect(blobs(w.network)).toEqual([])
    }
    const offers: DownloadOffer[] = []
    const map = await opened(w.life(), { ...how, download: offer => offers.push(offer) > 0 })
    expect(offers).toEqual([{ mode: 'local', bytes: BYTES, reason: 'needed' }])
    await w.checkValues(map, [0, 299])
    await w.drive(map.prepare())
    await w.drive(map.reset())
    expect(offers.length).toBe(1)
  })
})

test('two servers without instant lookups, and a state of an earlier visit from which no changes lead on: the app is asked', async () => {
  const w = world(large)
  w.network.instant = false
  const offers: DownloadOffer[] = []
  const download = (offer: DownloadOffer) => offers.push(offer) > 0
  await w.drive((await opened(w.life(), { download })).close())
  const life = w.life()
  const map = await opened(life, { download })
  expect([map.mode, offers.length]).toEqual(['local', 1])
  w.network.replaceOnBoth(epochs[4]!)
  await w.drive(map.sync())
  expect([map.epoch, offers.at(-1)]).toEqual([5, { mode: 'local', bytes: BYTES, reason: 'needed' }])
  expect(hex((await w.drive(map.at(1)))!)).toBe(hex(epochs[4]!.byIndex[1]!))
  await w.drive(map.close())
})

test('one server, and a state from which no changes lead on, after the app has said no: prepare() downloads', async () => {
  const w = world(large)
  const life = w.life()
  let yes = true
  const map = await opened(life, { servers: [A], integrity: 'server', download: () => yes })
  yes = false
  const newest = epochs.at(-1)!
  w.network.replace(A, newest)
  expect(await life.failure(map.sync())).toMatchObject({ reason: 'download' })
  await w.drive(map.prepare())
  expect(map.epoch).toBe(newest.manifest.epoch)
  expect(hex((await w.drive(map.at(1)))!)).toBe(hex(newest.byIndex[1]!))
  const asked = blobs(w.network).length
  await w.drive(map.prepare())
  expect(blobs(w.network).length).toBe(asked)
})

test('one server, and a download that an earlier visit has begun: the app is asked before the rest', async () => {
  const w = world()
  const alone: How = { servers: [A], integrity: 'server' }
  w.network.both(hang('/v1/blobs/'))
  const before = w.life()
  opening(before, alone).catch(() => {})
  await rest()
  before.kill()
  expect((await w.head())?.stage).toBe('partial')
  w.network.both(undefined)
  const asked = blobs(w.network).length
  const life = w.life()
  expect(await life.failure(opening(life, { ...alone, download: () => false }))).toMatchObject({ reason: 'download' })
  expect(blobs(w.network).length).toBe(asked)
  const map = await opened(w.life(), { ...alone, download: () => true })
  await w.checkValues(map, [0, 299])
})

describe('prepare()', () => {
  test('resolves when the state answers, and tells the progress; open() hears of it too', async () => {
    const w = world()
    const [own, opens]: number[][] = [[], []]
    const life = w.life()
    const map = await opened(life, { onProgress: ({ loadedBytes }) => void opens!.push(loadedBytes) })
    expect(opens).toEqual([])
    await w.drive(map.prepare({ onProgress: ({ loadedBytes }) => void own!.push(loadedBytes) }))
    expect(map.mode).toBe('local')
    expect([own!.at(-1), opens]).toEqual([BYTES, own])
    expect(types(life).slice(-3)).toEqual(['preparing', 'prepared', 'mode'])
    await w.drive(map.prepare())
  })

  test("open()'s onProgress is called beside lookups", async () => {
    const w = world()
    const loaded: number[] = []
    const map = await opened(w.life(), { onProgress: ({ loadedBytes }) => void loaded.push(loadedBytes) })
    await lookUp(w, map, PAYS)
    expect([map.mode, loaded.at(-1)]).toEqual(['local', BYTES])
  })

  test('rejects with what has failed; lookups go on, and by themselves it is tried again', async () => {
    const { w, life, map } = await begun()
    w.network.both(on('/v1/blobs/', () => problem(404, 'not_found')))
    expect(await life.failure(map.prepare())).toMatchObject({ code: 'version' })
    const error = expect.objectContaining({ code: 'version' })
    expect(life.events.at(-1)).toEqual({ type: 'preparing-failed', error, retryAfterLookups: 1 })
    w.network.both(undefined)
    await lookUp(w, map, 1)
    expect(map.mode).toBe('local')
  })

  test('a listener that throws fails its own call', async () => {
    const { w, map } = await begun()
    const onProgress = () => {
      throw new Error('my own bug')
    }
    const [one, other] = [map.prepare(), map.prepare({ onProgress })]
    await expect(w.drive(other)).rejects.toThrow('my own bug')
    await w.drive(one)
    expect(map.mode).toBe('local')
  })

  test('after close() it fails; closing ends it', async () => {
    const { w, life, map } = await begun()
    w.network.both(hang('/v1/blobs/'))
    const preparing = life.failure(map.prepare())
    await settle()
    await w.drive(map.close())
    expect((await preparing).code).toBe('closed')
    expect((await life.failure(map.prepare())).code).toBe('closed')
  })

  test.each(['instant', 'full', 'local'] as const)('of a map that is opened in mode %s', async mode => {
    const w = world()
    const { life, map } = await w.opened({ mode, push: false, ...(mode === 'full' ? {} : { proofs: 'auto' }) })
    if (mode === 'instant') expect((await life.failure(map.prepare())).code).toBe('usage')
    else await w.drive(map.prepare())
    expect(map.mode).toBe(mode)
  })
})

test('`download` belongs to mode auto, and has three kinds of values', async () => {
  const life = world().life()
  for (const how of [
    { mode: 'full', download: 'never' },
    { mode: 'instant', download: 'auto' },
    { download: 'ask' },
    { download: true },
  ]) {
    expect(await life.failure(opening(life, how as never)), JSON.stringify(how)).toMatchObject({ code: 'usage' })
  }
})

// The same for present, absent and repeated keys, whatever the app says to downloads and whenever.
describe('what servers see, and what the app is asked', () => {
  const values = NAMES.map((_, i) => new Uint8Array(60 * 1024).fill(i))
  const keyed = buildDatabase(core, { keys: NAMES, values, partitions: 4 })
  const keys: Record<string, (i: number) => string> = {
    present: i => NAMES[(7 * i + 3) % NAMES.length]!,
    absent: i => `absent-${i}`,
    repeated: () => NAMES[5]!,
  }
  const seenBy = async (say: (later: Promise<void>) => How['download'], keyOf: (i: number) => string) => {
    const seen: string[] = []
    const later = deferred()
    const download = say(later.promise)
    const w = new World({ network: sameOnBoth(keyed), database: keyed })
    const asking = (offer: DownloadOffer) => {
      seen.push(`asked ${JSON.stringify(offer)}`)
      return (download as (offer: DownloadOffer) => boolean)(offer)
    }
    const life = w.life({
      fetch: (url, init) => {
        const body = init.body as Uint8Array | undefined
        seen.push(`${w.clock.now()} ${init.method} ${url} ${body?.length}`)
        return w.network.fetch(url, init)
      },
    })
    const map = await opened(life, { full: true, download: typeof download === 'function' ? asking : download })
    for (let i = 0; i < 12; i++) {
      seen.push(`lookup ${i}`)
      if (i === 8) later.resolve()
      await w.drive(map.get(keyOf(i)))
      await rest()
    }
    await w.drive(map.close())
    return [...seen, ...types(life)]
  }

  test.each<[string, (later: Promise<void>) => How['download']]>([
    ['allowed', () => () => true],
    ['refused', () => () => false],
    ['allowed later', later => () => later.then(() => true)],
    ['never answered', () => () => new Promise<boolean>(() => {})],
    ['thrown at', () => () => Promise.reject(new Error('my own bug'))],
    ["'never'", () => 'never'],
    ["'auto'", () => 'auto'],
  ])('is the same whatever is looked up, where downloads are %s', async (_what, say) => {
    const views = []
    for (const keyOf of Object.values(keys)) views.push(await seenBy(say, keyOf))
    expect(views[0]!.length).toBeGreaterThan(40)
    for (const view of views) expect(view).toEqual(views[0])
  })
})

describe('prepare() beside other calls', () => {
  test('is waited for while its download goes on, however many lookups are under way', async () => {
    const w = world()
    const [slowBlobs, slowLookups] = [late(w.clock, '/v1/blobs/', 9_000), late(w.clock, '/v1/instant', 1_700)]
    w.network.both((seen, genuine) => slowBlobs(seen, genuine) ?? slowLookups(seen, genuine))
    const map = await opened(w.life(), { download: 'never', timeoutMs: 15_000 })
    const prepared = map.prepare()
    const prepare = watch(prepared)
    const lookUpAfter = async (ms: number) => {
      await w.clock.wait(ms)
      while (prepare.value === undefined) await map.at(1)
    }
    const lookups = Promise.all([100, 800, 1_450].map(lookUpAfter)) // at any time one is under way
    await w.drive(prepared)
    await w.drive(lookups)
    expect(map.mode).toBe('local')
  })

  test('goes on when the call that had begun the download is called off, and asks nobody', async () => {
    const w = world()
    w.network.both(hang('/v1/blobs/'))
    const map = await opened(w.life(), { download: () => expect.fail('asked') })
    const first = new AbortController()
    const one = map.prepare({ signal: first.signal }).catch(error => error.name)
    await rest()
    const other = map.prepare()
    await lookUp(w, map, 3) // enough for another attempt
    w.network.both(undefined)
    first.abort()
    expect(await w.drive(one)).toBe('AbortError')
    await w.drive(other)
    expect(map.mode).toBe('local')
  })
})
