// The loader for Node: the whole core, with the server's part, from this package's own file.

import { readFile } from 'node:fs/promises'
import type { Core } from './core.js'
import { serverInstance } from './server-core.js'

export type * from './core.js'
export { oneServerPlan } from './one-server-costs.js'

let kernels: Promise<WebAssembly.Module> | undefined

async function compiled(name: string): Promise<WebAssembly.Module> {
  const file = new URL(`../generated/${name}`, import.meta.url)
  const bytes = await readFile(file).catch(cause => {
    if (cause.code !== 'ENOENT') throw cause
    const remedy = 'if your app is bundled into one file, leave the packages out of it (esbuild: --packages=external)'
    throw new Error(`expected ${name} in the package @keyhush/wasm, got no file at ${file}; ${remedy}`, { cause })
  })
  return WebAssembly.compile(bytes)
}

const instance = serverInstance(() => (kernels ??= compiled('worker.wasm')))

/**
 * The running core; instantiates it if it does not run.
 * @throws {WebAssembly.CompileError} where there is no SIMD
 * @example
 * const core = await loadCore()
 * const hash = core.blake3(new Uint8Array(3))
 */
export function loadCore(): Promise<Core> {
  return instance.load(() => compiled('core_bg.wasm'))
}
