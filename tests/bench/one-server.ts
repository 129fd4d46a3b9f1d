// Instant lookups with one server: what the core computes, in WebAssembly under Node, beside the sizes that it says; and clients at once
// at a server process. Every record found is compared with the data.

import { randomBytes, randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeOneServerAnswer, encodeOneServerQuery, HEADER_BYTES, ONE_SERVER_PATH, toHex } from '@keyhush/protocol'
import { type Core, discardCore, loadCore } from '@keyhush/wasm'
import { milliseconds } from './compute.js'
import { type Load, putUnderLoad } from './load.js'
import { type Options, target } from './options.js'
import { power } from './plot.js'
import { type Figure, median, type Section } from './report.js'
import { check, newestManifest, pseudorandomBytes, type Shape, Stage } from './stage.js'

const WARM_UP_LOOKUPS = 5
const CLIENTS = 4
const LOAD_SECONDS = 1
const TURNS = 3
const REQUESTS = 8
const DAY_SECONDS = 24 * 60 * 60
const CONTEXT = { databaseId: new Uint8Array(16).fill(1), generation: 1, of: 'records' } as const

/** Other shapes, with `--all`. */
const OTHERS: readonly Shape[] = [
  { records: 2 ** 16, recordBytes: 32 },
  { records: 2 ** 22, recordBytes: 32 },
  { records: 2 ** 20, recordBytes: 256 },
]

export async function oneServer(options: Options): Promise<Section[]> {
  const figures: Figure[] = []
  for (const shape of [options.shape, ...(options.all ? OTHERS : [])]) {
    console.log(`one-server: N = ${shape.records}, ℓ = ${shape.recordBytes}`)
    figures.push(...(await computing(options, shape)))
  }
  return [
    { title: 'Instant lookups with one server: computing', figures },
    { title: 'Instant lookups with one server: clients at once', figures: await atOnce(options) },
  ]
}

/** Clients that each ask again as soon as they are answered; and one alone, in turn with them. */
async function atOnce({ shape, repeats }: Options): Promise<Figure[]> {
  const { records, recordBytes } = shape
  console.log(`one-server: ${CLIENTS} clients at once`)
  return await Stage.with(async stage => {
    const data = pseudorandomBytes(records * recordBytes)
    const expires = `${Math.floor(Date.now() / 1000) + DAY_SECONDS}`
    const dataset = await stage.dataset(data, shape, '--one-server', '--expires', expires)
    const { url } = await stage.serve('--dataset', dataset)
    while ((await fetch(`${url}/readyz`)).status !== 200) await sleep(100)
    const load = await checkedLoad(url, data)
    // In short turns, so that whatever else the machine does meanwhile is the same for both.
    const alone: number[] = []
    const ofEach: number[][] = Array.from({ length: CLIENTS }, () => [])
    for (let turn = 0; turn < TURNS * repeats; turn++) {
      alone.push(...(await putUnderLoad(load, 1, LOAD_SECONDS)).latencyMs)
      const together = await putUnderLoad(load, CLIENTS, LOAD_SECONDS)
      for (const [client, latencyMs] of together.ofEach.entries()) ofEach[client]!.push(...latencyMs)
    }
    const ratios = ofEach.map(latencyMs => median(latencyMs) / median(alone))
    const answers = ofEach.map(({ length }) => length)
    const spread = [Math.max(...answers) / Math.min(...answers)]
    const column = `N = ${power(records)}, ℓ = ${recordBytes}`
    return [
      { name: 'one client alone', column, unit: 'ms', samples: alone },
      { name: `each of ${CLIENTS} at once`, column, unit: '× alone', target: ['≤', CLIENTS], samples: ratios },
      { name: '– answers of the first', column, unit: '× of the last', target: ['≤', 1.4], samples: spread },
    ]
  })
}

/** Requests whose answers a client has verified: later ones have to be the same. */
async function checkedLoad(url: string, data: Buffer): Promise<Load> {
  const [core, manifest] = [await loadCore(), await newestManifest(url)]
  const { databaseId, generation, oneServerHint } = manifest
  const context = { databaseId, generation, of: 'records' } as const
  const { answerBytes } = core.oneServerSizes(manifest)
  const hint = await bytesAt(`${url}/v1/blobs/${toHex(oneServerHint!)}`)
  const asked: { readonly url: string; readonly body: Uint8Array; readonly reply: Uint8Array }[] = []
  while (asked.length < REQUESTS) {
    const index = randomInt(manifest.records)
    const entropy = randomBytes(32)
    const query = core.newOneServerQuery(manifest, context, new Uint8Array(32), Uint32Array.of(index), entropy)
    const body = encodeOneServerQuery(manifest, 'records', 1, query.request())
    const reply = await bytesAt(`${url}${ONE_SERVER_PATH}`, { method: 'POST', body })
    const value = query.decode(hint, decodeOneServerAnswer(manifest, 'records', 1, answerBytes, reply))
    query.free()
    check(data, manifest.recordBytes, [{ index, value: [...(value ?? [])] }])
    asked.push({ url: `${url}${ONE_SERVER_PATH}`, body, reply })
  }
  return {
    requests: asked,
    check(i, reply) {
      if (!reply.equals(asked[i]!.reply)) throw new Error('a reply under load is another than the client has verified')
    },
  }
}

async function bytesAt(url: string, init?: RequestInit): Promise<Uint8Array> {
  const response = await fetch(url, init)
  if (!response.ok) throw new Error(`expected status 200, got ${response.status}`)
  return new Uint8Array(await response.arrayBuffer())
}

async function computing(options: Options, shape: Shape): Promise<Figure[]> {
  const { records, recordBytes } = shape
  const core = await loadCore()
  const data = pseudorandomBytes(records * recordBytes)
  const server = core.newOneServer(shape, CONTEXT)
  server.put(data)
  const steps: number[] = []
  for (let more = true; more; ) {
    const ms = milliseconds(() => {
      more = server.step()
    })
    steps.push(ms)
  }
  const norm = core.newOneServerNorm(server)
  const checking = milliseconds(() => {
    while (norm.step(server));
  })
  if (!norm.hides) throw new Error(`expected random records to hide verdicts, got a norm of 2^${norm.log2}`)
  norm.free()
  const spent = lookUps(core, server, shape, data, options.repeats * 3)
  const { requestBytes, answerBytes, hintBytes, serverBytes } = core.oneServerSizes(shape)
  server.free()
  discardCore(core)
  const usual = shape === options.shape
  const at = (...limit: NonNullable<Figure['target']>) => (usual ? target(options, ...limit) : undefined)
  const column = `N = ${power(records)}, ℓ = ${recordBytes}`
  const bytes = (name: string, bytes: number) => ({ name, column, unit: 'kB', samples: [bytes / 1000] })
  const prepared = steps.reduce((sum, ms) => sum + ms, 0)
  return [
    { name: 'prepare', column, unit: 's', target: at('≤', 2.7), samples: [prepared / 1000] },
    { name: '– longest step', column, unit: 'ms', samples: [Math.max(...steps)] },
    { name: 'check of norms', column, unit: 's', samples: [checking / 1000] },
    { name: 'lookup, server', column, unit: 'ms', target: at('≤', 27), samples: spent.server },
    { name: 'lookup, client asks', column, unit: 'ms', target: at('≤', 1.7), samples: spent.ask },
    { name: 'lookup, client decides', column, unit: 'ms', samples: spent.decide },
    bytes('lookup, up', HEADER_BYTES + requestBytes),
    bytes('lookup, down', HEADER_BYTES + answerBytes),
    bytes('hint', hintBytes),
    { name: 'memory of the server', column, unit: 'MB', samples: [serverBytes / 1e6] },
  ]
}

function lookUps(
  core: Core,
  server: ReturnType<Core['newOneServer']>,
  shape: Shape,
  data: Buffer,
  lookups: number,
): { readonly ask: number[]; readonly server: number[]; readonly decide: number[] } {
  const spent = { ask: [] as number[], server: [] as number[], decide: [] as number[] }
  const { records, recordBytes } = shape
  const hint = server.hint()
  for (let i = -WARM_UP_LOOKUPS; i < lookups; i++) {
    const index = randomInt(records)
    const entropy = randomBytes(32)
    let query: ReturnType<Core['newOneServerQuery']> | undefined
    let [request, answer]: Uint8Array[] = []
    let found: Uint8Array | undefined
    const ask = milliseconds(() => {
      query = core.newOneServerQuery(shape, CONTEXT, new Uint8Array(32), Uint32Array.of(index), entropy)
      request = query.request()
    })
    const answering = milliseconds(() => {
      answer = server.answer(request!)
    })
    const decide = milliseconds(() => {
      found = query!.decode(hint, answer!)
    })
    query!.free()
    check(data, recordBytes, [{ index, value: [...(found ?? [])] }])
    if (i < 0) continue
    spent.ask.push(ask)
    spent.server.push(answering)
    spent.decide.push(decide)
  }
  return spent
}
