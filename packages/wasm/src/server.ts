// The loader of the whole core, with the server's part, outside of Node: for a server in a browser's worker, for example. Its
// memory is shared memory, but only one thread uses it here.

import type { Core } from './core.js'
import { serverInstance } from './server-core.js'

export type * from './core.js'

const instance = serverInstance(() => Promise.reject(new Error('there are no worker threads here')))

/**
 * The running core; instantiates it from its file (`@keyhush/wasm/core_bg.wasm`), which is fetched once.
 * @throws {WebAssembly.CompileError} where there is no SIMD, or a content security policy forbids WebAssembly
 * @example
 * const core = await loadServerCore(() => fetch(coreUrl))
 */
export function loadServerCore(file: () => Promise<Response>): Promise<Core> {
  return instance.load(async () => await WebAssembly.compileStreaming(await file()))
}
