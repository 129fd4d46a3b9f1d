// `npm run bench -- capacity`: what one server process bears, and so what an operator needs.
//
//   npm run bench -- capacity [--sizes N,…]       records of 32 bytes; default: 2^16, 2^20 and 2^22
//                             [--pointproofs N]   the database that is proved for it, which takes 2 ms a record; default: 2^12
//                             [--seconds s]       of load, a figure; default: 4
//                             [--write]           into docs/operations.md
//
// Queries are those of clients, the sender has a processor of its own, and every answer is compared with the first one.

import { stat, writeFile } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { aligned, writeBetween } from './document.js'
import { edits, publishTimed, TOKENS } from './living.js'
import { recordLookups } from './load.js'
import { offer, type Question, questionFor, requestOf } from './overload.js'
import { power } from './plot.js'
import { ceremonyOf } from './proved.js'
import { median } from './report.js'
import { newestManifest, type Pair, processorMs, pseudorandomBytes, residentBytes, Stage, under } from './stage.js'

const RECORD_BYTES = 32
const EDITS = 500
const STREAMS = 2000
const RECORDED = 32
const WARM_UP_MS = 500

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
  'hints, tags, batches of 64': { clients: 64, lookups: 64 },
  'hints, merkle': { clients: 64, lookups: 1 },
  'hints, merkle, batches of 64': { clients: 64, lookups: 64 },
  'one server (single)': { clients: 64, lookups: 1 },
  'instant, one worker': { clients: 8, lookups: 1 },
  'hints, Pointproofs': { clients: 8, lookups: 1 },
} as const
export type Kind = keyof typeof KINDS

export interface SizeFigures {
  readonly records: number
  readonly rates: Partial<Record<Kind, Rate>>
  /** undefined: of the database with Pointproofs, nothing else is measured */
  readonly held?:
    | {
        readonly memoryBytes: number
        readonly diskBytes: number
        readonly startSeconds: number
        readonly batchMs: number
      }
    | undefined
}

export interface Findings {
  readonly sizes: readonly SizeFigures[]
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
  let streamBytes = 0
  for (const records of sizes) {
    const figures = await measure(records, seconds)
    found.push(figures)
    streamBytes ||= figures.streamBytes
  }
  const text = capacityTables({ sizes: found, streamBytes })
  console.log(text)
  if (values.write) await writeBetween('operations.md', 'capacity', text)
  return 0
}

async function measure(records: number, seconds: number): Promise<SizeFigures & { readonly streamBytes: number }> {
  const shape = { records, recordBytes: RECORD_BYTES }
  console.log(`capacity: N = ${records}`)
  return await Stage.with(async stage => {
    const dataset = await stage.dataset(pseudorandomBytes(records * RECORD_BYTES), shape)
    const stores = await storesOf(stage)
    const limits = ['--instant', '1', '--trust-proxy']
    let servers = await stage.pair(s => [...stores(s), '--dataset', dataset, ...limits])

    const batchMs: number[] = []
    for (let i = 0; i < 5; i++) batchMs.push(...(await publishTimed(servers, edits(shape, EDITS))))

    await servers[0].stop()
    const begun = performance.now()
    servers = [await stage.serve(...stores(0), ...limits), servers[1]]
    const startSeconds = (performance.now() - begun) / 1000
    const { size: diskBytes } = await stat(join(stage.folder, 'store-0', 'data.mdb'))

    const [a] = servers
    const rates: Partial<Record<Kind, Rate>> = {}
    for (const proofs of ['tags', 'merkle'] as const) {
      const manifest = await newestManifest(a.url)
      const of = (count: number) => many(() => questionFor(a.url, manifest, proofs, count))
      rates[`hints, ${proofs}`] = await rateOf(servers, `hints, ${proofs}`, await of(1), seconds)
      rates[`hints, ${proofs}, batches of 64`] = await rateOf(
        servers,
        `hints, ${proofs}, batches of 64`,
        await of(64),
        seconds,
      )
    }
    const memoryBytes = (await residentBytes(a.pid)) ?? Number.NaN
    const single = { servers: [a.url] as const, mode: 'single', integrity: 'server', storage: 'memory' } as const
    rates['one server (single)'] = await recordedRate(
      servers,
      'one server (single)',
      await recordLookups({ ...single, lookups: 2 * RECORDED }, RECORDED),
      seconds,
    )
    rates['instant, one worker'] = await recordedRate(
      servers,
      'instant, one worker',
      await recordLookups({ servers: under(servers), mode: 'instant', storage: 'memory' }, RECORDED),
      seconds,
    )
    const held = { memoryBytes, diskBytes, startSeconds, batchMs: median(batchMs) }
    return { records, rates, held, streamBytes: await bytesOfStream(servers) }
  })
}

async function measureProved(records: number, seconds: number): Promise<SizeFigures> {
  console.log(`capacity: Pointproofs, N = ${records}`)
  return await Stage.with(async stage => {
    const shape = { records, recordBytes: RECORD_BYTES }
    const data = pseudorandomBytes(records * RECORD_BYTES)
    const dataset = await stage.dataset(data, shape, ...(await ceremonyOf(stage)))
    const servers = await stage.pair(() => ['--dataset', dataset])
    const manifest = await newestManifest(servers[0].url)
    const kind = 'hints, Pointproofs'
    const questions = await many(() => questionFor(servers[0].url, manifest, 'pointproofs', 1))
    return { records, rates: { [kind]: await rateOf(servers, kind, questions, seconds) } }
  })
}

async function storesOf(stage: Stage): Promise<(s: 0 | 1) => string[]> {
  const token = (s: 0 | 1) => join(stage.folder, `token-${s}`)
  for (const s of [0, 1] as const) await writeFile(token(s), `${TOKENS[s]}\n`, { mode: 0o600 })
  return s => ['--store', join(stage.folder, `store-${s}`), '--token-file', token(s)]
}

async function many<T>(make: () => Promise<T>): Promise<T[]> {
  const made: T[] = []
  for (let i = 0; i < RECORDED; i++) made.push(await make())
  return made
}

/** Of lookups as clients sent them. One that has two steps is answered by as many requests. */
async function recordedRate(
  servers: Pair,
  kind: Kind,
  lookups: Awaited<ReturnType<typeof recordLookups>>,
  seconds: number,
): Promise<Rate> {
  const [{ url }] = servers
  const questions = lookups
    .flat()
    .filter(each => each.url.startsWith(`${url}/`))
    .map(each => ({
      request: requestOf(url, each.body, new URL(each.url).pathname),
      answer: Buffer.from(each.reply),
    }))
  return await rateOf(servers, kind, questions, seconds)
}

/** Throws if an answer is another than the first time. */
async function rateOf(
  [{ url, pid }]: Pair,
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
async function bytesOfStream([{ url, pid }]: Pair): Promise<number> {
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

/** Both tables, as docs/operations.md has them. */
export function capacityTables({ sizes, streamBytes }: Findings): string {
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
  const held = (name: string, read: (of: NonNullable<SizeFigures['held']>) => string) => [
    name,
    ...all.map(of => read(of.held!)),
    '',
  ]
  const process = aligned([
    ['one process', ...all.map(({ records }) => `N = ${power(records)}`), 'other N'],
    ...kinds.map(([name, ...cells]) => [`lookups a second: ${name}`, ...cells]),
    held('memory', of => `${figure(of.memoryBytes / 2 ** 20)} MiB`),
    held('store on disk', of => `${figure(of.diskBytes / 1e6)} MB`),
    held('until it answers, from its store', of => `${figure(of.startSeconds)} s`),
    held(`a batch of ${EDITS} edits, on disk`, of => `${figure(of.batchMs)} ms`),
    ['memory of an open stream of events', ...all.map(() => ''), `${figure(streamBytes / 1024)} KiB`],
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
          `${Math.ceil(perSecond / (BUSY * rate.perSecond))}`,
          `${figure(rate.bytesOut)} B`,
          `${figure(bytesADay / 1e9)} GB`,
          `${figure((8 * perSecond * rate.bytesOut) / 1e6)} Mbit/s`,
        ],
      ]
    })
  const title = `${CLIENTS.toLocaleString('en')} clients a day, ${LOOKUPS} lookups each`
  return `${process}

Of each operator, for ${title}, at N = ${power(middle.records)}: ${figure(perSecond)} lookups a second in the busiest minute, which has ${PEAK}
times as many as the average one, by processes that are then busy for ${BUSY * 100} % of the time:

${aligned([['', 'processes', 'out, a lookup', 'out, a day', 'out, in the busiest minute'], ...needs])}`
}

/** Three digits that count. */
function figure(value: number): string {
  const rounded = Number(value.toPrecision(3))
  return rounded.toLocaleString('en', { maximumFractionDigits: 4, useGrouping: rounded >= 10_000 })
}
