// The default loader: the module travels inside the JavaScript, so that no bundler, dev server or path needs to know
// about it. Compressed, it costs about as much as a separate file. `@pirouette/wasm/slim` leaves it out.

import { WASM_DEFLATE_BASE64 } from '../generated/inline.js'
import { instance } from './client-instance.js'
import type { ClientCore } from './core.js'

export type * from './core.js'

/** Instantiates the core, or returns the running one. */
export function loadCore(): Promise<ClientCore> {
  return instance.load(async () => {
    const compressed = Uint8Array.from(atob(WASM_DEFLATE_BASE64), character => character.charCodeAt(0))
    const bytes = new Blob([compressed]).stream().pipeThrough(new DecompressionStream('deflate-raw'))
    return WebAssembly.compile(await new Response(bytes).arrayBuffer())
  })
}

/** After a trap: abandons `core`'s instance and starts another for the next `loadCore()`. */
export function discardCore(core: ClientCore): void {
  instance.discard(core)
}
