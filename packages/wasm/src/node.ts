// The loader for Node: the whole core, server half included, from this package's own file.

import { readFile } from 'node:fs/promises'
import * as glue from '../generated/core.js'
import { clientCore, own } from './client-core.js'
import type { ClientCore, Core, LayoutHandle } from './core.js'
import { discardInstance, Instance } from './instance.js'
import { singleHalf } from './single-core.js'

export type * from './core.js'

let kernels: Promise<WebAssembly.Module> | undefined

async function compiled(name: string): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await readFile(new URL(`../generated/${name}`, import.meta.url)))
}

/** The two builds' classes are alike; only their private parts tell them apart. */
function ours(layout: LayoutHandle): glue.LayoutHandle {
  return own(layout) as unknown as glue.LayoutHandle
}

const instance = new Instance<Core>(glue, memory => ({
  // The two builds' classes are alike but for what one of them lacks; only their private parts tell them apart.
  ...clientCore(glue as unknown as Parameters<typeof clientCore>[0], memory),
  ...singleHalf(glue as unknown as Parameters<typeof singleHalf>[0]),
  fingerprints: glue.fingerprints,
  databaseId: glue.databaseId,
  buildDirectory: glue.DirectoryHandle.build,
  decodeDirectory: glue.DirectoryHandle.decode,
  decodeUpdateList: glue.UpdateListHandle.decode,
  newDatabase: (layout, ...rest) => new glue.DatabaseHandle(ours(layout), ...rest),
  nextGeneration: (old, ...rest) => new glue.NextGenerationHandle(old as glue.DatabaseHandle, ...rest),
  newInstantPass: (database, ...rest) => new glue.InstantPassHandle(database as glue.DatabaseHandle, ...rest),
  checkInstantQueries: (layout, queries) => ours(layout).checkInstantQueries(queries),
  newWorkerStack: () => new glue.WorkerStackHandle(),
  newLightParities: (database, ...rest) => glue.LightReplyHandle.parities(database as glue.DatabaseHandle, ...rest),
  newLightTags: (database, ...rest) => glue.LightReplyHandle.tags(database as glue.DatabaseHandle, ...rest),
  workerModule: () => (kernels ??= compiled('worker.wasm')),
  hazmatPermutations: (layout, entropy) => glue.hazmatPermutations(ours(layout), entropy),
}))

/** Instantiates the core, or returns the running one. */
export function loadCore(): Promise<Core> {
  return instance.load(() => compiled('core_bg.wasm'))
}

/** After a trap: abandons `core`'s instance and starts another for the next `loadCore()`. */
export function discardCore(core: ClientCore): void {
  discardInstance(core)
}
