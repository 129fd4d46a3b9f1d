// The loader without the module: the app says where `pirouette_bg.wasm` is, or hands it over compiled. For pages that
// stream it (`application/wasm`) or keep it in a cache of their own.

import type { Core } from './core.js'
import { loadCoreFrom } from './instance.js'

export type * from './core.js'
export { discardCore } from './instance.js'

/** Instantiates the core from a compiled module, from bytes, or from a response of type `application/wasm`. */
export function loadCore(source: WebAssembly.Module | BufferSource | PromiseLike<Response> | Response): Promise<Core> {
  return loadCoreFrom(async () => {
    if (source instanceof WebAssembly.Module) return source
    if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source)
    return WebAssembly.compileStreaming(source)
  })
}
