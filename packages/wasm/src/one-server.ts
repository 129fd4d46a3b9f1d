// The loader for instant lookups with one server. Its module does nothing else, and runs beside another build's. Import it where it is
// needed: it brings its glue along.

import { blake3, initSync, OneServerQueryHandle, oneServerSizes, restart } from '../generated/one-server.js'
import type { OneServerCore } from './core.js'
import { Instance } from './instance.js'
import { oneServerHalf } from './one-server-core.js'
import { inlined, type ModuleSource, moduleOf } from './source.js'

export type * from './core/one-server.js'
export { oneServerCosts, oneServerPlan } from './one-server-costs.js'
export type { ModuleSource } from './source.js'

/** An object of named imports: for a namespace, bundlers would make an object in a file of its own. */
const glue = { initSync, restart, blake3, OneServerQueryHandle, oneServerSizes }

const instance = new Instance<OneServerCore>(glue, () => oneServerHalf(glue))

let module = async () => inlined(await import('../generated/inline-one-server.js'))

/**
 * Sets where the module comes from. An instance that runs already stays.
 * @example
 * useOneServerModule(() => fetch('/one-server_bg.wasm'))
 */
export function useOneServerModule(source: ModuleSource | (() => ModuleSource)): void {
  module = () => moduleOf(source)
}

/**
 * The running core; instantiates it if it does not run. After a trap, call `discardInstance` with it.
 * @throws {WebAssembly.CompileError} where there is no SIMD, or a content security policy forbids WebAssembly
 * @example
 * const core = await loadOneServerCore()
 */
export async function loadOneServerCore(): Promise<OneServerCore> {
  return await instance.load(() => module())
}
