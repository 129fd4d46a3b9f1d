// `npm run bench -- capacity`: what one server process bears, and so what an operator needs.
//
//   npm run bench -- capacity [--sizes N,…]       records of 32 bytes; default: 2^16, 2^20 and 2^22
//                             [--pointproofs N]   the database that is proved for it, which takes 2 ms a record; default: 2^12
//                             [--seconds s]       of load, a figure; default: 4
//                             [--write]           into docs/operations/capacity.md
//
// Queries are those of clients, the sender has a processor of its own, and every answer is compared with the first one.

import { stat, writeFile } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Proofs, toHex } from '@keyhush/protocol'
import { type Core, loadCore, type ModeCosts } from '@keyhush/wasm'
import { Ceremony } from '../../packages/pointproofs/test/support/reference.js'
import type { ServerProcess } from '../support/processes.js'
import { PUBLISHER_KEY } from '../support/publishing.js'
import { aligned, writeBetween } from './document.js'
import { edits, publishTimed } from './living.js'
import { type RecordedLookup, recordLookups } from './load.js'
import { offer, type Question, questionFor, requestOf } from './offering.js'
import { power } from './plot.js'
import { median } from './report.js'
import { newestManifest, processorMs, pseudorandomBytes, residentBytes, type Shape, Stage, under } from './stage.js'

const RECORD_BYTES = 32
const EDITS = 500
const STREAMS = 2000
const RECORDED = 32
const WARM_UP_MS = 2000

/** What the second table is for. */
export const CLIENTS = 1_000_000
export const LOOKUPS = 20
/** The busiest minute to the average one, and how busy a process may then be. */
const PEAK = 4
const BUSY = 0.5
const DAY_SECONDS = 86_400

/** Of a process at one N. */
interface Rate {
  readonly perSecond: number
  readonly processorMs: number
  /** of a lookup, from this server */
  readonly bytesOut: number
}

/** How lookups are asked for, and how many of them a request has. */
export const KINDS = {
  'hints, tags': { clients: 64, lookups: 1 },
  'hints, tags, 64 queries each': { clients: 64, lookups: 64 },
  'hints, merkle': { clients: 64, lookups: 1 },
  'hints, merkle, 64 queries each': { clients: 64, lookups: 64 },
  'one server (single)': { clients: 64, lookups: 1 },
  'instant, one worker': { clients: 8, lookups: 1 },
  'hints, Pointproofs': { clients: 8, lookups: 1 },
} as const
export type Kind = keyof typeof KINDS

export interface SizeFigures {
  readonly records: number
  readonly rates: Partial<Record<Kind, Rate>>
  /** undefined: of the database with Pointproofs, nothing else is measured */
  readonly held?: Held | undefined
}

/** What a server takes that keeps it in a store. */
interface Held {
  readonly memoryBytes: number
  readonly diskBytes: number
  readonly startSeconds: number
  readonly batchMs: number
  /** of memory, for each stream of events that is open */
  readonly streamBytes: number
}

/** Returns the exit code. */
export async function bench(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      sizes: { type: 'string', default: [2 ** 16, 2 ** 20, 2 ** 22].join() },
      pointproofs: { type: 'string', default: `${2 ** 12}` },
      seconds: { type: 'string', default: '4' },
      write: { type: 'boolean', default: false },
    },
  })
  const sizes = values.sizes.split(',').map(Number)
  const [proved, seconds] = [Number(values.pointproofs), Number(values.seconds)]
  if (![...sizes, proved, seconds].every(number => number >= 1)) throw new Error('expected numbers')
  const found: SizeFigures[] = [await measureProved(proved, seconds)]
  for (const records of sizes) found.push(await measure(records, seconds))
  const text = capacityTables(found)
  console.log(text)
  const shards = shardTable(await loadCore())
  console.log(shards)
  if (!values.write) return 0
  await writeBetween('operations/capacity.md', 'capacity', text)
  await writeBetween('operations/capacity.md', 'shards', shards)
  return 0
}

async function measure(records: number, seconds: number): Promise<SizeFigures> {
  console.log(`capacity: N = ${records}`)
  const shape = { records, recordBytes: RECORD_BYTES }
  return await Stage.with(async stage => {
    const dataset = await stage.dataset(pseudorandomBytes(records * RECORD_BYTES), shape)
    const held = await measureStore(stage, shape, dataset)
    // Without a store: a recorded lookup cannot be sent again to a fence.
    const servers = await stage.pair(() => ['--dataset', dataset, '--instant', '1'])
    const [{ url }] = servers
    const manifest = await newestManifest(url)
    const single = { servers: [url] as const, mode: 'single', integrity: 'server', storage: 'memory' } as const
    const random = (proofs: Proofs, count: number) => many(() => questionFor(url, manifest, proofs, count))
    const asked: Partial<Record<Kind, () => Promise<readonly Question[]>>> = {
      'hints, tags': () => random('tags', 1),
      'hints, tags, 64 queries each': () => random('tags', 64),
      'hints, merkle': () => random('merkle', 1),
      'hints, merkle, 64 queries each': () => random('merkle', 64),
      'one server (single)': async () =>
        questionsOf(url, await recordLookups({ ...single, lookups: 2 * RECORDED }, RECORDED)),
      'instant, one worker': async () =>
        questionsOf(
          url,
          await recordLookups({ servers: under(servers), mode: 'instant', storage: 'memory' }, RECORDED),
        ),
    }
    const rates: Partial<Record<Kind, Rate>> = {}
    for (const [kind, questions] of Object.entries(asked) as [Kind, () => Promise<readonly Question[]>][]) {
      rates[kind] = await rateOf(servers[0], kind, await questions(), seconds)
    }
    return { records, rates, held }
  })
}

/** Of two servers that keep the database in stores. */
async function measureStore(stage: Stage, shape: Shape, dataset: string): Promise<Held> {
  const store = (s: 0 | 1) => ['--store', join(stage.folder, `store-${s}`), '--publisher-key', PUBLISHER_KEY]
  const servers = await stage.pair(s => [...store(s), '--dataset', dataset])
  const batchMs: number[] = []
  for (let i = 0; i < 5; i++) batchMs.push(...(await publishTimed(servers, edits(shape, EDITS))))
  for (const server of servers) await server.stop()
  const begun = performance.now()
  const restarted = await stage.serve(...store(0), '--trust-proxy')
  const startSeconds = (performance.now() - begun) / 1000
  const memoryBytes = await residentBytes(restarted.pid)
  const streamBytes = await bytesOfStream(restarted)
  await restarted.stop()
  const { size: diskBytes } = await stat(join(stage.folder, 'store-0', 'data.mdb'))
  return { memoryBytes: memoryBytes ?? Number.NaN, diskBytes, startSeconds, batchMs: median(batchMs), streamBytes }
}

async function measureProved(records: number, seconds: number): Promise<SizeFigures> {
  console.log(`capacity: Pointproofs, N = ${records}`)
  return await Stage.with(async stage => {
    const shape = { records, recordBytes: RECORD_BYTES }
    const data = pseudorandomBytes(records * RECORD_BYTES)
    const dataset = await stage.dataset(data, shape, ...(await ceremonyOf(stage)))
    const server = await stage.serve('--dataset', dataset)
    const manifest = await newestManifest(server.url)
    const kind = 'hints, Pointproofs'
    const questions = await many(() => questionFor(server.url, manifest, 'pointproofs', 1))
    return { records, rates: { [kind]: await rateOf(server, kind, questions, seconds) } }
  })
}

/** Of two contributors. Made by the reference: what the command takes is measured elsewhere (node tests/run.mjs pointproofs). */
async function ceremonyOf(stage: Stage): Promise<string[]> {
  const ceremony = new Ceremony(false)
  for (const [at, name] of ['Ada', 'Grace'].entries()) ceremony.contribute(name, new Uint8Array(32).fill(at))
  const file = join(stage.folder, 'ceremony.pirt')
  await writeFile(file, ceremony.transcript())
  await writeFile(`${file}.receipt`, toHex(ceremony.chain))
  return ['--proofs', 'pointproofs', '--ceremony', file]
}

async function many<T>(make: () => Promise<T>): Promise<T[]> {
  const made: T[] = []
  for (let i = 0; i < RECORDED; i++) made.push(await make())
  return made
}

/** What of lookups went to one server, as clients sent it. */
function questionsOf(server: string, lookups: readonly RecordedLookup[]): Question[] {
  return lookups
    .flat()
    .filter(({ url }) => url.startsWith(`${server}/`))
    .map(({ url, body, reply }) => ({
      request: requestOf(server, body, new URL(url).pathname),
      answer: Buffer.from(reply),
    }))
}

/** Throws if an answer is another than the first time. */
async function rateOf(
  { url, pid }: ServerProcess,
  kind: Kind,
  questions: readonly Question[],
  seconds: number,
): Promise<Rate> {
  const { clients, lookups } = KINDS[kind]
  await offer(url, questions, { clients, milliseconds: WARM_UP_MS })
  const before = await processorMs(pid)
  const { inTimePerSecond, late, lost } = await offer(url, questions, { clients, milliseconds: 1000 * seconds })
  const after = await processorMs(pid)
  const perSecond = inTimePerSecond * lookups
  if (perSecond === 0) throw new Error(`nothing was answered in time: ${late} late, ${lost} lost`)
  console.log(`capacity: ${kind}: ${perSecond.toFixed(0)} lookups a second`)
  return {
    perSecond,
    processorMs: ((after ?? Number.NaN) - (before ?? Number.NaN)) / (perSecond * seconds),
    bytesOut: median(questions.map(({ answer }) => answer.length)) / lookups,
  }
}

/** Memory of the server for each stream of events that is open. Throws unless all stay open. */
async function bytesOfStream({ url, pid }: ServerProcess): Promise<number> {
  const before = await residentBytes(pid)
  const streams: IncomingMessage[] = []
  for (let i = 0; i < STREAMS; i++) {
    const headers = { 'x-forwarded-for': `10.${i >> 8}.${i & 255}.1` } // one network each: no proxy, but as behind one
    streams.push(
      await new Promise((resolve, reject) =>
        get(`${url}/v1/events`, { headers, agent: false }, resolve).on('error', reject),
      ),
    )
  }
  for (const stream of streams) {
    if (stream.statusCode !== 200) throw new Error(`a stream was refused: ${stream.statusCode}`)
    stream.resume()
  }
  const after = await residentBytes(pid)
  for (const stream of streams) stream.destroy()
  return ((after ?? Number.NaN) - (before ?? Number.NaN)) / STREAMS
}

/** Both tables, as docs/operations/capacity.md has them. */
export function capacityTables(sizes: readonly SizeFigures[]): string {
  const all = sizes.filter(({ held }) => held !== undefined)
  const provedOf = sizes.find(({ rates }) => rates['hints, Pointproofs'] !== undefined)
  const cell = (rate: Rate | undefined) =>
    rate === undefined ? '' : `${figure(rate.perSecond)} (${figure(rate.processorMs)} ms)`
  const kinds = (Object.keys(KINDS) as Kind[]).map(kind => {
    const isProved = kind === 'hints, Pointproofs'
    const name = isProved ? `${kind}, N = ${power(provedOf?.records ?? 0)}` : kind
    return [
      name,
      ...all.map(({ rates }) => (isProved ? '' : cell(rates[kind]))),
      isProved ? cell(provedOf?.rates[kind]) : '',
    ]
  })
  const held = (name: string, read: (of: Held) => string) => [name, ...all.map(of => read(of.held!)), '']
  const process = aligned([
    ['one process', ...all.map(({ records }) => `N = ${power(records)}`), 'other N'],
    ...kinds.map(([name, ...cells]) => [`lookups a second: ${name}`, ...cells]),
    held('memory', of => `${figure(of.memoryBytes / 2 ** 20)} MiB`),
    held('store on disk', of => `${figure(of.diskBytes / 1e6)} MB`),
    held('until it answers, from its store', of => `${figure(of.startSeconds)} s`),
    held(`a batch of ${EDITS} edits, on disk`, of => `${figure(of.batchMs)} ms`),
    held('memory of an open stream of events', of => `${figure(of.streamBytes / 1024)} KiB`),
  ])
  const middle = all[Math.floor(all.length / 2)]!
  const perSecond = (PEAK * CLIENTS * LOOKUPS) / DAY_SECONDS
  const needs = (Object.keys(KINDS) as Kind[])
    .filter(kind => KINDS[kind].lookups === 1)
    .flatMap(kind => {
      const rate = middle.rates[kind] ?? provedOf?.rates[kind]
      if (rate === undefined) return []
      const bytesADay = CLIENTS * LOOKUPS * rate.bytesOut
      return [
        [
          kind,
          `${Math.ceil((perSecond * rate.processorMs) / 1000 / BUSY)}`,
          `${figure(rate.bytesOut)} B`,
          `${figure(bytesADay / 1e9)} GB`,
          `${figure((8 * perSecond * rate.bytesOut) / 1e6)} Mbit/s`,
        ],
      ]
    })
  const title = `${CLIENTS.toLocaleString('en')} clients a day, ${LOOKUPS} lookups each`
  return `${process}

For ${title}, at N = ${power(middle.records)}, each operator answers ${figure(perSecond)} lookups a second in the busiest minute, ${PEAK} times the
average. Its processors are then busy ${BUSY * 100} % of the time:

${aligned([['', 'processors', 'out, a lookup', 'out, a day', 'out, in the busiest minute'], ...needs])}`
}

/** Three digits that count. */
function figure(value: number): string {
  const rounded = Number(value.toPrecision(3))
  return rounded.toLocaleString('en', { maximumFractionDigits: 4, useGrouping: rounded >= 10_000 })
}

// More records than a process can have, on paper: 2^30 in 64 databases of 2^24, and what it costs to ask one of them, which shows
// in which the key would be, or all of them each time, which does not. Computed by the plan (docs/costs.md).

const SHARDS = 64
const SHARD_RECORDS = 2 ** 24
const LOOKUPS_A_DAY = 20_000_000

const NAMES: Readonly<Record<string, string>> = {
  instant: 'instant',
  'full merkle': 'full hints, merkle',
  'full tags': 'full hints, tags',
  single: 'one server',
}

/** As docs/operations/capacity.md has it. */
export function shardTable(core: Core): string {
  const { modes } = core.plan({ records: SHARD_RECORDS, valueBytes: 32, keyed: true })
  const rows = modes.flatMap(costs => {
    const name = NAMES[`${costs.mode} ${costs.proofs ?? ''}`] ?? NAMES[costs.mode]
    return name === undefined ? [] : [[name, ...cells(costs, 1), ...cells(costs, SHARDS)]]
  })
  const heads = ['kept', 'a lookup', 'out, a day', 'processors']
  return aligned([['', ...heads.map(head => `${head}, one`), ...heads.map(head => `${head}, all`)], ...rows])
}

/** Of a client; and of both operators together, of all clients. */
function cells(costs: ModeCosts, shards: number): string[] {
  const { memoryBytes, lookupBytesUp, lookupBytesDown, serverLookupMicros } = costs
  const lookups = shards * LOOKUPS_A_DAY
  return [
    memoryBytes === 0 ? '–' : bytes(shards * memoryBytes),
    bytes(shards * (lookupBytesUp + lookupBytesDown)),
    bytes(lookups * lookupBytesDown),
    `${Number(((lookups * serverLookupMicros) / 1e6 / DAY_SECONDS).toPrecision(2))}`,
  ]
}

function bytes(count: number): string {
  const [unit, size] = (
    [
      ['TB', 1e12],
      ['GB', 1e9],
      ['MB', 1e6],
      ['kB', 1e3],
    ] as const
  ).find(([, size]) => count >= size) ?? ['B', 1]
  return `${Number((count / size).toPrecision(3))} ${unit}`
}
