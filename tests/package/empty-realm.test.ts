// Entries load where nothing of a browser or of Node is there; open() then names what is missing.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'
import { expect, test } from 'vitest'
import { THOROUGH } from '../support/thorough.js'

const root = new URL('../../', import.meta.url)

/** Those for apps. Others are for Node, servers and tests. Pointproofs are built for all tests. */
const ENTRIES = ['client', 'wasm', 'protocol', ...(THOROUGH ? ['pointproofs'] : [])].flatMap(name => {
  const { exports } = JSON.parse(readFileSync(new URL(`packages/${name}/package.json`, root), 'utf8'))
  return Object.keys(exports)
    .filter(entry => !/node|server|worker|wasm$|package|environment|testing|schemas|keyhush\.js/.test(entry))
    .map(entry => `@keyhush/${name}${entry.slice(1)}`)
})
const FAKE = '@keyhush/client/testing'

/** What a realm of the bare language has of an entry, and of the parts that it loads on demand. */
async function loaded(entry: string) {
  const { outputFiles } = await build({
    ...{ bundle: true, write: false, platform: 'browser', format: 'iife', globalName: 'entry' },
    stdin: { contents: `export * from '${entry}'`, resolveDir: fileURLToPath(new URL('tests', root)) },
    external: ['react', 'node:*', 'fs-native-extensions'],
    banner: { js: 'const require = name => ({});' }, // React
  })
  const realm = createContext({})
  runInContext('delete globalThis.WebAssembly; delete globalThis.console', realm)
  runInContext(outputFiles[0]!.text, realm)
  return (code: string) => runInContext(code, realm)
}

test.each([...ENTRIES, FAKE])('%s touches nothing of the platform when it loads', async entry => {
  const run = await loaded(entry)
  expect(run('Object.keys(entry).length')).toBeGreaterThan(0)
})

test('those are the entries that apps import', () => {
  expect(ENTRIES).toEqual(
    expect.arrayContaining([
      '@keyhush/client',
      '@keyhush/client/instant',
      '@keyhush/client/react',
      '@keyhush/wasm/client',
    ]),
  )
})

test.each(['@keyhush/client', '@keyhush/client/instant'])('open() of %s names all that is missing', async entry => {
  const run = await loaded(entry)
  const error = await run(`entry.open({ servers: ['https://a.example', 'https://b.example'] }).catch(error => error)`)
  expect(error).toMatchObject({ name: 'UnsupportedError', code: 'unsupported', reason: 'platform', retryable: false })
  const missing =
    'AbortController, AbortSignal.prototype.throwIfAborted, TextDecoder, TextEncoder, URL, performance.now'
  expect(error.message).toContain(`has ${missing}, queueMicrotask, setTimeout, fetch, crypto.getRandomValues, got`)
})
