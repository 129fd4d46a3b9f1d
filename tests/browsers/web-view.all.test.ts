// A page with the origin that Capacitor gives it on iOS, capacitor://localhost, in WebKit: servers that allow the origin answer, and its
// state is kept. Others refuse it.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { postedInWebView } from '../../tools/webkit.mjs'
import { root } from '../package/packed.js'
import { needsBrowser } from '../support/browsers.js'
import { type ServerProcess, startServerProcess } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'

const WEB_VIEW = await needsBrowser('web view')
const RECORDS = 300

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let dataset: string
const started: ServerProcess[] = []

beforeAll(async () => {
  folder = await temporaryFolder()
  dataset = join(folder.path, 'dataset')
  const data = join(folder.path, 'data.csv')
  const lines = Array.from({ length: RECORDS }, (_, i) => `key ${i},value ${i}\n`)
  await writeFile(data, `key,value\n${lines.join('')}`)
  await runKeyhush('build', data, '--out', dataset)
})
afterAll(async () => {
  for (const server of started) await server.stop()
  await folder.remove()
})

async function servers(origin: string): Promise<string[]> {
  const start = (name: string) => startServerProcess('--dataset', dataset, '--store', name, '--allow-origin', origin)
  const two = [
    await start(join(folder.path, `${origin.length} A`)),
    await start(join(folder.path, `${origin.length} B`)),
  ]
  started.push(...two)
  return two.map(({ url }) => url)
}

/** What the page posts that `script` is the app of. */
async function posted(script: string): Promise<unknown> {
  const app = join(folder.path, 'app')
  await mkdir(app, { recursive: true })
  const contents = `import { open } from '@keyhush/client'
    const post = value => webkit.messageHandlers.test.postMessage(JSON.stringify(value))
    ;(async () => { ${script} })().catch(({ code, message }) => post({ code, message }))`
  await build({
    stdin: { contents, resolveDir: join(root, 'tests'), sourcefile: 'main.js' },
    ...{
      bundle: true,
      minify: true,
      format: 'esm',
      target: 'es2022',
      platform: 'browser',
      outfile: join(app, 'main.js'),
    },
  })
  await writeFile(
    join(app, 'index.html'),
    '<!doctype html><title>App</title><script type="module" src="./main.js"></script>',
  )
  return JSON.parse(await postedInWebView(app))
}

test('it looks up in all modes, keeps a state, and its requests have that origin', WEB_VIEW, async () => {
  const urls = await servers('capacitor://localhost')
  const found = await posted(`
    const found = []
    for (const mode of ['instant', 'full', 'local']) {
      const map = await open({ servers: ${JSON.stringify(urls)}, mode, storage: mode === 'instant' ? 'memory' : 'required' })
      found.push([map.mode, map.storage, await map.getText('key 7'), (await map.getText('nobody')) ?? null])
      await map.close()
    }
    post([location.origin, found])`)
  const values = ['value 7', null]
  expect(found).toEqual([
    'capacitor://localhost',
    [
      ['instant', 'memory', ...values],
      ['full', 'best-effort', ...values],
      ['local', 'best-effort', ...values],
    ],
  ])
})

test('servers that allow another origin alone are out of its reach, and the error says so', WEB_VIEW, async () => {
  const urls = await servers('ionic://localhost')
  const refused = await posted(`await open({ servers: ${JSON.stringify(urls)}, mode: 'instant', storage: 'memory' })`)
  expect(refused).toMatchObject({
    code: 'network',
    message: expect.stringContaining('Access-Control-Allow-Origin (CORS)'),
  })
})
