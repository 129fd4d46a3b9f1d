// Reading records from a file into a core Database.

import { readSync } from 'node:fs'
import type { Core, DatabaseHandle } from '@keyhush/wasm'
import { recordBytesView } from './view.js'

const READ_BYTES = 8 * 1024 * 1024

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
