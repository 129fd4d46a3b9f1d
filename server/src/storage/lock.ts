// One process at a time has a store: two would each write epochs of their own over the other's. A lock of the operating
// system, on a file beside the data and for as long as that is open, so that other containers meet it as well, and a
// process that ends in whatever way has let go of it. The file says who has it, for people.

/// <reference path="./fs-native-extensions.d.ts" />

import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { tryLock } from 'fs-native-extensions'
import { DatasetError, InUseError } from '../base/errors.js'

/** Never removed: whoever locked it before it was, and whoever locks its successor, would both have the store. */
const FILE = 'lock'

/** Locks the store in `dir`; returns what lets go of it. Throws InUseError, saying who has it, if somebody else does. */
export function lockStore(dir: string): () => void {
  const path = join(dir, FILE)
  const fd = openSync(path, 'a+', 0o600)
  try {
    if (!locked(fd, path)) throw new InUseError(dir, `it is open already, by ${holder(path)}; stop that first`)
    ftruncateSync(fd)
    writeSync(fd, `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}\n`)
  } catch (error) {
    closeSync(fd)
    throw error
  }
  let open = true
  return () => {
    if (open) closeSync(fd)
    open = false
  }
}

function locked(fd: number, path: string): boolean {
  try {
    return tryLock(fd)
  } catch (error) {
    const instead = 'keep the store on a local disk'
    throw new DatasetError(path, `it cannot be locked (${(error as Error).message}); ${instead}`)
  }
}

/** Not believed, but for reading: one line, of printable characters. */
function holder(path: string): string {
  const [line = ''] = readFileSync(path, 'utf8').split('\n', 1)
  return /^[\x20-\x7e]{1,200}$/.test(line) ? line : 'another process'
}
