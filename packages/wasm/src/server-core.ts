// The interface of the whole core, with the server's part.

import * as glue from '../generated/core.js'
import { clientCore, own } from './client-core.js'
import type { Core, LayoutHandle, UpperTreeHandle, WasmModule } from './core.js'
import { Instance } from './instance.js'
import { oneServerHalf } from './one-server-core.js'
import { singleHalf } from './single-core.js'

/** The builds have the same classes. TypeScript distinguishes them by their private parts only. */
function ours(layout: LayoutHandle): glue.LayoutHandle {
  return own(layout) as unknown as glue.LayoutHandle
}

/** Its defaults, which the glue does not have. */
function upperTree(handle: glue.UpperTreeHandle): UpperTreeHandle {
  return {
    layout: handle.layout as unknown as LayoutHandle,
    root: handle.root,
    siblingBytes: handle.siblingBytes,
    split: (queries, servers = 2, vectors = false) => handle.split(queries, servers, vectors),
    free: () => handle.free(),
  }
}

/** `kernels`: loads the module of worker threads. */
export function serverInstance(kernels: () => Promise<WasmModule>): Instance<Core> {
  return new Instance<Core>(glue, memory => ({
    // This build's classes have more methods. TypeScript distinguishes the others by their private parts only.
    ...clientCore(glue as unknown as Parameters<typeof clientCore>[0], memory),
    ...singleHalf(glue as unknown as Parameters<typeof singleHalf>[0]),
    ...oneServerHalf(glue as unknown as Parameters<typeof oneServerHalf>[0]),
    fingerprints: glue.fingerprints,
    newHasher: () => new glue.HasherHandle(),
    databaseId: glue.databaseId,
    buildDirectory: glue.DirectoryHandle.build,
    buildShapedDirectory: glue.DirectoryHandle.buildShaped,
    decodeDirectory: glue.DirectoryHandle.decode,
    shardsOf: glue.shardsOf,
    planShards: glue.planShards,
    decodeUpdateList: glue.UpdateListHandle.decode,
    newDatabase: (layout, ...rest) => new glue.DatabaseHandle(ours(layout), ...rest),
    newDraft: (database, ...rest) => new glue.DraftHandle(database as glue.DatabaseHandle, ...rest),
    newDraftOfList: (database, list, after) =>
      glue.DraftHandle.ofList(database as glue.DatabaseHandle, list, ours(after)),
    newBringing: (directory, blocks) =>
      new glue.BringingHandle(directory as glue.DirectoryHandle, blocks as glue.DatabaseHandle),
    nextGeneration: (old, ...rest) => new glue.NextGenerationHandle(old as glue.DatabaseHandle, ...rest),
    newInstantPass: (database, queries, kinds, servers = 2, groupLog) =>
      new glue.InstantPassHandle(database as glue.DatabaseHandle, queries, kinds, servers, groupLog),
    checkInstantQueries: (layout, queries, servers = 2, vectors = false, groupLog) =>
      ours(layout).checkInstantQueries(queries, servers, vectors, groupLog),
    instantGroupLog: (layout, servers) => ours(layout).instantGroupLog(servers),
    instantPartSizes: (layout, servers, groupLog) => ours(layout).instantPartSizes(servers, groupLog),
    newUpperTree: (shard, ...rest) => upperTree(new glue.UpperTreeHandle(ours(shard), ...rest)),
    newOneServer: ({ records, recordBytes }, { databaseId, generation, of }, attempt = 0) =>
      new glue.OneServerHandle(records, recordBytes, databaseId, generation, of === 'directory', attempt),
    newOneServerNorm: database => new glue.OneServerNormHandle(database as glue.OneServerHandle),
    newWorkerStack: () => new glue.WorkerStackHandle(),
    workerModule: kernels,
    hazmatPermutations: (layout, entropy) => glue.hazmatPermutations(ours(layout), entropy),
  }))
}
