// `npm run bench`: what a database costs, in WebAssembly, on real server processes, and in headless Chromium with the SDK
// as an app ships it, measured against the project's targets and beside the papers' figures.
//
//   npm run bench -- [--records N] [--record-bytes ℓ] [--repeats n] [--lookups n]
//                    [--all]        the papers' tables too, at N = 2^16 … 2^24, one server and instant lookups at 2^24, and first visits
//                                   that download for minutes: half an hour
//                    [--sizes N,…]  the papers' tables at other N
//                    [--visits N,…] first visits at other N
//                    [--only PART]  compute, lookups, single, instant, one-server, living, visits, tasks (of a page's main thread), demo (its
//                                   page with the large set, which is fetched, and built for a minute), proved, script
//                                   (instant lookups without WebAssembly), phones (Hermes, a slow processor on a slow line, and memory), papers; or several with commas
//                    [--adds n]     operations of the largest batch that is published, to five keys for four of them
//                    [--proved N,…] databases with Pointproofs at other N   [--prover COMMAND] what is larger than 2^16 proved natively
//                    [--write]      all of it into docs/benchmarks.md, its plots into docs/plots; with --only, the sections of these parts,
//                                   but for visits and papers
//
// Every value that a lookup brings is compared with the data.

import { constants } from 'node:os'
import { launchBrowser } from '../../tools/browsers.mjs'
import { firstVisits } from './comparisons.js'
import { computing } from './computing.js'
import { demoPage } from './demo-page.js'
import { instant } from './instant.js'
import { living } from './living.js'
import { lookups } from './lookups.js'
import { oneServer } from './one-server.js'
import { type Options, type Part, readOptions } from './options.js'
import { phones } from './phones.js'
import { proved } from './proved.js'
import { passed, report, type Section } from './report.js'
import { script } from './script.js'
import { single } from './single.js'
import { papers, type SizeFigures } from './sweep.js'
import { tasks } from './tasks.js'
import { type VisitFigures, visitSections, visits } from './visits.js'
import { printed, tables, writeDocument, writeSections } from './write.js'

const JUDGED: Record<Exclude<Part, 'papers' | 'visits'>, (options: Options) => Promise<Section[]>> = {
  compute: computing,
  lookups,
  single,
  instant,
  'one-server': oneServer,
  living,
  tasks,
  demo: demoPage,
  proved,
  script,
  phones,
}

/** Runs the bench and prints its tables; returns the exit code. */
export async function bench(args: string[]): Promise<number> {
  const options = readOptions(args)
  // Through process.exit, so that servers and folders go with it.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]))
  }
  const sections: Section[] = []
  const show = (more: readonly Section[]) => {
    for (const { title, figures } of more) console.log(`\n## ${title}\n\n${report(figures)}\n`)
    sections.push(...more)
  }
  const { records, recordBytes } = options.shape
  console.log(`N = ${records}, ℓ = ${recordBytes}`)
  for (const [part, measure] of Object.entries(JUDGED)) {
    if (options.parts.has(part as Part)) show(await measure(options))
  }
  let visited: readonly VisitFigures[] = []
  if (options.parts.has('visits')) {
    visited = await visits(options)
    show(visitSections(visited))
    console.log(tables(firstVisits(visited)))
  }
  let sizes: readonly SizeFigures[] = []
  if (options.parts.has('papers')) {
    const found = await papers(options)
    sizes = found.sizes
    console.log(printed(sizes))
    show(found.sections)
  }
  if (options.write === 'all')
    await writeDocument({ options, sections, visited, sizes, browser: await browserVersion() })
  if (options.write === 'measured') await writeSections(sections)
  const failed = sections.flatMap(({ figures }) => figures).filter(figure => !passed(figure))
  for (const { name, column = '' } of failed) console.log(`FAIL: ${name} ${column}`)
  return failed.length === 0 ? 0 : 1
}

async function browserVersion(): Promise<string> {
  const browser = await launchBrowser('chromium')
  try {
    return await browser.version()
  } finally {
    await browser.close()
  }
}
