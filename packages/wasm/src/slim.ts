// The loader without the module: the app says where `client_bg.wasm` is, or hands it over compiled. For pages that
// stream it (`application/wasm`) or keep it in a cache of their own.

import { instance } from './client-instance.js'
import type { ClientCore } from './core.js'

export type * from './core.js'

/** Instantiates the core from a compiled module, from bytes, or from a response of type `application/wasm`. */
export function loadCore(
  source: WebAssembly.Module | BufferSource | PromiseLike<Response> | Response,
): Promise<ClientCore> {
  return instance.load(async () => {
    if (source instanceof WebAssembly.Module) return source
    if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source)
    return WebAssembly.compileStreaming(source)
  })
}

/** After a trap: abandons `core`'s instance and starts another for the next `loadCore()`. */
export function discardCore(core: ClientCore): void {
  instance.discard(core)
}
