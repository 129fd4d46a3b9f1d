// Batches of hundreds of thousands of edits on PostgreSQL: how long lookups wait meanwhile, at the writer and at a replica, and
// whether a process that is killed amid one leaves the epoch before or the one after.

import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { open } from '@keyhush/client'
import { encodeQuery } from '@keyhush/protocol'
import { batchOn } from '../bench/large-batches.js'
import { newestManifest, Stage } from '../bench/stage.js'
import { newStore, queryStore } from '../support/postgres.js'
import { type ServerProcess, startServerProcess } from '../support/processes.js'
import { PUBLISHER_KEY, signed } from '../support/publishing.js'

const CHECKED = 50
const PATIENCE_MS = 120_000

/** `chance(n)`: a number below n. Throws what is wrong. */
export async function largeBatches(
  operations: number,
  kills: number,
  chance: (count: number) => number,
): Promise<void> {
  await Stage.with(async stage => {
    const { store, remove } = await newStore()
    stage.closeLast(remove)
    const rows = Array.from({ length: operations }, (_, key) => `${key},0\n`)
    const dataset = await stage.build('csv', `key,value\n${rows.join('')}`, '--max-value-bytes', '14')
    const serve = async (...args: string[]) => {
      const server = await startServerProcess('--instant', 'off', '--store', store, ...args)
      stage.closeLast(() => server.kill())
      return server
    }
    const write = () => serve('--dataset', dataset, '--publisher-key', PUBLISHER_KEY)
    let writer = await write()
    let replica = await serve('--replica')

    const publish = async (value: number) => {
      const lines = Array.from({ length: operations }, (_, key) => `{"op":"edit","key":"${key}","value":"${value}"}\n`)
      const body = await batchOn(await newestManifest(writer.url), lines.join(''))
      const response = await fetch(`${writer.url}/v1/epochs`, { method: 'POST', headers: signed(body), body })
      if (response.status !== 200) throw new Error(`a batch was refused: ${await response.text()}`)
    }
    /** The times of lookups at `server` while `work` runs. */
    const waitsWhile = async (servers: readonly ServerProcess[], work: () => Promise<void>) => {
      const askers = await Promise.all(
        servers.map(async ({ url }) => {
          const asker = new Worker(new URL('../bench/asker.mjs', import.meta.url), { workerData: url })
          const manifest = await newestManifest(url)
          const query = encodeQuery(manifest, 1, new Uint8Array(2 * manifest.partitions), 'merkle')
          const waits = async () => {
            asker.postMessage(query)
            return ((await once(asker, 'message')) as [number[]])[0]
          }
          await waits()
          await sleep(1000)
          await waits()
          return { asker, waits }
        }),
      )
      await work()
      const longest = []
      for (const { asker, waits } of askers) {
        longest.push(Math.max(...(await waits())))
        await asker.terminate()
      }
      return longest
    }
    const check = async (value: number) => {
      for (const { url } of [writer, replica]) {
        const map = await open({ servers: [url], mode: 'local', integrity: 'server', storage: 'memory', push: false })
        for (let i = 0; i < CHECKED; i++) {
          const key = chance(operations)
          const found = await map.getText(`${key}`)
          if (found !== `${value}`) throw new Error(`key ${key} is ${found}, and not ${value}, at ${url}`)
        }
        await map.close()
      }
      const staged = "SELECT count(*)::int AS count FROM schema.entries WHERE key = 'staged'"
      if ((await queryStore(store, staged))[0]!['count'] !== 0) throw new Error('a list stands staged')
    }

    const idle = await waitsWhile([writer, replica], () => sleep(3000))
    let seconds = 0
    const held = await waitsWhile([writer, replica], async () => {
      const start = performance.now()
      await publish(1)
      seconds = (performance.now() - start) / 1000
    })
    const told = (waits: number[]) => waits.map(ms => ms.toFixed(0)).join(' and ')
    console.log(
      `${operations} edits: ${seconds.toFixed(1)} s until both have them; longest wait of a lookup, at who writes and at a replica: ` +
        `${told(held)} ms (without: ${told(idle)})`,
    )
    await check(1)

    let [before, after] = [0, 0]
    for (let value = 2; value < 2 + kills; value++) {
      const { epoch } = await newestManifest(writer.url)
      const isWriter = chance(3) > 0
      const publishing = publish(value).then(
        () => true,
        () => false,
      )
      await sleep(chance(1100 * seconds))
      if (isWriter) {
        await writer.kill()
        await publishing
        writer = await write()
      } else {
        await replica.kill()
        replica = await serve('--replica')
        if (!(await publishing)) throw new Error('a replica was killed, and the batch failed')
      }
      const now = (await newestManifest(writer.url)).epoch
      if (now === epoch) before++
      else after++
      console.log(`kill ${value - 1}: ${isWriter ? 'who writes' : 'a replica'}, ${now === epoch ? 'before' : 'after'}`)
      for (const until = Date.now() + PATIENCE_MS; (await newestManifest(replica.url)).epoch !== now; ) {
        if (Date.now() > until) throw new Error('a replica stays behind')
        await sleep(100)
      }
      if (now === epoch) await publish(value)
      await check(value)
    }
    console.log(`${kills} killed: ${before} times the epoch before was there, ${after} times the next`)
  })
}
