// The records of a core Database as JavaScript sees them: bytes in WebAssembly memory. Any call that allocates there
// may move the memory, so a view is made where it is used and not kept.

import { readSync } from 'node:fs'
import type { Core, DatabaseHandle } from '@pirouette/wasm'

const READ_BYTES = 8 * 1024 * 1024

/** A view of `length` bytes of records from byte `at` on. */
export function recordBytesView(core: Core, database: DatabaseHandle, at: number, length: number): Uint8Array {
  return new Uint8Array(core.memory.buffer, database.recordsPointer() + at, length)
}

/** Reads `length` bytes from the file's current position into the records at `at`. False: the file ended before. */
export function readRecords(core: Core, database: DatabaseHandle, at: number, length: number, fd: number): boolean {
  const view = recordBytesView(core, database, at, length)
  for (let done = 0; done < length; ) {
    const read = readSync(fd, view, done, Math.min(READ_BYTES, length - done), null)
    if (read === 0) return false
    done += read
  }
  return true
}
