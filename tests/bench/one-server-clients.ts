// Clients that look up at once at one server process without a download, beside one client alone. Every reply is compared with one that
// a client has verified.

import { randomBytes, randomInt } from 'node:crypto'
import { decodeOneServerAnswer, encodeOneServerQuery, ONE_SERVER_PATH, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { type Load, putUnderLoad } from './load.js'
import type { Options } from './options.js'
import { power } from './plot.js'
import { type Figure, median, type Section } from './report.js'
import { check, forOneServer, newestManifest, pseudorandomBytes, Stage, untilReady } from './stage.js'

const CLIENTS = 4
const LOAD_SECONDS = 1
const TURNS = 3
const REQUESTS = 8

/** Clients that each ask again as soon as they are answered; and one alone, in turn with them. */
export async function oneServerClients({ shape, repeats }: Options): Promise<Section> {
  const { records, recordBytes } = shape
  console.log(`one-server: ${CLIENTS} clients at once`)
  const figures = await Stage.with(async stage => {
    const data = pseudorandomBytes(records * recordBytes)
    const dataset = await stage.dataset(data, shape, ...forOneServer())
    const { url } = await stage.serve('--dataset', dataset)
    await untilReady(url)
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
    ] satisfies Figure[]
  })
  return { title: 'One server, no download: clients at once', figures }
}

/** Requests whose answers a client has verified: later ones have to be the same. */
async function checkedLoad(url: string, data: Buffer): Promise<Load> {
  const [core, manifest] = [await loadCore(), await newestManifest(url)]
  const { databaseId, generation, oneServer } = manifest
  const context = { databaseId, generation, of: 'records' } as const
  const { answerBytes } = core.oneServerSizes(manifest)
  const hint = await bytesAt(`${url}/v1/blobs/${toHex(oneServer!.hintHash)}`)
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
