// Instant lookups with one server, beside the tables of their design: sizes, and what the core computes in WebAssembly under Node, as a
// server's threads and a client's module do. Every record found is compared with the data.

import { randomBytes, randomInt } from 'node:crypto'
import { HEADER_BYTES } from '@keyhush/protocol'
import { type Core, discardCore, loadCore } from '@keyhush/wasm'
import { loadOneServerCore } from '@keyhush/wasm/one-server'
import { milliseconds } from './compute.js'
import { oneServerClients } from './one-server-clients.js'
import { oneServerEdits } from './one-server-edits.js'
import { oneServerVisits } from './one-server-visits.js'
import type { Options } from './options.js'
import { power } from './plot.js'
import type { Figure, Section } from './report.js'
import { check, pseudorandomBytes, type Shape } from './stage.js'

const WARM_UP_LOOKUPS = 5
const CONTEXT = { databaseId: new Uint8Array(16).fill(1), generation: 1, of: 'records' } as const

interface Designed extends Shape {
  readonly design: Readonly<Record<Size | Time, number>>
}

type Size = 'up' | 'down' | 'hint' | 'first' | 'later' | 'memory'
type Time = 'server' | 'ask' | 'decode' | 'prepare'

/** kB, and MB of memory; in WebAssembly ms, and s to prepare; of a range, its middle. */
const DESIGNED: readonly Designed[] = [
  {
    ...{ records: 2 ** 16, recordBytes: 32 },
    design: {
      ...{ up: 15.3, down: 1.8, hint: 11.8, first: 28.9, later: 17.1, memory: 28 },
      ...{ server: 5.2, ask: 1.2, decode: 0.6, prepare: 0.7 },
    },
  },
  {
    ...{ records: 2 ** 20, recordBytes: 32 },
    design: {
      ...{ up: 27.7, down: 7.2, hint: 41, first: 75.8, later: 34.9, memory: 136 },
      ...{ server: 17.9, ask: 1.7, decode: 2.2, prepare: 3.7 },
    },
  },
  {
    ...{ records: 2 ** 22, recordBytes: 32 },
    design: {
      ...{ up: 54.1, down: 12.5, hint: 70.1, first: 136.8, later: 66.7, memory: 316 },
      ...{ server: 51, ask: 2.5, decode: 3.6, prepare: 7.3 },
    },
  },
  {
    ...{ records: 2 ** 20, recordBytes: 256 },
    design: {
      ...{ up: 88.9, down: 14.3, hint: 79.9, first: 183.1, later: 103.2, memory: 487 },
      ...{ server: 91, ask: 3.4, decode: 4.6, prepare: 13.1 },
    },
  },
]

export async function oneServer(options: Options): Promise<Section[]> {
  const [lookups, more]: [Figure[], Figure[]] = [[], []]
  for (const shape of DESIGNED) {
    console.log(`one-server: N = ${shape.records}, ℓ = ${shape.recordBytes}`)
    const computed = await computing(shape, options.repeats * 3)
    lookups.push(...computed.lookups)
    more.push(...(await moved(shape)), ...computed.more)
  }
  return [
    // docs/benchmarks.md leaves it out: bytes, which follow from the shape (docs/costs.md), and times that no lookup waits for.
    { title: 'One server, no download: sizes, and other times', figures: more },
    { title: 'One server, no download: computing', figures: lookups },
    await oneServerClients(options),
    await oneServerVisits(options),
    await oneServerEdits(options),
  ]
}

/** What a lookup of records moves, headers included, and what a prepared epoch keeps. */
async function moved(shape: Designed): Promise<Figure[]> {
  const { design } = shape
  const { requestBytes, answerBytes, hintBytes, serverBytes } = (await loadCore()).oneServerSizes(shape)
  const [up, down] = [HEADER_BYTES + requestBytes, HEADER_BYTES + answerBytes]
  const kB = (name: string, bytes: number, designed: number) => figureOf(shape, name, 'kB', [bytes / 1000], designed)
  return [
    kB('up', up, design.up),
    kB('down', down, design.down),
    kB('hint', hintBytes, design.hint),
    kB('first lookup', up + down + hintBytes, design.first),
    kB('later lookups', up + down, design.later),
    figureOf(shape, 'memory of the server', 'MB', [serverBytes / 1e6], design.memory),
  ]
}

function figureOf(shape: Shape, name: string, unit: string, samples: readonly number[], designed?: number): Figure {
  const column = `${power(shape.records)} × ${shape.recordBytes} B`
  return { name, column, unit, samples, target: designed === undefined ? undefined : ['design', designed] }
}

async function computing(shape: Designed, lookups: number): Promise<Record<'lookups' | 'more', Figure[]>> {
  const { records, recordBytes, design } = shape
  const core = await loadCore()
  const data = pseudorandomBytes(records * recordBytes)
  const server = core.newOneServer(shape, CONTEXT)
  server.put(data)
  const preparing = milliseconds(() => {
    while (server.step());
  })
  const norm = core.newOneServerNorm(server)
  const checking = milliseconds(() => {
    while (norm.step(server));
  })
  if (!norm.hides) throw new Error(`expected random records to hide verdicts, got a norm of 2^${norm.log2}`)
  norm.free()
  const spent = await lookUps(server, shape, data, lookups)
  server.free()
  discardCore(core)
  const figure = figureOf.bind(undefined, shape)
  return {
    lookups: [
      figure('server', 'ms', spent.server, design.server),
      figure('client asks', 'ms', spent.ask, design.ask),
      figure('client decodes', 'ms', spent.decode, design.decode),
      figure('prepare', 's', [preparing / 1000], design.prepare),
    ],
    more: [figure('client draws noise', 'ms', spent.expand), figure('check of norms', 's', [checking / 1000])],
  }
}

async function lookUps(
  server: ReturnType<Core['newOneServer']>,
  shape: Shape,
  data: Buffer,
  lookups: number,
): Promise<Record<'ask' | 'server' | 'expand' | 'decode', number[]>> {
  const client = await loadOneServerCore()
  const spent = { ask: [] as number[], server: [] as number[], expand: [] as number[], decode: [] as number[] }
  const { records, recordBytes } = shape
  const hint = server.hint()
  for (let i = -WARM_UP_LOOKUPS; i < lookups; i++) {
    const index = randomInt(records)
    const entropy = randomBytes(32)
    let query: ReturnType<typeof client.newOneServerQuery> | undefined
    let [request, answer]: Uint8Array[] = []
    let found: Uint8Array | undefined
    const ask = milliseconds(() => {
      query = client.newOneServerQuery(shape, CONTEXT, new Uint8Array(32), Uint32Array.of(index), entropy)
      request = query.request()
    })
    const answering = milliseconds(() => {
      answer = server.answer(request!)
    })
    const expand = milliseconds(() => {
      while (query!.expand());
    })
    const decode = milliseconds(() => {
      found = query!.decode(hint, answer!)
    })
    query!.free()
    check(data, recordBytes, [{ index, value: [...(found ?? [])] }])
    if (i < 0) continue
    spent.ask.push(ask)
    spent.server.push(answering)
    spent.expand.push(expand)
    spent.decode.push(decode)
  }
  return spent
}
