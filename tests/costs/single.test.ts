// What hints for one server cost, byte for byte: the formulas of docs/costs.md against what the SDK and a real server exchange,
// hold and store.

import { openWith, platformEnvironment } from '@keyhush/client/environment'
import { decodeManifest, HEADER_BYTES } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { blocksOf } from '../interop/reference/layout.js'
import { geometryOf } from '../interop/reference/single.js'
import { LyingProxy } from '../support/proxy.js'
import { type Data, distinctRecords, startPair } from '../support/servers.js'
import { MeasuringStore } from './measuring-store.js'

const LOOKUPS = 100
/** Cutoffs are of whole groups of ids. */
const GROUP = 128

const keyed = Array.from({ length: 900 }, (_, i) => `key-${i},${'v'.repeat(20)}\n`)
const databases: Record<string, Data> = {
  records: { format: 'bin', content: Buffer.concat(distinctRecords(3000, 9)), recordBytes: 9, partitions: 7 },
  'keys and values': { format: 'csv', content: `key,value\n${keyed.join('')}` },
}

test.each(Object.entries(databases))('%s', async (_, data) => {
  const servers = await startPair(data)
  onTestFinished(servers.close)
  const proxy = await LyingProxy.start(servers.urls[0])
  onTestFinished(() => proxy.close())
  const store = new MeasuringStore()
  const environment = { ...platformEnvironment(), openStore: async () => ({ store, storage: 'persistent' as const }) }
  const options = { mode: 'single', integrity: 'server', lookups: LOOKUPS, push: false } as const
  const map = await openWith(environment, { servers: [proxy.url], ...options })
  onTestFinished(() => map.close())

  const manifest = decodeManifest(proxy.seen.find(({ path }) => path === '/v1/manifest')!.reply!.body)
  const { stripes: q, stripeRecords: s, hints } = geometryOf(manifest)
  const { partitions, partitionRecords, recordBytes } = blocksOf(manifest)
  const slots = partitions * partitionRecords
  const [server] = map.stats.servers
  const infos = proxy.seen.filter(({ path }) => path === '/v1/info')
  const said = infos.reduce((sum, { reply }) => sum + reply!.body.length, 0)
  expect(server!.offline.bytesDown - said).toBe(
    224 + 64 * partitions + manifest.directoryBytes + partitions * manifest.partitionRecords * manifest.recordBytes,
  )

  const { held } = map.stats
  expect(held['tags']).toBe(8 * q * s)
  const parities = hints * recordBytes + 2 * recordBytes * LOOKUPS
  const ids = (held['hints']! - parities - 16 * hints - 4 * LOOKUPS) / 6
  expect(ids % GROUP).toBe(0)
  expect(ids).toBeGreaterThanOrEqual(hints + LOOKUPS)
  expect(ids).toBeLessThan(1.1 * (hints + LOOKUPS) + GROUP)
  const stored = {
    checkpoint: [188 + 2 * ids + 12 * hints + parities + 8 * slots],
    pending: [] as number[],
    effect: [] as number[],
  }

  for (const queries of manifest.keyed ? [1, 5] : [1]) {
    if (manifest.keyed) await map.getMany(['key-0'], { padTo: queries })
    else await map.at(0)
    const query = Math.ceil(q / 8) + 2 * q
    expect(map.stats.lastLookup).toMatchObject({
      bytesUp: HEADER_BYTES + queries * query,
      bytesDown: HEADER_BYTES + queries * 2 * recordBytes,
    })
    stored.pending.push(100 + queries * (13 + query))
    stored.effect.push(68 + queries * (20 + recordBytes))
  }
  await map.close()
  expect(store.lengths).toEqual(stored)
})
