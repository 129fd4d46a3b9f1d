// What an app ships that imports `open()`, bundled and split: the files for each use of a map, and their bytes in brotli.

import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import { build, type Metafile } from 'esbuild'

export type Output = Metafile['outputs'][string]

export interface Shipped {
  /** by file */
  readonly outputs: Readonly<Record<string, Output>>
  /** files loaded before there is a map; with what looks up instantly; with what keeps a state; with what asks one server */
  readonly parts: Readonly<Record<'atOnce' | 'instant' | 'keeping' | 'single', ReadonlySet<string>>>
  /** brotli, each file by itself */
  bytesOf(files: Iterable<string>): number
  /** sources that these files are made of */
  sourcesOf(files: Iterable<string>): string[]
}

const compressed = (bytes: Uint8Array) =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length

export async function shipped(): Promise<Shipped> {
  const { outputFiles, metafile } = await build({
    stdin: {
      contents: `export { open } from '@keyhush/client'`,
      resolveDir: fileURLToPath(new URL('..', import.meta.url)),
    },
    ...{ bundle: true, minify: true, splitting: true, write: false, metafile: true },
    ...{ platform: 'browser', format: 'esm', target: 'es2022', outdir: 'out' },
  })
  const { outputs } = metafile
  const sizes = new Map<string, number>()
  const sizeOf = (file: string) => {
    const size = sizes.get(file) ?? compressed(outputFiles.find(({ path }) => path.endsWith(file))!.contents)
    sizes.set(file, size)
    return size
  }
  /** With what it imports, and that, but for what is loaded on demand. */
  const withImports = (file: string, found = new Set<string>()): Set<string> => {
    found.add(file)
    for (const { path, kind } of outputs[file]!.imports) {
      if (kind === 'import-statement' && !found.has(path)) withImports(path, found)
    }
    return found
  }
  const fileOf = (source: string) =>
    Object.entries(outputs).find(([, { entryPoint = '' }]) => entryPoint.endsWith(source))![0]
  const atOnce = withImports(Object.keys(outputs).find(file => file.endsWith('stdin.js'))!)
  const together = (...sources: string[]) =>
    new Set([...atOnce, ...sources.flatMap(source => [...withImports(fileOf(source))])])
  const stateful = ['session/keeping.js', 'platform/stores.js', 'wasm/dist/client-core.js']
  return {
    outputs,
    parts: {
      atOnce,
      instant: together('wasm/dist/instant.js', 'generated/inline-instant.js'),
      keeping: together(...stateful, 'generated/client.js', 'generated/inline.js'),
      single: together(...stateful, 'generated/single.js', 'dist/single-core.js', 'generated/inline-single.js'),
    },
    bytesOf: files => [...new Set(files)].reduce((sum, file) => sum + sizeOf(file), 0),
    sourcesOf: files => [...files].flatMap(file => Object.keys(outputs[file]!.inputs)),
  }
}
