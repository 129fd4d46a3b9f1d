// What an app ships that imports the SDK: within a budget, and without what only some apps need.

import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import { build, type Metafile } from 'esbuild'
import { expect, test } from 'vitest'

/**
 * Of which light hints, with the check of what they are made of, in steps, are 10 kB; blocks, mode `auto`, its planner and
 * directories in parts 15 kB; saying what came where something else was expected 1 kB.
 */
const BUDGET_BYTES = 155_000
/** of it, before there is a map */
const AT_ONCE_BYTES = 50_000

const compressed = (bytes: Uint8Array) =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length

const inputsOf = ({ inputs }: Metafile['outputs'][string]) => Object.keys(inputs)

test('what every app loads stays within 155 kB of brotli; the check of signatures is a part of its own, loaded by who needs it', async () => {
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
  const contentsOf = (name: string) => outputFiles.find(({ path }) => path.endsWith(name))!.contents
  /** With what it imports, and that, but for what is loaded on demand. */
  const withImports = (name: string, found = new Set<string>()): Set<string> => {
    found.add(name)
    for (const { path, kind } of metafile.outputs[name]!.imports) {
      if (kind === 'import-statement' && !found.has(path)) withImports(path, found)
    }
    return found
  }
  const outputs = Object.values(metafile.outputs)
  const partOf = (source: string) =>
    Object.entries(metafile.outputs).find(([, { entryPoint = '' }]) => entryPoint.endsWith(source))!
  const [moduleName, module] = partOf('generated/inline.js')
  expect(inputsOf(module)).toHaveLength(1)
  const entry = [...withImports(Object.keys(metafile.outputs).find(name => name.endsWith('stdin.js'))!)]
  const atOnce = entry.reduce((sum, name) => sum + compressed(contentsOf(name)), 0)
  const bytes = [atOnce, compressed(contentsOf(moduleName))] as const
  console.log(`what an app loads: ${bytes[0]} bytes at once, ${bytes[1]} of WebAssembly with the first map`)
  expect(bytes[0]).toBeLessThan(AT_ONCE_BYTES)
  expect(bytes[0] + bytes[1]).toBeLessThan(BUDGET_BYTES)
  const curves = outputs.filter(output => inputsOf(output).some(input => input.includes('@noble/curves/')))
  expect(curves).toHaveLength(1)
  expect(curves[0]!.entryPoint).toContain('ed25519')
  // What lookups with one server need is another module, with glue of its own.
  const alone = ['generated/single.js', 'generated/inline-single.js'].map(partOf)
  console.log(
    `maps of one server load: ${alone.map(([name]) => compressed(contentsOf(name))).join(' and ')} bytes instead of the latter`,
  )
  const once = entry.flatMap(name => inputsOf(metafile.outputs[name]!))
  expect([...once, ...inputsOf(module)].filter(input => /generated\/(single|inline-single)/.test(input))).toEqual([])
  // Pointproofs are nobody's who does not ask for them: there is no way to their module but an import().
  const isProving = (input: string) => input.includes('generated/pointproofs')
  const provers = Object.entries(metafile.outputs).filter(([, output]) => inputsOf(output).some(isProving))
  expect(provers).toHaveLength(2) // glue and module
  for (const [name] of provers) {
    const kinds = outputs.flatMap(({ imports }) => imports.filter(({ path }) => path === name).map(({ kind }) => kind))
    expect(new Set(kinds)).toEqual(new Set(['dynamic-import']))
  }
  // From the entry there is no way to it but an import().
  const [name] = Object.entries(metafile.outputs).find(([, output]) => output === curves[0])!
  const kinds = outputs.flatMap(({ imports }) => imports.filter(({ path }) => path === name).map(({ kind }) => kind))
  expect(new Set(kinds)).toEqual(new Set(['dynamic-import']))
})
