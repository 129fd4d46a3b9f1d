// The records of a core Database as JavaScript sees them: bytes in WebAssembly memory. Any call that allocates there
// may move the memory, so a view is made where it is used and not kept.

import type { Core, DatabaseHandle } from '@keyhush/wasm'

/** A view of `length` bytes of records from byte `at` on. */
export function recordBytesView(core: Core, database: DatabaseHandle, at: number, length: number): Uint8Array {
  return new Uint8Array(core.memory.buffer, database.recordsPointer() + at, length)
}
