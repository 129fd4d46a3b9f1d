// Watched keys: how soon a change is told, what an epoch moves, and what a list takes to read.

import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { open } from '@keyhush/client'
import { decodeManifest, toHex } from '@keyhush/protocol'
import { PublisherRecord, publish } from '@keyhush/server'
import { loadCore } from '@keyhush/wasm'
import type * as Moved from '../../packages/client/src/lookup/moved.js'
import { PUBLISHER, PUBLISHER_KEY } from '../support/publishing.js'
import { audited } from './auditing.js'
import { type Options, target } from './options.js'
import type { Section } from './report.js'
import { Stage, under } from './stage.js'
import { witnessed } from './witnessed.js'

const NAMES = 1_000
const EPOCHS = 20
/** What an epoch causes is over then. */
const QUIET_MS = 500
const KEYS = 64
const CHANGES = 500
const RECORD_BYTES = 32

export async function watch(options: Options): Promise<Section[]> {
  return [await watched(options), await audited(options), await witnessed(options)]
}

async function watched(options: Options): Promise<Section> {
  const figures = await Stage.with(async stage => {
    const list = Array.from({ length: NAMES }, (_, i) => `name-${i},${'0'.repeat(16)}\n`).join('')
    const dataset = await stage.build('csv', `key,value\n${list}`)
    const store = (s: 0 | 1) => ['--store', join(stage.folder, `store-${s}`), '--publisher-key', PUBLISHER_KEY]
    const servers = await stage.pair(s => ['--dataset', dataset, ...store(s)])
    const urls = under(servers)
    const record = new PublisherRecord()
    const { blake3 } = await loadCore()
    const next = async (epoch: number) => {
      const manifest = new Uint8Array(await (await fetch(`${servers[0].url}/v1/manifest`)).arrayBuffer())
      if (decodeManifest(manifest).epoch !== epoch - 1) throw new Error(`expected epoch ${epoch - 1}, got another`)
      const publishing = { servers: urls, key: PUBLISHER, record, trustBase: toHex(blake3(manifest)) }
      const operations = { op: 'edit', key: 'name-7', value: `${epoch}`.padStart(16, '0') }
      await publish({ ...publishing, operations: new TextEncoder().encode(`${JSON.stringify(operations)}\n`) })
    }
    await next(2)
    const common = { servers: urls, mode: 'instant', storage: 'memory', push: true, development: true } as const
    let moved = 0
    const counting: typeof fetch = async (url, init) => {
      const reply = await fetch(url, init)
      moved += Number(reply.headers.get('content-length') ?? 0)
      return reply
    }
    const map = await open({ ...common, publisherKey: PUBLISHER_KEY, fetch: counting as never })
    const seconds: number[] = []
    /** The kilobytes of so many epochs, each when nothing is under way any more. */
    const epochs = async (first: number, isDone: (epoch: number) => Promise<unknown>): Promise<number[]> => {
      const bytes: number[] = []
      for (let epoch = first; epoch < first + EPOCHS; epoch++) {
        const before = moved
        const done = isDone(epoch)
        const start = performance.now()
        await next(epoch)
        await done
        seconds.push((performance.now() - start) / 1000)
        while (map.epoch < epoch) await setTimeout(20)
        await setTimeout(QUIET_MS)
        bytes.push((moved - before) / 1000)
      }
      return bytes
    }
    const alone = await epochs(3, async () => {})
    seconds.length = 0
    let hear = (_epoch: number) => {}
    await map.watch('name-7', ({ epoch }) => hear(epoch))
    const told = (epoch: number) =>
      new Promise<void>(resolve => {
        hear = at => {
          if (at === epoch) resolve()
        }
      })
    const withWatch = await epochs(3 + EPOCHS, told)
    await map.close()
    const column = `${NAMES} names`
    return [
      {
        ...{ name: 'publishing until it is told', column, unit: 's', samples: seconds },
        target: target(options, '≤', 1),
      },
      { name: 'an epoch, with a watch', column, unit: 'kB', samples: withWatch },
      { name: '– without', column, unit: 'kB', samples: alone },
      {
        ...{ name: 'a list, read', column: `${KEYS} keys, ${CHANGES} changes`, unit: 'ms', samples: await readMs() },
        target: target(options, '≤', 2),
      },
    ]
  })
  return { title: 'Watched keys', figures }
}

/** Reading a list for all keys, none of which it changes but one. */
async function readMs(): Promise<number[]> {
  const path = new URL('../../packages/client/dist/lookup/moved.js', import.meta.url)
  const { placesAfter }: typeof Moved = await import(/* @vite-ignore */ path.href)
  const record = (i: number) =>
    Uint8Array.from({ length: RECORD_BYTES }, (_, at) => (at < 16 ? (i * 7 + at) % 256 : i % 256))
  const entry = (i: number) => {
    const bytes = new Uint8Array(5 + RECORD_BYTES)
    new DataView(bytes.buffer).setUint32(0, i * 3, true)
    bytes[4] = 2
    bytes[5 + 20] = 1
    return [...bytes]
  }
  const list = Uint8Array.from([...new Uint8Array(40), ...Array.from({ length: CHANGES }, (_, i) => entry(i)).flat()])
  const prints = Array.from({ length: KEYS }, (_, i) => record(i).slice(0, 16))
  const places = Array.from({ length: KEYS }, (_, i) => ({ index: i === 0 ? 3 : 10_000 + i, record: record(i) }))
  return Array.from({ length: 50 }, () => {
    const start = performance.now()
    const [first] = placesAfter(list, RECORD_BYTES, prints, places)
    if (first?.record?.[20] !== (places[0]!.record[20]! ^ 1))
      throw new Error('expected the key to change, got it as it was')
    return performance.now() - start
  })
}
