// Which epoch a map is at when the publisher signs (docs/threat-model.md): the newest signed epoch decides, and its signature covers all
// before it; who lacks it is named; and how many requests an epoch costs.

import { describe, expect, test } from 'vitest'
import { sampled } from '../../../tests/support/thorough.js'
import type { KeyhushMap, MapEvent } from '../src/index.js'
import type { OpenWithOptions } from '../src/testing.js'
import { deferred, rest, settle, until } from './support/clock.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { laidOutAnew, nextEpoch } from './support/epochs.js'
import { core, Harness, sameOnBoth } from './support/harness.js'
import { edit, utf8 } from './support/living.js'
import { A, B, epochUnknown, type Network, on, problem } from './support/network.js'
import { DAY, NOW, publisherKey, publishSigned, signatureOf, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

type Options = Partial<OpenWithOptions>

const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })

/** A batch of changes, or a new layout with the same records. */
type Kind = 'batch' | 'generation'

function after(before: Database, kind: Kind): Database {
  const { epoch, partitions } = before.manifest
  if (kind === 'generation') return laidOutAnew(before, partitions === 4 ? 3 : 4)
  return nextEpoch(core, before, [edit(3, `ep. ${epoch + 1}`)])
}

/** The epochs that follow the first one. */
function series(...kinds: readonly Kind[]): Database[] {
  const epochs = [first]
  for (const kind of kinds) epochs.push(after(epochs.at(-1)!, kind))
  return epochs.slice(1)
}

const ONE = { servers: [A], mode: 'single', lookups: 60 } as const
const EITHER = { servers: [A, B], collusion: 'tolerated', mode: 'single', lookups: 60 } as const
const MODES: readonly [string, Options][] = [
  ['full', { mode: 'full' }],
  ['instant', { mode: 'instant' }],
  ['local', { mode: 'local' }],
  ['local, one server', { mode: 'local', servers: [A] }],
  ['single, one server', ONE],
  ['single, two servers', EITHER],
  ['auto', { mode: 'auto' }],
]
/** Those that ask more than one server, and need them all. */
const OF_ALL = MODES.filter(([name]) => ['full', 'instant', 'single, two servers'].includes(name))
/** Those that have all records, and ask nobody. */
const OF_ONE = MODES.filter(([name]) => ['local', 'auto'].includes(name))

const KEY = { publisherKey }

/** A map in memory, and what it hears. */
async function opened(network: Network, options: Options, key: Options = KEY) {
  const harness = new Harness(network)
  const events: MapEvent[] = []
  const onEvent = (event: MapEvent) => void events.push(event)
  const map = await harness.open({ storage: 'memory', push: false, onEvent, ...key, ...options })
  if (options.mode === 'auto') await harness.drive(map.prepare())
  const behind = () => events.filter(({ type }) => type === 'behind')
  return { harness, map, events, behind, drive: harness.drive }
}

async function checkValues(drive: Harness['drive'], map: KeyhushMap, { byIndex }: Database): Promise<void> {
  for (const index of [0, 3, 14]) expect(await drive(map.at(index))).toEqual(byIndex[index])
}

const SERIES: readonly Kind[][] = [
  ['batch'],
  ['batch', 'generation'],
  ['batch', 'generation', 'generation'],
  ['generation', 'generation', 'batch'],
  ['batch', 'batch', 'generation', 'batch', 'batch'],
]

describe.each(MODES)('mode %s', (name, options) => {
  for (const signed of ['the last alone is signed', 'each is signed'] as const) {
    describe.each(sampled(SERIES, 2).map(kinds => [kinds.join(', '), kinds] as const))(
      `%s, of which ${signed}`,
      (_, kinds) => {
        const epochs = series(...kinds)
        const newest = epochs.at(-1)!
        const publish = (network: Network) => {
          network.publishOnBoth(...epochs)
          network.signatures.push(...(signed === 'each is signed' ? epochs : [newest]).map(each => signatureOf(each)))
        }

        test('an open map that has slept is at the newest after sync()', async () => {
          const network = signedOnBoth(first)
          const { map, drive, behind } = await opened(network, options)
          publish(network)
          await drive(map.sync())
          expect([map.epoch, behind()]).toEqual([newest.manifest.epoch, []])
          await checkValues(drive, map, newest)
        })

        test('one that is opened anew, or from a stored state, is there after sync()', async () => {
          const network = signedOnBoth(first)
          const world = new World({ network, database: first, audited: false })
          const before = await world.life().open({ publisherKey, push: false, ...options })
          if (options.mode === 'auto') await world.drive(before.prepare())
          await world.drive(before.close())
          publish(network)
          const life = world.life()
          const map = await life.open({ publisherKey, push: false, ...options })
          await world.drive(map.sync())
          expect([map.epoch, life.events.filter(({ type }) => type === 'behind')]).toEqual([newest.manifest.epoch, []])
          await checkValues(world.drive.bind(world), map, newest)
          const other = await opened(network, options)
          expect(other.map.epoch).toBe(newest.manifest.epoch)
          await checkValues(other.drive, other.map, newest)
        })

        if (name.startsWith('local') || name === 'auto') return
        test('a lookup is answered at an epoch that the signature covers', async () => {
          const network = signedOnBoth(first)
          const { map, drive } = await opened(network, options)
          publish(network)
          const possible = [first, ...epochs].map(({ byIndex }) => byIndex[3])
          const value = await drive(map.at(3))
          expect(possible.slice(kinds.length < 2 ? 0 : 1)).toContainEqual(value)
          await drive(map.sync())
          expect(map.epoch).toBe(newest.manifest.epoch)
        })
      },
    )
  }
})

test.each(
  MODES.flatMap(([name, options]) => [KEY, {}].map(key => [name, key === KEY ? 'a' : 'no', options, key] as const)),
)(
  'mode %s, with %s key: what servers forget before its manifest is asked for is looked for anew',
  async (_, _key, options, key) => {
    const [second, third, fourth] = series('batch', 'batch', 'batch') as [Database, Database, Database]
    const network = signedOnBoth(first)
    const one = options.servers === undefined ? {} : { integrity: 'server' as const }
    const { map, drive } = await opened(network, { ...options, ...one }, key)
    publishSigned(network, second)
    let isPublished = false
    network.both(async ({ path }, genuine) => {
      if (path !== '/v1/manifest?generation=1&epoch=2') return genuine
      if (!isPublished) publishSigned(network, third, fourth)
      isPublished = true
      return epochUnknown(fourth.manifest)
    })
    await drive(map.sync())
    expect(map.epoch).toBe(4)
    await checkValues(drive, map, fourth)
  },
)

describe('while a batch is not signed yet', () => {
  const [second] = series('batch') as [Database]

  test.each(MODES)('mode %s: open() answers at the epoch before, and nobody is behind', async (_, options) => {
    const network = sameOnBoth(first, second)
    network.signatures.push(signatureOf(first))
    const { map, drive, behind } = await opened(network, options)
    expect(map.epoch).toBe(1)
    await checkValues(drive, map, first)
    const before = network.seen.length
    await drive(map.sync())
    expect([map.epoch, behind()]).toEqual([1, []])
    const infos = network.seen.slice(before).filter(({ path }) => path === '/v1/info')
    expect(infos.map(({ server }) => server).sort()).toEqual(map.stats.servers.map(({ server }) => server)) // each once
    network.signatures.push(signatureOf(second))
    await drive(map.sync())
    expect(map.epoch).toBe(2)
    await checkValues(drive, map, second)
  })
})

describe.each([
  [A, B],
  [B, A],
])('%s has an epoch that is signed, and %s lacks it', (ahead, lacking) => {
  const [second, third, fourth] = series('batch', 'batch', 'batch') as [Database, Database, Database]

  /** The first epoch on both, these on one. */
  function apart(...epochs: readonly Database[]): Network {
    const network = signedOnBoth(first)
    for (const epoch of epochs) network.publish(ahead, epoch)
    network.signatures.push(...epochs.map(epoch => signatureOf(epoch)))
    return network
  }

  test.each(OF_ALL)('mode %s: a map is one behind, says so once, and sync() names who lacks it', async (_, options) => {
    const network = apart(second)
    const { harness, map, drive, behind } = await opened(network, options)
    expect(map.epoch).toBe(1)
    for (let times = 0; times < 3; times++) {
      const error = await harness.failure(map.sync())
      expect(error).toMatchObject({ name: 'VersionError', code: 'version', server: lacking, retryable: true })
      expect(error.message).toContain('epoch 2')
      await checkValues(drive, map, first)
    }
    expect(behind()).toEqual([{ type: 'behind', epoch: 2, servers: [lacking] }])
    network.publish(lacking, second)
    await drive(map.sync())
    expect(map.epoch).toBe(2)
    await checkValues(drive, map, second)
    expect(behind()).toHaveLength(1)
  })

  test.each(OF_ALL)('mode %s: an open map goes on to the epoch before it', async (_, options) => {
    const network = signedOnBoth(first)
    const { harness, map, drive, behind } = await opened(network, options)
    network.publishOnBoth(second)
    network.publish(ahead, third)
    network.signatures.push(signatureOf(third)) // covers the second
    expect(await harness.failure(map.sync())).toMatchObject({ name: 'VersionError', server: lacking })
    expect([map.epoch, behind()]).toEqual([2, [{ type: 'behind', epoch: 3, servers: [lacking] }]])
    await checkValues(drive, map, second)
    // A frozen server: two further, and the map stays.
    network.publish(ahead, fourth)
    network.signatures.push(signatureOf(fourth))
    expect(await harness.failure(map.sync())).toMatchObject({ name: 'VersionError', server: lacking })
    expect(map.epoch).toBe(2)
    expect(behind().slice(1)).toEqual([{ type: 'behind', epoch: 4, servers: [lacking] }])
    network.publish(lacking, third)
    network.publish(lacking, fourth)
    await drive(map.sync())
    expect(map.epoch).toBe(4)
    await checkValues(drive, map, fourth)
  })

  test.each(OF_ALL)(
    'mode %s: a new map opens at the epoch before, or not at all, and says who lacks it',
    async (_, options) => {
      const { map, drive, behind } = await opened(apart(second), options)
      expect([map.epoch, behind()]).toEqual([1, [{ type: 'behind', epoch: 2, servers: [lacking] }]])
      await checkValues(drive, map, first)
      const harness = new Harness(apart(second, third), 2)
      const refused = await harness.failure(harness.open({ storage: 'memory', push: false, publisherKey, ...options }))
      expect(refused).toMatchObject({ name: 'VersionError', server: lacking })
    },
  )

  test.each(OF_ONE)('mode %s: a map that asks nobody is at the newest that either shows', async (_, options) => {
    const network = signedOnBoth(first)
    const { map, drive, events, behind } = await opened(network, options)
    for (const epoch of [second, third, fourth]) network.publish(ahead, epoch)
    network.signatures.push(signatureOf(fourth))
    await drive(map.sync())
    expect([map.epoch, behind()]).toEqual([4, []])
    expect(events.filter(({ type }) => type === 'updated')).toHaveLength(3)
    await checkValues(drive, map, fourth)
  })

  test.each(OF_ALL.slice(0, 2))('mode %s, without a key: nobody is behind', async (_, options) => {
    const { map, drive, behind } = await opened(apart(second), options, {})
    await drive(map.sync())
    expect([map.epoch, behind()]).toEqual([1, []])
    await checkValues(drive, map, first)
  })
})

test.each(MODES)('mode %s: of signed epochs the newest that has not expired', async (_, options) => {
  const second = nextEpoch(core, first, [edit(3, 'brief')], { expires: NOW + DAY })
  const network = signedOnBoth(first, second)
  const harness = new Harness(network)
  harness.clock.sleep(2 * DAY * 1000)
  const map = await harness.open({ storage: 'memory', push: false, publisherKey, ...options })
  expect(map.epoch).toBe(1)
  await checkValues(harness.drive, map, first)
})

describe('with another generation ahead', () => {
  const [second, third] = series('batch', 'generation') as [Database, Database]
  const isNew = (path: string) => third.blobs.has(path.slice('/v1/blobs/'.length))

  test('a hint goes on to the last epoch of its own, under the signature of the other, while that is downloaded', async () => {
    const network = signedOnBoth(first)
    const { map, drive, events } = await opened(network, { mode: 'full' })
    network.publishOnBoth(second, third)
    network.signatures.push(signatureOf(third))
    const { promise: held, resolve: letGo } = deferred()
    network.both((seen, genuine) => (isNew(seen.path) ? held.then(() => genuine) : undefined))
    expect(await drive(map.at(3))).toEqual(utf8('ep. 2'))
    expect(map.epoch).toBe(2)
    const synced = map.sync()
    await settle()
    expect(events.map(({ type }) => type)).toEqual(['updated', 'outdated'])
    expect(await drive(map.at(4))).toEqual(second.byIndex[4])
    letGo()
    await drive(synced)
    expect(map.epoch).toBe(3)
    await checkValues(drive, map, third)
  })

  test('a copy stays at what is signed until that is there, and answers offline', async () => {
    const network = signedOnBoth(first)
    const world = new World({ network, database: first, audited: false })
    const options = { mode: 'local', publisherKey, push: false } as const
    const map = await world.life().open(options)
    network.publishOnBoth(second, third)
    network.signatures.push(signatureOf(third))
    network.both((seen, genuine) => (isNew(seen.path) ? problem(503, 'not_ready') : genuine))
    await world.drive(map.sync().catch(() => {}))
    expect(map.epoch).toBe(1)
    await world.drive(map.close())

    network.both(() => problem(503, 'not_ready'))
    const away = await world.life().open(options)
    await checkValues(world.drive.bind(world), away, first)
    await world.drive(away.close())
    network.both(undefined)
    const back = await world.life().open(options)
    expect(back.epoch).toBe(3)
    await checkValues(world.drive.bind(world), back, third)
  })
})

// Two infos, a manifest, and the list: a key makes it no more.
describe.each(['with a key', 'without a key'])('%s', keyed => {
  const key = keyed === 'with a key' ? KEY : {}
  const epochs = series('batch', 'batch', 'batch', 'batch', 'batch')
  const modes: readonly [string, Options, number][] = [
    ['full', { mode: 'full' }, 2],
    ['instant', { mode: 'instant' }, 2],
    ['local', { mode: 'local' }, 2],
    ['single, two servers', EITHER, 2],
    ['single, one server', key === KEY ? ONE : { ...ONE, integrity: 'server' }, 1],
  ]

  const kindsIn = (network: Network, skip: number) =>
    network.seen
      .slice(skip)
      .map(({ path }) => path.replace(/[a-f0-9]{64}|\?.*/, ''))
      .filter(path => path !== '/v1/events')
      .sort()
  const expected = (mode: string, servers: number) => [
    ...(mode === 'instant' ? [] : ['/v1/blobs/']),
    ...Array(servers).fill('/v1/info'),
    '/v1/manifest',
  ]

  test.each(modes)(
    'mode %s: an epoch that servers announce costs four requests at most',
    async (mode, options, servers) => {
      const network = signedOnBoth(first)
      network.push = true
      const { harness, map } = await opened(network, { ...options, push: true }, key)
      await settle()
      for (const epoch of epochs) {
        await until(harness.clock, () => harness.clock.now() % 1_000 === 0 || harness.clock.waiting === 0)
        harness.clock.sleep(1_000)
        const before = network.seen.length
        network.signatures.push(signatureOf(epoch))
        network.publishOnBoth(epoch)
        await until(harness.clock, () => map.epoch === epoch.manifest.epoch)
        await rest()
        expect(kindsIn(network, before)).toEqual(expected(mode, servers))
      }
      await checkValues(harness.drive, map, epochs.at(-1)!)
    },
  )

  test.each(modes)(
    'mode %s: the same by sync(), which asks each server once if there is nothing new',
    async (mode, options, servers) => {
      const network = signedOnBoth(first)
      const { drive, map } = await opened(network, options, key)
      for (const epoch of epochs) {
        for (const isNew of [false, true]) {
          const before = network.seen.length
          if (isNew) network.signatures.push(signatureOf(epoch))
          if (isNew) network.publishOnBoth(epoch)
          await drive(map.sync())
          const kinds = isNew ? expected(mode, servers) : Array(servers).fill('/v1/info')
          expect(kindsIn(network, before)).toEqual(kinds)
        }
      }
      await checkValues(drive, map, epochs.at(-1)!)
    },
  )
})

test('a server whose line comes while the map follows the other’s is not asked once more', async () => {
  const network = signedOnBoth(first)
  network.push = true
  const [line, manifest] = [deferred(), deferred()]
  network.misbehave[B] = on('/v1/events', genuine => line.promise.then(() => genuine))
  const { map, drive } = await opened(network, { mode: 'instant', push: true })
  await settle()
  const before = network.seen.length
  const asked = () => network.seen.slice(before).map(({ server, path }) => `${server}${path.replace(/\?.*/, '')}`)
  const [second] = series('batch') as [Database]
  network.both((seen, genuine) =>
    seen.path.startsWith('/v1/manifest') ? manifest.promise.then(() => genuine) : undefined,
  )
  publishSigned(network, second)
  await settle()
  line.resolve()
  await settle()
  manifest.resolve()
  await settle()
  await checkValues(drive, map, second)
  expect(map.epoch).toBe(2)
  expect(
    asked()
      .filter(path => path.endsWith('/v1/info'))
      .sort(),
  ).toEqual([`${A}/v1/info`, `${B}/v1/info`])
})

test.each([A, B])(
  '%s alone announces an epoch that is not signed: it is asked what it shows, and the other nothing',
  async teller => {
    const network = signedOnBoth(first)
    network.push = true
    const { map } = await opened(network, { mode: 'full', push: true })
    await settle()
    const [second] = series('batch') as [Database]
    const before = network.seen.length
    network.publish(teller, second)
    await settle()
    expect(network.seen.slice(before).map(({ server, path }) => [server, path])).toEqual([[teller, '/v1/info']])
    expect(map.epoch).toBe(1)
  },
)

test('what an unsigned epoch lists as its hash does not matter: nobody has to show it', async () => {
  const network = signedOnBoth(first)
  const { map, drive } = await opened(network, { mode: 'instant' })
  const [second] = series('batch') as [Database]
  network.publishOnBoth(second)
  network.misbehave[B] = on('/v1/info', () => {
    const { epochs, ...info } = network.info(B)
    return Response.json({ ...info, epochs: [epochs[0], { ...epochs[1], manifest: '0'.repeat(64) }] })
  })
  await drive(map.sync())
  expect(map.epoch).toBe(1)
  await checkValues(drive, map, first)
})

describe('sync() beside other work is at the newest epoch that was signed when it was called', () => {
  test.each([
    ['local', { mode: 'local' }],
    ['full', { mode: 'full' }],
    ['auto', { mode: 'auto' }],
  ] as const)('mode %s: beside a rebuild that began before', async (_, options) => {
    const [second, third] = series('generation', 'batch') as [Database, Database]
    const network = signedOnBoth(first)
    const { map, drive, events, behind } = await opened(network, options)
    publishSigned(network, second)
    const { promise: held, resolve: letGo } = deferred()
    network.both(on('/v1/blobs/', genuine => held.then(() => genuine)))
    const earlier = map.sync()
    await rest()
    expect(events.map(({ type }) => type)).toContain('outdated')
    publishSigned(network, third)
    const later = map.sync()
    await rest()
    letGo()
    await drive(Promise.all([earlier, later]))
    expect([map.epoch, behind()]).toEqual([3, []])
    await checkValues(drive, map, third)
  })

  test('mode instant: beside a look at what an event had announced', async () => {
    const [second, third] = series('batch', 'batch') as [Database, Database]
    const network = signedOnBoth(first)
    network.push = true
    const { map, drive } = await opened(network, { mode: 'instant', push: true })
    await rest()
    // A look of the app's own holds up the one behind the event, which has heard what servers show at epoch 2.
    const { promise: held, resolve: letGo } = deferred()
    let infos = 0
    network.both(on('/v1/info', genuine => (infos++ < 2 ? held.then(() => genuine) : genuine)))
    const earlier = map.sync()
    await settle()
    publishSigned(network, second)
    await rest()
    for (const stream of network.streams) stream.tell = () => {}
    publishSigned(network, third)
    const later = map.sync()
    await settle()
    letGo()
    await drive(Promise.all([earlier, later]))
    expect(map.epoch).toBe(3)
    await checkValues(drive, map, third)
  })
})

describe('a publisher that has signed two histories, which servers show one after the other', () => {
  const [mine, other] = ['mine.', 'other'].map(value => nextEpoch(core, first, [edit(3, value)])) as [
    Database,
    Database,
  ]
  const beyond = nextEpoch(core, other, [edit(4, 'other')])
  const histories = [
    ['of the same length', [other]],
    ['an epoch longer', [other, beyond]],
  ] as const

  describe.each(histories)('the other is %s', (_, epochs) => {
    test.each(['local', 'full', 'instant'] as const)('mode %s: sync() is refused, and the map stays', async mode => {
      const network = signedOnBoth(first, mine)
      const { map, harness, events, drive } = await opened(network, { mode })
      network.replaceOnBoth(first)
      network.signatures.length = 1
      publishSigned(network, ...epochs)
      for (let times = 0; times < 2; times++) {
        expect(await harness.failure(map.sync())).toMatchObject({ name: 'ServersDisagreeError' })
      }
      expect([map.epoch, events.filter(({ type }) => type !== 'storage')]).toEqual([2, []])
      const value = await drive(map.at(3).catch(() => undefined)) // only a copy can answer
      expect(value).toEqual(mode === 'local' ? mine.byIndex[3] : undefined)
    })
  })
})
