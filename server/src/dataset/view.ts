// The core's databases: how a manifest lays one out, and its records as JavaScript sees them, which are bytes in WebAssembly memory. Any
// call that allocates there may move the memory, so a view is made where it is used and not kept.

import { builtFor, type Manifest } from '@keyhush/protocol'
import type { Core, DatabaseHandle, LayoutHandle } from '@keyhush/wasm'

type LaidOut = Pick<Manifest, 'records' | 'recordBytes' | 'partitions' | 'partitionRecords' | 'blockRecords'>

/** Throws the core's `layout` error. */
export function layoutOf(core: Core, of: LaidOut): LayoutHandle {
  return core.layout(of.records, of.recordBytes, of.partitions, of.partitionRecords, of.blockRecords)
}

/** All zero. Throws the core's `layout` error. */
export function emptyDatabase(core: Core, manifest: Manifest): DatabaseHandle {
  const layout = layoutOf(core, manifest)
  const database = core.newDatabase(layout, builtFor(manifest), manifest.maxQueries)
  layout.free()
  return database
}

/** A view of `length` bytes of records from byte `at` on. */
export function recordBytesView(core: Core, database: DatabaseHandle, at: number, length: number): Uint8Array {
  return new Uint8Array(core.memory.buffer, database.recordsPointer() + at, length)
}

/** Runs `step` with the layouts that an update list leads from and to. */
export function along<T>(core: Core, list: Uint8Array, step: (before: LayoutHandle, after: LayoutHandle) => T): T {
  const changes = core.decodeUpdateList(list)
  const { before, after } = changes
  try {
    return step(before, after)
  } finally {
    for (const handle of [changes, before, after]) handle.free()
  }
}
