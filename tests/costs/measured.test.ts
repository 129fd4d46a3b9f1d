// Computed costs equal measured ones, byte for byte: a plan against what the SDK and real servers exchange, hold and store.
// rust-core/core/tests/cost.rs checks the core's buffers, memory.test.ts the memory.

import type { KeyhushMap, Traffic } from '@keyhush/client'
import { type Environment, openWith, platformEnvironment } from '@keyhush/client/environment'
import {
  contentHash,
  decodeManifest,
  encodeManifest,
  encodeQuery,
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  type Manifest,
  partitionBytes,
  toHex,
  vectorBytes,
} from '@keyhush/protocol'
import { type Costs, type EntryProofs, loadCore, type Workload } from '@keyhush/wasm'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LyingProxy } from '../support/proxy.js'
import { type Data, distinctRecords, startPair } from '../support/servers.js'
import { answers, claimIn } from '../support/shapes.js'
import { sampled } from '../support/thorough.js'
import { MeasuringStore } from './measuring-store.js'

interface Database {
  readonly data: Data
  readonly workload: Workload
}

function keyless(records: number, valueBytes: number, partitions?: number): Database {
  return {
    data: {
      format: 'bin',
      content: Buffer.concat(distinctRecords(records, valueBytes)),
      recordBytes: valueBytes,
      partitions,
    },
    workload: { records, valueBytes, partitions },
  }
}

/** Values of `valueBytes`, or, in variable mode, of up to that. */
function keyed(records: number, valueBytes: number, variable: boolean): Database {
  const value = (i: number) => 'v'.repeat(variable ? i % (valueBytes + 1) : valueBytes)
  const lines = Array.from({ length: records }, (_, i) => `${keyOf(i)},${value(i)}\n`)
  return {
    data: { format: 'csv', content: `key,value\n${lines.join('')}` },
    workload: { records, valueBytes, keyed: true, variable },
  }
}

const keyOf = (i: number) => `key-${i}`

const databases: Record<string, Database> = {
  'keyless records': keyless(1000, 8),
  'one record': keyless(1, 32),
  'a last partition that is not full': keyless(1003, 7),
  'partitions of several content groups': keyless(70_000, 8),
  'many partitions': keyless(1000, 5, 200),
  'a partition for each record': keyless(64, 100, 64),
  'one partition': keyless(300, 16, 1),
  'keys and values of one length': keyed(400, 20, false),
  'keys and values of many lengths': keyed(3000, 11, true),
  'one key': keyed(1, 3, false),
}

interface Client {
  readonly map: KeyhushMap
  readonly store: MeasuringStore
  readonly manifest: Manifest
  /** of what servers show and offer, which is not planned */
  readonly saidBytes: number
  readonly urls: readonly string[]
  /** resolves when all lookups are stored and the work after them is done */
  readonly idle: () => Promise<void>
  /** bytes at each server since the last call */
  readonly passedEach: () => Passed[]
  /** bytes at both servers together since the last call, if they have no fence */
  readonly passed: () => Omit<Passed, 'fence'>
}

/** Lengths of bodies. */
interface Passed {
  /** of queries */
  readonly up: number
  /** of answers */
  readonly down: number
  /** of the claims behind queries, and of the verdicts behind their answers */
  readonly fence: { readonly up: number; readonly down: number }
  /** of offline replies */
  readonly offline: number
}

/** A client with a durable store, whose traffic goes through recorders, on two real servers. */
async function openMeasured(data: Data, proofs: EntryProofs, kind: { living?: boolean } = {}): Promise<Client> {
  const servers = await startPair(data, kind)
  onTestFinished(servers.close)
  const proxies = [await LyingProxy.start(servers.urls[0]), await LyingProxy.start(servers.urls[1])] as const
  for (const proxy of proxies) onTestFinished(() => proxy.close())
  const store = new MeasuringStore()
  const platform = platformEnvironment()
  let unlocked: Promise<unknown> = Promise.resolve()
  const environment: Environment = {
    ...platform,
    openStore: async () => ({ store, storage: 'persistent' }),
    locks: {
      ...platform.locks,
      hold(...parameters) {
        const held = platform.locks.hold(...parameters)
        unlocked = held.catch(() => {})
        return held
      },
    },
  }
  const map = await openWith(environment, { servers: [proxies[0].url, proxies[1].url], mode: 'full', proofs })
  onTestFinished(() => map.close())

  const total = (lengths: readonly number[]) => lengths.reduce((sum, length) => sum + length, 0)
  const passedEach = () =>
    proxies.map(({ seen }): Passed => {
      // Requests to a fence alone do not count as lookups; a server without a fence says so once.
      const all = seen.splice(0).filter(({ path }) => path !== '/v1/fence')
      const queries = answers(all)
      const claims = queries.filter(query => claimIn(query) !== undefined).length
      const fence = { up: claims * FENCE_REQUEST_BYTES, down: claims * FENCE_REPLY_BYTES }
      return {
        up: total(all.map(({ body }) => body.length)) - fence.up,
        down: total(queries.map(({ reply }) => reply!.body.length)) - fence.down,
        fence,
        offline: total(
          all
            .filter(each => !queries.includes(each) && each.path !== '/v1/info')
            .map(({ reply }) => reply!.body.length),
        ),
      }
    })
  const manifest = proxies[0].seen.find(({ path }) => path === '/v1/manifest')!.reply!.body
  const said = proxies.flatMap(({ seen }) => seen.filter(({ path }) => path === '/v1/info'))
  return {
    map,
    store,
    manifest: decodeManifest(manifest),
    saidBytes: total(said.map(({ reply }) => reply!.body.length)),
    idle: async () => void (await unlocked),
    urls: proxies.map(({ url }) => url),
    passedEach,
    passed() {
      const each = passedEach()
      for (const { fence } of each) expect(fence).toEqual({ up: 0, down: 0 })
      const sum = (part: 'up' | 'down' | 'offline') => total(each.map(passed => passed[part]))
      return { up: sum('up'), down: sum('down'), offline: sum('offline') }
    },
  }
}

const since = (before: Traffic, now: Traffic) => ({
  up: now.bytesUp - before.bytesUp,
  down: now.bytesDown - before.bytesDown,
})

const core = await loadCore()
const kinds: readonly EntryProofs[] = ['merkle', 'tags']

describe.each(kinds)('%s', kind => {
  const costsOf = (workload: Workload): Costs => core.plan(workload)[kind]

  test.each(sampled(Object.entries(databases), 2))('%s', async (_, { data, workload }) => {
    const client = await openMeasured(data, kind)
    const { map, manifest, store, saidBytes } = client
    const costs = costsOf(workload)

    expect(manifest).toMatchObject(core.plan(workload).layout)
    expect(encodeManifest(manifest).length).toBe(costs.manifestBytes)
    // The length of a directory depends on the keys; the plan has the expected one.
    const off = Math.abs(manifest.directoryBytes - costs.directoryBytes)
    expect(off).toBeLessThanOrEqual(manifest.keyed ? costs.directoryBytes * 0.04 : 0)
    const { partitions } = manifest
    const distinct = new Set(Array.from({ length: partitions }, (_, q) => toHex(contentHash(manifest, q)))).size
    const repeatedBytes = (partitions - distinct) * partitionBytes(manifest)
    const offlineBytes = costs.offlineBytes - costs.directoryBytes + manifest.directoryBytes - repeatedBytes
    expect(client.passed()).toEqual({ up: 0, down: 0, offline: offlineBytes })
    expect(map.stats.servers.map(({ offline }) => offline.bytesDown).reduce((a, b) => a + b)).toBe(
      offlineBytes + saidBytes,
    )

    expect(map.stats).toMatchObject({
      held: { parities: costs.hintBytes, permutations: costs.permutationBytes, tags: costs.tagBytes },
    })

    const stored = { checkpoint: [costs.checkpointBytes], pending: [] as number[], effect: [] as number[] }
    for (const queries of manifest.keyed ? [1, 8] : [1]) {
      const { lookupBytesUp: up, lookupBytesDown: down, pendingBytes, effectBytes } = costsOf({ ...workload, queries })
      if (manifest.keyed) await map.getMany([keyOf(0)], { padTo: queries })
      else await map.at(0)
      expect(client.passed()).toEqual({ up, down, offline: 0 })
      expect(map.stats.lastLookup).toMatchObject({ bytesUp: up, bytesDown: down })
      stored.pending.push(pendingBytes)
      stored.effect.push(effectBytes)
    }
    await map.close()
    expect(store.lengths).toEqual(stored)

    // The SDK asks for indices one by one; another client may ask for several at once.
    const queries = 8
    const query = encodeQuery(manifest, queries, new Uint8Array(vectorBytes(manifest, queries)), kind)
    await Promise.all(client.urls.map(url => fetch(`${url}/v1/answer`, { method: 'POST', body: query })))
    const { lookupBytesUp: up, lookupBytesDown: down } = costsOf({ ...workload, queries })
    expect(client.passed()).toEqual({ up, down, offline: 0 })
  })

  test.each(['keyless records', 'keys and values of many lengths'])(
    'with a fence, costs are as planned: %s',
    async name => {
      const { data, workload } = databases[name]!
      const { map, manifest, passedEach, urls } = await openMeasured(data, kind, { living: true })
      const counters = () => urls.map(url => map.stats.servers.find(({ server }) => server === url)!)
      const lookUp = async (queries: number) => {
        if (manifest.keyed) await map.getMany([keyOf(0)], { padTo: queries })
        else await map.at(0)
      }
      await lookUp(1) // with whatever a new hint is registered and confirmed by
      passedEach()
      for (const queries of manifest.keyed ? [1, 8] : [1]) {
        const before = counters()
        await lookUp(queries)
        const costs = costsOf({ ...workload, queries, changesPerDay: 1 })
        const [up, down] = [costs.lookupBytesUp / 2, costs.lookupBytesDown / 2]
        const fence = { up: costs.fenceBytesUp, down: costs.fenceBytesDown }
        expect(fence).toEqual({ up: 80, down: 8 })
        const each = passedEach()
        const refresh = each.findIndex(passed => passed.fence.up > 0)
        const fenceOf = (s: number) => (s === refresh ? fence : { up: 0, down: 0 })
        expect([0, 1]).toContain(refresh)
        expect(each).toEqual([0, 1].map(s => ({ up, down, fence: fenceOf(s), offline: 0 })))
        expect(map.stats.lastLookup).toMatchObject({ bytesUp: 2 * up, bytesDown: 2 * down })
        const counted = counters().map(({ lookups, fence }, s) => ({
          lookups: since(before[s]!.lookups, lookups),
          fence: since(before[s]!.fence, fence),
        }))
        expect(counted).toEqual([0, 1].map(s => ({ lookups: { up, down }, fence: fenceOf(s) })))
      }
    },
  )

  test('a journal does not grow beyond the planned length, if there are pauses', async () => {
    // With tags large enough that the least journal does not decide, and they count.
    const { data, workload } = keyed(kind === 'tags' ? 200_000 : 20_000, 4, false)
    const { map, store, idle } = await openMeasured(data, kind)
    const queries = 64
    const { journalBytes, effectBytes, checkpointBytes } = costsOf({ ...workload, queries })
    while (store.lengths.checkpoint.length < 3) {
      await map.getMany([], { padTo: queries })
      await idle()
    }
    expect(store.lengths.checkpoint).toEqual([checkpointBytes, checkpointBytes, checkpointBytes])
    expect(store.longestJournal).toBeLessThanOrEqual(journalBytes)
    expect(store.longestJournal).toBeGreaterThan(journalBytes - 2 * effectBytes)
  })
})
