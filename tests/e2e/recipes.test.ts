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
  const how = ['--bundle', '--packages=external', '--format=esm']
  await promisify(execFile)(esbuild, [join(folder, `${name}.ts`), `--outfile=${outfile}`, ...how])
  return (await import(/* @vite-ignore */ pathToFileURL(outfile).href)) as T
}

test('they compile, that of React too', async () => {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { stdout } = await promisify(execFile)(process.execPath, [tsc, '-p', folder]).catch(error => error)
  expect(stdout).toBe('')
})

test.each([
  ['lookup.ts', 'vue'],
  ['vue.ts', 'vue'],
  ['lookup.ts', 'sveltekit/src/lib'],
  ['svelte.ts', 'sveltekit/src/lib'],
])('%s is what the app of the matrix has in %s', async (name, app) => {
  const own = await readFile(join(root, 'tests/package/matrix', app, name), 'utf8')
  expect(await readFile(join(folder, name), 'utf8')).toBe(own)
})

type Answer = 'idle' | 'loading' | { value?: string; error?: unknown; outdated: boolean }
const EDIT = { op: 'edit', key: 'otter' } as const
const river = { value: 'river', outdated: false }

test('Vue', async () => {
  interface Looked {
    readonly answer: Ref<Answer>
    readonly refetch: () => void
  }
  const { useLookup } = await recipe<{
    useLookup(map: KeyhushMap, key: Ref<string>, options?: { follow: boolean }): Looked
  }>('vue')
  const map = fakeMap({ otter: 'river' }, { delayMs: 5 })
  const key = ref('')
  const scope = effectScope()
  const { answer, refetch } = scope.run(() => useLookup(map, key))!
  expect(answer.value).toBe('idle')
  key.value = 'otter'
  await nextTick()
  expect(answer.value).toBe('loading')
  await passed()
  expect(answer.value).toEqual(river)
  key.value = 'auk'
  await nextTick()
  await passed()
  expect([answer.value, map.stats.lookups]).toEqual([{ value: undefined, outdated: false }, 2])
  const error = new NetworkError('https://a.example', 'away')
  map.failWith(error)
  key.value = 'heron'
  await nextTick()
  await passed()
  expect(answer.value).toEqual({ error, outdated: false })
  map.failWith(undefined)
  refetch()
  expect(answer.value).toBe('loading')
  await passed()
  expect(answer.value).toEqual({ value: undefined, outdated: false })
  key.value = 'otter'
  await nextTick()
  scope.stop()
  await passed()
  expect(answer.value).toBe('loading') // nobody is told
})

test('Vue and Svelte: after a change of the list the answer is outdated, or is looked up again', async () => {
  interface Shown {
    readonly refetch: () => void
    readonly end: () => void
  }
  const { showing } = await recipe<{
    showing(map: KeyhushMap, key: string, follow: boolean, show: (answer: Answer) => void): Shown
  }>('lookup')
  for (const follow of [false, true]) {
    const map = fakeMap({ otter: 'river' })
    const told: Answer[] = []
    const shows = (answer: Answer) => expect.poll(() => told.at(-1), { interval: 1 }).toEqual(answer)
    const { refetch, end } = showing(map, 'otter', follow, answer => told.push(answer))
    refetch() // it is looked up already
    await shows(river)
    expect([told, map.stats.lookups]).toEqual([['loading', river], 1])
    const off = map.on('updated', () => {
      off()
      map.publish([{ ...EDIT, value: 'sea' }]) // while it is looked up again
    })
    map.publish([{ ...EDIT, value: 'shore' }])
    if (!follow) {
      await shows({ value: 'river', outdated: true })
      refetch()
      expect(told.at(-1)).toBe('loading')
    }
    await shows({ value: 'sea', outdated: false })
    expect(told.filter(answer => answer === 'loading')).toHaveLength(follow ? 1 : 2)
    end()
    const { length } = told
    const { lookups } = map.stats
    map.publish([{ ...EDIT, value: 'lake' }])
    await passed()
    expect([told.length, map.stats.lookups]).toEqual([length, lookups])
  }
})

test('Svelte', async () => {
  const { lookup } = await recipe<{
    lookup(map: KeyhushMap, key: string): Readable<Answer> & { readonly refetch: () => void }
  }>('svelte')
  const map = fakeMap({ otter: 'river' })
  const told: Answer[] = []
  const answer = lookup(map, 'otter')
  answer.refetch() // nobody has subscribed
  const end = answer.subscribe(answer => void told.push(answer))
  await passed()
  answer.refetch()
  await passed()
  end()
  expect(told).toEqual(['loading', river, 'loading', river])
  map.failWith(new NetworkError('https://a.example', 'away'))
  lookup(map, 'otter').subscribe(answer => void told.push(answer))()
  await passed()
  expect(told.slice(4)).toEqual(['loading'])
  expect(map.stats.lookups).toBe(2)
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
  type Result = UseQueryResult<{ value?: string }> & { readonly outdated: boolean }
  const { useCachedLookup } = await recipe<{
    useCachedLookup(map: KeyhushMap, key: string, options?: { follow: boolean }): Result
  }>('tanstack')
  const map = fakeMap({ otter: 'river' })
  const shown: Result[] = []
  let follow = false
  function Answer({ wanted }: { readonly wanted: string }) {
    shown.push(useCachedLookup(map, wanted, { follow }))
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
  expect([shown.at(-1)!.data!.value, map.stats.lookups]).toEqual(['river', 1])
  await show('auk')
  expect([shown.at(-1)!.data!.value, map.stats.lookups]).toEqual([undefined, 2])
  await show('')
  await show('otter')
  expect([shown.at(-1)!.data!.value, map.stats.lookups]).toEqual(['river', 3])
  const publish = async (value: string) => {
    await act(async () => {
      map.publish([{ ...EDIT, value }])
      await passed()
    })
    const { data, outdated } = shown.at(-1)!
    return [data!.value, outdated, map.stats.lookups]
  }
  expect(await publish('shore')).toEqual(['river', true, 3])
  await act(async () => {
    shown.at(-1)!.refetch()
    await passed()
  })
  expect([shown.at(-1)!.data!.value, shown.at(-1)!.outdated]).toEqual(['shore', false])
  follow = true
  expect(await publish('sea')).toEqual(['sea', false, 5])
  await act(() => at.unmount())
  globalThis.IS_REACT_ACT_ENVIRONMENT = false
})
