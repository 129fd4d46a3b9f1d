// @vitest-environment jsdom
// The recipes of packages/client/README.md, In a framework: word for word, they compile, and do what they say.

import { execFile } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { type Change, type KeyhushMap, NetworkError, type Watch } from '@keyhush/client'
import { fakeMap } from '@keyhush/client/testing'
import { QueryClient, QueryClientProvider, type UseQueryResult } from '@tanstack/react-query'
import { act, createElement, StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import type { Readable } from 'svelte/store'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { effectScope, nextTick, type Ref, ref } from 'vue'

const root = join(import.meta.dirname, '../..')
const folder = join(root, '.cache/recipes')
const passed = () => new Promise<void>(resolve => setTimeout(resolve, 20))

beforeAll(async () => {
  const readme = await readFile(join(root, 'packages/client/README.md'), 'utf8')
  const section = readme.slice(readme.indexOf('In a framework\n'))
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  for (const [, name, code] of section.matchAll(/^```tsx?\n\/\/ (\w+\.tsx?)\n([\s\S]*?)^```$/gm)) {
    await writeFile(join(folder, name!), code!)
  }
  const compilerOptions = {
    ...{ strict: true, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: true, jsx: 'react-jsx' },
    ...{ module: 'esnext', moduleResolution: 'bundler', target: 'es2022', lib: ['es2022', 'dom'], types: [] },
  }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts', '*.tsx'] }))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** What a recipe exports; the packages are those of this test. */
async function recipe<T>(name: string): Promise<T> {
  // A process of its own: in jsdom esbuild meets bytes of another realm.
  const outfile = join(folder, `${name}.mjs`)
  const esbuild = join(root, 'node_modules/esbuild/bin/esbuild')
  await promisify(execFile)(esbuild, [join(folder, `${name}.ts`), `--outfile=${outfile}`, '--format=esm'])
  return (await import(/* @vite-ignore */ pathToFileURL(outfile).href)) as T
}

test('they compile, that of React too', async () => {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { stdout } = await promisify(execFile)(process.execPath, [tsc, '-p', folder]).catch(error => error)
  expect(stdout).toBe('')
})

test('Vue', async () => {
  type Answer = Ref<'idle' | 'loading' | { value?: string; error?: unknown }>
  const { useLookup } = await recipe<{ useLookup(map: KeyhushMap, key: Ref<string>): Answer }>('vue')
  const map = fakeMap({ otter: 'river' }, { delayMs: 5 })
  const key = ref('')
  const scope = effectScope()
  const answer = scope.run(() => useLookup(map, key))!
  expect(answer.value).toBe('idle')
  key.value = 'otter'
  await nextTick()
  expect(answer.value).toBe('loading')
  await passed()
  expect(answer.value).toEqual({ value: 'river' })
  key.value = 'auk'
  await nextTick()
  await passed()
  expect([answer.value, map.stats.lookups]).toEqual([{ value: undefined }, 2])
  const error = new NetworkError('https://a.example', 'away')
  map.failWith(error)
  key.value = 'heron'
  await nextTick()
  await passed()
  expect(answer.value).toEqual({ error })
  key.value = 'otter'
  await nextTick()
  scope.stop()
  await passed()
  expect(answer.value).toBe('loading') // nobody is told
})

test('Svelte', async () => {
  type Answer = 'loading' | { value?: string; error?: unknown }
  const { lookup } = await recipe<{ lookup(map: KeyhushMap, key: string): Readable<Answer> }>('svelte')
  const map = fakeMap({ otter: 'river' })
  const told: Answer[] = []
  const end = lookup(map, 'otter').subscribe(answer => void told.push(answer))
  await passed()
  end()
  expect(told).toEqual(['loading', { value: 'river' }])
  map.failWith(new NetworkError('https://a.example', 'away'))
  lookup(map, 'otter').subscribe(answer => void told.push(answer))()
  await passed()
  expect(told.slice(2)).toEqual(['loading'])
  expect(map.stats.lookups).toBe(1)
})

test.each(['vueWatch', 'svelteWatch'])('%s: a watched key, its changes, and what failed', async name => {
  type Marks = { since?: string; save?: (mark: string) => void }
  interface Own {
    readonly watch?: Watch
    readonly changes: readonly Change[]
    readonly error?: unknown
  }
  const { useWatch, watched } = await recipe<{
    useWatch?: (map: KeyhushMap, key: string, marks: Marks) => Ref<Own>
    watched?: (map: KeyhushMap, key: string, marks: Marks) => Readable<Own>
  }>(name)
  const begin = (map: KeyhushMap, marks: Marks = {}) => {
    const scope = effectScope()
    const own = scope.run(() => useWatch?.(map, 'otter', marks))
    if (own !== undefined) return { now: () => own.value, end: () => scope.stop() }
    let shown: Own | undefined
    const end = watched!(map, 'otter', marks).subscribe(own => {
      shown = own
    })
    return { now: () => shown!, end }
  }
  const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)
  const map = fakeMap({ otter: 'river' })
  let mark: string | undefined
  const save = (saved: string) => {
    mark = saved
  }
  const { now, end } = begin(map, { save })
  await passed()
  expect([text(now().watch?.value), now().changes]).toEqual(['river', []])
  map.publish([{ op: 'edit', key: 'otter', value: 'lakes' }])
  await passed()
  expect([text(now().watch?.value), now().changes.map(({ how }) => how)]).toEqual(['lakes', ['list']])
  end()
  map.publish([{ op: 'delete', key: 'otter' }])
  await passed()
  expect(now().changes.length).toBe(1)
  const next = begin(fakeMap({ otter: 'ponds' }), { since: mark! })
  await passed()
  expect(next.now().changes.map(({ before, value }) => [before, text(value)])).toEqual([[undefined, 'ponds']])
  next.end()
  const error = new NetworkError('https://a.example', 'away')
  map.failWith(error)
  const failing = begin(map)
  await passed()
  expect(failing.now().error).toBe(error)
  failing.end()
  const left = begin(fakeMap({ otter: 'river' }, { delayMs: 5 }))
  left.end()
  await passed()
  expect(left.now()).toEqual({ changes: [] }) // nobody is told
})

test('TanStack Query: one lookup while it is shown, and another when it is shown again', async () => {
  type Result = UseQueryResult<string | null>
  const { useCachedLookup } = await recipe<{ useCachedLookup(map: KeyhushMap, key: string): Result }>('tanstack')
  const map = fakeMap({ otter: 'river' })
  const shown: Result[] = []
  function Answer({ wanted }: { readonly wanted: string }) {
    shown.push(useCachedLookup(map, wanted))
    return null
  }
  const client = new QueryClient()
  const at = createRoot(document.createElement('div'))
  globalThis.IS_REACT_ACT_ENVIRONMENT = true
  const show = async (wanted: string) => {
    const answer = wanted === '' ? null : createElement(Answer, { wanted })
    await act(() => at.render(createElement(StrictMode, null, createElement(QueryClientProvider, { client }, answer))))
    await act(passed)
  }
  await show('otter')
  await show('otter')
  expect([shown.at(-1)!.data, map.stats.lookups]).toEqual(['river', 1])
  await show('auk')
  expect([shown.at(-1)!.data, map.stats.lookups]).toEqual([null, 2])
  await show('')
  await show('otter')
  expect([shown.at(-1)!.data, map.stats.lookups]).toEqual(['river', 3])
  await act(() => at.unmount())
  globalThis.IS_REACT_ACT_ENVIRONMENT = false
})
