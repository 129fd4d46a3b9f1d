// Instant lookups with one server, beside the tables of their design: what the core computes in WebAssembly under Node, as a server's
// threads and a client's module do. Every record found is compared with the data.

import { randomBytes, randomInt } from 'node:crypto'
import { type Core, loadCore } from '@keyhush/wasm'
import { discardInstance } from '@keyhush/wasm/instance'
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
  readonly design: Readonly<Record<'server' | 'ask' | 'decode' | 'prepare', number>>
}

/** ms, and s to prepare; of a range, its middle. */
const DESIGNED: readonly Designed[] = [
  { records: 2 ** 16, recordBytes: 32, design: { server: 5.2, ask: 1.2, decode: 0.6, prepare: 0.7 } },
  { records: 2 ** 20, recordBytes: 32, design: { server: 17.9, ask: 1.7, decode: 2.2, prepare: 3.7 } },
  { records: 2 ** 22, recordBytes: 32, design: { server: 51, ask: 2.5, decode: 3.6, prepare: 7.3 } },
  { records: 2 ** 20, recordBytes: 256, design: { server: 91, ask: 3.4, decode: 4.6, prepare: 13.1 } },
]

export async function oneServer(options: Options): Promise<Section[]> {
  const figures: Figure[] = []
  for (const shape of DESIGNED) {
    console.log(`one-server: N = ${shape.records}, ℓ = ${shape.recordBytes}`)
    figures.push(...(await computing(shape, options.repeats * 3)))
  }
  return [
    { title: 'One server, no download: computing', figures },
    await oneServerClients(options),
    await oneServerVisits(options),
    await oneServerEdits(options),
  ]
}

async function computing(shape: Designed, lookups: number): Promise<Figure[]> {
  const { records, recordBytes, design } = shape
  const core = await loadCore()
  const data = pseudorandomBytes(records * recordBytes)
  const server = core.newOneServer(shape, CONTEXT)
  server.put(data)
  const preparing = milliseconds(() => {
    while (server.step());
  })
  const spent = await lookUps(server, shape, data, lookups)
  server.free()
  discardInstance(core)
  const column = `${power(records)} × ${recordBytes} B`
  const figure = (name: string, unit: string, samples: readonly number[], designed: number): Figure => ({
    ...{ name, column, unit, samples, target: ['design', designed] },
  })
  return [
    figure('server', 'ms', spent.server, design.server),
    figure('client asks', 'ms', spent.ask, design.ask),
    figure('client decodes', 'ms', spent.decode, design.decode),
    figure('prepare', 's', [preparing / 1000], design.prepare),
  ]
}

async function lookUps(
  server: ReturnType<Core['newOneServer']>,
  shape: Shape,
  data: Buffer,
  lookups: number,
): Promise<Record<'ask' | 'server' | 'decode', number[]>> {
  const client = await loadOneServerCore()
  const spent = { ask: [] as number[], server: [] as number[], decode: [] as number[] }
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
    while (query!.expand()); // before the answer comes, so that no lookup waits for it
    const decode = milliseconds(() => {
      found = query!.decode(hint, answer!)
    })
    query!.free()
    check(data, recordBytes, [{ index, value: [...(found ?? [])] }])
    if (i < 0) continue
    spent.ask.push(ask)
    spent.server.push(answering)
    spent.decode.push(decode)
  }
  return spent
}
