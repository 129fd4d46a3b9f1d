// `npm run bench`: what a database costs, in WebAssembly, on real server processes, and in headless Chromium with the SDK
// as an app ships it, measured against the project's targets and beside the papers' figures.
//
//   npm run bench -- [--records N] [--record-bytes ℓ] [--repeats n] [--lookups n]
//                    [--all]        the papers' tables too, at N = 2^16 … 2^24, one server and instant lookups at 2^24, sixteen shards
//                                   beside one process, and first visits that download for minutes: half an hour
//                    [--sizes N,…]  the papers' tables at other N
//                    [--visits N,…] first visits at other N
//                    [--only PART]  compute, lookups, instant, one-server, living, nights (publish --list), shards (a coordinator), watch (watched keys, an auditor, witnesses), filter, visits, phones (Hermes, a slow processor on a slow
//                                   line, and memory), papers; or several with commas
//                    [--adds n]     operations of the largest batch that is published, to five keys for four of them
//                    [--write]      each table below its heading in docs/benchmarks.md; without --only, of all parts but phones
//
// Every value that a lookup brings is compared with the data.

import { constants } from 'node:os'
import { papers } from './comparisons.js'
import { computing } from './computing.js'
import { filter } from './filter.js'
import { instant } from './instant.js'
import { living } from './living.js'
import { lookups } from './lookups.js'
import { nights } from './nights.js'
import { oneServer } from './one-server.js'
import { type Options, type Part, readOptions } from './options.js'
import { phones } from './phones.js'
import { passed, type Section, tablesOf, writeTables } from './report.js'
import { shards } from './shards.js'
import { visits } from './visits.js'
import { watch } from './watch.js'

const MEASURES: Record<Part, (options: Options) => Promise<Section[]>> = {
  compute: computing,
  lookups,
  instant,
  'one-server': oneServer,
  living,
  nights,
  shards,
  watch,
  filter,
  visits,
  phones,
  papers,
}

/** Runs the bench and prints its tables; returns the exit code. */
export async function bench(args: string[]): Promise<number> {
  const options = readOptions(args)
  // Through process.exit, so that servers and folders go with it.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]))
  }
  const sections: Section[] = []
  const { records, recordBytes } = options.shape
  console.log(`N = ${records}, ℓ = ${recordBytes}`)
  for (const [part, measure] of Object.entries(MEASURES)) {
    if (!options.parts.has(part as Part)) continue
    const measured = await measure(options)
    for (const section of measured) console.log(`\n## ${section.title}\n\n${tablesOf(section)}\n`)
    sections.push(...measured)
  }
  if (options.write) await writeTables(sections)
  const failed = sections.flatMap(({ figures }) => figures).filter(figure => !passed(figure))
  for (const { name, column = '' } of failed) console.log(`FAIL: ${name} ${column}`)
  return failed.length === 0 ? 0 : 1
}
