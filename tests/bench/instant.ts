// Instant lookups at the server, by which a whole database is read for every lookup: what goes over the wire, how long a
// server takes, alone and with others, what that does to the other kind of lookup, and what more threads cost in memory.
// Requests are those of real clients; every reply is compared with the one that the client has verified.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { encodeInstantQuery, HEADER_BYTES } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { bodyBytes, type Load, putUnderLoad, type RecordedLookup, recordLookups, repliesAsBefore } from './load.js'
import { type Options, target } from './options.js'
import { power } from './plot.js'
import { type Figure, quantile, type Section } from './report.js'
import { newestManifest, type Pair, peakBytes, processorMs, pseudorandomBytes, Stage, under } from './stage.js'

const LARGE = 2 ** 24
const RECORDED = 64
const IN_FLIGHT = 8
const LOAD_SECONDS = 2
const MANY_WORKERS = 4
/** Requests that are under way all the time, each with as many queries: more than may wait. */
const FLOOD = { requests: 6, queries: 64, pauseMs: 50 } as const

const named = (records: number) => `N = ${power(records)}`

export async function instant(options: Options): Promise<Section[]> {
  const { records, recordBytes } = options.shape
  const figures = await measureSize(options, records, recordBytes)
  const large = options.all && records !== LARGE ? await measureSize(options, LARGE, recordBytes) : []
  return [{ title: 'Instant lookups', figures: [...figures, ...large] }]
}

async function measureSize(options: Options, records: number, recordBytes: number): Promise<Figure[]> {
  console.log(`instant: N = ${records}`)
  return await Stage.with(async stage => {
    const dataset = await stage.dataset(pseudorandomBytes(records * recordBytes), { records, recordBytes })
    const pair = await stage.pair(() => ['--dataset', dataset, '--instant', '1'])
    const urls = under(pair)
    const recorded = await recordLookups({ servers: urls, mode: 'instant', storage: 'memory' }, RECORDED)
    const load = repliesAsBefore(recorded, urls[0])
    const alone: number[] = []
    const together: number[] = []
    const processor: number[] = []
    for (let run = 0; run < options.repeats; run++) {
      alone.push(...(await putUnderLoad(load, 1, LOAD_SECONDS)).latencyMs)
      const before = await processorMs(pair[0].pid)
      const { perSecond, answered } = await putUnderLoad(load, IN_FLIGHT, LOAD_SECONDS)
      together.push(1000 / perSecond)
      const after = await processorMs(pair[0].pid)
      if (before !== undefined && after !== undefined) processor.push((after - before) / answered)
    }
    const judgedLarge = records === LARGE && recordBytes === 32
    const column = named(records)
    const figures: Figure[] = [
      {
        ...{ name: 'lookup, bodies', column, unit: 'kB' },
        target: target(options, '≤', 2),
        samples: recorded.map(bodyBytes).map(bytes => bytes / 1000),
      },
      {
        ...{ name: 'server, one lookup at a time', column, unit: 'ms' },
        target: judgedLarge ? ['≤', 120] : target(options, '≤', 7),
        samples: alone,
      },
      {
        ...{ name: `server, ${IN_FLIGHT} in flight`, column, unit: 'ms' },
        target: judgedLarge ? undefined : target(options, '≤', 2),
        samples: together,
      },
      { name: '– processor time', column, unit: 'ms', samples: processor },
    ]
    if (records !== options.shape.records) return figures
    figures.push(
      ...(await withThree(options, [...urls, (await stage.serve('--dataset', dataset, '--instant', '1')).url], load)),
      ...(await besideOthers(options, pair, recorded)),
      await memoryOfWorkers(options, stage, dataset, recorded),
    )
    return figures
  })
}

/** Lookups with three servers, at the first of them, in turn with those of two. */
async function withThree(options: Options, servers: readonly string[], two: Load): Promise<Figure[]> {
  const recorded = await recordLookups({ servers, mode: 'instant', storage: 'memory' }, RECORDED)
  const three = repliesAsBefore(recorded, servers[0]!)
  const alone: number[] = []
  const together: number[] = []
  for (let run = 0; run < options.repeats; run++) {
    const median = async (load: Load) => quantile((await putUnderLoad(load, 1, LOAD_SECONDS)).latencyMs, 0.5)
    const perSecond = async (load: Load) => (await putUnderLoad(load, IN_FLIGHT, LOAD_SECONDS)).perSecond
    alone.push((await median(three)) / (await median(two)))
    together.push((await perSecond(two)) / (await perSecond(three)))
  }
  const judged = target(options, '≤', 1.2) // fewer nodes of trees, but longer rows
  const bytes = recorded.map(bodyBytes).map(bytes => bytes / 1000)
  const column = `${named(options.shape.records)}, three servers`
  return [
    { name: 'lookup, bodies', column, unit: 'kB', target: target(options, '≤', 8.7), samples: bytes },
    { name: 'server, one lookup at a time', column, unit: '× of two', target: judged, samples: alone },
    { name: `server, ${IN_FLIGHT} in flight`, column, unit: '× of two', target: judged, samples: together },
    { name: 'client', column, unit: 'ms', target: target(options, '≤', 3), samples: await clientMs(servers) },
  ]
}

/** In WebAssembly, without the wait: requests made, and answers verified. */
async function clientMs(servers: readonly string[]): Promise<number[]> {
  const { partitions, partitionRecords, recordBytes, records, commitments } = await newestManifest(servers[0]!)
  const core = await loadCore()
  const layout = core.layout(records, recordBytes, partitions, partitionRecords)
  const answerBytes = layout.instantSizes(servers.length)[2]!
  return Array.from({ length: RECORDED }, (_, i) => {
    const start = performance.now()
    const query = core.newInstantQuery(layout, Uint32Array.of(i), randomBytes(32), servers.length)
    for (const server of servers.keys()) query.request(server)
    query.recon(commitments, new Uint8Array(servers.length * answerBytes))
    query.free()
    return performance.now() - start
  })
}

/** Lookups with hints, alone and while as many instant ones wait as may. */
async function besideOthers(options: Options, pair: Pair, recorded: readonly RecordedLookup[]): Promise<Figure[]> {
  const urls = under(pair)
  const hinted = await recordLookups({ servers: urls, mode: 'full', proofs: 'tags', storage: 'memory' }, RECORDED)
  const load = repliesAsBefore(hinted, urls[0])
  const p99 = async () => quantile((await putUnderLoad(load, 1, LOAD_SECONDS)).latencyMs, 0.99)
  const runs: { readonly without: number; readonly within: number }[] = []
  for (let run = 0; run < options.repeats; run++) {
    const without = await p99()
    runs.push({ without, within: await whileFlooded(urls[0], recorded, p99) })
  }
  const column = named(options.shape.records)
  return [
    { name: 'lookup with tags, p99', column, unit: 'ms', samples: runs.map(({ without }) => without) },
    { name: '– while the queue is full', column, unit: 'ms', samples: runs.map(({ within }) => within) },
    {
      ...{ name: '– ratio within a run', column, unit: '×' },
      target: target(options, '≤', 3),
      samples: runs.map(({ without, within }) => within / without),
    },
  ]
}

/** A server's most memory, when all of its threads have been at work. */
async function memoryOfWorkers(
  options: Options,
  stage: Stage,
  dataset: string,
  recorded: readonly RecordedLookup[],
): Promise<Figure> {
  const peaks = async (workers: number) => {
    const server = await stage.serve('--dataset', dataset, '--instant', `${workers}`)
    await whileFlooded(server.url, recorded, () => new Promise(resolve => setTimeout(resolve, 500 * LOAD_SECONDS)))
    const bytes = await peakBytes(server.pid)
    await server.stop()
    return bytes
  }
  const ratios: number[] = []
  for (let run = 0; run < Math.min(3, options.repeats); run++) {
    const [one, many] = [await peaks(1), await peaks(MANY_WORKERS)]
    if (one !== undefined && many !== undefined) ratios.push(many / one)
  }
  const name = `memory, ${MANY_WORKERS} threads to one`
  return { name, column: named(options.shape.records), unit: '×', target: target(options, '≤', 1.3), samples: ratios }
}

/** Runs `work` while as many instant lookups wait at this server as may. Throws if they never did. */
async function whileFlooded<T>(
  server: string,
  recorded: readonly RecordedLookup[],
  work: () => Promise<T>,
): Promise<T> {
  const manifest = await newestManifest(server)
  const one = recorded[0]![0]!.body.subarray(HEADER_BYTES)
  const queries = Buffer.concat(Array<Uint8Array>(FLOOD.queries).fill(one))
  const body = encodeInstantQuery(manifest, 'records', FLOOD.queries, queries)
  const workerData = { url: `${server}/v1/instant`, body, ...FLOOD }
  const flood = new Worker(new URL('flood.mjs', import.meta.url), { workerData })
  const ended = once(flood, 'exit')
  try {
    await once(flood, 'message') // some are refused, so there is no room
    return await work()
  } finally {
    flood.postMessage('over')
    await ended
  }
}
