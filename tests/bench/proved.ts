// Databases with Pointproofs, proved, served, looked up in and changed, and TAPIR-PP beside them (TAPIR, Table 1 and Fig. 9): at the
// planned Q and at the paper's.

import { randomInt } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { encodeQuery, partitionBlocks, toHex } from '@keyhush/protocol'
import { Ceremony } from '../../packages/pointproofs/test/support/reference.js'
import { pointproofs } from '../support/packaged.js'
import { PUBLISHER_KEY } from '../support/publishing.js'
import { edits, publishTimed } from './living.js'
import type { Options } from './options.js'
import { measureMaps } from './page.js'
import { type Figure as Column, FIG_9, published } from './papers.js'
import { power } from './plot.js'
import type { Figure, Section, Target } from './report.js'
import {
  check,
  childrensMs,
  inNode,
  newestManifest,
  type Pair,
  pseudorandomBytes,
  type Shape,
  Stage,
  under,
} from './stage.js'

const RECORD_BYTES = 32
const BATCH = 500
const PROOFS = 'pointproofs'
/** With `--prover` larger databases are proved natively. */
const WASM_RECORDS = 2 ** 16

/** The rows, in order; some have figures at some N alone. */
const ROWS = [
  ...['build', '– a record', '– a record, natively', 'digests, TAPIR-PP'],
  ...['offline phase, bodies', 'offline phase, bodies, TAPIR-PP', 'lookup, bodies', 'lookup, bodies, TAPIR-PP'],
  ...['lookup', 'lookup, computing, TAPIR-PP', 'answer', '– while folding lags'],
  ...[`${BATCH} edits, server`, 'an edit, server, TAPIR-PP', `${BATCH} edits, client`, 'an edit'],
]

export async function proved({ proved, prover }: Options): Promise<Section[]> {
  const sections: Section[] = []
  for (const isPlanned of [true, false]) {
    const figures: Figure[] = []
    for (const records of proved) {
      figures.push(...(await measure(records, isPlanned, records > WASM_RECORDS ? prover : undefined)))
    }
    figures.sort((a, b) => ROWS.indexOf(a.name) - ROWS.indexOf(b.name))
    sections.push({ title: `Pointproofs, ${isPlanned ? 'planned Q' : 'Q = √N'}`, figures })
  }
  return sections.filter(({ figures }) => figures.length > 0)
}

/** The figures of one database. Those that are judged are so at the planned Q. */
async function measure(records: number, isPlanned: boolean, prover: string | undefined): Promise<Figure[]> {
  const data = pseudorandomBytes(records * RECORD_BYTES)
  const partitions = isPlanned ? undefined : Math.round(Math.sqrt(records))
  return await Stage.with(async stage => {
    process.stdout.write(`pointproofs: N = ${records}${isPlanned ? '' : ', Q = √N'}, proving … `)
    const shape: Shape = { records, recordBytes: RECORD_BYTES, partitions }
    const [start, startMs] = [performance.now(), await childrensMs()]
    const dataset = await stage.dataset(
      data,
      shape,
      ...(await ceremonyOf(stage)),
      ...(prover ? ['--prover', prover] : []),
    )
    const buildMs = performance.now() - start
    const endMs = await childrensMs()
    const perRecord = startMs === undefined || endMs === undefined ? [] : [(endMs - startMs) / records]

    process.stdout.write('lookups … ')
    const servers = await serving(stage, dataset)
    const urls = under(servers)
    const subjects = [{ servers: urls, proofs: PROOFS, storage: 'memory' } as const]
    const { result } = await inNode(measureMaps, subjects, 2, isPlanned ? 40 : 5)
    const [map] = result as [(typeof result)[number]]
    check(data, RECORD_BYTES, map.samples)
    const answerMs = await answers(urls[0], 50)

    process.stdout.write('changes … ')
    const batch = edits(shape, BATCH)
    const follower = await open({
      servers: urls,
      mode: 'full',
      proofs: PROOFS,
      pointproofs,
      storage: 'memory',
      push: false,
    })
    const before = offlineBytes(follower)
    const batchMs = await publishTimed(servers, batch)
    const laggingMs = await answers(urls[0], 50)
    const following = performance.now()
    await follower.sync()
    const followMs = performance.now() - following
    const listBytes = offlineBytes(follower) - before
    if (!batch.value.equals((await follower.at(batch.index)) ?? Buffer.alloc(0)))
      throw new Error('a change is not there')
    await follower.close()
    console.log('done')

    const column = `N = ${power(records)}`
    const ms = { column, unit: 'ms' }
    const judged = (how: Target[0], limit: number, is = true) => (isPlanned && is ? ([how, limit] as const) : undefined)
    const theirs = (column: Column, scale: number) =>
      published(column, ['TAPIR-PP'])
        .filter(({ x }) => x === records && !isPlanned)
        .map(({ median }) => median * scale)
    const beside = (name: string, unit: string, samples: readonly number[]): Figure[] =>
      samples.length === 0 ? [] : [{ name: `${name}, TAPIR-PP`, column, unit, samples }]
    return [
      { name: 'build', column, unit: 's', samples: [buildMs / 1000] },
      {
        ...{ name: `– a record${prover ? ', natively' : ''}`, ...ms },
        target: judged('≤', prover ? 1 : 2.5),
        samples: perRecord,
      },
      ...beside('digests', 's', theirs('serverSeconds', 1)),
      { name: 'offline phase, bodies', column, unit: 'MB', samples: [map.offlineBytes / 1e6] },
      ...beside('offline phase, bodies', 'MB', theirs('offlineBytes', 1e-6)),
      {
        ...{ name: 'lookup, bodies', column, unit: 'B' },
        target: judged('≤', 1344, records === 2 ** 20),
        samples: [map.lookupBytes],
      },
      ...beside('lookup, bodies', 'B', theirs('lookupBytes', 1)),
      { name: 'lookup', ...ms, samples: map.lookupMs },
      ...beside('lookup, computing', 'ms', theirs('lookupSeconds', 1000)),
      { name: 'answer', ...ms, target: judged('≤', 10), samples: answerMs },
      { name: '– while folding lags', ...ms, target: judged('≤', 10, records === 2 ** 20), samples: laggingMs },
      {
        ...{ name: `${BATCH} edits, server`, ...ms, target: judged('≤', 500, records === 2 ** 14) },
        samples: batchMs,
      },
      ...(isPlanned ? [] : beside('an edit, server', 'ms', fig9(records))),
      { name: `${BATCH} edits, client`, ...ms, samples: [followMs] },
      { name: 'an edit', column, unit: 'B', samples: [listBytes / BATCH] },
    ]
  })
}

function fig9(records: number): number[] {
  return FIG_9.serverSeconds.filter(({ x }) => x === records).map(({ median }) => 1000 * median)
}

/** Of two contributors. Made by the reference: what the command takes is measured elsewhere (node tests/run.mjs pointproofs). */
export async function ceremonyOf(stage: Stage): Promise<string[]> {
  const ceremony = new Ceremony(false)
  for (const [at, name] of ['Ada', 'Grace'].entries()) ceremony.contribute(name, new Uint8Array(32).fill(at))
  const file = join(stage.folder, 'ceremony.pirt')
  await writeFile(file, ceremony.transcript())
  await writeFile(`${file}.receipt`, toHex(ceremony.chain))
  return ['--proofs', PROOFS, '--ceremony', file]
}

/** Servers that keep the database on disk and take batches. */
async function serving(stage: Stage, dataset: string): Promise<Pair> {
  return await stage.pair(s => [
    ...['--dataset', dataset, '--store', join(stage.folder, `store-${s}`), '--publisher-key', PUBLISHER_KEY],
  ])
}

/** Milliseconds that a server takes for one query each, from the request to the last byte. */
async function answers(url: string, count: number): Promise<number[]> {
  const manifest = await newestManifest(url)
  const times: number[] = []
  for (let n = 0; n < count; n++) {
    const offsets = Uint16Array.from({ length: manifest.partitions }, () => randomInt(partitionBlocks(manifest)))
    const body = encodeQuery(manifest, 1, new Uint8Array(offsets.buffer), PROOFS)
    const start = performance.now()
    const response = await fetch(`${url}/v1/answer`, { method: 'POST', body })
    await response.arrayBuffer()
    times.push(performance.now() - start)
    if (response.status !== 200) throw new Error(`a query was refused: ${response.status}`)
  }
  return times
}

function offlineBytes({ stats }: Awaited<ReturnType<typeof open>>): number {
  return stats.servers.reduce((sum, { offline }) => sum + offline.bytesUp + offline.bytesDown, 0)
}
