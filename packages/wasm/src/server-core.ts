// The whole core's interface, server half included, over its glue.

import * as glue from '../generated/core.js'
import { clientCore, own } from './client-core.js'
import type { Core, LayoutHandle, WasmModule } from './core.js'
import { Instance } from './instance.js'
import { singleHalf } from './single-core.js'

/** The two builds' classes are alike; only their private parts tell them apart. */
function ours(layout: LayoutHandle): glue.LayoutHandle {
  return own(layout) as unknown as glue.LayoutHandle
}

/** `kernels`: loads the module of worker threads. */
export function serverInstance(kernels: () => Promise<WasmModule>): Instance<Core> {
  return new Instance<Core>(glue, memory => ({
    // The two builds' classes are alike but for what one of them lacks; only their private parts tell them apart.
    ...clientCore(glue as unknown as Parameters<typeof clientCore>[0], memory),
    ...singleHalf(glue as unknown as Parameters<typeof singleHalf>[0]),
    fingerprints: glue.fingerprints,
    newHasher: () => new glue.HasherHandle(),
    databaseId: glue.databaseId,
    buildDirectory: glue.DirectoryHandle.build,
    decodeDirectory: glue.DirectoryHandle.decode,
    decodeUpdateList: glue.UpdateListHandle.decode,
    newDatabase: (layout, ...rest) => new glue.DatabaseHandle(ours(layout), ...rest),
    newDraft: (database, ...rest) => new glue.DraftHandle(database as glue.DatabaseHandle, ...rest),
    newDraftOfList: (database, list, after) =>
      glue.DraftHandle.ofList(database as glue.DatabaseHandle, list, ours(after)),
    newBringing: (directory, blocks) =>
      new glue.BringingHandle(directory as glue.DirectoryHandle, blocks as glue.DatabaseHandle),
    nextGeneration: (old, ...rest) => new glue.NextGenerationHandle(old as glue.DatabaseHandle, ...rest),
    newInstantPass: (database, ...rest) => new glue.InstantPassHandle(database as glue.DatabaseHandle, ...rest),
    checkInstantQueries: (layout, queries) => ours(layout).checkInstantQueries(queries),
    newWorkerStack: () => new glue.WorkerStackHandle(),
    workerModule: kernels,
    hazmatPermutations: (layout, entropy) => glue.hazmatPermutations(ours(layout), entropy),
  }))
}
