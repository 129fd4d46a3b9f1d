// A manifest's layout, as the core knows it.

import type { Manifest } from '@pirouette/protocol'
import type { Core, LayoutHandle } from '@pirouette/wasm'
import { inCore, release } from './core.js'

/** Runs `work` with a layout handle, and frees it. */
export function withLayout<T>(core: Core, manifest: Manifest, work: (layout: LayoutHandle) => T): T {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = manifest
  const layout = inCore(core, () => core.layout(records, recordBytes, partitions, partitionRecords, blockRecords))
  try {
    return work(layout)
  } finally {
    release(core, layout)
  }
}
