// What a map costs in a browser, measured against the project's targets: a keyless database on two real server
// processes on loopback, and the SDK as shipped in headless Chromium.
//
//   npm run bench -- [--records N] [--record-bytes ℓ] [--repeats n] [--lookups n] [--write]
//
// --write puts the table into docs/benchmarks.md.

import { createCipheriv } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { brotliCompressSync, constants } from 'node:zlib'
import type { Browser } from 'puppeteer-core'
import { launchBrowser } from '../../tools/browsers.mjs'
import { runPirouette, startServerProcess } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'
import { bundle, startPage } from '../support/web.js'
import { type Measured, measureInPage } from './page.js'
import { type Figure, median, passed, report } from './report.js'

const WARM_UP_LOOKUPS = 50

/** Runs the bench and prints its table; returns the exit code. */
export async function bench(args: string[]): Promise<number> {
  const options = readOptions(args)
  const data = pseudorandomBytes(options.records * options.recordBytes)
  const folder = await temporaryFolder()
  const closers: (() => Promise<void>)[] = [folder.remove]
  try {
    const [file, dataset] = [join(folder.path, 'data.bin'), join(folder.path, 'dataset')]
    await writeFile(file, data)
    console.log(
      await runPirouette('build', '--data', file, '--record-bytes', `${options.recordBytes}`, '--out', dataset),
    )
    const start = async (name: string) => {
      const server = await startServerProcess('--dataset', dataset, '--store', join(folder.path, name))
      closers.unshift(server.stop)
      return server.url
    }
    const servers = [await start('A'), await start('B')] as [string, string]
    const site = await startPage(servers)
    closers.unshift(site.close)
    const browser = await launchBrowser('chromium')
    closers.unshift(() => browser.close())

    const runs: Measured[] = []
    for (let run = 1; run <= options.repeats; run++) {
      process.stdout.write(`run ${run} of ${options.repeats} … `)
      const measured = await measure(browser, site.url, servers, options)
      for (const { index, value } of measured.samples) {
        const expected = data.subarray(index * options.recordBytes, (index + 1) * options.recordBytes)
        if (!expected.equals(Uint8Array.from(value))) throw new Error(`the value at ${index} is wrong`)
      }
      console.log(`offline phase ${measured.offlineMs.toFixed(0)} ms`)
      runs.push(measured)
    }
    const figures = figuresOf(runs, data.length, await shippedBytes())
    const table = report(figures)
    console.log(`\n${table}`)
    if (options.write) await writeDocument(table, options, await browser.version())
    return figures.every(passed) ? 0 : 1
  } finally {
    for (const close of closers) await close()
  }
}

type Options = ReturnType<typeof readOptions>

function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      records: { type: 'string', default: `${2 ** 20}` },
      'record-bytes': { type: 'string', default: '32' },
      repeats: { type: 'string', default: '7' },
      lookups: { type: 'string', default: '200' },
      write: { type: 'boolean', default: false },
    },
  })
  return {
    records: Number(values.records),
    recordBytes: Number(values['record-bytes']),
    repeats: Number(values.repeats),
    lookups: Number(values.lookups),
    write: values.write,
  }
}

/** One run in a fresh page. */
async function measure(browser: Browser, url: string, servers: [string, string], options: Options): Promise<Measured> {
  const page = await browser.newPage()
  try {
    await page.goto(url)
    return await page.evaluate(measureInPage, servers, WARM_UP_LOOKUPS, options.lookups)
  } finally {
    await page.close()
  }
}

function figuresOf(runs: readonly Measured[], databaseBytes: number, scriptBytes: number): Figure[] {
  const of = (read: (run: Measured) => number) => runs.map(read)
  return [
    { name: 'Offline phase', below: 2.5, unit: 's', samples: of(run => run.offlineMs / 1000) },
    { name: 'Longest task during it', below: 100, unit: 'ms', samples: of(run => run.longestTaskMs) },
    { name: 'Lookup', below: 10, unit: 'ms', samples: runs.flatMap(run => run.lookupMs) },
    {
      name: 'Durable state, more a lookup',
      below: 3,
      unit: 'ms',
      samples: runs.map(run => median(run.durableLookupMs) - median(run.lookupMs)),
    },
    { name: 'Lookup, durable', unit: 'ms', samples: runs.flatMap(run => run.durableLookupMs) },
    { name: 'Offline phase, durable', unit: 's', samples: of(run => run.durableOfflineMs / 1000) },
    { name: 'Reopening a stored map', below: 300, unit: 'ms', samples: of(run => run.reopenMs) },
    { name: 'Permutations and hint', below: 6, unit: 'MiB', samples: of(run => run.stateBytes / 2 ** 20) },
    { name: 'Bodies of a lookup', below: 18, unit: 'KiB', samples: of(run => run.lookupBytes / 2 ** 10) },
    { name: 'Offline bodies', below: 1.02, unit: 'databases', samples: of(run => run.offlineBytes / databaseBytes) },
    { name: 'JavaScript, brotli', below: 120, unit: 'kB', samples: [scriptBytes / 1000] },
  ]
}

/** What an app that imports the SDK ships for it, WebAssembly included. */
async function shippedBytes(): Promise<number> {
  const script = await bundle(`export { open } from '@pirouette/client'`)
  return brotliCompressSync(script, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length
}

/** The key stream of ChaCha20 under a zero key: the same bytes on every machine. */
function pseudorandomBytes(count: number): Buffer {
  return createCipheriv('chacha20', Buffer.alloc(32), Buffer.alloc(16)).update(Buffer.alloc(count))
}

async function writeDocument(table: string, options: Options, browserVersion: string): Promise<void> {
  const { records, recordBytes, repeats, lookups } = options
  const document = `# Benchmarks

\`npm run bench -- --write\` made this page. It builds a keyless database of ${records} records of ${recordBytes} bytes,
serves it from two processes on loopback, and measures the SDK as an app ships it in a page of headless Chromium, ${repeats}
times over: the offline phase from \`open()\` until it resolves, then ${lookups} lookups of random records after
${WARM_UP_LOOKUPS} that do not count, in turn of a map whose state is in memory and of one whose state is durable; then
reopening the latter, from \`open()\` to its first vector without the round trips for manifests and fence.

${table}

A figure passes if its median is below the target. The longest task is the longest that Chromium reports (\`longtask\`,
from 50 ms), or, where it reports none, the longest time between two turns of the page's event loop.

Measured with ${browserVersion} and Node ${process.versions.node} on ${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB; servers and browser
share the machine.
`
  await writeFile(new URL('../../docs/benchmarks.md', import.meta.url), document)
}
