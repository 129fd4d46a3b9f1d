// What an app ships that imports the SDK: within a budget, and without what only some apps need.

import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import { build, type Metafile } from 'esbuild'
import { expect, test } from 'vitest'

/** What an app ships that looks up instantly and keeps nothing. */
const INSTANT_BYTES = 60_000
/** of it, before there is a map */
const AT_ONCE_BYTES = 25_500
/** What one ships that keeps a state from the first: what makes hints, stores, and the WebAssembly that hints take. */
const KEEPING_BYTES = 165_000

const compressed = (bytes: Uint8Array) =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length

const inputsOf = ({ inputs }: Metafile['outputs'][string]) => Object.keys(inputs)

test('an app that looks up instantly ships 60 kB of brotli at most; what keeps a state, and what checks signatures, are parts of their own, loaded by who needs them', async () => {
  const { outputFiles, metafile } = await build({
    stdin: {
      contents: `export { open } from '@pirouette/client'`,
      resolveDir: fileURLToPath(new URL('..', import.meta.url)),
    },
    bundle: true,
    minify: true,
    splitting: true,
    platform: 'browser',
    format: 'esm',
    target: 'es2022',
    outdir: 'out',
    write: false,
    metafile: true,
  })
  const bytesOf = (names: Iterable<string>) =>
    [...names].reduce((sum, name) => sum + compressed(outputFiles.find(({ path }) => path.endsWith(name))!.contents), 0)
  /** With what it imports, and that, but for what is loaded on demand. */
  const withImports = (name: string, found = new Set<string>()): Set<string> => {
    found.add(name)
    for (const { path, kind } of metafile.outputs[name]!.imports) {
      if (kind === 'import-statement' && !found.has(path)) withImports(path, found)
    }
    return found
  }
  const outputs = Object.entries(metafile.outputs)
  const partOf = (source: string) => outputs.find(([, { entryPoint = '' }]) => entryPoint.endsWith(source))![0]
  const sourcesOf = (names: Iterable<string>) => [...names].flatMap(name => inputsOf(metafile.outputs[name]!))
  /** What is loaded with parts, and with what they import. */
  const together = (...sources: string[]) =>
    new Set([...atOnce, ...sources.flatMap(source => [...withImports(partOf(source))])])
  const atOnce = withImports(outputs.find(([name]) => name.endsWith('stdin.js'))![0])

  const instant = together('generated/instant.js', 'dist/instant-core.js', 'generated/inline-instant.js')
  const keeping = ['session/keeping.js', 'platform/stores.js', 'generated/client.js', 'dist/client-core.js']
  const kept = together(...keeping, 'generated/inline.js')
  const everything = new Set([...instant, ...kept])
  const bytes = [atOnce, instant, kept, everything].map(bytesOf) as [number, number, number, number]
  const [first, answering, keepingOne, inAll] = bytes
  console.log(
    `brotli: ${first} bytes at once, ${answering} to look up instantly, ${keepingOne} to keep a state, ${inAll} for mode auto in the end`,
  )
  expect(first).toBeLessThan(AT_ONCE_BYTES)
  expect(answering).toBeLessThan(INSTANT_BYTES)
  expect(keepingOne).toBeLessThan(KEEPING_BYTES)
  // What keeps a state is in none of it.
  const own = sourcesOf(instant).filter(source => source.startsWith('packages/client/'))
  expect(
    own.filter(source =>
      /\/(state|store)\/(?!store\.js)|\/(stateful|choosing|tapir|light|local|single)\.js/.test(source),
    ),
  ).toEqual([])
  expect(own.length).toBeGreaterThan(20)
  expect(sourcesOf(instant).filter(source => source.includes('node_modules/'))).toEqual([])

  // What lookups with one server need is another module, with glue of its own.
  const single = ['generated/single.js', 'dist/single-core.js', 'generated/inline-single.js']
  console.log(
    `maps of one server load ${bytesOf(together(...keeping.slice(0, 2), 'dist/client-core.js', ...single))} in all`,
  )
  expect(sourcesOf(everything).filter(source => /generated\/(single|inline-single)/.test(source))).toEqual([])

  // There is no way but an import() to what only some need.
  const onDemand = (isSuch: (source: string) => boolean, parts: number) => {
    const names = outputs.filter(([, output]) => inputsOf(output).some(isSuch)).map(([name]) => name)
    expect(names).toHaveLength(parts)
    for (const name of names) {
      const ways = outputs.flatMap(([, { imports }]) => imports.filter(({ path }) => path === name))
      expect(new Set(ways.map(({ kind }) => kind))).toEqual(new Set(['dynamic-import']))
    }
  }
  onDemand(source => source.includes('@noble/curves/'), 1)
  onDemand(source => source.includes('generated/pointproofs'), 2) // glue and module
  onDemand(source => /generated\/inline/.test(source), 3)
})
