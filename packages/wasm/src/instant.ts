// The loader for clients that look up instantly and nothing else: its module is one part of its own, and no other build's is named
// here, so that no bundler writes them.

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

/** By name: of a namespace bundlers make an object, in a file of its own. */
const glue = {
  ...{ initSync, restart, blake3, fingerprint, chooseMode },
  ...{ LayoutHandle, DirectoryShapeHandle, InstantQueryHandle },
}

/** Shared with the loader of all builds: the glue knows one instance. */
export const instance: Instance<InstantCore> = new Instance<InstantCore>(glue, memory => instantCore(glue, memory))

let module = async () => inlined(await import('../generated/inline-instant.js'))

/**
 * Takes the module from here from now on. If there is one already, it stays.
 * @example
 * useInstantModule(() => fetch('/instant_bg.wasm'))
 */
export function useInstantModule(source: ModuleSource | (() => ModuleSource)): void {
  module = () => moduleOf(source)
}

/**
 * The running core, instantiated if there is none.
 * @throws {WebAssembly.CompileError} where there is no SIMD, or a content security policy forbids WebAssembly
 * @example
 * const core = await loadInstantCore()
 */
export async function loadInstantCore(): Promise<InstantCore> {
  return await instance.load(() => module())
}
