// What an app ships that imports the SDK: within a budget, and without code that only some apps need.

import { readFile } from 'node:fs/promises'
import { brotliCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { bundled, shipped, whole } from '../support/shipped.js'
import { thoroughly } from '../support/thoroughly.js'

const ROOT = new URL('../../', import.meta.url)
const [GUIDE, FILTERS, SDK] = ['docs/guide/modes.md', 'docs/guide/filters.md', 'packages/client/README.md']
const figureIn = async (path: string, figure: RegExp) =>
  Number(figure.exec(await readFile(new URL(path, ROOT), 'utf8'))![1])

/** For an app that looks up instantly and keeps no state. */
const INSTANT_BYTES = 74_300
/** of it, before there is a map */
const AT_ONCE_BYTES = 38_350
/** For an app that keeps a state from the start: with hints, stores, and their WebAssembly. */
const KEEPING_BYTES = 181_900

test('an app that looks up instantly ships at most 74.3 kB of brotli; code for states, signatures and witnesses is loaded on demand', async () => {
  const { outputs, parts, bytesOf, sourcesOf } = await shipped()
  const bytes = { atOnce: bytesOf(parts.atOnce), instant: bytesOf(parts.instant), keeping: bytesOf(parts.keeping) }
  console.log('brotli, bytes:', { ...bytes, 'auto, in the end': bytesOf([...parts.instant, ...parts.keeping]) })
  expect(bytes.atOnce).toBeLessThan(AT_ONCE_BYTES)
  expect(bytes.instant).toBeLessThan(INSTANT_BYTES)
  expect(bytes.keeping).toBeLessThan(KEEPING_BYTES)
  // The guide's figures: what is loaded with the first map, and what more when a map begins to keep a state.
  const more = [...parts.keeping].filter(file => !parts.instant.has(file))
  const isModule = (file: string) => sourcesOf([file]).some(source => source.includes('generated/inline'))
  const [script, module] = [more.filter(file => !isModule(file)), more.filter(isModule)].map(bytesOf)
  const guide = await readFile(new URL(GUIDE, ROOT), 'utf8')
  const figures = /(\d+) kB at first; (\d+) kB of JavaScript and (\d+) kB of WebAssembly more/
  const [, first, kB, wasmkB] = figures.exec(guide)!
  expect(Math.abs(bytes.instant / 1000 - Number(first))).toBeLessThan(1)
  expect(Math.abs(script! / 1000 - Number(kB))).toBeLessThan(3)
  expect(Math.abs(module! / 1000 - Number(wasmkB))).toBeLessThan(3)

  const sources = sourcesOf(parts.instant)
  const ofState =
    /client\/dist\/(state|store\/(?!store\.js|identity\.js)|.*\/(stateful|choosing|tapir|local|single)\.js)/
  expect(sources.filter(source => ofState.test(source) || source.includes('node_modules/'))).toEqual([])
  expect(sourcesOf(parts.keeping).filter(source => ofState.test(source)).length).toBeGreaterThan(20)
  // Lookups with one server need another module, with glue of its own.
  const alone = /generated\/(inline-)?(single|one-server)/
  expect([...sources, ...sourcesOf(parts.keeping)].filter(source => alone.test(source))).toEqual([])

  // Only an import() leads to code that only some apps need.
  const onDemand = (isSuch: RegExp, files: number) => {
    const names = Object.keys(outputs).filter(name => sourcesOf([name]).some(source => isSuch.test(source)))
    expect(names).toHaveLength(files)
    const others = Object.keys(outputs).filter(name => !names.includes(name))
    /** files without code of their own, which pass on what such a file exports */
    const passing = others.filter(name => sourcesOf([name]).length === 0)
    const to = (path: string) => names.includes(path) || passing.includes(path)
    const ways = others
      .filter(name => !passing.includes(name))
      .flatMap(name => outputs[name]!.imports.filter(({ path }) => to(path)))
    expect(new Set(ways.map(({ kind }) => kind))).toEqual(new Set(['dynamic-import']))
  }
  onDemand(/@noble\/curves\//, 1)
  onDemand(/protocol\/dist\/log\/|servers\/witnesses/, 1)
  onDemand(/wasm\/dist\/script\/(?!list)/, 5) // for instant lookups, for filters, and more for copies
  onDemand(/generated\/inline/, 4)
})

test('a filter is loaded on demand, with at most 25.4 kB of brotli more than instant lookups, and without code for states', async () => {
  const { parts, bytesOf, sourcesOf } = await shipped()
  const more = [...parts.filter].filter(file => !parts.instant.has(file))
  console.log('of filters, brotli, bytes more:', bytesOf(more))
  expect(bytesOf(more)).toBeLessThan(25_400)
  const own = bytesOf(more.filter(file => sourcesOf([file]).some(source => source.includes('/filter/'))))
  expect(Math.abs(bytesOf(more) / 1000 - (await figureIn(FILTERS, / (\d+) kB of brotli/)))).toBeLessThan(1)
  expect(Math.abs(own / 1000 - (await figureIn(FILTERS, / (\d+) kB of its own/)))).toBeLessThan(1)
  expect(sourcesOf(more).filter(source => /client\/dist\/(state|session\/stateful)/.test(source))).toEqual([])
  expect(sourcesOf(parts.instant).filter(source => source.includes('/filter/'))).toEqual([])
})

/** Where documents name the size of an entry. */
const INSTANT_SIZES: Record<string, RegExp> = {
  'README.md': / (\d+) kB \(brotli\)/,
  [GUIDE]: /instant` \| (\d+) kB/,
  [SDK]: / (\d+) kB of brotli with/,
}
test.each([
  ['/instant', `export { open } from '@keyhush/client/instant'`, 69_200, INSTANT_SIZES],
  ['/react/instant', `export * from '@keyhush/client/react/instant'`, 70_750, { [SDK]: /ships (\d+) kB/ }],
])(
  'an app of %s is three files, within its budget; more where the platform has no WebAssembly, checks no signatures, or watches keys',
  async (entry, contents, most, documents) => {
    const { outputs, bytesOf, sourcesOf } = await bundled(contents)
    const filesFor = (needle: RegExp) =>
      Object.keys(outputs).filter(file => sourcesOf([file]).some(source => needle.test(source)))
    // Signatures, witnesses, the core in JavaScript, what they share, and what watches keys.
    const onDemand = filesFor(/@noble\/|protocol\/dist\/log|client\/dist\/watching\//)
    const needed = Object.keys(outputs).filter(file => !onDemand.includes(file))
    expect([needed.length, onDemand.length]).toEqual([3, 6])
    expect(filesFor(/generated\/inline-instant/).filter(file => needed.includes(file))).toHaveLength(1)
    const bytes = bytesOf(needed)
    console.log(`of ${entry}, brotli, bytes:`, bytes)
    expect(bytes).toBeLessThan(most)
    for (const [path, figure] of Object.entries(documents)) {
      expect(Math.abs(bytes / 1000 - (await figureIn(path, figure))), path).toBeLessThan(1)
    }
    expect(filesFor(/client\/dist\/(state|store\/(?!store\.js|identity\.js))|stores|keeping|stateful|\/idb\//)).toEqual(
      [],
    )
  },
)

test('the core in JavaScript has at most 20.1 kB minified, 8 kB of brotli, with all that it imports', async () => {
  const { outputs, bytesOf, lengthOf } = await bundled(`export { scriptCore } from '@keyhush/wasm/script'`)
  const files = Object.keys(outputs)
  console.log('script, bytes:', { minified: lengthOf(files), brotli: bytesOf(files) })
  expect(lengthOf(files)).toBeLessThan(20_100)
  expect(bytesOf(files)).toBeLessThan(8_000)
})

test('what copies need of it beside has at most 9 kB minified, in a file that apps of instant lookups do not have', async () => {
  const entries = ['script', 'script-local'].map(entry => bundled(`export * from '@keyhush/wasm/${entry}'`))
  const [least, most] = (await Promise.all(entries)).map(({ outputs, lengthOf }) => lengthOf(Object.keys(outputs)))
  console.log('for copies, minified bytes more:', most! - least!)
  expect(most! - least!).toBeLessThan(9_000)
  const { outputs, sourcesOf } = await bundled(`export { open } from '@keyhush/client/instant'`)
  expect(sourcesOf(Object.keys(outputs)).filter(source => source.includes('script/local'))).toEqual([])
})

test('an app with React Native ships at most 62 kB of brotli more, in one file', async () => {
  const bytes = await whole(`export { open } from '@keyhush/react-native'`)
  console.log('of React Native, brotli, bytes:', bytes)
  expect(bytes).toBeLessThan(62_000)
  expect(Math.abs(bytes / 1000 - (await figureIn('docs/guide/phones.md', /(\d+) kB of brotli/)))).toBeLessThan(1)
})

thoroughly('the SDK in one file has the size that documents name', async () => {
  const bytes = brotliCompressSync(await readFile(new URL('packages/client/dist/keyhush.js', ROOT))).length
  console.log('keyhush.js, brotli, bytes:', bytes)
  for (const [path, figure] of Object.entries({
    [GUIDE]: / (\d+) kB in one file/,
    [SDK]: /one file \((\d+) kB of brotli\)/,
  })) {
    expect(Math.abs(bytes / 1000 - (await figureIn(path, figure))), path).toBeLessThan(3)
  }
})

test.each([
  ['/react', `export * from '@keyhush/client/react'`, 35_400],
  ['/testing', `export * from '@keyhush/client/testing'`, 9_600],
  ['/node', `export * from '@keyhush/client/node'`, 6_000],
])('%s has its budget, without what is loaded on demand', async (_entry, contents, most) => {
  const { outputs, bytesOf, sourcesOf } = await bundled(contents)
  const isAtOnce = (source: string) =>
    source === '<stdin>' || /protocol\/dist\/(?!log\/|chain)|client\/dist\/base/.test(source)
  const sum = bytesOf(Object.keys(outputs).filter(file => sourcesOf([file]).some(isAtOnce)))
  console.log('brotli, bytes:', sum)
  expect(sum).toBeLessThan(most)
})

test('an app that only estimates starts without WebAssembly and without code for states', async () => {
  const { atOnce, sourcesOf, lengthOf } = await bundled(`export { estimate } from '@keyhush/client'`)
  const sources = sourcesOf(atOnce)
  expect(sources.some(source => source.endsWith('client/dist/estimate.js'))).toBe(true)
  expect(
    sources.filter(source =>
      /generated\/|client\/dist\/(state|store\/(?!store\.js|identity\.js)|session\/stateful)/.test(source),
    ),
  ).toEqual([])
  const bytes = lengthOf(atOnce)
  console.log('to estimate, minified bytes:', bytes)
  expect(bytes).toBeLessThan(93_800)
})
