// First visits: a page that has never been there opens a map in each mode, over a line as people have at home, and asks one
// question. What matters is all that comes before the first private, verified record. Beside it, over the same line: a record
// from a server that is told which, and what people take instead of private lookups.

import { createWriteStream } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync } from 'node:zlib'
import { estimate, type OpenOptions } from '@keyhush/client'
import { build as bundle } from 'esbuild'
import type { Page } from 'puppeteer-core'
import { runKeyhushProcess } from '../support/processes.js'
import { serveFiles } from '../support/web.js'
import type { Options } from './options.js'
import { type Instead, measureInstead, measurePlain, measureVisit } from './page.js'
import { power } from './plot.js'
import { type Figure, median, type Section } from './report.js'
import { check, newestManifest, partitionUrls, pseudorandomBytes, Stage, under } from './stage.js'

const VALUE_BYTES = 32
export const LINE = { megabits: 20, roundTripMs: 50 } as const
/** Longer downloads are measured with `--all` alone. */
const PATIENCE_SECONDS = 30
/** What takes longer than this is measured once. */
const REPEATED_SECONDS = 2

/** What targets are for: beyond it the manifest alone takes more. */
const MOST_JUDGED = 2 ** 22

const KINDS = ['keyed', 'keyless'] as const
type Kind = (typeof KINDS)[number]

/** First visits to one database. */
interface VisitFigures {
  readonly kind: Kind
  readonly records: number
  /** by mode; seconds, bytes. No samples: it would have taken too long */
  readonly modes: Readonly<Record<string, { readonly seconds: readonly number[]; readonly bytes: readonly number[] }>>
  /** seconds of a record without privacy */
  readonly plain: readonly number[]
  /** what people take instead; only with keys */
  readonly instead: Readonly<Record<string, VisitFigures['modes'][string]>>
  /** in mode instant with three servers, in turn with two: seconds, and how many times as many */
  readonly three: { readonly seconds: readonly number[]; readonly ratios: readonly number[] }
}

export async function visits(options: Options): Promise<Section[]> {
  const figures: VisitFigures[] = []
  for (const records of options.visits) {
    for (const kind of KINDS) figures.push(await measureDatabase(kind, records, options))
  }
  return [{ title: 'First visits', figures: figures.flatMap(judged) }]
}

/** Against the targets: nothing that grows with N before the first record. */
function judged({ kind, records, modes, instead, plain, three }: VisitFigures): Figure[] {
  const name = `${kind}, ${power(records)}`
  const isSmall = records <= MOST_JUDGED
  return [
    ...Object.entries({ ...modes, ...instead }).flatMap(([mode, { seconds, bytes }]): Figure[] => {
      if (seconds.length === 0) return [{ name, column: mode, unit: 's', samples: seconds }]
      const is = isSmall && mode === 'instant' && kind === 'keyed'
      const [unit, size] = median(bytes) < 1e6 ? (['kB', 1e3] as const) : (['MB', 1e6] as const)
      return [
        { name, column: mode, unit: 's', target: is ? ['≤', 0.5] : undefined, samples: seconds },
        {
          ...{ name, column: mode, unit, target: is ? (['≤', 3e4 / size] as const) : undefined },
          samples: bytes.map(each => each / size),
        },
      ]
    }),
    { name, column: 'three servers', unit: 's', samples: three.seconds },
    {
      ...{ name, column: 'three servers', unit: '× of two' },
      target: isSmall ? ['≤', 1.15] : undefined,
      samples: three.ratios,
    },
    { name, column: 'without privacy', unit: 's', samples: plain },
  ]
}

async function measureDatabase(kind: Kind, records: number, options: Options): Promise<VisitFigures> {
  process.stdout.write(`visits: ${kind}, N = ${records} …`)
  const data = pseudorandomBytes(records * VALUE_BYTES)
  return await Stage.with(async stage => {
    const source = await (kind === 'keyed' ? keyedSource(stage, data) : keylessSource(stage, data))
    const dataset = await build(stage, source)
    const servers = await stage.pair(() => ['--dataset', dataset])
    const plainServer = await stage.servePlain(data, VALUE_BYTES)
    const third = await stage.serve('--dataset', dataset)
    const freshPage = async () => {
      const page = await stage.page([...servers, third, plainServer])
      await shapeLine(page)
      return page
    }
    await assertShaped(await freshPage(), under(servers)[0])

    const modes: Record<string, { readonly seconds: number[]; readonly bytes: number[] }> = {}
    const urls = under(servers)
    const visit = async (urls: string[], mode: string) => {
      const page = await freshPage()
      const index = Math.floor(Math.random() * records)
      const visit = await page.evaluate(measureVisit, urls, mode, kind === 'keyed' ? keyOf(index) : index)
      check(data, VALUE_BYTES, [{ index, value: visit.value }])
      await page.close()
      return visit
    }
    for (const [mode, { firstBytes }] of Object.entries((await estimate(urls)).modes)) {
      const found = { seconds: [] as number[], bytes: [] as number[] }
      modes[mode] = found
      const expected = (firstBytes * 8) / (LINE.megabits * 1e6)
      if (expected > PATIENCE_SECONDS && !options.all) continue
      for (let run = 0; run < (expected > REPEATED_SECONDS ? 1 : options.repeats); run++) {
        const { ms, bytes } = await visit(urls, mode)
        found.seconds.push(ms / 1000)
        found.bytes.push(bytes)
      }
      if (found.seconds.length > 0) process.stdout.write(` ${mode} ${median(found.seconds).toFixed(2)} s …`)
    }
    const three = { seconds: [] as number[], ratios: [] as number[] }
    for (let run = 0; run < options.repeats; run++) {
      const [two, all] = [await visit(urls, 'instant'), await visit([...urls, third.url], 'instant')]
      three.seconds.push(all.ms / 1000)
      three.ratios.push(all.ms / two.ms)
    }
    const page = await freshPage()
    const { recordMs, samples } = await page.evaluate(measurePlain, `${plainServer.url}/`, records, options.repeats, [])
    check(data, VALUE_BYTES, samples)
    const instead: Record<string, { seconds: number[]; bytes: number[] }> = {}
    for (const [column, way] of kind === 'keyed' ? Object.entries(INSTEAD) : []) {
      await (await fetch(`${plainServer.url}/${way === 'range' ? 'range/0' : way}`)).arrayBuffer() // made once
      const found = { seconds: [] as number[], bytes: [] as number[] }
      instead[column] = found
      for (let run = 0; run < (way === 'list' ? 1 : options.repeats); run++) {
        const index = Math.floor(Math.random() * records)
        const page = await freshPage()
        const { ms, bytes, listed, value } = await page.evaluate(
          measureInstead,
          `${plainServer.url}/`,
          way,
          keyOf(index),
        )
        await page.close()
        if (!listed) throw new Error(`${column}: expected to find ${keyOf(index)}`)
        if (way !== 'filter') check(data, VALUE_BYTES, [{ index, value }])
        found.seconds.push(ms / 1000)
        found.bytes.push(bytes)
      }
    }
    console.log()
    return { kind, records, modes, three, instead, plain: recordMs.map(ms => ms / 1000) }
  })
}

/** What people take instead, by the column of the table. */
const INSTEAD: Readonly<Record<string, Instead>> = {
  'a range of keys': 'range',
  'a filter': 'filter',
  'the list': 'list',
}

export const keyOf = (index: number) => `key-${index}`

/** What `keyhush build` is told of the data. */
type Source = readonly string[]

export async function build(stage: Stage, source: Source): Promise<string> {
  const out = join(stage.folder, 'dataset')
  await runKeyhushProcess('build', ...source, '--out', out)
  return out
}

async function keylessSource(stage: Stage, data: Buffer): Promise<Source> {
  const file = join(stage.folder, 'keyless.bin')
  await writeFile(file, data)
  return [file, '--record-bytes', `${VALUE_BYTES}`]
}

export async function keyedSource(stage: Stage, data: Buffer): Promise<Source> {
  const file = join(stage.folder, 'keyed.csv')
  const LINES = 1 << 12
  function* lines() {
    yield 'key,value\n'
    const count = data.length / VALUE_BYTES
    for (let first = 0; first < count; first += LINES) {
      const indices = Array.from({ length: Math.min(LINES, count - first) }, (_, i) => first + i)
      const value = (i: number) => data.toString('hex', i * VALUE_BYTES, (i + 1) * VALUE_BYTES)
      yield indices.map(i => `${keyOf(i)},${value(i)}\n`).join('')
    }
  }
  await pipeline(Readable.from(lines()), createWriteStream(file))
  return [file, '--value-encoding', 'hex']
}

/** Chromium's own network emulation: all of the page's requests share the rate, and each waits a round trip. */
export async function shapeLine(page: Page): Promise<void> {
  const session = await page.createCDPSession()
  await session.send('Network.enable')
  const bytesPerSecond = (LINE.megabits * 1e6) / 8
  await session.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: LINE.roundTripMs,
    downloadThroughput: bytesPerSecond,
    uploadThroughput: bytesPerSecond,
  })
}

/** Throws unless the line is as slow as it is said to be: a blob takes its bytes' time, and anything a round trip. */
async function assertShaped(page: Page, server: string): Promise<void> {
  const [blob] = partitionUrls(server, await newestManifest(server))
  const timed = (url: string) =>
    page.evaluate(async url => {
      const start = performance.now()
      const { byteLength } = await (await fetch(url, { cache: 'no-store' })).arrayBuffer()
      return { ms: performance.now() - start, byteLength }
    }, url)
  for (const url of [`${server}/v1/manifest`, blob!]) {
    const { ms, byteLength } = await timed(url)
    const least = LINE.roundTripMs + (byteLength * 8) / (LINE.megabits * 1000)
    // A tenth for the burst that the browser lets through at once.
    if (ms < 0.9 * least) throw new Error(`the line is not shaped: ${byteLength} bytes in ${ms} ms, expected ${least}`)
  }
  await page.close()
}

// A page of an app that opens a map and looks a key up, as hosts serve it: bundled in parts, in brotli, with nothing cached.

/** The first answer on a page that has never been there. */
export interface FirstAnswer {
  readonly value: number[]
  /** seconds, from the call of `open()` and from navigation */
  readonly sinceOpen: number
  readonly whole: number
}

/** Serves the app; `entry`: the module that it takes `open` from. Returns its address. */
export async function startApp(stage: Stage, entry: string): Promise<string> {
  const outdir = join(stage.folder, 'app')
  await mkdir(outdir)
  const contents = `import { open } from '${entry}'
    const { options, key } = JSON.parse(decodeURIComponent(location.hash.slice(1)))
    globalThis.answered = (async () => {
      const begun = performance.now()
      const map = await open(options)
      const value = await map.get(key)
      return { value: Array.from(value ?? []), begun, end: performance.now() }
    })()`
  await bundle({
    stdin: { contents, resolveDir: fileURLToPath(new URL('..', import.meta.url)), sourcefile: 'app.js' },
    ...{ bundle: true, minify: true, splitting: true, outdir, entryNames: 'app' },
    ...{ platform: 'browser', format: 'esm', target: 'es2022' },
  })
  const page =
    '<!doctype html><title>App</title><link rel="icon" href="data:,"><script type="module" src="/app.js"></script>'
  await writeFile(join(outdir, 'index.html'), page)
  for (const name of await readdir(outdir)) {
    const file = join(outdir, name)
    await writeFile(file, brotliCompressSync(await readFile(file)))
  }
  const site = await serveFiles(outdir, { 'content-encoding': 'br' })
  stage.closeLast(site.close)
  return site.url
}

/** Visits the app over the shaped line. `slowed`: how many times the processor is. */
export async function visitApp(
  stage: Stage,
  app: string,
  options: OpenOptions,
  key: string,
  slowed = 1,
): Promise<FirstAnswer> {
  const context = await (await stage.browser()).createBrowserContext()
  const tab = await context.newPage()
  await tab.emulateCPUThrottling(slowed)
  await shapeLine(tab)
  await tab.goto(`${app}/#${encodeURIComponent(JSON.stringify({ options, key }))}`)
  const { value, begun, end } = await tab.evaluate(
    () => (globalThis as unknown as { answered: Promise<{ value: number[]; begun: number; end: number }> }).answered,
  )
  await context.close()
  return { value, sinceOpen: (end - begun) / 1000, whole: end / 1000 }
}
