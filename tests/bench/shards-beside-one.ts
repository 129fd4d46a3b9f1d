// Shards and their coordinator as processes, beside one process with the same list.

import { randomInt } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type KeyhushMap, open } from '@keyhush/client'
import { runKeyhushProcess, type ServerProcess } from '../support/processes.js'
import { bodyBytes, type Load, putUnderLoad, recordLookups, repliesAsBefore } from './load.js'
import type { Options } from './options.js'
import { measureFirst } from './page.js'
import { power } from './plot.js'
import { type Figure, quantile } from './report.js'
import { processorMs, Stage } from './stage.js'

const LOAD_SECONDS = 2
/** Node compiles what runs often: a process that has just started takes three times as long for a request. */
const WARM_SECONDS = 60
/** Shards beside one process with the same list. */
const FEW = 16
/** Of the slots that a shape has, so many have a key. */
const LISTED = 0.9
const RECORDED = 64
/** Lookups of a page after the first. */
const LATER = 5
/** Requests under way; how much more of all processors shards may take, and how much longer the middle one may wait. */
const RATIOS = [
  ['one request at a time', 1, 1.1, undefined],
  ['sixteen in flight', 16, 1.2, ['≤', 1.2]],
] as const

/** An operator's server that apps talk to, and all of its processes. */
interface Operator {
  readonly url: string
  readonly processes: readonly ServerProcess[]
}

/** The same list as one process and as shards, which take turns; it has four times `--records` slots. */
export async function shardsBesideOne(options: Options): Promise<Figure[]> {
  const slots = 4 * options.shape.records
  const list: List = { records: Math.floor(LISTED * slots), valueBytes: options.shape.recordBytes }
  console.log(`shards: N = ${slots}, one process and ${FEW} shards`)
  return await Stage.with(async stage => {
    const file = join(stage.folder, 'list.csv')
    await pipeline(Readable.from(lines(list)), createWriteStream(file))
    const whole = join(stage.folder, 'whole')
    await runKeyhushProcess('build', file, '--headroom', `${slots - list.records}`, '--out', whole)
    const folders = await shardsOf(stage.folder, file, list)
    const one = await recorded(stage, options, list, () => oneProcess(stage, whole))
    const many = await recorded(stage, options, list, () => coordinated(stage, folders))
    const column = `N = ${power(slots)}, ${FEW} shards beside one process`
    const figures: Figure[] = [
      { column, name: 'before the first lookup', unit: 'kB', target: ['≤', 2], samples: [many.bytesBefore / 1000] },
      {
        ...{ column, name: 'lookups by key, bodies', unit: '×', target: ['≤', 1.1] },
        samples: [many.bytes / one.bytes],
      },
      {
        column,
        name: 'first lookup of a cold page, to a later one',
        unit: '×',
        target: ['≤', 1.5],
        samples: many.cold,
      },
    ]
    for (const { load } of [one, many]) await putUnderLoad(load, FEW, WARM_SECONDS)
    for (const [name, clients, mostTime, mostWait] of RATIOS) {
      const [times, more, waits]: [number[], number[], number[]] = [[], [], []]
      for (let run = 0; run < options.repeats; run++) {
        const [ofOne, ofMany] = [await underLoad(one, clients), await underLoad(many, clients)]
        times.push(ofMany.processorMs / ofOne.processorMs)
        more.push((ofMany.processorMs - ofOne.processorMs) / FEW)
        waits.push(ofMany.p50Ms / ofOne.p50Ms)
      }
      figures.push(
        { column, name: `${name}, processor time`, unit: '×', target: ['≤', mostTime], samples: times },
        { column, name: `${name}, more for a query and shard`, unit: 'ms', samples: more },
        { column, name: `${name}, p50`, unit: '×', target: mostWait, samples: waits },
      )
    }
    return figures
  })
}

interface List {
  readonly records: number
  readonly valueBytes: number
}

const key = (i: number) => `key-${i}`
const value = (i: number, { valueBytes }: List) => `${i}`.padStart(valueBytes, '0')

function* lines(list: List): Generator<string> {
  yield 'key,value\n'
  for (let i = 0; i < list.records; i++) yield `${key(i)},${value(i, list)}\n`
}

/** Returns a dataset for each shard. */
async function shardsOf(folder: string, file: string, { records, valueBytes }: List): Promise<string[]> {
  const [shape, parts] = [join(folder, 'shape.json'), join(folder, 'parts')]
  const sizes = ['--records', `${records}`, '--value-bytes', `${valueBytes}`]
  await runKeyhushProcess('plan', '--keyed', ...sizes, '--shards', `${FEW}`, '--out', shape)
  await runKeyhushProcess('split', file, '--shape', shape, '--out', parts)
  await rm(file)
  const out: string[] = []
  for (let shard = 0; shard < FEW; shard++) {
    const own = join(parts, `${shard}`)
    const files = (await readdir(own)).map(name => join(own, name))
    out.push(join(folder, `shard-${shard}`))
    await runKeyhushProcess('build', ...files, '--shape', shape, '--shard', `${shard}`, '--out', out[shard]!)
  }
  return out
}

async function oneProcess(stage: Stage, dataset: string): Promise<Operator> {
  const server = await stage.serve('--dataset', dataset, '--instant', '1')
  return { url: server.url, processes: [server] }
}

/** The next operator's loopback network. */
let networks = 101

/** Each operator has a loopback network of its own, in which a shard's number is its address. */
async function coordinated(stage: Stage, datasets: readonly string[]): Promise<Operator> {
  const network = `127.0.${networks++}`
  const serveShard = (shard: number, port: string) =>
    stage.serve('--dataset', datasets[shard]!, '--instant', '1', '--host', `${network}.${shard}`, '--port', port)
  const first = await serveShard(0, '0')
  const { port } = new URL(first.url)
  const others = await Promise.all(datasets.slice(1).map((_, i) => serveShard(i + 1, port)))
  const heads = ['--store', join(stage.folder, `heads-${network}`)]
  const template = `http://${network}.{shard}:${port}`
  const coordinator = await stage.serve('--shards', `${datasets.length}`, template, ...heads)
  return { url: coordinator.url, processes: [coordinator, first, ...others] }
}

interface Recorded {
  readonly operator: Operator
  readonly load: Load
  /** of a lookup by key, to and from both servers */
  readonly bytes: number
  /** before the first lookup */
  readonly bytesBefore: number
  /** how many times as long the first lookup of a page takes as a later one */
  readonly cold: readonly number[]
}

/** What a client asks two such operators, of which the second is stopped then. */
async function recorded(
  stage: Stage,
  { repeats }: Options,
  list: List,
  begin: () => Promise<Operator>,
): Promise<Recorded> {
  const [operator, other] = [await begin(), await begin()]
  const servers = [operator.url, other.url] as const
  const before = await open({ servers, mode: 'instant', storage: 'memory', push: false })
  const bytesBefore = before.stats.servers.reduce((sum, { offline }) => sum + offline.bytesUp + offline.bytesDown, 0)
  await before.close()
  const lookUp = async (map: KeyhushMap) => {
    const i = randomInt(list.records)
    if ((await map.getText(key(i))) !== value(i, list)) throw new Error('expected the value of the list, got another')
  }
  const lookups = await recordLookups({ servers, mode: 'instant', storage: 'memory' }, RECORDED, lookUp)
  const cold: number[] = []
  for (let run = 0; run < repeats; run++) {
    const page = await stage.page([operator, other])
    const keys = Array.from({ length: LATER + 1 }, () => key(randomInt(list.records)))
    const [first, ...later] = await page.evaluate(measureFirst, [...servers], keys)
    cold.push(first! / quantile(later, 0.5))
    await page.close()
  }
  for (const process of other.processes) await process.stop()
  const load = repliesAsBefore(lookups, operator.url)
  return { operator, load, bytes: bodyBytes(lookups[0]!), bytesBefore, cold }
}

/** Processor time of all processes for a request, and how long the middle request takes. */
async function underLoad({ operator, load }: Recorded, clients: number) {
  const used = async () => {
    const each = await Promise.all(operator.processes.map(({ pid }) => processorMs(pid)))
    return each.reduce<number>((sum, ms) => sum + (ms ?? Number.NaN), 0)
  }
  const before = await used()
  const { answered, latencyMs } = await putUnderLoad(load, clients, LOAD_SECONDS)
  return { processorMs: ((await used()) - before) / answered, p50Ms: quantile(latencyMs, 0.5) }
}
