// The papers' tables for this implementation: TAPIR, Table 1 and Fig. 9, at N = 2^16 … 2^24, SinglePass, Table 2, at
// N = 3 000 000, records of 32 bytes, batches of 500; at the planned Q and at the papers' Q = √N, with both kinds of proof;
// computing alone in WebAssembly, and whole, on two server processes, from Chromium.

import type { EntryProofs } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { discardInstance } from '@keyhush/wasm/instance'
import { CHANGES, type Change, ComputeBench, PROOFS } from './compute.js'
import type { Options } from './options.js'
import { type Measured, measureMaps, measurePlain } from './page.js'
import { check, newestManifest, partitionUrls, peakBytes, pseudorandomBytes, Stage, under } from './stage.js'

const RECORD_BYTES = 32
const BATCH = 500
/** SinglePass, Table 2 */
export const TABLE_2_RECORDS = 3_000_000

const REPEATS = 3
const WARM_UP_LOOKUPS = 10
const LOOKUPS = 40

/** Which Q: the planner's, or the papers'. */
export const LAYOUTS = ['planned', 'root'] as const
export type LayoutKind = (typeof LAYOUTS)[number]

/** What is measured of one kind of proof. Seconds or bytes. */
const QUANTITIES = [
  'offlineComputing',
  'offlineChromium',
  'lookupComputing',
  'lookupClient',
  'lookupChromium',
  'lookupBytes',
  'state',
  'tabMemory',
] as const
export type Quantity = (typeof QUANTITIES)[number]

/** What is measured at one N. */
export interface SizeFigures {
  readonly records: number
  readonly layouts: Record<LayoutKind, LayoutFigures>
  /** seconds; bytes */
  readonly plain: { readonly record: readonly number[]; readonly everything: readonly number[] }
}

export interface LayoutFigures {
  readonly partitions: number
  /** seconds */
  readonly digests: readonly number[]
  /** bytes, of one server process that offers both kinds */
  readonly serverMemory: readonly number[]
  readonly proofs: Record<EntryProofs, Record<Quantity, readonly number[]>>
  readonly updates: Record<Change, UpdateFigures>
}

/** A batch of 500, for each of them: seconds. */
export interface UpdateFigures {
  readonly server: readonly number[]
  readonly client: Record<EntryProofs, readonly number[]>
}

export async function sweep(options: Options): Promise<SizeFigures[]> {
  const sizes: SizeFigures[] = []
  for (const records of options.sizes) sizes.push(await measureSize(records))
  return sizes
}

async function measureSize(records: number): Promise<SizeFigures> {
  const data = pseudorandomBytes(records * RECORD_BYTES)
  const start = performance.now()
  process.stdout.write(`papers: N = ${records} …`)
  const layouts: Partial<Record<LayoutKind, LayoutFigures>> = {}
  let plain: SizeFigures['plain'] | undefined
  for (const kind of LAYOUTS) {
    const partitions = kind === 'planned' ? undefined : Math.round(Math.sqrt(records))
    const computed = await compute(data, partitions)
    const whole = await measureWhole(data, records, partitions, kind === 'planned')
    plain ??= whole.plain
    const proofs = Object.fromEntries(PROOFS.map(each => [each, { ...computed.proofs[each], ...whole.proofs[each] }]))
    layouts[kind] = {
      ...{ partitions: computed.partitions, digests: computed.digests, updates: computed.updates },
      serverMemory: whole.serverMemory,
      proofs: proofs as LayoutFigures['proofs'],
    }
    process.stdout.write(` Q = ${computed.partitions}, ${((performance.now() - start) / 1000).toFixed(0)} s …`)
  }
  console.log()
  return { records, layouts: layouts as SizeFigures['layouts'], plain: plain! }
}

type Computed = 'offlineComputing' | 'lookupComputing' | 'lookupClient' | 'state'

/** In WebAssembly, without network and store. Every record found is checked. */
async function compute(data: Buffer, wanted: number | undefined) {
  const core = await loadCore()
  const bench = new ComputeBench(core, data, RECORD_BYTES, wanted)
  const times = <T>(work: () => T) => Array.from({ length: REPEATS }, work)
  const { partitions } = bench.layout
  const digests = times(() => bench.digest() / 1000)
  const proofs = {} as Record<EntryProofs, Record<Computed, readonly number[]>>
  for (const each of PROOFS) {
    const offline = times(() => bench.offline(each) / 1000)
    const { all, client } = bench.lookups(each, LOOKUPS)
    proofs[each] = {
      offlineComputing: offline,
      lookupComputing: all.map(ms => ms / 1000),
      lookupClient: client.map(ms => ms / 1000),
      state: [bench.stateBytes(each)],
    }
  }
  const updates = {} as Record<Change, UpdateFigures>
  for (const change of CHANGES) {
    const { serverMs, client } = bench.updates(change, BATCH, REPEATS)
    const perChange = (times: readonly number[]) => times.map(ms => ms / 1000 / BATCH)
    updates[change] = {
      server: perChange(serverMs),
      client: { merkle: perChange(client.merkle.ms), tags: perChange(client.tags.ms) },
    }
  }
  bench.free()
  discardInstance(core)
  return { partitions, digests, proofs, updates }
}

/** On two server processes, from Chromium, with durable state, as apps have it. */
async function measureWhole(data: Buffer, records: number, partitions: number | undefined, withPlain: boolean) {
  return await Stage.with(async stage => {
    const dataset = await stage.dataset(data, { records, recordBytes: RECORD_BYTES, partitions })
    const servers = await stage.pair(() => ['--dataset', dataset])
    const urls = under(servers)
    const plainServer = withPlain ? await stage.servePlain(data, RECORD_BYTES) : undefined
    const page = () => stage.page([...servers, ...(plainServer === undefined ? [] : [plainServer])])
    const results = {} as Record<EntryProofs, { maps: Measured[]; tabs: number[] }>
    for (const proofs of PROOFS) {
      const found = { maps: [] as Measured[], tabs: [] as number[] }
      for (let run = 0; run < REPEATS; run++) {
        const tab = await page()
        const durable = [{ servers: urls, proofs, storage: 'required' } as const]
        found.maps.push(...(await tab.evaluate(measureMaps, durable, WARM_UP_LOOKUPS, LOOKUPS)))
        const tabBytes = await stage.peakTabBytes()
        if (tabBytes !== undefined) found.tabs.push(tabBytes)
        await tab.close()
      }
      for (const { samples } of found.maps) check(data, RECORD_BYTES, samples)
      results[proofs] = found
    }
    const serverMemory = await Promise.all(servers.map(({ pid }) => peakBytes(pid)))

    let plain: SizeFigures['plain'] | undefined
    if (plainServer !== undefined) {
      const tab = await page()
      const blobs = partitionUrls(urls[0], await newestManifest(urls[0]))
      const runs = []
      for (let run = 0; run < REPEATS; run++) {
        const found = await tab.evaluate(measurePlain, `${plainServer.url}/`, records, LOOKUPS, blobs)
        check(data, RECORD_BYTES, found.samples)
        if (found.everythingBytes < data.length) throw new Error('the download of everything is too short')
        runs.push(found)
      }
      plain = {
        record: runs.flatMap(({ recordMs }) => recordMs.map(ms => ms / 1000)),
        everything: runs.map(({ everythingMs }) => everythingMs / 1000),
      }
    }
    const proofs = Object.fromEntries(
      PROOFS.map(each => {
        const { maps, tabs } = results[each]
        const figures: Record<Exclude<Quantity, Computed>, readonly number[]> = {
          offlineChromium: maps.map(({ offlineMs }) => offlineMs / 1000),
          lookupChromium: maps.flatMap(({ lookupMs }) => lookupMs.map(ms => ms / 1000)),
          lookupBytes: maps.map(({ lookupBytes }) => lookupBytes),
          tabMemory: tabs,
        }
        return [each, figures]
      }),
    ) as Record<EntryProofs, Record<Exclude<Quantity, Computed>, readonly number[]>>
    return { proofs, plain, serverMemory: serverMemory.filter(bytes => bytes !== undefined) }
  })
}
