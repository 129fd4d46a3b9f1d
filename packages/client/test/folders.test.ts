// A folder of files on any static host in the place of a server (docs/protocol.md, Without a server). How it is written:
// server/test/folder.all.test.ts. Real hosts: tests/e2e/static.all.test.ts.

import { encodeEvent, type Info, toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { describe, expect, test } from 'vitest'
import { sampled } from '../../../tests/support/thorough.js'
import { estimate } from '../src/estimate.js'
import { single } from '../src/scheme/single/single.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import { type Environment, type OpenWithOptions, openWith } from '../src/testing.js'
import { rest, until } from './support/clock.js'
import type { Database } from './support/database.js'
import { laidOutAnew, nextEpoch } from './support/epochs.js'
import { core, failureOf, Harness } from './support/harness.js'
import { A, B, Network, type Seen } from './support/network.js'
import { DAY, epochsOf, NOW, publisherKey, signatureOf, signedOnBoth } from './support/signed.js'
import { type Life, World } from './support/world.js'

const MINUTES = 60_000
const utf8 = (text: string) => new TextEncoder().encode(text)

const EPOCHS = epochsOf(6)

type Files = Map<string, Uint8Array>

/** As `keyhush publish --folder` writes them; the last is the newest. */
function filesOf(epochs: readonly Database[]): Files {
  const newest = epochs.at(-1)!
  const idsOf = ({ manifest: { generation, epoch }, manifestBytes }: Database) => ({
    ...{ generation, epoch },
    manifest: toHex(blake3(manifestBytes)),
  })
  const info: Info = {
    format: 1,
    software: 'test',
    database: toHex(newest.manifest.databaseId),
    epochs: epochs.slice(-2).map(idsOf),
    offers: {
      ...{
        proofs: [],
        updates: true,
        push: false,
        blobs: true,
        fence: false,
        instant: false,
        single: false,
        oneServer: false,
      },
      history: 64,
    },
    signatures: epochs.map(each => signatureOf(each)),
  }
  return new Map([
    ['/v1/info', utf8(JSON.stringify(info))],
    ['/v1/manifest', newest.manifestBytes],
    ['/v1/manifests', Buffer.concat(epochs.map(({ manifestBytes }) => manifestBytes))],
    ['/v1/events', utf8(encodeEvent(newest.manifest))],
    ...epochs.flatMap(({ blobs }) => [...blobs].map(([hash, blob]) => [`/v1/blobs/${hash}`, blob] as const)),
  ])
}

/** All of the first so many epochs. */
const at = (epoch: number) => filesOf(EPOCHS.slice(0, epoch))

/** A host that knows paths alone. */
class Host {
  files: Files
  readonly network = new Network({ [A]: EPOCHS.slice(0, 1), [B]: EPOCHS.slice(0, 1) })

  constructor(files: Files) {
    this.files = files
    this.network.both(seen => this.reply(seen))
  }

  reply({ path, method }: Seen): Response {
    const bytes = method === 'GET' ? this.files.get(path.split('?')[0]!) : undefined
    if (bytes !== undefined) return new Response(bytes as Uint8Array<ArrayBuffer>)
    return new Response('<!doctype html>Not found', { status: 404, headers: { 'content-type': 'text/html' } })
  }

  /** Paths asked for, the first `skip` left out. */
  asked(skip = 0): string[] {
    return this.network.seen.slice(skip).map(({ path }) => path)
  }
}

const ONE = { servers: [A], publisherKey, mode: 'auto', proofs: 'auto', push: true } as const

async function opened(host: Host, options: Partial<OpenWithOptions> = {}, change: Partial<Environment> = {}) {
  const harness = new Harness(host.network, 1, change)
  const map = await harness.open({ ...ONE, ...options })
  const { clock, drive } = harness
  await rest()
  return {
    ...{ harness, map, clock, drive },
    pass: async (ms: number) => {
      const end = clock.now() + ms
      await until(clock, () => clock.now() >= end)
      await rest()
    },
    /** every value is of the epoch that the map says it is at */
    async check(epoch?: number) {
      if (epoch !== undefined) expect(map.epoch).toBe(epoch)
      const { byIndex } = EPOCHS[map.epoch! - 1]!
      for (const index of [0, 1, 2, 3, 4, 5]) expect(await drive(map.at(index))).toEqual(byIndex[index])
    },
  }
}

const partitionsOf = ({ blobs, manifest }: Database) => {
  const list = toHex(manifest.updateListHash)
  return [...blobs.keys()].filter(hash => hash !== list).map(hash => `/v1/blobs/${hash}`)
}

describe('where nobody tells of new epochs', () => {
  test('an idle map asks for a line every five minutes, and sends nothing that a host could know it by', async () => {
    const host = new Host(at(3))
    const { pass, check } = await opened(host)
    const before = host.network.seen.length
    await pass(2 * 60 * MINUTES)
    const later = host.network.seen.slice(before)
    expect(new Set(later.map(({ path }) => path))).toEqual(new Set(['/v1/events']))
    expect(later).toHaveLength(24)
    for (const { init } of host.network.seen) {
      expect(init).toMatchObject({ cache: 'no-store', credentials: 'omit' })
      expect(init.headers).toBeUndefined()
    }
    await check(3)
  })

  /** Tabs of one origin: one of them is visible, and leads. */
  class Tabs {
    readonly #listeners = new Set<(name: string, message: unknown) => void>()
    readonly #turned = new Set<() => void>()
    #visible = 0

    show(tab: number): void {
      this.#visible = tab
      for (const turn of this.#turned) turn()
    }

    of(tab: number): Environment['tabs'] {
      return {
        elect: async (_name, task, signal) => {
          while (!signal.aborted) {
            let turn = () => {}
            const turned = new Promise<void>(resolve => {
              turn = resolve
            })
            signal.addEventListener('abort', turn)
            this.#turned.add(turn)
            if (this.#visible === tab) {
              const hidden = new AbortController()
              void turned.then(() => hidden.abort())
              await task(hidden.signal)
            }
            await turned
            signal.removeEventListener('abort', turn)
            this.#turned.delete(turn)
          }
        },
        subscribe: (name, listener) => {
          const hear = (to: string, message: unknown) => void (to === name && listener(message))
          this.#listeners.add(hear)
          return () => void this.#listeners.delete(hear)
        },
        notify: (name, message) => void [...this.#listeners].map(hear => hear(name, message)),
      }
    }
  }

  test.each(['memory', 'preferred'] as const)(
    'of several tabs, one asks, whichever is visible; storage: %s',
    async storage => {
      const host = new Host(at(3))
      const tabs = new Tabs()
      const world = new World({ network: host.network, database: EPOCHS[3]!, audited: false })
      const lives = [0, 1, 2].map(tab => world.life({ tabs: tabs.of(tab) }))
      const pass = async (ms: number) => {
        await world.drive(world.clock.wait(ms))
        await rest()
      }
      const maps = []
      for (const [tab, life] of lives.entries()) {
        tabs.show(tab)
        maps.push(await life.open({ ...ONE, storage }))
        await pass(MINUTES)
      }
      await pass(10 * MINUTES)
      const before = host.network.seen.length
      for (let minute = 0; minute < 60; minute++) {
        tabs.show(minute % 3)
        await pass(MINUTES)
      }
      expect(host.asked(before)).toEqual(Array(12).fill('/v1/events'))
      host.files = at(4)
      await pass(5 * MINUTES)
      for (const [tab, map] of maps.entries()) {
        tabs.show(tab)
        await pass(0)
        expect(map.epoch).toBe(4)
      }
    },
  )

  test.each([1, 3])('a map follows %i epochs by their lists alone', async count => {
    const host = new Host(at(2))
    const { pass, check } = await opened(host)
    const before = host.network.seen.length
    host.files = at(2 + count)
    await pass(5 * MINUTES)
    await check(2 + count)
    const lists = EPOCHS.slice(2, 2 + count).map(({ manifest }) => `/v1/blobs/${toHex(manifest.updateListHash)}`)
    expect(host.asked(before).filter(path => path.startsWith('/v1/blobs/'))).toEqual(lists)
  })

  test('what was announced and is not there yet is asked for again at the next line', async () => {
    const host = new Host(at(2))
    const { pass, check } = await opened(host)
    host.files.set('/v1/events', at(3).get('/v1/events')!)
    await pass(60 * MINUTES)
    await check(2)
    host.files = at(3)
    await pass(5 * MINUTES)
    await check(3)
  })

  test('a list that is not there yet keeps the map where it is, and nothing is downloaded anew', async () => {
    const host = new Host(at(2))
    const { harness, map, pass, check } = await opened(host)
    const before = host.network.seen.length
    host.files = at(4)
    const missing = `/v1/blobs/${toHex(EPOCHS[3]!.manifest.updateListHash)}`
    host.files.delete(missing)
    await pass(60 * MINUTES)
    await check(2)
    expect(await harness.failure(map.sync())).toMatchObject({ refusal: 'not_found' })
    host.files = at(4)
    await pass(5 * MINUTES)
    await check(4)
    for (const path of host.asked(before)) expect(partitionsOf(EPOCHS[3]!)).not.toContain(path)
  })

  describe('a list that never comes', () => {
    const lasting = { expires: NOW + 30 * DAY }
    const brief = epochsOf(4, { expires: NOW + DAY })
    const edits = (text: string) => [{ op: 'edit', index: 0, value: utf8(text) }] as const
    const renewed = nextEpoch(core, brief[3]!, edits('renew'), lasting)
    const isList = ({ path }: Seen) => path === `/v1/blobs/${toHex(brief[2]!.manifest.updateListHash)}`

    /** The host has all but this list. */
    const withoutList = (host: Host) =>
      host.network.both(seen => (isList(seen) ? new Host(new Map()).reply(seen) : host.reply(seen)))

    /** A map at epoch 2, closed, whose host has no list of epoch 3. */
    async function stored() {
      const host = new Host(filesOf(brief.slice(0, 2)))
      const world = new World({ network: host.network, database: renewed, audited: false })
      const options = { ...ONE, push: false } as const
      await world.drive((await world.life().open(options)).close())
      withoutList(host)
      host.files = filesOf(brief)
      return { host, world, options, failure: (work: Promise<unknown>) => world.drive(failureOf(work)) }
    }

    test('a copy that has expired is downloaded anew, as soon as a newer epoch can be had', async () => {
      const { host, world, options, failure } = await stored()
      const map = await world.life().open(options)
      expect(map.epoch).toBe(2)
      await world.drive(map.prepare()) // it answers
      expect(await world.drive(map.at(0))).toEqual(brief[1]!.byIndex[0])
      world.clock.pass(2 * DAY * 1000)
      const expired = { name: 'SignatureError' }
      for (const call of [() => map.sync(), () => map.prepare(), () => map.at(0)]) {
        expect(await failure(call())).toMatchObject(expired)
      }
      expect(map.epoch).toBe(2)
      host.files = filesOf([...brief, renewed])
      await world.drive(map.prepare())
      expect(await world.drive(map.at(0))).toEqual(utf8('renew'))
      expect(map.epoch).toBe(5)
    })

    test('also when the map is opened, and by sync()', async () => {
      for (const opens of [true, false]) {
        const { host, world, options } = await stored()
        const open = async () => await world.life().open(options)
        let map = await open()
        world.clock.pass(2 * DAY * 1000)
        host.files = filesOf([...brief, renewed])
        if (opens) {
          await world.drive(map.close())
          map = await open()
        } else await world.drive(map.sync())
        expect(await world.drive(map.at(0))).toEqual(utf8('renew'))
      }
    })

    test('a download that was broken off begins anew', async () => {
      const host = new Host(filesOf(brief.slice(0, 2)))
      const world = new World({ network: host.network, database: renewed, audited: false })
      const options = { ...ONE, mode: 'local', push: false } as const
      let blobs = 0
      host.network.both(seen => {
        const isCut = seen.path.startsWith('/v1/blobs/') && ++blobs > 2
        return isCut ? Promise.reject(new TypeError('offline')) : host.reply(seen)
      })
      await world.drive(failureOf(world.life().open(options)))
      expect((await world.disk.read())?.stage).toBe('partial')
      withoutList(host)
      host.files = filesOf(brief)
      const map = await world.life().open(options)
      expect(map.epoch).toBe(4)
      expect(await world.drive(map.at(0))).toEqual(brief[3]!.byIndex[0])
    })
  })

  test('of another generation, partitions that are not there yet keep it there too', async () => {
    const host = new Host(at(2))
    const { map, pass, check, drive } = await opened(host)
    const anew = laidOutAnew(EPOCHS[1]!, 3)
    const files = filesOf([...EPOCHS.slice(0, 2), anew])
    host.files = new Map([...files].filter(([path]) => !partitionsOf(anew).includes(path)))
    await pass(30 * MINUTES)
    await check(2)
    host.files = files
    await pass(10 * MINUTES)
    expect(map.epoch).toBe(3)
    expect(await drive(map.at(1))).toEqual(anew.byIndex[1])
  })

  test('a map that was away for longer than the chain goes back downloads anew what has changed', async () => {
    const host = new Host(at(1))
    const { pass, check, map, drive } = await opened(host)
    const downloaded = (before: number) =>
      host
        .asked(before)
        .filter(path => path.startsWith('/v1/blobs/'))
        .sort()
    let before = host.network.seen.length
    host.files = filesOf(EPOCHS.slice(3, 6))
    await pass(5 * MINUTES)
    await check(6)
    const changed = partitionsOf(EPOCHS[5]!).filter(path => !at(1).has(path))
    expect(changed).toHaveLength(2)
    expect(downloaded(before)).toEqual(changed.sort())
    before = host.network.seen.length
    await drive(map.reset()) // reuses nothing (S7)
    expect(downloaded(before)).toEqual(partitionsOf(EPOCHS[5]!).sort())
  })

  test('a fetch() without streams reads the line too', async () => {
    const host = new Host(at(2))
    const withoutStreams = async (url: string, init: RequestInit) => {
      const reply = await host.network.fetch(url, init)
      return { status: reply.status, headers: reply.headers, arrayBuffer: () => reply.arrayBuffer() } as Response
    }
    const { pass, check } = await opened(host, {}, { fetch: withoutStreams })
    host.files = at(3)
    await pass(5 * MINUTES)
    await check(3)
  })

  test('a fetch() that fails for one folder’s line ends nothing: the other is followed', async () => {
    const host = new Host(at(2))
    host.network.misbehave[A] = seen =>
      seen.path === '/v1/events' ? (Promise.resolve({}) as Promise<Response>) : host.reply(seen)
    const { pass, check } = await opened(host, { servers: [A, B] })
    await pass(5 * MINUTES)
    host.files = at(3)
    await pass(5 * MINUTES)
    await check(3)
  })

  test('the same URL is a server later: the map reads its line, then its stream', async () => {
    const host = new Host(at(2))
    const { map, pass, clock } = await opened(host)
    const { network } = host
    network.push = true
    network.both(undefined)
    network.signatures.push(...EPOCHS.map(each => signatureOf(each)))
    network.publishOnBoth(...EPOCHS.slice(1, 3))
    await pass(5 * MINUTES)
    expect(map.epoch).toBe(3)
    await pass(5 * MINUTES)
    expect(network.streams.size).toBe(1)
    network.publish(A, EPOCHS[3]!)
    const announced = clock.now()
    await until(clock, () => map.epoch === 4)
    expect(clock.now() - announced).toBeLessThan(MINUTES)
  })

  test.each(['local', 'full', 'instant'] as const)(
    'the same URL is a folder later: a map of mode %s asks it every five minutes at most',
    async mode => {
      const network = signedOnBoth(...EPOCHS.slice(0, 2))
      network.push = true
      const harness = new Harness(network)
      const map = await harness.open({ ...ONE, servers: [A, B], mode })
      await rest()
      expect(network.streams.size).toBe(2)
      const host = new Host(at(2))
      network.both(seen => host.reply(seen))
      for (const stream of network.streams) stream.end()
      await harness.drive(harness.clock.wait(MINUTES))
      const before = network.seen.length
      await harness.drive(harness.clock.wait(60 * MINUTES))
      const asked = network.seen.slice(before).map(({ path }) => path)
      expect(asked).toEqual(Array(mode === 'instant' ? 0 : 24).fill('/v1/events'))
      host.files = at(3)
      await harness.drive(harness.clock.wait(5 * MINUTES))
      expect(map.epoch).toBe(mode === 'local' ? 3 : 2)
    },
  )
})

describe('files of different ages', () => {
  const NAMES = ['info', 'manifest', 'manifests', 'events']
  const AGES = [1, 3, 4, 6]
  const all = AGES.flatMap(info => AGES.flatMap(manifest => AGES.map(manifests => ({ info, manifest, manifests }))))

  const mixed = (ages: Readonly<Record<string, number>>): Files => {
    const files = at(6)
    for (const name of NAMES) files.set(`/v1/${name}`, at(ages[name] ?? 6).get(`/v1/${name}`)!)
    return files
  }

  test.each(sampled(all, 6))('a new map: info $info, manifest $manifest, manifests $manifests', async ages => {
    const host = new Host(mixed(ages))
    const harness = new Harness(host.network)
    const failed = await harness.drive(
      harness.open({ ...ONE, storage: 'memory' }).then(
        () => undefined,
        error => error,
      ),
    )
    // Manifests that have come, and a signature that has.
    const possible = [ages.manifest, ...EPOCHS.slice(0, ages.manifests).map(({ manifest }) => manifest.epoch)].filter(
      epoch => epoch <= ages.info,
    )
    expect(possible.length).toBeGreaterThan(0)
    expect(failed).toBeUndefined()
    const [map] = harness.left
    const newest = Math.max(...possible)
    // The one before is as good.
    expect([newest, newest - 1]).toContain(map!.epoch)
    for (const index of [0, 1, 3, 5]) {
      expect(await harness.drive(map!.at(index))).toEqual(EPOCHS[map!.epoch! - 1]!.byIndex[index])
    }
  })

  test.each(sampled(all, 6))('a map at epoch 3: info $info, manifest $manifest, manifests $manifests', async ages => {
    const host = new Host(at(3))
    const { map, drive, check } = await opened(host, { push: false })
    host.files = mixed(ages)
    const error = await drive(
      map.sync().then(
        () => undefined,
        error => error,
      ),
    )
    if (error !== undefined) expect(error).toMatchObject({ code: 'version', retryable: true })
    expect(map.epoch).toBeGreaterThanOrEqual(3)
    await check()
    host.files = at(6)
    await drive(map.sync())
    await check(6)
  })

  test.each([4, 2])(
    'a chain that ends at epoch %i keeps a map of epoch 3 there, and nothing is downloaded anew',
    async end => {
      const host = new Host(at(3))
      const { harness, map, drive, check } = await opened(host, { push: false })
      const before = host.network.seen.length
      host.files = mixed({ manifests: end })
      expect(await harness.failure(map.sync())).toMatchObject({ name: 'VersionError', server: A, retryable: true })
      await check(3)
      host.files = at(6)
      await drive(map.sync())
      await check(6)
      for (const path of host.asked(before)) expect(partitionsOf(EPOCHS[5]!)).not.toContain(path)
    },
  )

  test('an info without an epoch, where a newer one was asked for, is a server’s fault', async () => {
    const host = new Host(new Map([...at(3), ['/v1/manifest', at(4).get('/v1/manifest')!] as const]))
    const none = { ...JSON.parse(new TextDecoder().decode(host.files.get('/v1/info'))), epochs: [] }
    host.network.both(seen => (seen.path.startsWith('/v1/info?') ? Response.json(none) : host.reply(seen)))
    const harness = new Harness(host.network)
    expect((await harness.failure(harness.open(ONE))).code).not.toBe('internal')
  })

  test('an info that is too old is asked for at a URL that caches do not know', async () => {
    const host = new Host(mixed({ info: 3 }))
    const { network } = host
    network.both(seen => {
      const isFresh = seen.path === '/v1/info?epoch=6'
      return isFresh ? new Response(at(6).get('/v1/info')! as Uint8Array<ArrayBuffer>) : host.reply(seen)
    })
    const { check } = await opened(host)
    await check(6)
  })

  test('without a manifest that any signature is of, it says so, and lets you call again', async () => {
    const files = mixed({ info: 1, manifest: 6 })
    files.set('/v1/manifests', filesOf(EPOCHS.slice(3)).get('/v1/manifests')!)
    const harness = new Harness(new Host(files).network)
    const error = await harness.failure(harness.open({ ...ONE }))
    expect(error).toMatchObject({ name: 'VersionError', server: A, retryable: true })
    expect(error.message).toContain('files of one epoch')
  })

  test.each(['local', 'auto'] as const)('rolled back, mode %s: a map stays, now and after a restart', async mode => {
    const host = new Host(at(4))
    const world = new World({ network: host.network, database: EPOCHS[3]!, audited: false })
    const options = { ...ONE, mode, push: false }
    const first = await world.life().open(options)
    expect(first.epoch).toBe(4)
    host.files = at(3)
    await world.drive(first.sync())
    expect(first.epoch).toBe(4)
    await world.drive(first.close())
    const second = await world.life().open(options)
    expect(second.epoch).toBe(4)
    expect(await world.drive(second.at(3))).toEqual(EPOCHS[3]!.byIndex[3])
    await world.drive(second.close())
    // Without the network, too.
    host.network.both(async () => Promise.reject(new TypeError('offline')))
    const third = await world.life().open(options)
    expect(await world.drive(third.at(3))).toEqual(EPOCHS[3]!.byIndex[3])
  })
})

describe('what a folder offers', () => {
  const two = { servers: [A, B] } as const
  test.each([
    ['instant', { ...two, mode: 'instant' }],
    ['full', { ...two, mode: 'full' }],
    ['single', { mode: 'single', lookups: 60 }],
    ['single, two', { ...two, mode: 'single', lookups: 60, collusion: 'tolerated' }],
  ] as const)('mode %s is refused by open(), before anything is sent but questions', async (_, options) => {
    for (const files of [at(4), new Map([...at(3), ['/v1/info', at(4).get('/v1/info')!] as const])]) {
      const host = new Host(files)
      const harness = new Harness(host.network)
      const error = await harness.failure(harness.open({ ...ONE, ...options }))
      expect(error).toMatchObject({ name: 'UnsupportedError', reason: 'offer' })
      expect(host.network.seen.filter(({ method }) => method !== 'GET')).toEqual([])
      expect(host.asked().filter(path => path.startsWith('/v1/blobs/'))).toEqual([])
    }
  })

  test.each([
    ['two mirrors', {}],
    ['one of which is a little older', { [B]: at(3) }],
  ] as const)('mode auto keeps a copy: %s', async (_, older) => {
    const host = new Host(at(4))
    const { network } = host
    network.both(seen => {
      const files = (older as Record<string, Files>)[seen.server]
      return files === undefined ? host.reply(seen) : new Host(files).reply(seen)
    })
    const { map, check, drive } = await opened(host, two)
    expect(map.mode).toBe('local')
    await drive(map.sync())
    await check(4)
    expect(network.seen.filter(({ method }) => method !== 'GET')).toEqual([])
  })

  test.each([
    ['one folder', ONE, single],
    ['two', { ...ONE, ...two }, tapir],
  ] as const)('also of a list that is best not kept whole: %s', async (_, options, scheme) => {
    const harness = new Harness(new Host(at(4)).network)
    const opening = openWith(harness.environment, options, undefined, undefined, () => scheme)
    const map = await harness.drive(opening)
    harness.left.push(map)
    expect(map.mode).toBe('local')
  })

  test('estimate() names local alone, also while files are of different ages', async () => {
    const host = new Host(at(4))
    const told = async (servers: readonly string[]) => {
      const { mode, download, modes, epoch } = await estimate(servers, { fetch: host.network.fetch })
      return [mode, download, Object.keys(modes), epoch]
    }
    expect(await told([A])).toEqual(['local', 'local', ['local'], 4])
    expect(await told([A, B])).toEqual(['local', 'local', ['local'], 4])
    host.files.set('/v1/manifest', at(3).get('/v1/manifest')!)
    expect(await told([A])).toEqual(['local', 'local', ['local'], 4])
  })

  test('in mode auto an app has its say over a large download', async () => {
    const host = new Host(at(4))
    const harness = new Harness(host.network)
    const error = await harness.failure(harness.open({ ...ONE, download: 'never' }))
    expect(error).toMatchObject({ name: 'UnsupportedError', reason: 'download' })
  })

  test('without a publisher’s key a map goes by what the folder shows, if the app trusts it', async () => {
    const host = new Host(at(4))
    const { publisherKey: _, ...unsigned } = ONE
    const harness = new Harness(host.network)
    const map = await harness.open({ ...unsigned, integrity: 'server' })
    expect(await harness.drive(map.at(3))).toEqual(EPOCHS[3]!.byIndex[3])
  })
})

describe('servers that become folders', () => {
  const two = { ...ONE, servers: [A, B], push: false } as const
  const refused = { name: 'UnsupportedError', reason: 'offer', message: expect.stringContaining('in another mode') }
  const MODES = {
    full: [{ ...two, mode: 'full' }, {}],
    single: [{ ...two, mode: 'single', servers: [A], lookups: 60 }, {}],
    instant: [{ ...two, mode: 'instant' }, {}],
    'auto, without a state': [two, { pays: () => false }],
    'auto, with hints': [two, { pays: () => true, choose: () => tapir }],
  } as const
  const isDemanded = (kind: keyof typeof MODES) => !kind.startsWith('auto')

  /** A map of two servers, which has looked up. */
  async function begun(kind: keyof typeof MODES) {
    const network = signedOnBoth(...EPOCHS.slice(0, 2))
    const world = new World({ network, database: EPOCHS[1]!, audited: false })
    const [options, planner] = MODES[kind]
    const life = world.life()
    const open = (on: Life) => on.open(options, planner)
    const map = await open(life)
    for (const index of [1, 2]) expect(await world.drive(map.at(index))).toEqual(EPOCHS[1]!.byIndex[index])
    if (kind === 'auto, with hints') {
      await world.drive(map.prepare())
      await world.drive(map.at(1))
      expect(map.mode).toBe('full')
    }
    /** From now on they are folders. `sent`: what was no question for a file. */
    const become = (epoch: number) => {
      const before = network.seen.length
      const host = new Host(at(epoch))
      network.both(seen => host.reply(seen))
      const sent = () => network.seen.slice(before).filter(({ method }) => method !== 'GET')
      return { host, sent }
    }
    return { world, network, life, map, open, become }
  }

  test.each(
    (Object.keys(MODES) as (keyof typeof MODES)[]).flatMap(kind => [2, 3].map(epoch => [kind, epoch] as const)),
  )('under a map of mode %s, at epoch %i: no lookup reaches them once it knows', async (kind, epoch) => {
    const { world, network, life, map, become } = await begun(kind)
    const { sent } = become(epoch)
    if (isDemanded(kind)) {
      expect(await life.failure(map.sync())).toMatchObject(refused)
      expect(await life.failure(map.at(1))).toMatchObject(refused)
      expect(sent()).toEqual([])
      network.both(undefined)
      expect(await world.drive(map.at(1))).toEqual(EPOCHS[1]!.byIndex[1])
      return
    }
    await world.drive(map.sync())
    for (const index of [1, 2, 3]) expect(await world.drive(map.at(index))).toEqual(EPOCHS[epoch - 1]!.byIndex[index])
    expect([map.mode, map.epoch, sent()]).toEqual(['local', epoch, []])
  })

  test.each(['full', 'single', 'auto, with hints'] as const)(
    'under a stored state of mode %s, which is kept: none either, and no question for its fence',
    async kind => {
      for (const isPending of [false, true]) {
        const { world, network, life, map, open, become } = await begun(kind)
        if (isPending) await world.interrupt(life, map)
        await world.drive(map.close())
        const { sent } = become(3)
        if (isDemanded(kind)) {
          expect(await world.life().failure(open(world.life()))).toMatchObject(refused)
          network.both(undefined)
        }
        const next = world.life()
        const again = await open(next)
        const { byIndex } = EPOCHS[again.epoch! - 1]!
        expect(await world.drive(again.at(1))).toEqual(byIndex[1])
        if (!isDemanded(kind)) expect([again.mode, again.epoch, sent()]).toEqual(['local', 3, []])
        else expect(next.events).toContainEqual(expect.objectContaining({ type: 'resumed', pending: isPending }))
      }
    },
  )

  test('also where files are missing, so that the map cannot know which epoch they are of', async () => {
    const { world, map, open, become } = await begun('full')
    await world.drive(map.close())
    const { host, sent } = become(3)
    for (const path of ['/v1/manifest', '/v1/manifests']) host.files.delete(path)
    const next = world.life()
    const again = await open(next)
    expect(await next.failure(again.at(1))).toMatchObject({ retryable: true })
    expect(sent()).toEqual([])
  })
})
