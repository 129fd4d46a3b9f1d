// The loader for clients, wherever they run: the module travels inside JavaScript, in a part of its own that is loaded when
// it is needed, so that no bundler, dev server or path has to know about it. Compressed, it costs about as much as a
// separate file. An app that has the file elsewhere hands it in before (`useModule`), and then nothing is loaded here.

import { clientCore } from './client-core.js'
import { instance } from './client-instance.js'
import type { ClientCore, SingleCore, WasmModule } from './core.js'
import { discardInstance, Instance } from './instance.js'
import { singleHalf } from './single-core.js'

export type * from './core.js'
/** what there is here */
export type { ClientCore as Core } from './core.js'

/** The module, compiled, in bytes, or in a response of type `application/wasm`; or what has one of them soon. */
export type ModuleSource = Source | PromiseLike<Source>
type Source = WasmModule | ArrayBufferView<ArrayBuffer> | ArrayBuffer | Response

/** The builds for browsers: `single` can do lookups with one server as well. */
export type Build = 'client' | 'single'

const given: Partial<Record<Build, () => Promise<WebAssembly.Module>>> = {}

/** Takes a build's module from here from now on. A realm runs one of each: if there is one already, it stays. */
export function useModule(source: ModuleSource | (() => ModuleSource), build: Build = 'client'): void {
  given[build] = async () => compiled(await (typeof source === 'function' ? source() : source))
}

/** The running core of the build for one server, once there is one. */
let single: Instance<SingleCore> | undefined

/** Instantiates the core, or returns the running one. */
export function loadCore(): Promise<ClientCore> {
  return instance.load(given.client ?? (async () => inlined(await import('../generated/inline.js'))))
}

/** The same with what lookups with one server need. */
export async function loadSingleCore(): Promise<SingleCore> {
  const glue = await import('../generated/single.js')
  // The builds' classes are alike; only their private parts tell them apart.
  const own = glue as unknown as Parameters<typeof clientCore>[0]
  single ??= new Instance(glue, memory => ({ ...clientCore(own, memory), ...singleHalf(glue) }))
  return await single.load(given.single ?? (async () => inlined(await import('../generated/inline-single.js'))))
}

/** After a trap: abandons `core`'s instance and starts another for the next that is loaded. */
export function discardCore(core: ClientCore): void {
  discardInstance(core)
}

async function compiled(source: Source): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return await WebAssembly.compile(source)
  return await WebAssembly.compileStreaming(source)
}

async function inlined({ WASM_HEX }: { readonly WASM_HEX: string }): Promise<WebAssembly.Module> {
  const bytes = new Uint8Array(WASM_HEX.length / 2)
  // Of lower-case digits; parsing them two by two would take a page a tenth of a second.
  const digit = (at: number) => WASM_HEX.charCodeAt(at) - (WASM_HEX.charCodeAt(at) < 0x3a ? 0x30 : 0x57)
  for (let i = 0; i < bytes.length; i++) bytes[i] = 16 * digit(2 * i) + digit(2 * i + 1)
  return await WebAssembly.compile(bytes)
}
