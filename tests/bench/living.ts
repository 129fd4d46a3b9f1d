// A database that changes: batches published to two real servers that keep it on disk (LMDB), a page that follows them,
// and restarts.

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { decodeManifest, encodeBatch, type Manifest, toHex } from '@keyhush/protocol'
import { PublisherRecord, publish } from '@keyhush/server'
import { loadCore } from '@keyhush/wasm'
import type { Page } from 'puppeteer-core'
import { PUBLISHER, PUBLISHER_KEY, signed } from '../support/publishing.js'
import { distinct } from './compute.js'
import { editsIn } from './computing.js'
import { largeBatches } from './large-batches.js'
import { type Options, target } from './options.js'
import { followUpdates, turnedTo } from './page.js'
import type { Section } from './report.js'
import { type Pair, peakBytes, pseudorandomBytes, Stage, under } from './stage.js'

/** Edits of distinct records. */
export interface Batch {
  /** as `keyhush publish` takes them, values in hex */
  readonly operations: Uint8Array
  /** one of the records edited, and what it becomes */
  readonly index: number
  readonly value: Buffer
}

export async function living(options: Options): Promise<Section[]> {
  return [await followed(options), await largeBatches(options)]
}

async function followed(options: Options): Promise<Section> {
  const { shape, repeats } = options
  const { records, recordBytes } = shape
  const { some, many } = editsIn(records)
  return await Stage.with(async stage => {
    const dataset = await stage.dataset(pseudorandomBytes(records * recordBytes), shape)
    const store = (s: 0 | 1) => ['--store', join(stage.folder, `store-${s}`), '--publisher-key', PUBLISHER_KEY]
    let servers = await stage.pair(s => ['--dataset', dataset, ...store(s)])

    process.stdout.write(`living: batches of ${some} edits … `)
    const batchMs = { some: [] as number[], many: [] as number[] }
    for (let i = 0; i < 3 * repeats; i++) batchMs.some.push(...(await publishTimed(servers, edits(shape, some))))
    const listBytes = await updateListBytes(servers)
    process.stdout.write(`and ${many} … `)
    for (let i = 0; i < 3; i++) batchMs.many.push(...(await publishTimed(servers, edits(shape, many))))

    process.stdout.write('restarts … ')
    const restartSeconds = { some: [] as number[], many: [] as number[] }
    // What a server does last before it is ready is to apply its last batch again.
    const restart = async (seconds: number[], times: number) => {
      for (let i = 0; i < times; i++) {
        await servers[0].stop()
        const start = performance.now()
        servers = [await stage.serve(...store(0)), servers[1]]
        seconds.push((performance.now() - start) / 1000)
      }
    }
    await restart(restartSeconds.many, 2)
    await publishTimed(servers, edits(shape, some))
    await restart(restartSeconds.some, repeats)

    console.log('a page that follows')
    const record = new PublisherRecord()
    const followSeconds = { some: [] as number[], many: [] as number[], signed: [] as number[] }
    const follow = async (page: Page, size: number) => {
      const { operations, index, value } = edits(shape, size)
      const start = performance.timeOrigin + performance.now()
      const { blake3 } = await loadCore()
      const trustBase = toHex(blake3((await newest(servers[0].url)).bytes))
      const publishing = { servers: under(servers), key: PUBLISHER, record, trustBase }
      const { epoch } = await publish({ ...publishing, operations, encoding: 'hex' })
      const turned = await page.evaluate(turnedTo, epoch, index)
      if (!value.equals(Uint8Array.from(turned.value))) throw new Error(`the value at ${index} is not the new one`)
      return (turned.at - start) / 1000
    }
    const page = await stage.page(servers)
    await page.evaluate(followUpdates, under(servers))
    for (let i = 0; i < 2 * repeats; i++) followSeconds.some.push(await follow(page, some))
    for (let i = 0; i < 3; i++) followSeconds.many.push(await follow(page, many))
    await page.close()
    const careful = await stage.page(servers)
    await careful.evaluate(followUpdates, under(servers), PUBLISHER_KEY)
    for (let i = 0; i < 20; i++) followSeconds.signed.push(await follow(careful, some))
    await careful.close()
    const memory = (await Promise.all(servers.map(({ pid }) => peakBytes(pid)))).filter(bytes => bytes !== undefined)

    const column = (count: number) => `${count} edits`
    const figures = [
      {
        ...{ name: 'a batch at a server, on disk', column: column(some), unit: 'ms' },
        target: target(options, '<', 50),
        samples: batchMs.some,
      },
      { name: 'a batch at a server, on disk', column: column(many), unit: 'ms', samples: batchMs.many },
      {
        ...{ name: 'publishing until an open page follows', column: column(some), unit: 's' },
        target: target(options, '≤', 1),
        samples: followSeconds.some,
      },
      { name: 'publishing until an open page follows', column: column(many), unit: 's', samples: followSeconds.many },
      {
        ...{ name: "– with the publisher's key", column: column(some), unit: 's' },
        target: target(options, '≤', 1),
        samples: followSeconds.signed,
      },
      {
        ...{ name: 'restart of a server', column: column(some), unit: 's' },
        target: target(options, '<', 3),
        samples: restartSeconds.some,
      },
      { name: 'restart of a server', column: column(many), unit: 's', samples: restartSeconds.many },
      {
        ...{ name: 'an edit', column: column(some), unit: 'B' },
        target: target(options, '<', 45),
        samples: [listBytes / some],
      },
      { name: 'memory of a server', unit: 'MiB', samples: memory.map(bytes => bytes / 2 ** 20) },
    ]
    return { title: 'A database that changes', figures }
  })
}

export function edits({ records, recordBytes }: Options['shape'], size: number): Batch {
  const indices = distinct(size, records)
  const values = randomBytes(size * recordBytes)
  const valueAt = (i: number) => values.subarray(i * recordBytes, (i + 1) * recordBytes)
  const lines = indices.map((index, i) => `{"op":"edit","index":${index},"value":"${toHex(valueAt(i))}"}\n`)
  return { operations: Buffer.from(lines.join('')), index: indices[0]!, value: valueAt(0) }
}

/** Publishes to one server after the other; how long each took from the request to its reply, which comes from disk. */
export async function publishTimed(servers: Pair, { operations }: Batch): Promise<number[]> {
  const { blake3 } = await loadCore()
  const { bytes, manifest } = await newest(servers[0].url)
  const { databaseId, generation, epoch } = manifest
  const body = encodeBatch({
    ...{ encoding: 'hex', databaseId, generation, epoch: epoch + 1, expires: 0, operations },
    previousManifest: blake3(bytes),
  })
  const times: number[] = []
  const headers = signed(body)
  for (const { url } of servers) {
    const start = performance.now()
    const response = await fetch(`${url}/v1/epochs`, { method: 'POST', headers, body })
    const reply = await response.text()
    times.push(performance.now() - start)
    if (response.status !== 200) throw new Error(`a batch was refused: ${reply}`)
  }
  const [a, b] = [await newest(servers[0].url), await newest(servers[1].url)]
  if (!a.bytes.equals(b.bytes)) throw new Error('the servers have diverged')
  return times
}

/** Of the newest epoch, as a server sends it. */
async function updateListBytes([{ url }]: Pair): Promise<number> {
  const { manifest } = await newest(url)
  const response = await fetch(`${url}/v1/blobs/${toHex(manifest.updateListHash)}`)
  const { byteLength } = await response.arrayBuffer()
  if (byteLength !== manifest.updateListBytes)
    throw new Error('the update list has another length than its manifest says')
  return byteLength
}

async function newest(url: string): Promise<{ bytes: Buffer; manifest: Manifest }> {
  const bytes = Buffer.from(await (await fetch(`${url}/v1/manifest`)).arrayBuffer())
  return { bytes, manifest: decodeManifest(bytes) }
}
