// What an adversary and a long absence do to filters: lists that are replaced, servers that were put back, calls that are given up, calls
// that wait.

import { INSTANT_PATH, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { StateMovedError } from '../src/store/store.js'
import type { Environment, MemoryStore } from '../src/testing.js'
import { drive, ManualClock, rest, settle } from './support/clock.js'
import { ABSENT, blobs, disk, lookups, marked, opened } from './support/filtered.js'
import { Harness } from './support/harness.js'
import { FakeLine } from './support/line.js'
import { A, B, hang, having, late, Network, on } from './support/network.js'
import { DAY, NOW, publisherKey } from './support/signed.js'
import { type Directory, KEYS, pass, textOf } from './support/watched.js'

const [LISTED, OTHER] = KEYS as [string, string]
const LATER = KEYS.at(-1)! // not there at first
const filter = (meanwhile: 'ask' | 'wait', cover = 0) => ({ filter: { cover, meanwhile } })
describe('after a call that the app has given up, all calls are sent until one that began later succeeds', () => {
  const sends = async (spoil: (life: Awaited<ReturnType<typeof opened>>) => Promise<unknown>, key: string) => {
    const life = await opened(marked(), filter('wait'))
    await spoil(life)
    life.network.misbehave[A] = undefined
    const before = lookups(life.network).length
    await life.drive(life.map.get(key))
    return lookups(life.network).length > before
  }
  const silent = (life: Awaited<ReturnType<typeof opened>>) => {
    life.network.misbehave[A] = hang(INSTANT_PATH)
  }
  const anotherOf = ({ harness }: Awaited<ReturnType<typeof opened>>) =>
    harness.open({ mode: 'instant', storage: 'memory', push: false, publisherKey, ...filter('ask') })
  test.each([
    [
      'after timeoutMs',
      async life => {
        silent(life)
        await life.harness.failure(life.map.get(LISTED, { timeoutMs: 1_000 }))
      },
    ],
    [
      'by its signal',
      async life => {
        silent(life)
        const ending = new AbortController()
        const got = life.map.get(LISTED, { signal: ending.signal }).catch(() => {})
        await rest()
        ending.abort()
        await got
      },
    ],
    ...['while it is slow', 'while one of another map is slow'].map(name => [
      name,
      async (life: Awaited<ReturnType<typeof opened>>) => {
        const map = name.includes('another') ? await anotherOf(life) : life.map
        silent(life)
        map.get(LISTED).catch(() => {})
        await pass(life.harness, 2_001)
      },
    ]),
    ...['though one that began before succeeds', 'though one of another map that began before succeeds'].map(name => [
      name,
      async (life: Awaited<ReturnType<typeof opened>>) => {
        const map = name.includes('another') ? await anotherOf(life) : life.map
        let asked = 0
        life.network.misbehave[A] = on(INSTANT_PATH, async genuine => {
          if (asked++ !== 1) return new Response('', { status: 503 })
          await life.clock.wait(6_000)
          return genuine
        })
        const both = await life.drive(Promise.allSettled([life.map.get(LISTED), map.get(OTHER)]))
        expect(both.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
      },
    ]),
  ] as [string, (life: Awaited<ReturnType<typeof opened>>) => Promise<unknown>][])('%s', async (_, spoil) => {
    expect([await sends(spoil, LISTED), await sends(spoil, ABSENT)]).toEqual([true, true])
  })
})

test('a map that is opened again, with other options too, knows that a call has failed; a success ends that for all', async () => {
  const clock = new ManualClock()
  const directory = marked()
  const open = (meanwhile: 'ask' | 'wait') => opened(directory, filter(meanwhile), { clock })
  const sends = async ({ map }: Awaited<ReturnType<typeof opened>>) => {
    const before = lookups(directory.network).length
    await drive(
      clock,
      map.get(ABSENT).catch(() => {}),
    )
    return lookups(directory.network).length > before
  }
  const before = await open('wait')
  directory.network.misbehave[A] = on(INSTANT_PATH, () => new Response('', { status: 503 }))
  await drive(
    clock,
    before.map.get(LISTED).catch(() => {}),
  )
  await drive(clock, before.map.close())
  const [one, other] = [await open('wait'), await open('ask')]
  expect([await sends(one), await sends(other)]).toEqual([true, true])
  directory.network.misbehave[A] = undefined
  expect([await sends(one), await sends(other), await sends(one)]).toEqual([true, false, false])
})

test('offline, where nothing is sent, absent keys are answered after a failure too; online again all calls are sent', async () => {
  const connection = new FakeLine()
  const { map, network, harness, drive } = await opened(marked(), filter('wait'), { connection })
  Object.assign(connection, { isOffline: true })
  network.both(() => Promise.reject(new TypeError('Failed to fetch')))
  expect(await harness.failure(map.get(LISTED))).toMatchObject({ code: 'network' })
  expect(await drive(map.get(ABSENT))).toBeUndefined()
  expect(await drive(map.get('absent too'))).toBeUndefined()
  // After a call has failed, each of its keys fails again, absent or not. So apps repeat the call once online, whatever its keys are.
  expect(await harness.failure(map.getMany([LISTED, 'absent too']))).toMatchObject({ code: 'network' })
  expect(await harness.failure(map.get('absent too'))).toMatchObject({ code: 'network' })
  expect(await drive(map.get(ABSENT))).toBeUndefined()
  network.both(undefined)
  connection.goOnline()
  const before = lookups(network).length
  await drive(map.get(ABSENT))
  expect(lookups(network).length).toBe(before + 2)
})

describe('of another database it excludes nothing', () => {
  const replaced = (signs: boolean) => {
    const [old, now] = [7, 8].map(byte => marked(signs, { databaseId: new Uint8Array(16).fill(byte) })) as [
      Directory,
      Directory,
    ]
    old.publish({ [LISTED]: undefined })
    old.publish({ [OTHER]: 'x' })
    return { old, now }
  }

  test.each(['instant', 'filter'] as const)('stored, under one key, in mode %s: sync() says so', async mode => {
    const { openStore } = disk()
    const { old, now } = replaced(true)
    const how = { ...(mode === 'instant' ? filter('ask') : { mode }), storage: 'required' } as const
    const first = await opened(old, how, { openStore })
    await first.drive(first.map.sync())
    await first.drive(first.map.close())
    const { map, drive, harness } = await opened(now, how, { openStore })
    await rest()
    expect(map.filter?.state).toBe('behind')
    if (mode === 'instant') expect(textOf(await drive(map.get(LISTED)))).toBe('v0..........')
    else expect(map.excludes(LISTED)).toBe(false)
    expect(await harness.failure(map.sync())).toMatchObject({ code: 'signature' })
  })

  test.each(['sync()', 'a lookup'])('without a key: %s finds the other, and its filter answers', async by => {
    const { old, now } = replaced(false)
    let { network } = old
    const { map, drive } = await opened(old, filter('ask'), { fetch: (url, init) => network.fetch(url, init) })
    await drive(map.sync())
    ;({ network } = now)
    await drive<unknown>(by === 'sync()' ? map.sync() : map.get(OTHER))
    await rest()
    expect(map.filter).toMatchObject({ epoch: 1, state: 'ready' })
    expect(textOf(await drive(map.get(LISTED)))).toBe('v0..........')
  })
})

test.each([true, false])('servers that were put back: it excludes nothing (signed: %s)', async signs => {
  const { openStore } = disk()
  const [old, now] = [marked(signs), marked(signs)]
  for (let i = 0; i < 5; i++) old.publish({ [OTHER]: `${i}` })
  const how = { ...filter('ask'), storage: 'required' } as const
  const first = await opened(old, how, { openStore })
  await first.drive(first.map.sync())
  await first.drive(first.map.close())
  now.publish({ [LATER]: 'come' })
  const { map, drive } = await opened(now, how, { openStore })
  await rest()
  expect(textOf(await drive(map.get(LATER)))).toBe('come')
})

test('what one server once made up counts until it shows something else', async () => {
  const C = 'https://c.example'
  const { newest } = marked(false)
  const network = new Network({ [A]: [newest], [B]: [newest], [C]: [newest] })
  const options = { ...filter('wait'), servers: [A, B, C], atLeast: 2 }
  const { map, drive, harness } = await opened({ network, signs: false }, options)
  network.misbehave[C] = on('/v1/info', async genuine => {
    const info = await genuine.json()
    return Response.json({ ...info, epochs: [{ ...info.epochs[0], epoch: 1_000_000 }] })
  })
  await drive(map.sync())
  await pass(harness, 61_000)
  expect(map.filter?.state).toBe('behind')
  network.misbehave[C] = undefined
  await drive(map.sync())
  expect(map.filter?.state).toBe('ready')
})

describe('a call that waits for the filter', () => {
  test('goes on once an epoch that has expired has a successor', async () => {
    const directory = marked(true, { expires: NOW + DAY })
    const { map, clock, drive } = await opened(directory, filter('wait'))
    clock.pass(DAY * 1000 + 1)
    const got = map.getText(LISTED)
    await settle()
    directory.publish({ [OTHER]: 'new' }, [A, B], { expires: NOW + 30 * DAY })
    await drive(map.sync())
    expect(await drive(got)).toBe('v0..........')
  })

  test('ends in time offline', async () => {
    let isOffline = false
    const connection = {
      get isOffline() {
        return isOffline
      },
      losses: 0,
      whenOnline: () => () => {},
    } as unknown as Environment['connection']
    const { map, clock, harness } = await opened(marked(true, { expires: NOW + DAY }), filter('wait'), { connection })
    clock.pass(DAY * 1000 + 1)
    isOffline = true
    expect(await harness.failure(map.get(LISTED, { timeoutMs: 15_000 }))).toMatchObject({ code: 'timeout' })
  })
})

describe('the store', () => {
  const spoilt = (openStore: NonNullable<Environment['openStore']>, begin: () => Error): Environment['openStore'] => {
    return async (...parameters) => {
      const { store } = await openStore(...parameters)
      Object.assign(store, {
        begin: async () => {
          throw begin()
        },
      })
      return { store, storage: 'persistent' }
    }
  }

  test('what is damaged is replaced: the next visit downloads nothing', async () => {
    const { openStore, stores } = disk()
    const directory = marked()
    const how = { mode: 'filter', storage: 'required' } as const
    await opened(directory, how, { openStore })
    const [[, store]] = [...stores] as [[string, MemoryStore]]
    const { record, version } = (await store.read())!
    const { partial, directory: bytes } = await store.readPartial(record.hintId)
    const { manifest, signature } = record
    await store.updatePartial(record.hintId, version, {
      partial: partial.map(mark => mark ^ 1),
      directory: bytes,
      manifest,
      signature,
    })
    const visits: number[] = []
    for (let visit = 0; visit < 2; visit++) {
      const before = blobs(directory.network).length
      await opened(directory, how, { openStore })
      visits.push(blobs(directory.network).length - before)
    }
    expect(visits).toEqual([2, 0])
  })

  test('a disk that is full causes one download; a tab that is always quicker, no unhandled rejection', async () => {
    for (const error of [() => new Error('full'), () => new StateMovedError('another tab')]) {
      const directory = marked()
      const openStore = spoilt(disk().openStore, error)
      const { map, harness } = await opened(directory, { ...filter('ask'), storage: 'required' }, { openStore })
      await pass(harness, 3_600_000)
      expect([map.filter?.state, blobs(directory.network).length]).toEqual(['ready', 2])
    }
  })
})

describe('what was not heard of for long is asked for before the filter answers, whatever the key', () => {
  test.each([LATER, ABSENT])('after weeks without a line', async key => {
    const directory = marked()
    const { map, drive, harness, network } = await opened(directory, filter('wait'))
    directory.publish({ [LATER]: 'come' })
    directory.publish({ [OTHER]: 'x' })
    directory.forget()
    await pass(harness, 20 * DAY * 1000)
    const before = network.seen.length
    expect(textOf(await drive(map.get(key)))).toBe(key === LATER ? 'come' : undefined)
    expect(network.seen[before]!.path).toBe('/v1/info')
    const then = network.seen.length
    await drive(map.get(ABSENT))
    expect(network.seen.length).toBe(then)
  })

  test.each(['instant', 'filter'] as const)('at the next visit, in mode %s', async mode => {
    const { openStore } = disk()
    const directory = marked()
    const how = { ...(mode === 'instant' ? filter('wait') : { mode }), storage: 'required', publisherKey } as const
    const first = await opened(directory, how, { openStore })
    await first.drive(first.map.close())
    directory.publish({ [LATER]: 'come' })
    const harness = new Harness(directory.network, 901, { openStore })
    const { fetch } = harness.environment
    const late: Environment['fetch'] = async (url, init) => {
      await harness.clock.wait(50)
      return await fetch(url, init)
    }
    Object.assign(harness.environment, { fetch: late })
    const map = await harness.open({ mode: 'instant', push: true, ...how })
    if (mode === 'filter') expect(map.excludes(LATER)).toBe(false)
    else expect(textOf(await harness.drive(map.get(LATER)))).toBe('come')
  })
})

test.each([A, B])('a silent server does not hold up sync(): %s', async silent => {
  const directory = marked()
  const { map, clock, drive } = await opened(directory, { mode: 'filter' })
  directory.publish({ [LATER]: 'come' })
  directory.network.misbehave[silent] = hang('/v1/info')
  const begun = clock.now()
  await drive(map.sync())
  expect([map.filter?.epoch, clock.now() - begun]).toEqual([2, 2_000])
})

test.each([A, B])('a slow server is followed once it has replied, beside a frozen one: %s', async frozen => {
  const directory = marked()
  const { network, newest: first } = directory
  const { map, clock, drive, harness } = await opened(directory, { mode: 'filter' })
  network.misbehave[frozen] = having(frozen, network.signatures.slice(), first)
  network.misbehave[frozen === A ? B : A] = late(clock, '/v1/manifest?generation=1&epoch=2', 3_000)
  directory.publish({ [LATER]: 'come' })
  await drive(map.sync().catch(() => {}))
  await pass(harness, 5_000)
  expect([map.filter?.epoch, map.excludes(LATER)]).toEqual([2, false])
})

describe.each(['instant', 'filter'] as const)('where no server can be reached, in mode %s', mode => {
  const away: Environment['fetch'] = () => Promise.reject(new TypeError('fetch failed'))
  const how = { ...(mode === 'instant' ? filter('wait') : { mode }), storage: 'required' } as const
  const reopened = async (fetch: (url: string) => ReturnType<Environment['fetch']>) => {
    const { openStore } = disk()
    const first = await opened(marked(true, { expires: NOW + 30 * DAY }), how, { openStore })
    await first.drive(first.map.close())
    const life = new Harness(first.network, 907, { openStore, fetch })
    const map = await life.open({ ...how, mode, push: false, publisherKey })
    const answer = await life.drive(map.get(ABSENT))
    return { ...life, map, answer, ms: life.clock.now(), failure: () => life.failure(map.get(ABSENT)) }
  }

  test('a stored filter answers at once, until it expires', async () => {
    const { clock, map, answer, ms, drive, failure } = await reopened(away as never)
    expect([answer, ms]).toEqual([undefined, 0])
    clock.pass(29 * DAY * 1000)
    expect(await drive(map.get(ABSENT))).toBeUndefined()
    clock.pass(DAY * 1000)
    expect(map.filter?.state).toBe('behind')
    if (mode === 'filter') expect(await failure()).toMatchObject({ code: 'unsupported', reason: 'filter' })
  })

  test('a silent server is waited for', async () => {
    const silent = (url: string) => (url.startsWith(A) ? new Promise<never>(() => {}) : away(url, {} as never))
    const { answer, ms } = await reopened(silent)
    expect([answer, ms]).toEqual([undefined, 2_000])
  })
})

test('where memory is short for the first download, it is tried again', async () => {
  let fails = true
  const pause = async () => {
    if (!fails || !new Error('here').stack?.includes('hasHash')) return
    fails = false
    throw new RangeError('Array buffer allocation failed')
  }
  const { map, drive, network } = await opened(marked(), filter('wait'), { pause })
  expect(await drive(map.get(ABSENT))).toBeUndefined()
  expect(fails).toBe(false)
  expect(lookups(network)).toEqual([])
})

test('where a list cannot be applied for want of memory, the old marks are not taken for those of the new epoch', async () => {
  const directory = marked()
  let fails = false
  const pause = async () => {
    if (!fails || !new Error('here').stack?.includes('HeldFilter.after')) return
    fails = false
    throw new RangeError('Array buffer allocation failed')
  }
  const { map, drive } = await opened(directory, { mode: 'filter' }, { pause })
  const next = directory.publish({ [LATER]: 'come' })
  const { fetch } = directory.network
  const list = toHex(next.manifest.updateListHash)
  Object.assign(directory.network, {
    fetch: async (...parameters: Parameters<typeof fetch>) => {
      fails ||= parameters[0].endsWith(list)
      return await fetch(...parameters)
    },
  })
  await expect(drive(map.sync())).rejects.toThrow()
  await drive(map.sync())
  expect(map.filter).toMatchObject({ epoch: 2, state: 'ready' })
  expect(map.excludes(LATER)).toBe(false)
})
