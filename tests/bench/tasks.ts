// What holds the main thread of a page: the longest task of each phase of a visit, in Chromium slowed six times, from the app's
// first script on. The app is bundled as apps are, in parts that are loaded on demand.

import { randomBytes, randomInt } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { toHex } from '@keyhush/protocol'
import { PublisherRecord, publish } from '@keyhush/server'
import { loadCore } from '@keyhush/wasm'
import { build } from 'esbuild'
import type { BrowserContext } from 'puppeteer-core'
import { PUBLISHER, PUBLISHER_KEY } from '../support/publishing.js'
import { serveFiles } from '../support/web.js'
import type { Options } from './options.js'
import type { Figure, Section } from './report.js'
import { Stage, under } from './stage.js'
import { type Visit, type Visited, visit } from './tasks-page.js'

/** Of a keyed database of 9.6 MB. */
const RECORDS = 200_000
/** Records that a batch changes. */
const EDITED = 500
/** How many times slower than this machine, which is a good deal faster than a phone. */
const SLOWED = 6
const LONGEST_MS = 50
const ANSWER_SECONDS = 1.2
const FIRST_PHASE = 'import and open'
/** What Chromium writes down: tasks, marks, threads. */
const CATEGORIES = ['disabled-by-default-devtools.timeline', 'blink.user_timing', '__metadata']

interface Scenario {
  readonly name: string
  readonly prepares?: boolean
  readonly follows?: boolean
  /** whether it is opened again, from what was stored */
  readonly reopens?: boolean
  readonly options: Omit<Visit['options'], 'servers'>
  /** it asks one server */
  readonly alone?: boolean
}

const SCENARIOS: readonly Scenario[] = [
  { name: 'auto', prepares: true, reopens: true, options: { push: false } },
  { name: 'auto, with a publisherKey', options: { publisherKey: PUBLISHER_KEY, push: false } },
  { name: 'full', reopens: true, follows: true, options: { mode: 'full', storage: 'required', push: false } },
  {
    ...{ name: 'single', reopens: true, follows: true, alone: true },
    options: { mode: 'single', integrity: 'server', storage: 'required', push: false },
  },
]

export async function tasks({ repeats }: Options): Promise<Section[]> {
  const longest = new Map<string, number[]>()
  const answers = new Map<string, number[]>()
  await Stage.with(async stage => {
    const { urls, edit } = await signedServers(stage)
    const site = await serveApp(stage)
    for (let run = 1; run <= repeats; run++) {
      process.stdout.write(`tasks: run ${run} of ${repeats} …`)
      for (const { name, options, prepares = false, follows = false, reopens = false, alone = false } of SCENARIOS) {
        const context = await (await stage.browser()).createBrowserContext()
        const index = randomInt(RECORDS - EDITED)
        const asked = { options: { ...options, servers: alone ? ([urls[0]] as const) : urls }, key: keyOf(index) }
        for (const again of reopens ? [false, true] : [false]) {
          const where = again ? `${name}, opened again` : name
          const wanted = { ...asked, prepares: prepares && !again, follows: follows && !again }
          const { value, answerMs, longestMs } = await watched(context, site, wanted, edit)
          if (new TextDecoder().decode(Uint8Array.from(value)) !== textOf(index)) throw new Error('a value is wrong')
          for (const [phase, ms] of longestMs) gather(longest, `${where}: ${phase}`, ms)
          if (!again && name.startsWith('auto')) gather(answers, where, answerMs / 1000)
        }
        await context.close()
        process.stdout.write(` ${name} …`)
      }
      console.log()
    }
  })
  return [
    {
      title: `The main thread, in Chromium slowed ${SLOWED} times: the longest task`,
      figures: [...longest].map(
        ([name, samples]): Figure => ({ name, unit: 'ms', target: ['≤', LONGEST_MS], samples }),
      ),
    },
    {
      title: `The same: from when the WebAssembly has come to the first answer`,
      figures: [...answers].map(
        ([name, samples]): Figure => ({ name, unit: 's', target: ['≤', ANSWER_SECONDS], samples }),
      ),
    },
  ]
}

const keyOf = (index: number) => `key-${index}`
const textOf = (index: number) => `value ${index} `.padEnd(32, '.')

/** Two servers of a database whose newest manifest is signed; `edit` publishes a batch that changes the last EDITED records. */
async function signedServers(stage: Stage): Promise<{ urls: [string, string]; edit(): Promise<void> }> {
  const lines = Array.from({ length: RECORDS }, (_, index) => `${keyOf(index)},${textOf(index)}\n`)
  const dataset = await stage.build('csv', `key,value\n${lines.join('')}`)
  const store = (s: 0 | 1) => ['--store', join(stage.folder, `store-${s}`), '--publisher-key', PUBLISHER_KEY]
  const urls = under(await stage.pair(s => ['--dataset', dataset, ...store(s)]))
  const { blake3 } = await loadCore()
  const manifest = new Uint8Array(await (await fetch(`${urls[0]}/v1/manifest`)).arrayBuffer())
  const publishing = { servers: urls, key: PUBLISHER, record: new PublisherRecord() }
  await publish({ ...publishing, trustBase: toHex(blake3(manifest)) })
  const edit = async () => {
    const keys = Array.from({ length: EDITED }, (_, i) => keyOf(RECORDS - 1 - i))
    const value = () => randomBytes(16).toString('hex')
    const lines = keys.map(key => `${JSON.stringify({ op: 'edit', key, value: value() })}\n`)
    await publish({ ...publishing, operations: Buffer.from(lines.join('')) })
  }
  return { urls, edit }
}

/** An app that does with `open()` what the hash of its URL says. Returns the URL. */
async function serveApp(stage: Stage): Promise<string> {
  const outdir = join(stage.folder, 'app')
  await mkdir(outdir)
  const contents = `import { open } from '@keyhush/client'
    export const visited = (${visit})(open, JSON.parse(decodeURIComponent(location.hash.slice(1))))`
  await build({
    stdin: { contents, resolveDir: fileURLToPath(new URL('..', import.meta.url)), sourcefile: 'app.js' },
    ...{ bundle: true, minify: true, splitting: true, outdir, entryNames: 'app' },
    ...{ platform: 'browser', format: 'esm', target: 'es2022' },
  })
  // The script in a task of its own, which begins the first phase.
  const script = `globalThis.visited = new Promise(resolve => setTimeout(() => {
    performance.mark('phase: ${FIRST_PHASE}')
    resolve(import('/app.js').then(({ visited }) => visited))
  }))`
  const page = `<!doctype html><title>App</title><link rel="icon" href="data:,"><script>${script}</script>`
  await writeFile(join(outdir, 'index.html'), page)
  const site = await serveFiles(outdir)
  stage.closeLast(site.close)
  return site.url
}

/** A page of the app, and its longest task in each phase. */
async function watched(
  context: BrowserContext,
  site: string,
  what: Visit,
  edit: () => Promise<void>,
): Promise<Visited & { readonly longestMs: ReadonlyMap<string, number> }> {
  const page = await context.newPage()
  const session = await page.createCDPSession()
  await session.send('Emulation.setCPUThrottlingRate', { rate: SLOWED })
  await page.exposeFunction('publish', edit)
  await page.tracing.start({ categories: CATEGORIES })
  await page.goto(`${site}/#${encodeURIComponent(JSON.stringify(what))}`)
  const visited = await page.evaluate(() => (globalThis as unknown as { visited: Promise<Visited> }).visited)
  const trace = await page.tracing.stop()
  await page.close()
  return { ...visited, longestMs: longestTasks(trace!) }
}

interface TraceEvent {
  readonly name: string
  readonly ph: string
  readonly pid: number
  readonly tid: number
  /** microseconds */
  readonly ts: number
  readonly dur?: number
  /** of the processor's, the slowing included */
  readonly tdur?: number
}

/**
 * By phase: of all tasks that end in it, on the thread that marks the phases, milliseconds. By the processor's time, so that
 * nothing else that this machine does counts.
 */
function longestTasks(trace: Uint8Array): Map<string, number> {
  const { traceEvents } = JSON.parse(new TextDecoder().decode(trace)) as { traceEvents: TraceEvent[] }
  const marks = traceEvents.filter(({ name }) => name.startsWith('phase: ')).sort((a, b) => a.ts - b.ts)
  const [{ pid, tid }] = marks as [TraceEvent]
  const longest = new Map<string, number>()
  for (const event of traceEvents) {
    if (event.name !== 'RunTask' || event.ph !== 'X' || event.pid !== pid || event.tid !== tid) continue
    const { ts, dur = 0, tdur = dur } = event
    const last = marks.findLast(mark => mark.ts <= ts + dur)
    if (last === undefined) continue // the page itself
    const phase = last.name.replace('phase: ', '')
    longest.set(phase, Math.max(longest.get(phase) ?? 0, tdur / 1000))
  }
  return longest
}

function gather(all: Map<string, number[]>, name: string, sample: number): void {
  all.set(name, [...(all.get(name) ?? []), sample])
}
