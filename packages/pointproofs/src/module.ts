// Loads the WebAssembly module for clients, in browsers and Node. Bundles have it as JavaScript, in a part of its own.

import { beginCeremony, CeremonyHandle, initSync, VerifierHandle } from '../generated/pointproofs.js'
import type { Pointproofs } from './api.js'
import { once, pointproofs } from './glue.js'

/**
 * Instantiates the module, or returns the running one.
 * @throws {WebAssembly.CompileError} where there is no SIMD, or a content security policy forbids WebAssembly
 * @example
 * const pointproofs = await loadPointproofs()
 */
export const loadPointproofs: () => Promise<Pointproofs> = once(async () => {
  const { WASM_HEX } = await import('../generated/inline.js')
  const bytes = new Uint8Array(WASM_HEX.length / 2)
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(WASM_HEX.slice(2 * i, 2 * i + 2), 16)
  initSync({ module: await WebAssembly.compile(bytes) })
  return pointproofs({ VerifierHandle, CeremonyHandle, beginCeremony })
})
