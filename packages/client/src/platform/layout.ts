// A manifest's layouts, as the core knows them.

import { type InstantOf, instantLayout, type Manifest } from '@keyhush/protocol'
import type { Core, DirectoryShapeHandle, LayoutHandle } from '@keyhush/wasm/client'
import { inCore, release } from './core.js'

/** Runs `work` with a layout handle, and frees it. `of`: the records' layout, or that of the directory's blocks. */
export function withLayout<T>(
  core: Core,
  manifest: Manifest,
  work: (layout: LayoutHandle) => T,
  of: InstantOf = 'records',
): T {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = instantLayout(manifest, of)
  const layout = inCore(core, () => core.layout(records, recordBytes, partitions, partitionRecords, blockRecords))
  try {
    return work(layout)
  } finally {
    release(core, layout)
  }
}

/** Runs `work` with a handle of the shape of a keyed manifest's directory, and frees it. */
export function withDirectoryShape<T>(core: Core, manifest: Manifest, work: (shape: DirectoryShapeHandle) => T): T {
  const { directoryBlockLog: log, directoryBlockBytes: bytes, directorySeed: seed } = manifest
  const shape = inCore(core, () => core.directoryShape(log, bytes, seed))
  try {
    return work(shape)
  } finally {
    release(core, shape)
  }
}
