// Lookups in a sharded database: a client reads several databases as one, behind a coordinator at each operator.

import { decodeInstantQuery, HEADER_BYTES, INSTANT_PATH, toHex } from '@keyhush/protocol'
import { scriptCore } from '@keyhush/wasm/script'
import { describe, expect, test } from 'vitest'
import { estimate } from '../src/index.js'
import type { OpenWithOptions } from '../src/testing.js'
import { someValues } from './support/database.js'
import { core, Harness, refusedBy } from './support/harness.js'
import { among, lying, Network, SERVERS, type Seen } from './support/network.js'
import { buildSharded } from './support/sharded.js'

const KEYS = Array.from({ length: 60 }, (_, i) => `name-${i}.example`)
const VALUES = someValues(KEYS.length, 16)
const values = new Map(KEYS.map((key, i) => [key, VALUES[i]!]))
const database = buildSharded(core, { values })
const { records, shards, partitions } = database.manifest
const each = records / shards
/** of each shard, a key that is there */
const ofEachShard = Array.from(
  { length: shards },
  (_, s) => KEYS.find(key => Math.floor(database.indexOf(key) / each) === s)!,
)

async function opened(network: Network, count = 2, options: Partial<OpenWithOptions> = {}, change = {}) {
  network.blobs = false // as coordinators have it
  network.fence = false
  network.single = false
  const harness = new Harness(network, 1, change)
  const map = await harness.open({ servers: SERVERS.slice(0, count), mode: 'instant', push: false, ...options })
  return { harness, map, network, drive: harness.drive }
}

const [ONE, TWO] = SERVERS as [string, string]
const asked = ({ seen }: Network): Seen[] => seen.filter(({ path }) => path === INSTANT_PATH)

describe.each([2, 3, 5])('with %i operators', count => {
  test('keys of every shard and indices are found, after 288 bytes of manifest', async () => {
    const { map, drive, network } = await opened(among(count, database), count)
    expect(network.seen.map(({ path }) => path).sort()).toEqual(
      ['/v1/info', '/v1/manifest'].flatMap(path => Array(count).fill(path)),
    )
    expect([map.mode, map.size, database.manifestBytes.length]).toEqual(['instant', records, 288])
    for (const key of ofEachShard) expect(await drive(map.get(key))).toEqual(values.get(key))
    expect(await drive(map.get('absent.example'))).toBeUndefined()
    expect(await drive(map.has('absent.example'))).toBe(false)
    const keys = [KEYS[7]!, 'absent.example', KEYS[50]!]
    expect(await drive(map.getMany(keys, { padTo: 5 }))).toEqual([VALUES[7], undefined, VALUES[50]])
    for (const index of [0, database.indexOf(KEYS[9]!), records - 1]) {
      expect(await drive(map.at(index))).toEqual(database.byIndex[index])
    }
    const queries = asked(network).map(({ body }) => decodeInstantQuery(body))
    expect(queries.every(query => query.partitions === partitions && query.groupLog === undefined)).toBe(true)
  })

  test('a changed bit of any part of an answer is refused, and nobody is named', async () => {
    const { harness, map, drive, network } = await opened(among(count, database), count)
    const key = ofEachShard[1]!
    await drive(map.get(key))
    const lengths = network.seen.filter(({ path }) => path === INSTANT_PATH).length
    expect(lengths).toBe(2 * count)
    for (let step = 0; step < 40; step++) {
      // From the end on: the upper siblings of records, and of directories.
      lying(network, SERVERS[count - 1]!, answer => {
        const at = answer.length - 1 - ((13 * step) % (answer.length - HEADER_BYTES))
        answer[at]! ^= 1 << (step % 8)
      })
      const error = await harness.failure(map.get(key))
      expect([error.name, error.server], `step ${step}`).toEqual(['TamperedError', undefined])
    }
    network.misbehave[SERVERS[count - 1]!] = undefined
    expect(await drive(map.get(key))).toEqual(values.get(key))
  })
})

test('present and absent keys of every shard look alike to each operator', async () => {
  const views = []
  for (const key of [...ofEachShard, 'absent.example', 'another.example']) {
    const { map, drive, network } = await opened(among(2, database))
    await drive(map.get(key))
    const head = (body: Uint8Array) => toHex(body.subarray(0, HEADER_BYTES))
    views.push(asked(network).map(({ server, url, body }) => `${server} ${url} ${body.length} ${head(body)}`))
  }
  for (const view of views) expect(view).toEqual(views[0])
})

test('an operator whose shards stand in another order, or have another epoch, is refused', async () => {
  const other = buildSharded(core, { values: new Map(KEYS.map((key, i) => [key, VALUES[(i + 1) % 60]!])) })
  for (const false_ of [database.exchanged(), { ...database, answerInstantly: other.answerInstantly }]) {
    const { harness, map } = await opened(new Network({ [ONE]: [database], [TWO]: [false_] }))
    for (const key of [...ofEachShard, 'absent.example']) {
      expect((await harness.failure(map.get(key))).name).toBe('TamperedError')
    }
  }
})

test('without WebAssembly the same is found', async () => {
  const { map, drive } = await opened(among(2, database), 2, {}, { loadCore: async () => scriptCore })
  for (const key of ofEachShard) expect(await drive(map.get(key))).toEqual(values.get(key))
  expect(await drive(map.get('absent.example'))).toBeUndefined()
  expect(await drive(map.at(records - 1))).toEqual(database.byIndex[records - 1])
})

test('a map moves to the next epoch', async () => {
  const changed = new Map([...values, [KEYS[0]!, VALUES[1]!]])
  const hash = new Uint8Array(32).fill(2)
  const change = { epoch: 2, previousManifest: core.blake3(database.manifestBytes), updateListHash: hash }
  const next = buildSharded(core, { values: changed, manifest: { ...change, updateListBytes: 32 * shards } })
  const network = among(2, database)
  const { map, drive } = await opened(network)
  expect(await drive(map.get(KEYS[0]!))).toEqual(VALUES[0])
  for (const server of [ONE, TWO]) network.publish(server, next)
  await drive(map.sync())
  expect(await drive(map.get(KEYS[0]!))).toEqual(VALUES[1])
})

test('a lookup costs what estimate() says', async () => {
  for (const count of [2, 3]) {
    const { map, drive, network } = await opened(among(count, database), count)
    await drive(map.get(KEYS[3]!))
    const told = await estimate(SERVERS.slice(0, count), { fetch: network.fetch })
    const { lookupBytesUp, lookupBytesDown } = told.modes.instant!
    expect(map.stats.lastLookup).toMatchObject({ bytesUp: lookupBytesUp, bytesDown: lookupBytesDown })
    expect(told).toMatchObject({ records, mode: 'instant', download: 'instant', directoryBytes: 0 })
    expect([Object.keys(told.modes), told.paysAfter]).toEqual([['instant'], undefined])
  }
})

describe('what needs the whole database is refused', () => {
  test.each<[string, Partial<OpenWithOptions>, RegExp]>([
    ['full', { mode: 'full' }, /mode 'full'/],
    ['full with tags', { mode: 'full', proofs: 'tags' }, /mode 'full'/],
    ['local', { mode: 'local' }, /mode 'local'/],
    ['single', { mode: 'single', collusion: 'tolerated' }, /mode 'single'/],
  ])('mode %s', async (_, asked, message) => {
    const options = { servers: [ONE, TWO], ...asked }
    const network = among(2, database)
    Object.assign(network, { blobs: false, fence: false, single: false })
    const error = await refusedBy({ network }, options)
    expect([error.name, error.code]).toEqual(['UnsupportedError', 'unsupported'])
    expect(error.message).toMatch(message)
    // Also where servers say that they offer it.
    const error2 = await refusedBy({ network: among(2, database) }, options)
    expect([error2.name, error2.message]).toEqual(['UnsupportedError', expect.stringContaining('sharded')])
  })

  test('a single server, and watching', async () => {
    const error = await refusedBy({ network: among(1, database) }, { mode: 'instant', servers: [ONE] })
    expect(error.message).toMatch(/one server|servers/)
    const { harness, map } = await opened(among(2, database))
    expect((await harness.failure(map.watch(KEYS[0]!, () => {}))).message).toMatch(/lists of changes/)
  })

  test('mode auto looks up instantly, and downloads nothing, however long it goes on', async () => {
    for (const isOffered of [false, true]) {
      const network = among(2, database)
      const { map, drive } = await opened(network, 2, { mode: 'auto' })
      network.blobs = isOffered
      for (let i = 0; i < 60; i++) expect(await drive(map.get(KEYS[i]!))).toEqual(VALUES[i])
      expect(map.mode).toBe('instant')
      expect(new Set(network.seen.map(({ path }) => path))).toEqual(new Set(['/v1/info', '/v1/manifest', INSTANT_PATH]))
    }
  })
})

test('a malformed manifest is refused with the name of who sent it', async () => {
  const malformed = { ...database, manifestBytes: database.manifestBytes.map((byte, i) => (i === 256 ? 3 : byte)) }
  const error = await refusedBy({ network: among(2, malformed) }, { mode: 'instant', servers: [ONE, TWO] })
  expect(error.name).toBe('ProtocolError')
  expect(error.message).toMatch(/suite 11/)
})
