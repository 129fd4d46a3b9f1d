// What a client computes for an instant lookup of a key, in JavaScript beside WebAssembly: in Node and in browsers, in one run. The
// lookups are the same, and every record is compared with the data.

import { randomBytes, randomInt } from 'node:crypto'
import { type DatabaseHandle, type LayoutHandle, loadCore } from '@keyhush/wasm'
import { bytesToHex } from '@noble/hashes/utils.js'
import { launchBrowser } from '../../tools/browsers.mjs'
import { bundled } from '../support/shipped.js'
import { memory } from '../support/wasm.js'
import { startModule } from '../support/web.js'
import type { Described, Recorded, Timed } from './look.js'
import type { Options } from './options.js'
import type { Figure, Section } from './report.js'
import type * as page from './script-page.js'
import { rounds } from './script-page.js'

declare global {
  /** on the bench's page */
  var cores: typeof page
}

const KINDS = ['wasm', 'script'] as const
const LOOKUPS = 40
/** How many times slower than this machine a phone is. */
const SLOWED = 6
const FINGERPRINT_BYTES = 16

export async function script({ shape: { records, recordBytes }, repeats }: Options): Promise<Section[]> {
  const { described, lookups } = await record(records, FINGERPRINT_BYTES + recordBytes)
  const figures: Figure[] = []
  const show = (column: string, timed: Record<(typeof KINDS)[number], readonly Timed[]>) => {
    for (const kind of KINDS) {
      figures.push(
        { name: `${kind}: queries`, column, unit: 'ms', samples: timed[kind].map(({ query }) => query) },
        { name: `${kind}: verification`, column, unit: 'ms', samples: timed[kind].map(({ verify }) => verify) },
      )
    }
    const more = timed.script.map(
      ({ query, verify }, i) => query + verify - timed.wasm[i]!.query - timed.wasm[i]!.verify,
    )
    figures.push({ name: 'script, longer by', column, unit: 'ms', target: ['≤', 2], samples: more })
  }
  show('Node', await rounds(described, lookups, 5 * repeats))
  for (const browser of ['chromium', 'firefox'] as const) {
    const site = await startModule('tests/bench/script-page.ts', 'cores')
    const running = await launchBrowser(browser)
    try {
      for (const slowed of browser === 'chromium' ? [1, SLOWED] : [1]) {
        const column = slowed === 1 ? browser : `${browser}, slowed ${slowed} times`
        for (const kind of KINDS) {
          const samples: number[] = []
          for (let run = 0; run < 3 * repeats; run++) {
            const context = await running.createBrowserContext()
            const tab = await context.newPage()
            if (slowed > 1) await tab.emulateCPUThrottling(slowed)
            await tab.goto(site.url)
            samples.push(
              await tab.evaluate((...given) => cores.first(...given), kind, described, lookups[run % LOOKUPS]!),
            )
            await context.close()
          }
          figures.push({ name: `${kind}: start and first lookup`, column, unit: 'ms', samples })
        }
      }
      const tab = await running.newPage()
      await tab.goto(site.url)
      show(browser, await tab.evaluate((...given) => cores.rounds(...given), described, lookups, 5 * repeats))
    } finally {
      await running.close()
      await site.close()
    }
  }
  for (const [name, source] of [
    ['script: size', `export { scriptCore } from '@keyhush/wasm/script'`],
    ['wasm: size', `export { loadInstantCore } from '@keyhush/wasm/instant'`],
  ] as const) {
    const { outputs, bytesOf, lengthOf } = await bundled(source)
    const files = Object.keys(outputs)
    figures.push(
      { name, column: 'minified', unit: 'kB', samples: [lengthOf(files) / 1000] },
      { name, column: 'brotli', unit: 'kB', samples: [bytesOf(files) / 1000] },
    )
  }
  return [{ title: 'Instant lookups without WebAssembly', figures }]
}

/** A keyed database, and lookups with the answers of both servers. */
export async function record(
  records: number,
  recordBytes: number,
): Promise<{ described: Described; lookups: Recorded[] }> {
  const core = await loadCore()
  const database = core.newDatabase(core.planLayout(records, recordBytes))
  const { layout } = database
  const data = randomBytes(records * recordBytes)
  memory(core, database.recordsPointer(), data.length).set(data)
  for (let q = 0; q < layout.partitions; q++) database.commit(q)
  const keyOf = (number: number) => Buffer.from(`key ${number}`)
  const prints = Buffer.concat(Array.from({ length: records }, (_, i) => core.fingerprint(keyOf(i))))
  const directory = core.buildDirectory(prints, layout.partitions * layout.partitionRecords)
  const blocks = directory.database()
  const { blockLog: log, blockBytes, seed } = directory
  const shape = core.directoryShape(log, blockBytes, seed)
  /** What both servers answer, and what the client makes of it. */
  const asked = (
    of: DatabaseHandle,
    layout: LayoutHandle,
    index: number,
    entropy: Uint8Array,
    commitments: Uint8Array,
  ) => {
    const query = core.newInstantQuery(layout, Uint32Array.of(index), entropy)
    const answers = [0, 1].map(server => {
      const pass = core.newInstantPass(of, query.request(server), Uint8Array.of(0))
      while (pass.step(of));
      return pass.finish(of)
    })
    const both = Buffer.concat(answers)
    return { answers: bytesToHex(both), found: query.recon(commitments, both)! }
  }
  const lookups = Array.from({ length: LOOKUPS }, () => {
    const [key, entropy] = [keyOf(randomInt(records)), randomBytes(32)]
    const print = core.fingerprint(key)
    const block = asked(blocks, shape.layout, shape.number(print), entropy, blocks.commitment(0))
    const index = shape.index(block.found, print, records)
    const { answers, found } = asked(database, layout, index, entropy, database.commitments())
    const value = bytesToHex(found)
    if (value !== bytesToHex(data.subarray(index * recordBytes, (index + 1) * recordBytes)))
      throw new Error('a value is wrong')
    return { key: bytesToHex(key), entropy: bytesToHex(entropy), blocks: block.answers, records: answers, value }
  })
  const described: Described = {
    layout: [layout.records, layout.recordBytes, layout.partitions, layout.partitionRecords],
    commitments: bytesToHex(database.commitments()),
    directory: { log, blockBytes, seed: bytesToHex(seed), commitment: bytesToHex(blocks.commitment(0)) },
  }
  return { described, lookups }
}
