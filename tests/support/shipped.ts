// What an app ships, bundled and split: its files, and their bytes in brotli; of `open()`, the files for each use of a map.

import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import { build, type Metafile } from 'esbuild'

export interface Bundled {
  /** by file */
  readonly outputs: Metafile['outputs']
  /** files loaded at once: the entry, with what it imports, and that, but for what is loaded on demand */
  readonly atOnce: ReadonlySet<string>
  /** the file that is loaded on demand for a source, with what it imports likewise */
  withImportsOf(source: string): ReadonlySet<string>
  /** brotli, each file by itself */
  bytesOf(files: Iterable<string>): number
  /** uncompressed */
  lengthOf(files: Iterable<string>): number
  /** sources that these files are made of */
  sourcesOf(files: Iterable<string>): string[]
}

export interface Shipped extends Bundled {
  /** files loaded before there is a map; with what looks up instantly; with what keeps a state; with what asks one server; with filters */
  readonly parts: Readonly<Record<'atOnce' | 'instant' | 'keeping' | 'single' | 'filter', ReadonlySet<string>>>
}

const compressed = (bytes: Uint8Array) =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length

/** What bundlers are asked to do for all apps. */
const APP = {
  bundle: true,
  minify: true,
  write: false,
  platform: 'browser',
  format: 'esm',
  target: 'es2022',
  outdir: 'out',
} as const

const moduleOf = (contents: string) => ({
  contents,
  resolveDir: fileURLToPath(new URL('..', import.meta.url)),
})

/** Bytes of brotli of a module in one file, as Metro makes it, without React Native itself. */
export async function whole(contents: string): Promise<number> {
  const { outputFiles } = await build({ ...APP, stdin: moduleOf(contents), external: ['react-native'] })
  return compressed(outputFiles[0]!.contents)
}

/** What an app ships that is this module. */
export async function bundled(contents: string): Promise<Bundled> {
  const { outputFiles, metafile } = await build({
    ...{ ...APP, stdin: moduleOf(contents), splitting: true, metafile: true },
    external: ['react', 'node:*', 'fs-native-extensions'],
  })
  const { outputs } = metafile
  const sizes = new Map<string, number>()
  const sizeOf = (file: string) => {
    const size = sizes.get(file) ?? compressed(outputFiles.find(({ path }) => path.endsWith(file))!.contents)
    sizes.set(file, size)
    return size
  }
  const withImports = (file: string, found = new Set<string>()): Set<string> => {
    found.add(file)
    for (const { path, kind } of outputs[file]!.imports) {
      if (kind === 'import-statement' && outputs[path] && !found.has(path)) withImports(path, found)
    }
    return found
  }
  const fileOf = (source: string) =>
    Object.entries(outputs).find(([, { entryPoint = '' }]) => entryPoint.endsWith(source))![0]
  const sum = (files: Iterable<string>, size: (file: string) => number) =>
    [...new Set(files)].reduce((sum, file) => sum + size(file), 0)
  return {
    outputs,
    atOnce: withImports(Object.keys(outputs).find(file => file.endsWith('stdin.js'))!),
    withImportsOf: source => withImports(fileOf(source)),
    bytesOf: files => sum(files, sizeOf),
    lengthOf: files => sum(files, file => outputs[file]!.bytes),
    sourcesOf: files => [...files].flatMap(file => Object.keys(outputs[file]!.inputs)),
  }
}

/** What an app ships that imports `open()`. */
export async function shipped(): Promise<Shipped> {
  const app = await bundled(`export { open } from '@keyhush/client'`)
  const together = (...sources: string[]) =>
    new Set([...app.atOnce, ...sources.flatMap(source => [...app.withImportsOf(source)])])
  const stateful = ['session/keeping.js', 'platform/stores.js', 'wasm/dist/client-core.js']
  return {
    ...app,
    parts: {
      atOnce: app.atOnce,
      instant: together('wasm/dist/instant.js', 'generated/inline-instant.js'),
      filter: together('wasm/dist/instant.js', 'generated/inline-instant.js', 'filter/sessions.js'),
      keeping: together(...stateful, 'generated/client.js', 'generated/inline.js'),
      single: together(...stateful, 'generated/single.js', 'dist/single-core.js', 'generated/inline-single.js'),
    },
  }
}
