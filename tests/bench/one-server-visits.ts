// First visits with one server and no download, over the line of first visits: a page that has never been there asks one question.

import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { toHex } from '@keyhush/protocol'
import { PublisherRecord, publish } from '@keyhush/server'
import { loadCore } from '@keyhush/wasm'
import { PUBLISHER, PUBLISHER_KEY } from '../support/publishing.js'
import { type Options, target } from './options.js'
import { measureVisit } from './page.js'
import { power } from './plot.js'
import type { Section } from './report.js'
import { check, forOneServer, pseudorandomBytes, Stage, untilReady } from './stage.js'
import { build, keyedSource, keyOf, shapeLine, startApp, visitApp } from './visits.js'

export const VALUE_BYTES = 32

export async function oneServerVisits(options: Options): Promise<Section> {
  const { records } = options.shape
  console.log(`one-server: first visits, N = ${records}, keyed`)
  return await Stage.with(async stage => {
    const data = pseudorandomBytes(records * VALUE_BYTES)
    const server = await signedServer(stage, data)
    const opening = { publisherKey: PUBLISHER_KEY, experimental: true, mode: 'instant' } as const
    const found = {
      scriptThere: [] as number[],
      bytes: [] as number[],
      sinceOpen: [] as number[],
      whole: [] as number[],
    }
    const app = await startApp(stage, '@keyhush/client')
    for (let run = 0; run < options.repeats; run++) {
      const page = await stage.page([{ url: server }])
      await shapeLine(page)
      const index = randomInt(records)
      const visit = await page.evaluate(measureVisit, [server], 'instant', keyOf(index), opening)
      check(data, VALUE_BYTES, [{ index, value: visit.value }])
      await page.close()
      found.scriptThere.push(visit.ms / 1000)
      found.bytes.push(visit.bytes / 1000)
      const answer = await visitApp(stage, app, { ...opening, servers: [server], push: false }, keyOf(index))
      check(data, VALUE_BYTES, [{ index, value: answer.value }])
      found.sinceOpen.push(answer.sinceOpen)
      found.whole.push(answer.whole)
    }
    const column = `keyed, ${power(records)}`
    return {
      title: 'One server, no download: first visits',
      figures: [
        { name: 'script there', column, unit: 's', target: target(options, '≤', 0.5), samples: found.scriptThere },
        { name: '– bodies', column, unit: 'kB', samples: found.bytes },
        { name: 'app in parts, from open()', column, unit: 's', samples: found.sinceOpen },
        { name: '– from navigation', column, unit: 's', samples: found.whole },
      ],
    }
  })
}

/** A server whose newest manifest is signed, when it answers. */
export async function signedServer(stage: Stage, data: Buffer, record = new PublisherRecord()): Promise<string> {
  const dataset = await build(stage, [...(await keyedSource(stage, data)), ...forOneServer()])
  const store = ['--store', join(stage.folder, 'store'), '--publisher-key', PUBLISHER_KEY]
  const { url } = await stage.serve('--dataset', dataset, ...store)
  await untilReady(url)
  const { blake3 } = await loadCore()
  const trustBase = toHex(blake3(new Uint8Array(await (await fetch(`${url}/v1/manifest`)).arrayBuffer())))
  await publish({ servers: [url], own: true, key: PUBLISHER, record, trustBase })
  return url
}
