// Sources of a WebAssembly module: the app passes it, or it is hex in a JavaScript file.

import type { WasmModule } from './core.js'

/** A module: compiled, as bytes, or as a response of type `application/wasm`; or a promise of one of these. */
export type ModuleSource = Source | PromiseLike<Source>
type Source = WasmModule | ArrayBufferView<ArrayBuffer> | ArrayBuffer | Response

/** Fetches and compiles a module that an app passes. */
export async function moduleOf(source: ModuleSource | (() => ModuleSource)): Promise<WasmModule> {
  return await compiled(await (typeof source === 'function' ? source() : source))
}

async function compiled(source: Source): Promise<WasmModule> {
  if (source instanceof WebAssembly.Module) return source
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return await WebAssembly.compile(source)
  return await WebAssembly.compileStreaming(source)
}

/** Compiles a module that is hex in a JavaScript file. */
export async function inlined({ WASM_HEX }: { readonly WASM_HEX: string }): Promise<WasmModule> {
  return await WebAssembly.compile(bytesOf(WASM_HEX))
}

/** Of lower-case digits. Browsers since 2025 do it themselves, in a hundredth of the time. */
function bytesOf(hex: string): Uint8Array<ArrayBuffer> {
  const platform = Uint8Array as { fromHex?(digits: string): Uint8Array<ArrayBuffer> }
  if (platform.fromHex !== undefined) return platform.fromHex(hex)
  const bytes = new Uint8Array(hex.length / 2)
  // Parsing them two by two would take a page a tenth of a second.
  const digit = (at: number) => hex.charCodeAt(at) - (hex.charCodeAt(at) < 0x3a ? 0x30 : 0x57)
  for (let i = 0; i < bytes.length; i++) bytes[i] = 16 * digit(2 * i) + digit(2 * i + 1)
  return bytes
}
