// Mode `auto`: lookups are answered from the first moment on, a state is made behind them when it pays, and when that is
// depends on nothing but the manifest, the number of lookups, and whether servers fail.

import { INSTANT_PATH, type Manifest } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { InternalError, KeyhushError, type KeyhushMap } from '../src/index.js'
import { paysAfter } from '../src/scheme/table.js'
import type { Environment, OpenWithOptions } from '../src/testing.js'
import { deferred, rest, settle } from './support/clock.js'
import { buildDatabase, later, someValues, withMalformedBlock } from './support/database.js'
import { lying } from './support/deviating.js'
import { core, hex, keyed, NAMES, sameOnBoth } from './support/harness.js'
import { edit, livingWorld } from './support/living.js'
import { A, after, B, blobs, bytesOf, hang, type Network, ok, on, problem, type Seen } from './support/network.js'
import { drawing } from './support/random.js'
import { type Life, records, World } from './support/world.js'

/** Too large to be kept whole without being asked for. */
const values = someValues(300, 64 * 1024)
const large = buildDatabase(core, { values, partitions: 8 })
/** After so many lookups its hint is made; the planner's own rule would have tests wait. */
const PAYS = 12

const world = () => new World({ network: sameOnBoth(large), database: large })
const openedBy = async (life: Life, options: Partial<OpenWithOptions> = {}): Promise<KeyhushMap> => {
  const pays = (_core: unknown, { records }: Manifest, lookups: number) => records === 1000 || lookups >= PAYS
  const map = await life.open({ mode: 'auto', push: false, ...options }, { pays })
  await settle()
  return map
}
async function begun() {
  const w = world()
  const life = w.life()
  return { w, life, map: await openedBy(life) }
}
const lookUp = async (w: World, map: KeyhushMap, indices: readonly number[]) => {
  for (const index of indices) {
    const value = await w.drive(map.at(index))
    expect(value && Buffer.compare(value, w.database.byIndex[index]!)).toBe(0)
  }
  await rest()
}
/** Until nothing goes on but what waits for the clock. */
const upTo = (count: number) => Array.from({ length: count }, (_, i) => (7 * i) % 300)
const paths = ({ seen }: Network, skip = 0) =>
  seen.slice(skip).map(({ server, path, body }) => `${server} ${path} ${body.length}`)
const count = (network: Network, path: string) => network.seen.filter(seen => seen.path.startsWith(path)).length
const types = (life: Life) => life.events.map(({ type }) => type)

describe('with nothing stored', () => {
  // Whoever made the database could plant one, and see in either server's requests who asks for a key in it.
  test('what is malformed in the database, once answered, does not show in when a state is made', async () => {
    const { malformed, isInIt } = withMalformedBlock(core, keyed().database, NAMES[0]!)
    const well = NAMES.find(name => !isInIt(name))!
    const views = new Set<string>()
    for (const key of [well, NAMES[0]!]) {
      const w = new World({ network: sameOnBoth(malformed), database: malformed })
      const { life, map } = await w.opened({ mode: 'auto', push: false, proofs: undefined }, { pays: () => false })
      for (let i = 0; i < 5; i++) {
        const found = await w.drive(map.get(key).catch((error: { code: string }) => error.code))
        expect(found === 'protocol').toBe(key !== well)
        await rest()
      }
      expect(types(life)).not.toContain('preparing')
      views.add(paths(w.network).sort().join('\n'))
      await w.drive(map.close())
    }
    expect(views.size).toBe(1)
  })

  test('the first lookup needs manifests alone; after some a hint is made behind them, and takes over', async () => {
    const { w, life, map } = await begun()
    expect([map.mode, map.size]).toEqual(['instant', 300])
    await lookUp(w, map, upTo(PAYS - 1))
    expect([map.mode, count(w.network, '/v1/blobs/'), await w.head()]).toEqual(['instant', 0, undefined])
    await lookUp(w, map, [299])
    expect([map.mode, count(w.network, '/v1/answer')]).toEqual(['full', 0])
    expect(life.events).toContainEqual({ type: 'mode', mode: 'full' })
    expect(types(life).indexOf('preparing')).toBeLessThan(types(life).indexOf('mode'))
    const asked = count(w.network, INSTANT_PATH)
    expect(asked).toBe(2 * PAYS)
    await lookUp(w, map, [0, 299, 299])
    expect([count(w.network, INSTANT_PATH), count(w.network, '/v1/answer')]).toEqual([asked, 6])
    expect(map.stats.lookups).toBe(PAYS + 3)
    await w.drive(map.close())
    const again = await openedBy(w.life())
    expect(again.mode).toBe('full')
    await lookUp(w, again, [5])
    expect(count(w.network, INSTANT_PATH)).toBe(asked)
  })

  test('the map says where its state will be, from open() on', async () => {
    const w = world()
    const map = await openedBy(w.life())
    const before = [map.mode, map.storage]
    await map.prepare()
    expect([before, map.mode, map.storage]).toEqual([['instant', 'best-effort'], 'full', before[1]])
  })

  test('what is looked up, and what an app gives up, does not show in when and what is asked', async () => {
    const views = await Promise.all(
      [upTo(20), Array<number>(20).fill(3)].map(async (indices, turn) => {
        const w = world()
        const map = await openedBy(w.life())
        for (const index of indices) {
          if (turn === 0) await w.drive(map.at(index))
          else {
            const giving = new AbortController()
            const answer = map.at(index, { signal: giving.signal }).catch(() => {})
            await settle()
            giving.abort()
            await w.drive(answer)
          }
          await rest()
        }
        await w.drive(map.close())
        return paths(w.network).map(line => line.replace(/ https:..[ab].example(\/pir)?/, ''))
      }),
    )
    const ofEither = (lines: readonly string[] = []) => lines.map(line => line.replace(/^\S+ /, '')).sort()
    expect(ofEither(views[1])).toEqual(ofEither(views[0]))
  })

  test('a database that is best kept whole is fetched after the first lookup, and later ones do not wait for it', async () => {
    const w = new World()
    const held = deferred()
    w.network.both(after('/v1/blobs/', held.promise))
    const life = w.life()
    const map = await openedBy(life)
    await w.drive(w.clock.wait(20_000))
    expect([map.mode, types(life), count(w.network, '/v1/blobs/')]).toEqual(['instant', [], 0])
    await lookUp(w, map, [0])
    expect([map.mode, types(life)]).toEqual(['instant', ['preparing']])
    await lookUp(w, map, [999])
    expect(map.mode).toBe('instant')
    held.resolve()
    await rest()
    expect(map.mode).toBe('local')
    const before = w.network.seen.length
    await w.checkValues(map)
    expect(w.network.seen.length).toBe(before)
  })

  test('a hint that cannot be made is tried again after as many lookups more; meanwhile nothing is missed', async () => {
    const { w, life, map } = await begun()
    w.network.both(on('/v1/blobs/', () => problem(404, 'not_found')))
    await lookUp(w, map, upTo(2 * PAYS))
    expect([map.mode, types(life).filter(type => type === 'preparing').length]).toEqual(['instant', 1])
    w.network.both(undefined)
    await lookUp(w, map, [1])
    expect([map.mode, types(life).filter(type => type === 'preparing').length]).toEqual(['full', 2])
    await lookUp(w, map, [1])
  })

  test('a database without commitments has none of it: its hint is made before open() resolves', async () => {
    const tags = buildDatabase(core, {
      values,
      partitions: 8,
      manifest: { suite: 2, commitments: new Uint8Array(8 * 32) },
    })
    const w = new World({ network: sameOnBoth(tags), database: tags })
    const map = await openedBy(w.life(), { proofs: 'tags' })
    expect([map.mode, count(w.network, INSTANT_PATH)]).toEqual(['full', 0])
    await lookUp(w, map, [3])
  })
})

test('closed while it prepares, nothing goes on; the next life goes on where that was', async () => {
  const { w, map } = await begun()
  let blobs = 0
  const stuck = hang('/v1/blobs/')
  w.network.both((seen, genuine) => {
    if (seen.path.startsWith('/v1/blobs/') && ++blobs > 4) return stuck(seen, genuine)
    return undefined
  })
  for (const index of upTo(PAYS)) await w.drive(map.at(index))
  await rest()
  expect(map.mode).toBe('instant')
  await w.drive(map.close())
  const { length } = w.network.seen
  await rest()
  expect(w.network.seen.length).toBe(length)
  expect((await w.head())?.stage).toBe('partial')
  w.network.both(undefined)
  const again = await openedBy(w.life())
  await rest()
  expect(again.mode).toBe('full')
  await lookUp(w, again, [0, 299])
})

test('two tabs that prepare at once end up with one hint, and never show a column twice', async () => {
  const w = world()
  const maps = await Promise.all([1, 2].map(() => openedBy(w.life())))
  for (const index of upTo(PAYS)) await w.drive(Promise.all(maps.map(map => map.at(index))))
  await rest()
  expect(maps.map(({ mode }) => mode)).toEqual(['full', 'full'])
  for (const map of maps) await lookUp(w, map, [1, 1, 2])
})

test('servers that show an older epoch behind a newer one are not followed back', async () => {
  const w = new World()
  const newer = buildDatabase(core, { ...records.contents, manifest: later(2) })
  w.network.publishOnBoth(newer)
  w.network.both(on('/v1/blobs/', () => problem(404, 'not_found')))
  const life = w.life()
  const map = await openedBy(life)
  expect([map.mode, map.epoch]).toEqual(['instant', 2])
  await lookUp(w, map, [1])
  w.network.replaceOnBoth(records)
  w.network.both(undefined)
  await w.drive(map.at(1).catch(() => {}))
  await rest()
  expect([map.mode, map.epoch]).toEqual(['instant', 2])
})

test('a lookup without a state that an epoch overtakes while the state takes over does not go further than that', async () => {
  const views: string[][] = []
  for (const givesUp of [false, true]) {
    const { living, world: w } = livingWorld()
    const [download, line] = [deferred(), deferred()]
    const giving = new AbortController()
    w.network.both(after('/v1/blobs/', download.promise))
    const life = w.life()
    const map = await openedBy(life)
    await lookUp(w, map, [1])
    w.network.both(on(INSTANT_PATH, () => line.promise.then(() => Promise.reject(new TypeError('fetch failed')))))
    const asked = map.at(3, { signal: giving.signal }).catch((error: unknown) => error)
    await settle()
    download.resolve()
    await rest()
    expect([map.mode, map.epoch]).toEqual(['local', 1])
    living.publish([edit(3, 'is newer')])
    w.network.replaceOnBoth(living.newest)
    w.network.both(undefined)
    if (givesUp) giving.abort('enough')
    line.resolve()
    expect(await w.drive(asked)).toEqual(givesUp ? 'enough' : records.byIndex[3])
    await w.drive(w.clock.wait(20_000))
    expect(await w.drive(map.at(3))).toEqual(records.byIndex[3])
    expect(map.epoch).toBe(1)
    views.push(paths(w.network).sort())
    await w.drive(map.close())
  }
  expect(views[1]).toEqual(views[0])
})

test('what hints take of the core is loaded when a state is made, or taken up, and not before', async () => {
  const w = world()
  const builds: string[] = []
  const living = () => {
    builds.length = 0
    return w.life({
      loadCore: async build => {
        builds.push(build)
        return core
      },
    })
  }
  const map = await openedBy(living())
  await lookUp(w, map, upTo(PAYS - 1))
  expect([map.mode, builds]).toEqual(['instant', ['instant']])
  await lookUp(w, map, [1])
  expect([map.mode, builds]).toEqual(['full', ['instant', 'client']])
  await w.drive(map.close())

  const later = await openedBy(living())
  expect([later.mode, builds]).toEqual(['full', ['instant', 'client']])
  await w.drive(later.close())

  for (const [mode, build] of [
    ['instant', 'instant'],
    ['full', 'client'],
  ] as const) {
    const chosen = await openedBy(living(), { mode, proofs: 'auto', storage: 'memory' })
    expect([chosen.mode, builds]).toEqual([mode, [build]])
    await w.drive(chosen.close())
  }
})

test('while the code for hints cannot be loaded, lookups go on without a state; once it loads, a state is made', async () => {
  const w = world()
  let away = true
  const life = w.life({
    loadCore: async build => {
      if (build === 'client' && away) throw new TypeError('offline')
      return core
    },
  })
  const map = await openedBy(life)
  await lookUp(w, map, upTo(PAYS))
  expect([map.mode, types(life)]).toEqual(['instant', ['preparing', 'preparing-failed']])
  const error = expect.objectContaining({ code: 'unsupported', reason: 'module' })
  expect(life.events.at(-1)).toEqual({ type: 'preparing-failed', error, retryAfterLookups: PAYS + 1 })
  away = false
  await lookUp(w, map, upTo(PAYS + 1))
  expect(map.mode).toBe('full')
  await lookUp(w, map, upTo(3))
})

test('the planner says when: at once for what is small, after a thousand lookups and more for a million records', () => {
  const { manifest } = records
  expect(paysAfter(core, manifest, 0, 2)).toBe(true)
  const million = { ...manifest, records: 2 ** 20, recordBytes: 32, partitions: 16, partitionRecords: 2 ** 16 }
  const pays = (lookups: number) => paysAfter(core, million, lookups, 2)
  expect([0, 100, 1000].map(pays)).toEqual([false, false, false])
  expect(pays(5000)).toBe(true)
})

describe('lookups that fail', () => {
  const wrong = async (genuine: Response, { server }: Seen) => {
    const reply = await bytesOf(genuine)
    if (server === A) reply[50]! ^= 1
    return ok(reply)
  }
  const portal = () =>
    new Response('<html>Sign in to this network</html>', { headers: { 'content-type': 'text/html' } })

  test.each<[string, string, Parameters<typeof on>[1]]>([
    ['the network loses', 'network', () => Promise.reject(new TypeError('the network has gone'))],
    ['a server has no room for', 'network', () => problem(503, 'instant_full', { 'retry-after': '1' })],
    ['a server limits', 'rate_limited', () => problem(429, 'rate_limited', { 'retry-after': '1' })],
    ['a server refuses for good', 'protocol', () => problem(404, 'not_found')],
    ['a captive portal answers', 'network', portal],
    ['a server answers wrongly', 'tampered', wrong],
  ])('those that %s begin no download, however many: only their number counts', async (_what, code, how) => {
    const w = world()
    const life = w.life()
    const map = await openedBy(life)
    w.network.both(on(INSTANT_PATH, how))
    for (let i = 1; i < PAYS - 1; i++) {
      await expect(w.drive(map.at(i))).rejects.toMatchObject({ code })
      await rest()
    }
    w.network.both(undefined)
    await lookUp(w, map, [1])
    expect([map.mode, types(life), count(w.network, '/v1/blobs/')]).toEqual(['instant', [], 0])
    w.network.both(on(INSTANT_PATH, how))
    await expect(w.drive(map.at(2))).rejects.toMatchObject({ code })
    await rest()
    expect(map.mode).toBe('full') // as many as pay
    w.network.both(undefined)
    await lookUp(w, map, [1])
  })
})

// reset() in mode `auto` also drops a half-made hint. Apps call it on a restored or cloned machine without a fence
// (docs/threat-model.md, Old state put back), where that hint would be in use twice.
/** Downloads stop after so many partitions, until released. */
function holding(w: World, partitions: number) {
  const gate = { open: false }
  let given = 0
  w.network.both(({ path }, genuine) =>
    !path.startsWith('/v1/blobs/') || gate.open || given++ < partitions
      ? genuine
      : Promise.resolve(problem(404, 'not_found')),
  )
  return gate
}

/** A disk with a half-made hint, and two copies of it. */
async function halfMade() {
  const first = new World()
  first.network.fence = false
  holding(first, 5)
  const life = first.life()
  await life.failure(life.openIdle({ mode: 'full', push: false }))
  expect((await first.head())?.stage).toBe('partial')
  return first
}

test.each(['stored before', 'begun in this life'])('reset() drops a state in the making that was %s', async when => {
  const w = when === 'stored before' ? await halfMade() : new World()
  const half = (await w.head())?.record.hintId
  const gate = holding(w, when === 'stored before' ? 0 : 5)
  const { map } = await w.opened({ mode: 'auto', push: false, pays: () => true } as never)
  if (when !== 'stored before') await w.drive(map.at(0))
  await rest()
  expect(map.mode).toBe('instant')
  const before = (await w.head())!.record.hintId
  if (half !== undefined) expect(hex(before)).toBe(hex(half))
  gate.open = true
  await w.drive(map.reset())
  await rest()
  for (let i = 0; i < 3; i++) await w.drive(map.at(i))
  await rest()
  expect(map.mode).not.toBe('instant')
  const after = (await w.head())!
  expect([after.stage, hex(after.record.hintId) === hex(before)]).toEqual(['whole', false])
  await w.checkValues(map, [3, 9])
})

// Mode `auto` does not get stuck, and calls that send nothing stay silent (I3, P5, docs/threat-model.md).
/** A map whose preparation of a state has failed, with lookups meanwhile: the preparation may be repeated. */
async function afterAFailure() {
  const w = new World()
  const held = deferred()
  w.network.both(on('/v1/blobs/', () => held.promise.then(() => problem(404, 'not_found'))))
  const map = await openedBy(w.life())
  for (const index of [1, 2, 3]) await w.drive(map.at(index))
  held.resolve()
  await rest()
  expect(map.mode).toBe('instant')
  return { w, map, seen: w.network.seen.length }
}

test.each<[string, (map: KeyhushMap) => Promise<unknown>]>([
  ['that was withdrawn before it began', map => map.at(3, { signal: AbortSignal.abort() })],
  ['for an index that cannot be', map => map.at(1_000_000)],
])('a call %s makes no traffic, also after a preparation has failed', async (_what, call) => {
  const { w, map, seen } = await afterAFailure()
  await rest()
  expect(w.network.seen.length).toBe(seen) // nothing by itself
  await call(map).catch(() => {})
  await rest()
  expect(w.network.seen.slice(seen).map(({ path }) => path)).toEqual([])
})

test('servers without instant lookups: the preparation is repeated after a failure', async () => {
  const w = new World()
  w.network.both(({ path }, genuine) => {
    if (path === INSTANT_PATH) return problem(404, 'not_found')
    return path.startsWith('/v1/blobs/') ? problem(404, 'not_found') : genuine
  })
  const map = await openedBy(w.life())
  await rest()
  // The fault is gone. The servers still offer no instant lookups, as with `serve --no-instant`.
  w.network.both(on(INSTANT_PATH, () => problem(404, 'not_found')))
  for (let i = 0; i < 20; i++) {
    await w.drive(map.at(i).catch(() => {}))
    await rest()
  }
  expect(map.mode).toBe('local')
})

test.each(['full', 'auto'])(
  'mode %s opens although its storage, which is only preferred, cannot be read',
  async mode => {
    const life = new World().life()
    life.at('read', 'before', () => {
      throw new Error('the disk is gone')
    })
    await life.open({ storage: 'preferred', mode, push: false } as never)
  },
)

test('close() does not wait for a lock that another tab holds, also while a state is prepared', async () => {
  const { w, map } = await begun()
  expect(map.mode).toBe('instant')
  // Another tab takes the lock and freezes.
  const other = w.life()
  const name = `keyhush ${[A, B].sort().join(' ')}`
  void other.environment.locks.hold(name, 45_000, () => new Promise<void>(() => {}))
  for (let i = 0; i < 12; i++) {
    let done = false
    const answer = map.at(i).then(() => {
      done = true
    })
    while (!done) await settle()
    await answer
  }
  await rest()
  expect(map.mode).toBe('instant')
  const before = w.clock.now()
  await w.drive(map.close())
  expect(w.clock.now() - before).toBeLessThan(45_000)
})

test('reset() of an instant map begins anew with what the servers have now', async () => {
  const w = new World()
  const map = await openedBy(w.life(), { mode: 'instant' } as never)
  expect(map.size).toBe(1000)
  // The publisher has built the database again, under another name.
  const id = core.databaseId(new TextEncoder().encode('rebuilt'))
  const rebuilt = buildDatabase(core, {
    values: someValues(500, 8),
    partitions: 16,
    manifest: { databaseId: id },
  })
  w.network.replaceOnBoth(rebuilt)
  await w.drive(map.reset())
  expect(map.size).toBe(500)
})

// Mode `auto` loads the code for states when it prepares one. If the app's host delays these files, or has removed them, lookups go
// on, and no stored state is lost.
describe('the code for states', () => {
  const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= 2

  const opened = (life: Life) => life.open({ mode: 'auto', push: false }, { pays })

  /** Loads the code for states by `ofHints`. */
  const parts = (ofHints: () => Promise<typeof core>): Partial<Environment> => ({
    loadCore: async build => (build === 'client' ? await ofHints() : core),
  })

  const gone = () => Promise.reject(new TypeError('Failed to fetch dynamically imported module'))

  test('code that never loads: lookups go on, reset() and close() end', async () => {
    const world = new World()
    let asked = 0
    const never = () => {
      asked++
      return new Promise<never>(() => {})
    }
    const map = await opened(world.life(parts(never)))
    await world.checkValues(map, [1, 2, 3])
    await rest()
    expect([map.mode, asked]).toEqual(['instant', 1])
    await world.drive(map.reset())
    await world.checkValues(map, [6, 7])
  })

  test('missing code for a stored state: open() fails and says so, and the state stays', async () => {
    const world = new World()
    const map = await opened(world.life())
    await world.checkValues(map, [1, 2, 3])
    await rest()
    await world.drive(map.close())
    const { record, version } = (await world.head())!
    const life = world.life(parts(gone))
    const asked = world.network.seen.length
    expect(await life.failure(opened(life))).toMatchObject({ code: 'unsupported', reason: 'module' })
    expect(world.network.seen).toHaveLength(asked)
    const again = await opened(world.life())
    expect(again.mode).not.toBe('instant')
    await world.checkValues(again)
    const head = (await world.head())!
    expect([hex(head.record.hintId), head.version >= version]).toEqual([hex(record.hintId), true])
  })
})

// Mode `auto`: whatever comes back to an instant lookup, no download follows from it (I3). The lookup fails with a KeyhushError or
// succeeds, and the next honest one succeeds.
const REPLIES = THOROUGH ? 500 : 60

test.each([1])(`after ${REPLIES} random replies nothing was downloaded (seed %i)`, async seed => {
  const { database } = keyed()
  const network = sameOnBoth(database)
  const w = new World({ network, database, seed })
  const draw = drawing(seed)
  const lie = lying(draw)
  let liars: readonly string[] = []
  for (const server of [A, B]) {
    network.misbehave[server] = (seen, genuine) =>
      seen.path === INSTANT_PATH && liars.includes(server) ? lie(seen, genuine) : undefined
  }
  const { life, map } = await w.opened({ mode: 'auto', push: false, timeoutMs: undefined }, { pays: () => false })
  const codes = new Map<string, number>()
  for (let i = 0; i < REPLIES; i++) {
    const key = i % 3 === 0 ? 'absent.example' : NAMES[draw(NAMES.length)]!
    const right = i % 3 === 0 ? undefined : database.contents.values[NAMES.indexOf(key)]
    liars = [[A], [B], [A, B]][draw(3)]!
    try {
      expect(await w.drive(map.get(key))).toEqual(right)
    } catch (error) {
      expect(error).toBeInstanceOf(KeyhushError)
      expect(error, `${(error as Error).cause}`).not.toBeInstanceOf(InternalError)
      const { code } = error as KeyhushError
      codes.set(code, 1 + (codes.get(code) ?? 0))
    }
    liars = []
    expect(await w.drive(map.get(key))).toEqual(right)
  }
  await rest()
  expect([map.mode, blobs(network).length, types(life)]).toEqual(['instant', 0, []])
  for (const code of ['tampered', 'protocol', 'network', 'rate_limited', 'version'])
    expect(codes.keys()).toContain(code)
})
