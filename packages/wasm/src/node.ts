// The loader for Node: the whole core, server half included, from this package's own file.

import { readFile } from 'node:fs/promises'
import * as glue from '../generated/core.js'
import { clientCore, own } from './client-core.js'
import type { ClientCore, Core } from './core.js'
import { Instance } from './instance.js'

export type * from './core.js'

const instance = new Instance<Core>(glue, memory => ({
  // The two builds' classes are alike but for what one of them lacks; only their private parts tell them apart.
  ...clientCore(glue as unknown as Parameters<typeof clientCore>[0], memory),
  fingerprints: glue.fingerprints,
  databaseId: glue.databaseId,
  buildDirectory: glue.DirectoryHandle.build,
  newDatabase: (layout, proofs) => new glue.DatabaseHandle(own(layout) as unknown as glue.LayoutHandle, proofs),
  nextGeneration: (old, ...rest) => new glue.NextGenerationHandle(old as glue.DatabaseHandle, ...rest),
  hazmatPermutations: (layout, entropy) =>
    glue.hazmatPermutations(own(layout) as unknown as glue.LayoutHandle, entropy),
}))

/** Instantiates the core, or returns the running one. */
export function loadCore(): Promise<Core> {
  return instance.load(async () =>
    WebAssembly.compile(await readFile(new URL('../generated/core_bg.wasm', import.meta.url))),
  )
}

/** After a trap: abandons `core`'s instance and starts another for the next `loadCore()`. */
export function discardCore(core: ClientCore): void {
  instance.discard(core)
}
