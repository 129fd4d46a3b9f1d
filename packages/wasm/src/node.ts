// The loader for Node: reads the module from this package's own file.

import { readFile } from 'node:fs/promises'
import type { Core } from './core.js'
import { loadCoreFrom } from './instance.js'

export type * from './core.js'
export { discardCore } from './instance.js'

/** Instantiates the core, or returns the running one. */
export function loadCore(): Promise<Core> {
  return loadCoreFrom(async () =>
    WebAssembly.compile(await readFile(new URL('../generated/pirouette_bg.wasm', import.meta.url))),
  )
}
