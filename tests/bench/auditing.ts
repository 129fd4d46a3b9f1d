// An auditor: what it costs to make each epoch of a publisher anew.

import { join } from 'node:path'
import { fromHex, toHex } from '@keyhush/protocol'
import { openStorage, PublisherRecord, publish } from '@keyhush/server'
import { loadCore } from '@keyhush/wasm'
import { Audit } from '../../server/dist/audit/audit.js'
import { PUBLISHER, PUBLISHER_KEY } from '../support/publishing.js'
import { distinct } from './compute.js'
import { type Options, target } from './options.js'
import type { Section } from './report.js'
import { Stage, under } from './stage.js'

const EDITS = 500

export async function audited(options: Options): Promise<Section> {
  const { shape, repeats } = options
  const { records } = shape
  const keyOf = (i: number) => i.toString(36).padStart(8, '0')
  return await Stage.with(async stage => {
    const rows = Array.from({ length: records }, (_, i) => `${keyOf(i)},${'0'.padStart(14, '0')}\n`)
    const dataset = await stage.build('csv', `key,value\n${rows.join('')}`)
    const servers = await stage.pair(s => [
      ...['--dataset', dataset, '--store', join(stage.folder, `store-${s}`), '--publisher-key', PUBLISHER_KEY],
    ])
    const record = new PublisherRecord()
    const core = await loadCore()
    const manifest = new Uint8Array(await (await fetch(`${servers[0].url}/v1/manifest`)).arrayBuffer())
    const publishing = { servers: under(servers), key: PUBLISHER, record, trustBase: toHex(core.blake3(manifest)) }
    await publish(publishing)

    const folder = join(stage.folder, 'audit')
    const lines: { readonly milliseconds: number }[] = []
    const open = async () => {
      const storage = await openStorage(folder)
      const who = {
        servers: under(servers),
        publisherKey: fromHex(PUBLISHER_KEY),
        onEpoch: (line: (typeof lines)[0]) => void lines.push(line),
      }
      return await Audit.open({ ...who, storage, folder })
    }
    let audit = await open()
    await audit.look()
    const processorMs: number[] = []
    lines.length = 0
    for (let epoch = 0; epoch < 3 * repeats; epoch++) {
      const operations = distinct(EDITS, records).map(i => {
        return `${JSON.stringify({ op: 'edit', key: keyOf(i), value: `${epoch}`.padStart(14, '0') })}\n`
      })
      await publish({ ...publishing, operations: Buffer.from(operations.join('')) })
      const before = process.cpuUsage()
      await audit.look()
      const { user, system } = process.cpuUsage(before)
      processorMs.push((user + system) / 1000)
    }
    const stepMs = lines.map(({ milliseconds }) => milliseconds)
    const startSeconds: number[] = []
    for (let i = 0; i < repeats; i++) {
      await audit.close()
      const start = performance.now()
      audit = await open()
      startSeconds.push((performance.now() - start) / 1000)
    }
    await audit.close()
    const column = `${records} keys`
    return {
      title: 'An auditor',
      figures: [
        {
          name: `an epoch of ${EDITS} edits, processor`,
          column,
          unit: 'ms',
          target: target(options, '≤', 50),
          samples: processorMs,
        },
        { name: '– from list to disk', column, unit: 'ms', samples: stepMs },
        { name: 'a start from its store', column, unit: 's', target: target(options, '≤', 5), samples: startSeconds },
      ],
    }
  })
}
