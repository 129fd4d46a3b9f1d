// Entries load where nothing of a browser or of Node is there; open() then names what is missing.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createContext, runInContext } from 'node:vm'
import { build, type TransformOptions, transformSync } from 'esbuild'
import { expect, test } from 'vitest'
import { THOROUGH } from '../support/thorough.js'

const root = new URL('../../', import.meta.url)

/** Those for apps. Others are for Node, servers and tests. What is optional is built for all tests. */
const ENTRIES = ['client', 'wasm', 'protocol', ...(THOROUGH ? ['confidential', 'pointproofs'] : [])].flatMap(name => {
  const { exports } = JSON.parse(readFileSync(new URL(`packages/${name}/package.json`, root), 'utf8'))
  return Object.keys(exports)
    .filter(entry => !/node|server|worker|wasm$|package|environment|testing|schemas|keyhush\.js/.test(entry))
    .map(entry => `@keyhush/${name}${entry.slice(1)}`)
})
const FAKE = '@keyhush/client/testing'

/** What a realm of the bare language has of an entry, and of the parts that it loads on demand. `compiled`: by the app's compiler. */
async function loaded(entry: string, compiled = (code: string) => code) {
  const { outputFiles } = await build({
    ...{ bundle: true, write: false, platform: 'browser', format: 'iife', globalName: 'entry' },
    stdin: { contents: `export * from '${entry}'`, resolveDir: fileURLToPath(new URL('tests', root)) },
    external: ['react', 'react-native', 'node:*', 'fs-native-extensions'],
    banner: { js: 'const require = name => ({});' }, // React and React Native
  })
  const realm = createContext({})
  runInContext('delete globalThis.WebAssembly; delete globalThis.console', realm)
  runInContext(compiled(outputFiles[0]!.text), realm)
  return (code: string) => runInContext(code, realm)
}

test.each([...ENTRIES, FAKE])('%s touches nothing of the platform when it loads', async entry => {
  const run = await loaded(entry)
  expect(run('Object.keys(entry).length')).toBeGreaterThan(0)
})

// As Metro does for Hermes. Tests of tests/phones take longer, and are not in `npm test`.
test('that of React Native loads where a compiler makes assignments of class fields, in strict code', async () => {
  const how = { loader: 'ts', target: 'es2017', tsconfigRaw: { compilerOptions: { useDefineForClassFields: false } } }
  const compiled = (code: string) =>
    `'use strict';${transformSync(code, how as TransformOptions).code};globalThis.entry = entry`
  const run = await loaded('@keyhush/react-native', compiled)
  expect(run('typeof entry.open')).toBe('function')
  expect(run('class Other extends Error {}; new Other() instanceof entry.KeyhushError')).toBe(false)
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
