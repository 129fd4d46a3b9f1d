// The loader for clients with instant lookups only. It names no other build's files, so bundlers do not write them.

import {
  blake3,
  chooseMode,
  DirectoryShapeHandle,
  fingerprint,
  InstantQueryHandle,
  initSync,
  LayoutHandle,
  restart,
} from '../generated/instant.js'
import type { InstantCore } from './core.js'
import { Instance } from './instance.js'
import { instantCore } from './instant-core.js'
import { inlined, type ModuleSource, moduleOf } from './source.js'

export type { InstantCore } from './core.js'
export type { ModuleSource } from './source.js'

/** An object of named imports: for a namespace, bundlers would make an object in a file of its own. */
const glue = {
  ...{ initSync, restart, blake3, fingerprint, chooseMode },
  ...{ LayoutHandle, DirectoryShapeHandle, InstantQueryHandle },
}

/** The loader for all builds uses the same one, because the glue has one instance. */
export const instance: Instance<InstantCore> = new Instance<InstantCore>(glue, memory => instantCore(glue, memory))

let module = async () => inlined(await import('../generated/inline-instant.js'))

/**
 * Sets where the module comes from. An instance that runs already stays.
 * @example
 * useInstantModule(() => fetch('/instant_bg.wasm'))
 */
export function useInstantModule(source: ModuleSource | (() => ModuleSource)): void {
  module = () => moduleOf(source)
}

/**
 * The running core; instantiates it if it does not run.
 * @throws {WebAssembly.CompileError} where there is no SIMD, or a content security policy forbids WebAssembly
 * @example
 * const core = await loadInstantCore()
 */
export async function loadInstantCore(): Promise<InstantCore> {
  return await instance.load(() => module())
}
