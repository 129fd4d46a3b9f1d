// Edits with one server and no download, while a client has a map open: from `publish` to the new value, what the client downloads for it,
// and what the publisher and the server do besides. Nothing is prepared for an edit.

import { randomBytes, randomInt } from 'node:crypto'
import { open } from '@keyhush/client'
import { PublisherRecord, publish } from '@keyhush/server'
import { PUBLISHER, PUBLISHER_KEY } from '../support/publishing.js'
import { signedServer, VALUE_BYTES } from './one-server-visits.js'
import { type Options, target } from './options.js'
import { power } from './plot.js'
import type { Section } from './report.js'
import { pseudorandomBytes, Stage } from './stage.js'
import { keyOf } from './visits.js'

const EDITS = 10

export async function oneServerEdits(options: Options): Promise<Section> {
  const { records } = options.shape
  console.log(`one-server: edits, N = ${records}, keyed`)
  return await Stage.with(async stage => {
    const record = new PublisherRecord()
    const url = await signedServer(stage, pseudorandomBytes(records * VALUE_BYTES), record)
    const common = { servers: [url], publisherKey: PUBLISHER_KEY, development: true } as const
    const map = await open({ ...common, experimental: true, mode: 'instant', storage: 'memory', push: true })
    const publishing = { servers: [url], own: true, key: PUBLISHER, record, encoding: 'hex' } as const
    const [published, seen, downloaded]: number[][] = [[], [], []]
    for (let edit = 0; edit < EDITS; edit++) {
      const [key, value] = [keyOf(randomInt(records)), randomBytes(VALUE_BYTES)]
      await map.get(key) // hint and patch are there
      const before = map.stats.servers[0]!.offline.bytesDown
      const updated = new Promise<void>(resolve => {
        const off = map.on('updated', () => {
          off()
          resolve()
        })
      })
      const start = performance.now()
      const operations = Buffer.from(`${JSON.stringify({ op: 'edit', key, value: value.toString('hex') })}\n`)
      const expires = Math.floor(Date.now() / 1000) + 24 * 60 * 60
      await publish({ ...publishing, operations, expires })
      published!.push(performance.now() - start)
      await updated
      if (!value.equals((await map.get(key)) ?? Buffer.of())) throw new Error('expected the new value, got another')
      seen!.push(performance.now() - start)
      downloaded!.push((map.stats.servers[0]!.offline.bytesDown - before) / 1000)
    }
    await map.close()
    const column = `keyed, ${power(records)}`
    return {
      title: 'One server, no download: edits',
      figures: [
        { name: 'published and signed', column, unit: 'ms', samples: published! },
        {
          name: 'an open client has the new value',
          column,
          unit: 'ms',
          target: target(options, '≤', 1000),
          samples: seen!,
        },
        { name: '– downloaded for it', column, unit: 'kB', samples: downloaded! },
      ],
    }
  })
}
