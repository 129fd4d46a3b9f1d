// The loader of the whole core, server half included, outside of Node: for a server in a browser's worker, say. Its memory is
// a shared one, and one thread is all that runs it here.

import type { Core } from './core.js'
import { serverInstance } from './server-core.js'

export type * from './core.js'

const instance = serverInstance(() => Promise.reject(new Error('there are no worker threads here')))

/**
 * Instantiates the core from its file (`@keyhush/wasm/core_bg.wasm`), asked for once, or returns the running one.
 * @throws {WebAssembly.CompileError} where there is no SIMD, or a content security policy forbids WebAssembly
 * @example
 * const core = await loadServerCore(() => fetch(coreUrl))
 */
export function loadServerCore(file: () => Promise<Response>): Promise<Core> {
  return instance.load(async () => await WebAssembly.compileStreaming(await file()))
}
