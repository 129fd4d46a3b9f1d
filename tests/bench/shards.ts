// What a coordinator of a sharded database takes beside its shards, which answer zeros here, and what a lookup has over the wire.

import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { encodeInstantQuery, HEADER_BYTES, instantLayout } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { startListening } from '../support/processes.js'
import { putUnderLoad } from './load.js'
import type { Options } from './options.js'
import type { Figure, Section } from './report.js'
import { shardsBesideOne } from './shards-beside-one.js'
import { newestManifest, processorMs, Stage } from './stage.js'

const STUBS = fileURLToPath(new URL('shard-stubs.mjs', import.meta.url))
const [SHARDS, PARTITIONS] = [64, 32]
const LOAD_SECONDS = 2
const REQUESTS = 64
/** Requests under way, and the processor time of a query that the coordinator may take then. */
const LOADS = [
  ['one lookup at a time', 1, 5],
  ['eight in flight', 8, 1],
] as const

export async function shards(options: Options): Promise<Section[]> {
  const stubs = await beforeStubs(options)
  const real = options.all ? await shardsBesideOne(options) : []
  return [{ title: 'Sharded databases', figures: [...stubs, ...real] }]
}

async function beforeStubs(options: Options): Promise<Figure[]> {
  console.log(`shards: ${SHARDS} of ${PARTITIONS} partitions`)
  return await Stage.with(async stage => {
    const stubs = await startListening(STUBS, `${SHARDS}`, `${PARTITIONS}`)
    try {
      const heads = ['--store', `${stage.folder}/heads`]
      const coordinator = await stage.serve('--shards', `${SHARDS}`, `${stubs.url}/{shard}`, ...heads)
      return await measured(options, coordinator)
    } finally {
      await stubs.stop()
    }
  })
}

async function measured({ repeats }: Options, { url, pid }: { readonly url: string; readonly pid: number }) {
  const [core, manifest] = [await loadCore(), await newestManifest(url)]
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = instantLayout(manifest, 'records')
  const layout = core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
  const requests = Array.from({ length: REQUESTS }, (_, i) => {
    const query = core.newInstantQuery(layout, Uint32Array.of((i * 104_729) % records), randomBytes(32))
    const body = encodeInstantQuery(manifest, 'records', 1, query.request(0))
    query.free()
    return { url: `${url}/v1/instant`, body }
  })
  const answerBytes = HEADER_BYTES + layout.instantAnswerBytes
  layout.free()
  const check = (_: number, { length }: Buffer) => {
    if (length !== answerBytes) throw new Error(`expected a reply of ${answerBytes} bytes, got ${length}`)
  }
  const figures: Figure[] = []
  for (const [name, clients, most] of LOADS) {
    const samples: number[] = []
    for (let run = 0; run < repeats; run++) {
      const before = await processorMs(pid)
      const { answered } = await putUnderLoad({ requests, check }, clients, LOAD_SECONDS)
      const after = await processorMs(pid)
      if (before !== undefined && after !== undefined) samples.push((after - before) / answered)
    }
    figures.push({ name: `coordinator, ${name}, processor time of a query`, unit: 'ms', target: ['≤', most], samples })
  }
  const bytes = requests[0]!.body.length + answerBytes
  figures.push({ name: "a record's bodies, one server", unit: 'kB', samples: [bytes / 1000] })
  return figures
}
