// What lookups wait for while a server takes a batch as large as a request may carry.

import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { encodeBatch, encodeManifest, encodeQuery, type Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { PUBLISHER_KEY, signed } from '../support/publishing.js'
import { type Options, target } from './options.js'
import type { Section } from './report.js'
import { newestManifest, Stage } from './stage.js'

/** Bytes of a value, so that a record of a keyed database has 32. */
const VALUE_BYTES = 14
/** Keys there are, of those that are added. */
const BEFORE = 5 / 4
const IDLE_MS = 3000

export async function largeBatches(options: Options): Promise<Section> {
  const { adds } = options
  const before = Math.round(adds * BEFORE)
  const keyOf = (i: number) => i.toString(36).padStart(5, '0')
  return await Stage.with(async stage => {
    const rows = Array.from({ length: before }, (_, i) => `${keyOf(i)},0\n`)
    const room = ['--max-value-bytes', `${VALUE_BYTES}`, '--headroom', `${adds}`]
    const dataset = await stage.build('csv', `key,value\n${rows.join('')}`, ...room)
    const store = ['--store', join(stage.folder, 'store'), '--publisher-key', PUBLISHER_KEY]
    const server = await stage.serve('--dataset', dataset, ...store)
    const asker = new Worker(new URL('asker.mjs', import.meta.url), { workerData: server.url })
    stage.closeLast(() => asker.terminate())
    /** Of lookups since the last time. From now on they are at the newest epoch, which is answered until it is two behind. */
    const waits = async () => {
      const manifest = await newestManifest(server.url)
      asker.postMessage(encodeQuery(manifest, 1, new Uint8Array(2 * manifest.partitions), 'merkle'))
      return ((await once(asker, 'message')) as [number[]])[0]
    }
    await waits()
    await pause(IDLE_MS)
    await waits() // of connections that were new, and code that was
    await pause(IDLE_MS)
    const idle = await waits()
    const taken = async (op: 'add' | 'edit') => {
      process.stdout.write(`living: ${adds} ${op}s in one batch … `)
      const line = (i: number) => `{"op":"${op}","key":"${keyOf(before + i)}","value":"${op === 'add' ? 1 : 2}"}\n`
      const batch = batchOn(await newestManifest(server.url), Array.from({ length: adds }, (_, i) => line(i)).join(''))
      await waits()
      const body = await batch
      const headers = signed(body)
      const start = performance.now()
      const response = await fetch(`${server.url}/v1/epochs`, { method: 'POST', headers, body })
      if (response.status !== 200) throw new Error(`a batch was refused: ${await response.text()}`)
      const seconds = (performance.now() - start) / 1000
      const all = (await waits()).sort((a, b) => a - b)
      const at = (share: number) => all[Math.floor(share * (all.length - 1))]!.toFixed(1)
      console.log(
        `${seconds.toFixed(1)} s; ${all.length} lookups, median ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1)} ms`,
      )
      return { longest: all.at(-1)!, seconds }
    }
    const [added, edited] = [await taken('add'), await taken('edit')]
    const figures = [
      { name: 'Longest wait of a lookup while nothing is published', unit: 'ms', samples: [Math.max(...idle)] },
      {
        name: `Longest wait of a lookup while ${adds} adds are taken`,
        unit: 'ms',
        target: target(options, '<', 50),
        samples: [added.longest],
      },
      { name: `A batch of ${adds} adds at a server, on disk`, unit: 's', samples: [added.seconds] },
      { name: `Longest wait of a lookup while ${adds} edits are taken`, unit: 'ms', samples: [edited.longest] },
      { name: `A batch of ${adds} edits at a server, on disk`, unit: 's', samples: [edited.seconds] },
    ]
    return { title: `A batch as large as a request may carry, in a database of ${before} keys`, figures }
  })
}

export async function batchOn(manifest: Manifest, operations: string): Promise<Uint8Array<ArrayBuffer>> {
  const { blake3 } = await loadCore()
  const { databaseId, generation, epoch } = manifest
  return encodeBatch({
    ...{ encoding: 'utf8', databaseId, generation, epoch: epoch + 1, expires: 0 },
    previousManifest: blake3(encodeManifest(manifest)),
    operations: Buffer.from(operations),
  })
}
