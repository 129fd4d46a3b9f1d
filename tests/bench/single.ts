// Lookups with one server: what the core computes, in WebAssembly under Node, and maps in Chromium on a real server, beside
// what their paper says (Mughees, Sun, Ren: Table 3). Every record found is compared with the data.

import { randomBytes, randomInt } from 'node:crypto'
import { join } from 'node:path'
import { encodeBatch, HEADER_BYTES, SUITE_PARITIES, toHex } from '@keyhush/protocol'
import { type Core, type DatabaseHandle, discardCore, loadCore, type SingleHandle } from '@keyhush/wasm'
import { PUBLISHER_KEY, signed } from '../support/publishing.js'
import { memory, reopenSingle } from '../support/wasm.js'
import { distinct, milliseconds } from './compute.js'
import { editsIn } from './computing.js'
import { type Options, target } from './options.js'
import { measureFlushes } from './page.js'
import { power } from './plot.js'
import type { Figure, Section } from './report.js'
import { measureSingle } from './single-page.js'
import { check, newestManifest, pseudorandomBytes, Stage } from './stage.js'

const LARGE = 2 ** 24
const WARM_UP_LOOKUPS = 30

/** Of the paper, at N records of 32 bytes: what its client keeps and downloads, and computes, of a lookup of which the search stops. */
const PAPER = new Map([
  [2 ** 20, { state: 6.25, offline: 4, lookup: 2.18, online: 0.14 }],
  [LARGE, { state: 25, offline: 65, lookup: 8.56, online: 0.62 }],
])

export async function single(options: Options): Promise<Section[]> {
  const { records } = options.shape
  const sizes = options.all && records !== LARGE ? [records, LARGE] : [records]
  const computed: Figure[] = []
  const inChromium: Figure[] = []
  for (const size of sizes) {
    console.log(`single: N = ${size}`)
    computed.push(...(await computing(options, size)))
    inChromium.push(...(await pages(options, size)))
  }
  return [
    { title: 'One server: computing', figures: computed },
    { title: 'One server: in Chromium', figures: inChromium },
  ]
}

/** What only the database that targets are for has; at 2^24 it has its own. */
function limits(options: Options, records: number) {
  const { shape } = options
  const usual = records === shape.records
  return {
    at: (...limit: NonNullable<Figure['target']>) => (usual ? target(options, ...limit) : undefined),
    large: (...limit: NonNullable<Figure['target']>) =>
      records === LARGE && shape.recordBytes === 32 ? limit : undefined,
    column: `N = ${power(records)}`,
  }
}

// ---- the core ---------------------------------------------------------------------------------------

async function computing(options: Options, records: number): Promise<Figure[]> {
  const { recordBytes } = options.shape
  const { at, large, column } = limits(options, records)
  const core = await loadCore()
  const data = pseudorandomBytes(records * recordBytes)
  const layout = core.planLayout(records, recordBytes)
  const database = core.newDatabase(layout, 'tags')
  memory(core, database.recordsPointer(), data.length).set(data)
  for (let q = 0; q < layout.partitions; q++) database.commit(q)

  const offline: { cutoffs: number; all: number; longest: number }[] = []
  let hints: SingleHandle | undefined
  const rows: Rows = new Map()
  for (let run = 0; run < (records > 2 ** 22 ? 1 : options.repeats); run++) {
    hints?.free()
    rows.clear()
    const made = makeHints(core, database, rows)
    hints = made.hints
    offline.push(made)
  }
  const spent = lookUps(hints!, database, rows, options.repeats * options.lookups, data, recordBytes)
  const { some } = editsIn(records)
  const edits = Array.from({ length: options.repeats }, () => update(hints!, database, rows, some, recordBytes))
  let checkpoint: Uint8Array = new Uint8Array()
  const storing = milliseconds(() => {
    checkpoint = hints!.checkpoint(new Uint8Array(32)).take()
  })
  const reopening = milliseconds(() => reopenSingle(core, checkpoint, layout, new Uint8Array(32)).free())
  const state = hints!.hintBytes + hints!.tagBytes
  const [queryBytes, answerBytes] = core.singleBytes(layout) as unknown as [number, number]
  hints!.free()
  database.free()
  discardCore(core)

  const paper = recordBytes === 32 ? PAPER.get(records) : undefined
  const beside = (name: string, unit: string, value: number | undefined): Figure[] =>
    value === undefined ? [] : [{ name, column: `${column}, paper`, unit, samples: [value] }]
  const each = (read: (run: (typeof offline)[number]) => number) => offline.map(read)
  const longest = { column, unit: 'ms', target: at('≤', 50) ?? large('≤', 50) }
  return [
    {
      ...{ name: 'offline phase', column, unit: 's' },
      target: at('≤', 1.3) ?? large('≤', 25),
      samples: each(({ all }) => all / 1000),
    },
    ...beside('offline phase', 's', paper?.offline),
    { name: '– cutoffs', column, unit: 's', samples: each(({ cutoffs }) => cutoffs / 1000) },
    { name: '– longest step', ...longest, samples: each(({ longest }) => longest) },
    { name: 'lookup, client', column, unit: 'ms', target: at('≤', 1), samples: spent.client },
    { name: 'lookup, server', column, unit: 'ms', target: at('≤', 0.05), samples: spent.server },
    ...beside('lookup, both', 'ms', paper?.online),
    {
      ...{ name: 'lookup, bodies', column, unit: 'kB', target: at('≤', 1.3) },
      samples: [(2 * HEADER_BYTES + queryBytes + answerBytes) / 1000],
    },
    ...beside('lookup, bodies', 'kB', paper?.lookup),
    { name: 'state', column, unit: 'MiB', target: at('≤', 16), samples: [state / 2 ** 20] },
    ...beside('state', 'MB', paper?.state),
    { name: `${some} edits`, column, unit: 'ms', target: at('≤', 150), samples: edits.map(({ all }) => all) },
    { name: `${some} edits, longest step`, ...longest, samples: edits.map(({ longest }) => longest) },
    { name: 'checkpoint, written', column, unit: 'ms', samples: [storing] },
    { name: 'checkpoint, read', column, unit: 'ms', target: at('≤', 300), samples: [reopening] },
  ]
}

/** Rows of tags, of a database that has them, by name. */
type Rows = Map<string, Uint8Array>

const NAME_BYTES = 16

/** Hints for a database, a step at a time. Copying records in is not counted. */
function makeHints(core: Core, database: DatabaseHandle, rows: Rows) {
  const { layout } = database
  const { partitions, partitionBytes } = layout
  let [all, longest] = [0, 0]
  const timed = <T>(work: () => T): T => {
    let result: T | undefined
    const ms = milliseconds(() => {
      result = work()
    })
    all += ms
    longest = Math.max(longest, ms)
    return result as T
  }
  const hashes = Buffer.concat(Array.from({ length: partitions }, (_, q) => database.contentHash(q)))
  const builder = timed(() => core.newSingleBuilder(layout, hashes, randomBytes(32)))
  while (timed(() => builder.step()));
  const cutoffs = all
  const pieceBytes = 1 << 18
  for (let q = 0; q < partitions; q++) {
    builder.begin(0, q)
    const from = database.recordsPointer() + q * partitionBytes
    memory(core, builder.lanePointer(0), partitionBytes).set(memory(core, from, partitionBytes))
    for (let at = 0; at < partitionBytes; at += pieceBytes) {
      timed(() => builder.absorb(0, Math.min(pieceBytes, partitionBytes - at)))
    }
    if (!timed(() => builder.fold(0))) throw new Error(`partition ${q} does not match its content hash`)
    while (timed(() => builder.step()));
    for (let row = timed(() => builder.row()); row.length > 0; row = timed(() => builder.row())) {
      const name = row.slice(0, NAME_BYTES)
      rows.set(toHex(name), row.slice(NAME_BYTES))
      timed(() => builder.kept(name))
    }
  }
  const hints = timed(() => builder.finish(0))
  return { hints, cutoffs, all, longest }
}

/** What a store would give for the pending queries. */
function provide(hints: SingleHandle, rows: Rows): void {
  const names = hints.wants()
  for (let at = 0; at < names.length; at += NAME_BYTES) hints.hold(rows.get(toHex(names.slice(at, at + NAME_BYTES)))!)
}

function lookUps(
  hints: SingleHandle,
  database: DatabaseHandle,
  rows: Rows,
  count: number,
  data: Buffer,
  recordBytes: number,
) {
  const [client, server]: [number[], number[]] = [[], []]
  for (let i = 0; i < WARM_UP_LOOKUPS + Math.min(count, hints.left - WARM_UP_LOOKUPS); i++) {
    const index = randomInt(database.layout.records)
    let query: Uint8Array = new Uint8Array()
    const asking = milliseconds(() => {
      hints.query(Uint32Array.of(index), randomBytes(32))
      provide(hints, rows)
      hints.pendingBytes()
      query = hints.request()
    })
    let reply: Uint8Array = new Uint8Array()
    const answering = milliseconds(() => {
      reply = database.answer(query, SUITE_PARITIES)
    })
    let record: Uint8Array = new Uint8Array()
    const finishing = milliseconds(() => {
      if (!hints.verify(reply)) throw new Error('an honest answer was refused')
      record = hints.recon()
      hints.takeEffect()
    })
    if (!data.subarray(index * recordBytes, (index + 1) * recordBytes).equals(record)) {
      throw new Error(`the record at ${index} is wrong`)
    }
    if (i < WARM_UP_LOOKUPS) continue
    client.push(asking + finishing)
    server.push(answering)
  }
  return { client, server }
}

/** A batch of edits, a step at a time; afterwards some of what it changed is looked up. */
function update(hints: SingleHandle, database: DatabaseHandle, rows: Rows, size: number, recordBytes: number) {
  const indices = distinct(size, database.layout.records)
  const values = randomBytes(size * recordBytes)
  const epoch = database.applyKeyless(new Uint8Array(size).fill(2), Uint32Array.from(indices), values)
  const list = epoch.list().slice()
  epoch.free()
  const steps = [milliseconds(() => void hints.update(list, database.layout))]
  for (let more = true; more; ) {
    steps.push(
      milliseconds(() => {
        more = hints.step()
      }),
    )
  }
  for (const [i, index] of indices.slice(0, 5).entries()) {
    hints.query(Uint32Array.of(index), randomBytes(32))
    provide(hints, rows)
    if (!hints.verify(database.answer(hints.request(), SUITE_PARITIES))) throw new Error('an honest answer was refused')
    if (!values.subarray(i * recordBytes, (i + 1) * recordBytes).equals(hints.recon())) {
      throw new Error(`the record at ${index} is not the new one`)
    }
    hints.takeEffect()
  }
  return { all: steps.reduce((sum, ms) => sum + ms, 0), longest: Math.max(...steps) }
}

// ---- maps -------------------------------------------------------------------------------------------

async function pages(options: Options, records: number): Promise<Figure[]> {
  const { recordBytes } = options.shape
  const { at, large, column } = limits(options, records)
  const data = pseudorandomBytes(records * recordBytes)
  const { some } = editsIn(records)
  return await Stage.with(async stage => {
    const dataset = await stage.dataset(data, { records, recordBytes })
    const publishing = ['--publisher-key', PUBLISHER_KEY, '--store', join(stage.folder, 'store')]
    const server = await stage.serve('--dataset', dataset, ...publishing)
    const runs: Awaited<ReturnType<typeof measureSingle>>[] = []
    const flushMs: number[] = []
    const tabBytes: number[] = []
    let edited = Buffer.from(data)
    for (let run = 0; run < (records > 2 ** 22 ? 1 : options.repeats); run++) {
      process.stdout.write(`single: run ${run + 1} … `)
      const page = await stage.page([server])
      const indices = distinct(some, records)
      const values = randomBytes(some * recordBytes)
      const body = await batchOf(server.url, indices, values, recordBytes)
      await page.exposeFunction('publish', () => publish(server.url, body))
      const result = await page.evaluate(measureSingle, server.url, WARM_UP_LOOKUPS, options.lookups)
      flushMs.push(...(await page.evaluate(measureFlushes, options.lookups)))
      check(edited, recordBytes, result.samples)
      edited = Buffer.from(edited)
      for (const [i, index] of indices.entries()) {
        values.copy(edited, index * recordBytes, i * recordBytes, (i + 1) * recordBytes)
      }
      check(edited, recordBytes, result.samplesAfter)
      runs.push(result)
      tabBytes.push(...[await stage.peakTabBytes()].filter(bytes => bytes !== undefined))
      await page.close()
      console.log(`offline phase ${result.offlineMs.toFixed(0)} ms`)
    }
    const each = (read: (run: (typeof runs)[number]) => number) => runs.map(read)
    const ms = { column, unit: 'ms' }
    const longest = { ...ms, target: at('≤', 50) ?? large('≤', 50) }
    return [
      { name: 'offline phase, durable', column, unit: 's', samples: each(({ offlineMs }) => offlineMs / 1000) },
      { name: '– longest task', ...longest, samples: each(({ longestTaskMs }) => longestTaskMs) },
      {
        ...{ name: 'lookup, durable, with a fence', ...ms, target: at('≤', 5) },
        samples: runs.flatMap(({ lookupMs }) => lookupMs),
      },
      { name: 'a flush alone', ...ms, samples: flushMs },
      { name: 'a bare request', ...ms, samples: runs.flatMap(({ bareMs }) => bareMs) },
      { name: `following ${some} edits`, ...ms, samples: each(({ followMs }) => followMs) },
      { name: `following ${some} edits, longest task`, ...longest, samples: each(({ followTaskMs }) => followTaskMs) },
      {
        ...{ name: 'reopening a stored map', ...ms, target: at('≤', 300) },
        samples: each(({ reopenMs }) => reopenMs),
      },
      { name: 'reopening, longest task', ...ms, samples: each(({ reopenTaskMs }) => reopenTaskMs) },
      {
        ...{ name: 'memory, WebAssembly', column, unit: 'MiB', target: large('≤', 64) },
        samples: each(({ wasmBytes }) => wasmBytes / 2 ** 20),
      },
      { name: 'memory of the tab', column, unit: 'MiB', samples: tabBytes.map(bytes => bytes / 2 ** 20) },
    ]
  })
}

async function batchOf(url: string, indices: readonly number[], values: Buffer, recordBytes: number) {
  const { blake3 } = await loadCore()
  const bytes = new Uint8Array(await (await fetch(`${url}/v1/manifest`)).arrayBuffer())
  const { databaseId, generation, epoch } = await newestManifest(url)
  const valueAt = (i: number) => toHex(values.subarray(i * recordBytes, (i + 1) * recordBytes))
  const lines = indices.map((index, i) => `{"op":"edit","index":${index},"value":"${valueAt(i)}"}\n`)
  return encodeBatch({
    ...{ encoding: 'hex', databaseId, generation, epoch: epoch + 1, expires: 0 },
    operations: Buffer.from(lines.join('')),
    previousManifest: blake3(bytes),
  })
}

async function publish(url: string, body: Uint8Array<ArrayBuffer>): Promise<void> {
  const response = await fetch(`${url}/v1/epochs`, { method: 'POST', headers: signed(body), body })
  if (response.status !== 200) throw new Error(`a batch was refused: ${await response.text()}`)
}
