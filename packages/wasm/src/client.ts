// The loader for clients, wherever they run: the module travels inside JavaScript, in a part of its own that is loaded when
// it is needed, so that no bundler, dev server or path has to know about it. Compressed, it costs about as much as a
// separate file. An app that has the file elsewhere hands it in before (`useModule`), and then nothing is loaded here.

import { instance } from './client-instance.js'
import type { ClientCore, WasmModule } from './core.js'

export type * from './core.js'
/** what there is here */
export type { ClientCore as Core } from './core.js'

/** The module, compiled, in bytes, or in a response of type `application/wasm`; or what has one of them soon. */
export type ModuleSource = Source | PromiseLike<Source>
type Source = WasmModule | ArrayBufferView<ArrayBuffer> | ArrayBuffer | Response

let given: (() => Promise<WebAssembly.Module>) | undefined

/** Takes the module from here from now on. A realm runs one: if there is one already, it stays. */
export function useModule(source: ModuleSource | (() => ModuleSource)): void {
  given = async () => compiled(await (typeof source === 'function' ? source() : source))
}

/** Instantiates the core, or returns the running one. */
export function loadCore(): Promise<ClientCore> {
  return instance.load(given ?? inlined)
}

/** After a trap: abandons `core`'s instance and starts another for the next `loadCore()`. */
export function discardCore(core: ClientCore): void {
  instance.discard(core)
}

async function compiled(source: Source): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return await WebAssembly.compile(source)
  return await WebAssembly.compileStreaming(source)
}

async function inlined(): Promise<WebAssembly.Module> {
  const { WASM_DEFLATE_BASE64 } = await import('../generated/inline.js')
  const compressed = Uint8Array.from(atob(WASM_DEFLATE_BASE64), character => character.charCodeAt(0))
  // Not through a Blob: what stands in for pages in tests has one without streams.
  const bytes = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      controller.enqueue(compressed)
      controller.close()
    },
  }).pipeThrough(new DecompressionStream('deflate-raw'))
  return await WebAssembly.compile(await new Response(bytes).arrayBuffer())
}
