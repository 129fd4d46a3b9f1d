// Chains of manifests that one server makes up (docs/threat-model.md, Not protected): how much of them a client reads and keeps does
// not follow from what that server says.

import { encodeEvent, encodeManifest, longestUpdateList, type Manifest, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { SILENCE_MS, SLOW_MS } from '../src/base/constants.js'
import type { Agreed } from '../src/servers/manifests.js'
import type { Servers } from '../src/servers/parties.js'
import { pathTo } from '../src/servers/path.js'
import { StatsKeeper } from '../src/servers/stats.js'
import { Lag } from '../src/servers/target.js'
import { linksOf } from '../src/servers/transport.js'
import { drive, ManualClock, settle, until } from './support/clock.js'
import { core, Harness, keyless } from './support/harness.js'
import { livingKeyless } from './support/living.js'
import { A, B, drip, late, ok, on, problem, type Seen } from './support/network.js'

const MIB = 2 ** 20
// one query a request: else answers for so many partitions would be too long
const { database } = keyless(15, { manifest: { maxQueries: 1 } })
const first: Agreed = { manifest: database.manifest, bytes: database.manifestBytes }

/** An epoch that follows another, with as many partitions as that, or as `change` says. Nothing stands behind it. */
function made({ manifest, bytes }: Agreed, change: Partial<Manifest> = {}): Agreed {
  const { partitions = manifest.partitions, generation = manifest.generation } = change
  const next = {
    ...manifest,
    epoch: manifest.epoch + 1,
    records: partitions * manifest.partitionRecords,
    partitions,
    updateListBytes: generation === manifest.generation ? longestUpdateList(1, manifest.recordBytes, false) : 0,
    updateListHash: new Uint8Array(32).fill(generation === manifest.generation ? 1 + (manifest.epoch % 255) : 0),
    previousManifest: core.blake3(bytes),
    commitments: new Uint8Array(32 * partitions).fill(1),
    contentHashes: new Uint8Array(32 * partitions).fill(2),
    ...change,
  }
  return { manifest: next, bytes: encodeManifest(next) }
}

function chainOf(from: Agreed, length: number, change: Partial<Manifest> = {}): Agreed[] {
  const chain = [from]
  while (chain.length <= length) chain.push(made(chain.at(-1)!, chain.length === 1 ? change : {}))
  return chain
}

/** The path from a base to `newest`, which all these servers show, and how it is asked for. */
function pathOf(
  clock: ManualClock,
  fetch: (url: string, init: RequestInit) => Promise<Response>,
  names: readonly string[],
  newest: Agreed,
) {
  const servers = names.map(name => ({ name })) as unknown as Servers
  const stats = new StatsKeeper(servers)
  const links = linksOf(servers, { clock, fetch }, stats.standing)
  let hashed = 0
  const counting = {
    ...core,
    blake3: (bytes: Uint8Array) => {
      hashed += bytes.length
      return core.blake3(bytes)
    },
  }
  const lag = new Lag(() => {})
  const following = { core: counting, links, signing: undefined, stats, pause: async () => {}, lag }
  const after = async (base: Agreed) => {
    const { path } = await pathTo(base, newest, links, following, new AbortController().signal)
    return path
  }
  return { after, hashed: () => hashed }
}

/** The manifests after epoch `since`, as many as `most` bytes hold. */
function pieceOf(chain: readonly Agreed[], since: number, most: number): Uint8Array[] {
  const piece: Uint8Array[] = []
  let bytes = 0
  for (const each of chain.filter(({ manifest }) => manifest.epoch > since)) {
    bytes += each.bytes.length
    if (bytes > most) break
    piece.push(each.bytes)
  }
  return piece
}

/** Server A has this chain and gives it in pieces of `most` bytes, each after `ms`; server B has forgotten all but `newest`, which both show. */
function following(chain: readonly Agreed[], newest: Agreed, most = 8 * MIB, ms = 0, names = [A, B]) {
  const clock = new ManualClock()
  const asked: string[] = []
  const fetch = async (url: string) => {
    asked.push(url)
    const { generation, epoch } = newest.manifest
    if (url.startsWith(B))
      return Response.json({ code: 'epoch_unknown', message: '', generation, epoch }, { status: 404 })
    const since = Number(/\/v1\/manifests\?since=(\d+)$/.exec(url)![1])
    if (ms > 0) await clock.wait(ms)
    return ok(Buffer.concat(pieceOf(chain, since, most)))
  }
  const { after, hashed } = pathOf(clock, fetch, names, newest)
  const chains = () => asked.filter(url => url.startsWith(`${A}/v1/manifests`)).length
  return { after: (base: Agreed) => drive(clock, after(base)), hashed, chains, clock }
}

describe('beyond what the other server remembers', () => {
  test('a true chain of large manifests is followed in parts of 8 MiB', async () => {
    const chain = chainOf(first, 12, { partitions: 2 ** 15 })
    const { after } = following(chain, chain.at(-1)!)
    const followed: Agreed[] = [first]
    for (let parts = 0; followed.length < chain.length; parts++) {
      expect(parts).toBeLessThan(6)
      const part = await after(followed.at(-1)!)
      expect(part.reduce((sum, { bytes }) => sum + bytes.length, 0)).toBeLessThanOrEqual(8 * MIB)
      followed.push(...part)
    }
    expect(followed.map(({ manifest }) => manifest.epoch)).toEqual(chain.map(({ manifest }) => manifest.epoch))
  })

  const { generation } = first.manifest
  const longer = made(first, { expires: 2 ** 40 })
  const ofPieces = (epochs: number) => epochs * first.bytes.length
  test.each<[string, Agreed, readonly Agreed[], { most?: number; ms?: number; asked: number }]>([
    [
      'with more partitions than that has',
      chainOf(first, 30).at(-1)!,
      chainOf(first, 29, { partitions: 2 ** 15 }),
      { asked: 1 },
    ],
    [
      'in a later generation than that',
      chainOf(first, 30).at(-1)!,
      chainOf(first, 29, { generation: generation + 1 }),
      { asked: 1 },
    ],
    ['beyond that', chainOf(first, 5).at(-1)!, [first, ...chainOf(longer, 40)], { most: ofPieces(3), asked: 1 }],
    [
      'that comes an epoch at a time',
      chainOf(longer, 400).at(-1)!,
      chainOf(first, 400),
      { most: ofPieces(2), asked: 1 },
    ],
    [
      'of pieces that are held back',
      chainOf(longer, 3000).at(-1)!,
      chainOf(first, 3000),
      { most: ofPieces(64), ms: 9000, asked: 4 },
    ],
  ])(
    'a chain to another epoch than the newest is not read on, %s',
    async (_what, newest, chain, { most, ms, asked }) => {
      const { after, chains, clock } = following(chain, newest, most, ms)
      await expect(after(first)).rejects.toMatchObject({ name: 'OutdatedError', reason: 'history' })
      expect(chains()).toBeLessThanOrEqual(asked)
      expect(clock.now()).toBeLessThan(60_000)
    },
  )

  test.each<[string, Agreed, readonly Agreed[]]>([
    ['with more partitions than the newest', chainOf(first, 5).at(-1)!, chainOf(first, 3, { partitions: 2 ** 15 })],
    [
      'in a later generation than the newest',
      chainOf(first, 5).at(-1)!,
      chainOf(first, 3, { partitions: 2 ** 15, generation: generation + 1 }),
    ],
    ['that ends beside the newest', chainOf(first, 3).at(-1)!, chainOf(first, 3, { partitions: 2 ** 15 })],
    [
      'that does not begin where the map is',
      chainOf(first, 5).at(-1)!,
      chainOf(made(first, { partitions: 2 ** 15 }), 2).slice(1),
    ],
  ])('a chain %s is dropped before it is hashed', async (_what, newest, chain) => {
    const { after, hashed } = following(chain, newest)
    await expect(after(first)).rejects.toMatchObject({ name: 'OutdatedError', reason: 'history' })
    expect(hashed()).toBeLessThan(2 * MIB) // one of these manifests
  })

  /** Says that it has forgotten all but the newest. */
  const forgetful = ({ manifest: { generation, epoch } }: Agreed) =>
    Response.json({ code: 'epoch_unknown', message: '', generation, epoch }, { status: 404 })

  test.each([
    ['bytes that drip', (clock: ManualClock) => drip(clock, '', 5_000)],
    ['whole pieces that are made up, each after nine seconds', (clock: ManualClock) => late(clock, '', 9_000)],
  ])('of %s the map waits for no more than twelve seconds', async (_what, fault) => {
    const chain = chainOf(first, 3_000)
    const newest = chainOf(made(first, { expires: 2 ** 40 }), 3_000).at(-1)!
    const clock = new ManualClock()
    const how = fault(clock)
    const fetch = async (url: string, init: RequestInit) => {
      if (url.startsWith(B)) return forgetful(newest)
      const path = url.slice(A.length)
      const piece = pieceOf(chain, Number(/since=(\d+)$/.exec(path)![1]), 64 * first.bytes.length)
      return await how({ path, url, init } as Seen, ok(Buffer.concat(piece)))!
    }
    const { after } = pathOf(clock, fetch, [A, B], newest)
    await expect(drive(clock, after(first))).rejects.toMatchObject({ name: 'OutdatedError', reason: 'history' })
    expect(clock.now()).toBeLessThanOrEqual(SLOW_MS + SILENCE_MS + 10)
  })

  test('a true one of whole pieces is followed, however many there are', async () => {
    const chain = chainOf(first, 1000)
    const { after, chains } = following(chain, chain.at(-1)!, 64 * first.bytes.length, 100)
    expect((await after(first)).length).toBe(1000)
    expect(chains()).toBe(16)
  })
})

describe('where some of five servers suffice', () => {
  test('a chain that one makes up, and gives epoch by epoch, keeps nobody from following the others', async () => {
    const chain = chainOf(first, 40)
    const newest = chain.at(-1)!
    const madeUp = [first, ...chainOf(made(first, { expires: 2 ** 40 }), 38)]
    const clock = new ManualClock()
    const fetch = async (url: string) => {
      const since = Number(/since=(\d+)$/.exec(url)![1])
      if (!url.startsWith('https://a.')) return ok(Buffer.concat(pieceOf(chain, since, 8 * MIB)))
      await clock.wait(9_000)
      return ok(Buffer.concat(pieceOf(madeUp, since, 2 * first.bytes.length)))
    }
    const names = [...'abcde'].map(letter => `https://${letter}.example`)
    const { after } = pathOf(clock, fetch, names, newest)
    const followed = await drive(clock, after(first))
    expect(followed.map(({ manifest }) => manifest.epoch)).toEqual(chain.slice(1).map(({ manifest }) => manifest.epoch))
    expect(clock.now()).toBeLessThan(3_000) // the next server is asked after two seconds, and what the chain takes on a slow line
  })
})

describe('behind a server’s events', () => {
  async function listening() {
    const living = livingKeyless()
    const { network } = living
    network.push = true
    const harness = new Harness(network)
    const map = await harness.open({ mode: 'local', storage: 'memory', push: true })
    await settle()
    const passed = async (ms: number) => {
      const end = harness.clock.now() + ms
      harness.clock.setTimeout(() => {}, ms)
      await until(harness.clock, () => harness.clock.now() >= end)
    }
    return { living, network, harness, map, passed }
  }

  test('a server that has a chain for everything it announces is heard ten times, then once an hour', async () => {
    const { living, network, harness, map, passed } = await listening()
    const chain = chainOf({ manifest: living.newest.manifest, bytes: living.newest.manifestBytes }, 20)
    const epochs = chain.slice(-2).map(({ manifest: { generation, epoch }, bytes }) => ({
      ...{ generation, epoch },
      manifest: toHex(core.blake3(bytes)),
    }))
    network.misbehave[A] = (seen, genuine) => {
      if (seen.path === '/v1/info') return Response.json({ ...network.info(A), epochs })
      if (seen.path.startsWith('/v1/manifests')) return ok(Buffer.concat(chain.map(({ bytes }) => bytes)))
      return genuine
    }
    let epoch = 2
    const tell = () => {
      for (const stream of network.streams)
        if (stream.server === A) stream.tell(encodeEvent({ ...living.newest.manifest, generation: 1, epoch }))
      epoch++
      harness.clock.setTimeout(tell, 10_000)
    }
    tell()
    const asked = (server: string) =>
      network.seen.filter(seen => seen.server === server && seen.path !== '/v1/events').length
    const before = [asked(A), asked(B)] as const
    await passed(3_500_000)
    // Each time what it shows, three times at most: the other might show the same in a moment.
    expect(asked(A) - before[0]).toBeGreaterThanOrEqual(9)
    expect(asked(A) - before[0], 'see isInVain in session/events.ts').toBeLessThanOrEqual(3 * 10)
    expect(asked(B) - before[1]).toBeLessThanOrEqual(3 * 10)
    await passed(4 * 3_600_000)
    expect(asked(A) - before[0]).toBeLessThanOrEqual(3 * 14)
    expect(map.epoch).toBe(1)

    network.misbehave[A] = undefined
    living.publish([{ op: 'edit', index: 3, value: new TextEncoder().encode('three') }])
    await passed(60_000)
    expect(map.epoch).toBe(2) // the other server has announced it
  })

  test.each([
    ['none', () => problem(404, 'not_found')],
    ['malformed', () => ok(new Uint8Array(3))],
  ])('a server whose replies are %s is asked once for many lines', async (_what, reply) => {
    const { living, network } = await listening()
    network.misbehave[A] = on('/v1/info', reply)
    const before = network.seen.length
    for (let epoch = 50; epoch < 250; epoch++) {
      for (const { server, tell } of network.streams) {
        if (server === A) tell(encodeEvent({ ...living.newest.manifest, epoch }))
      }
      await settle()
    }
    expect(network.seen.slice(before).map(({ server, path }) => [server, path])).toEqual([[A, '/v1/info']])
  })

  test('one reply that is none drops no other stream', async () => {
    const { living, network, map, passed } = await listening()
    network.misbehave[A] = on('/v1/info', () => problem(404, 'not_found'))
    living.publish([{ op: 'edit', index: 3, value: new TextEncoder().encode('three') }], [A])
    await passed(60_000)
    network.misbehave[A] = undefined
    network.publish(B, living.newest)
    await passed(60_000)
    expect(map.epoch).toBe(2)
  })
})

test('a reply with more manifests than it may have is refused before it is decoded: 8 MiB of small ones would hold the page up for seconds', async () => {
  const chain = chainOf(first, 65)
  const newest = made(chain.at(-1)!, { expires: 2 ** 40 })
  await expect(following(chain, newest, 8 * MIB, 0, [A]).after(first)).rejects.toMatchObject({
    code: 'protocol',
    server: A,
    message: expect.stringMatching(/at most 64 manifests/),
  })
  const { after, chains } = following(chain.slice(0, 65), newest)
  await expect(after(first)).rejects.toMatchObject({ name: 'OutdatedError', reason: 'history' })
  expect(chains()).toBe(2)
})
