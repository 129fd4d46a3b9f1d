// A page of an app that opens a map and looks a key up, as hosts serve it: bundled in parts, in brotli, with nothing cached.

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync } from 'node:zlib'
import type { OpenOptions } from '@keyhush/client'
import { build } from 'esbuild'
import { serveFiles } from '../support/web.js'
import type { Stage } from './stage.js'
import { shapeLine } from './visits.js'

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
  await build({
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
