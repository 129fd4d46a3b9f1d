// One process at a time has a store: two would overwrite each other's epochs. The lock is the operating system's, on a file beside
// the data: other containers meet it too, and it ends with the process. The file says which process has it, for people.

/// <reference path="./fs-native-extensions.d.ts" />

import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { tryLock } from 'fs-native-extensions'
import { DatasetError, InUseError } from '../base/errors.js'

/** Never removed: one process could have the removed file locked, and another its successor. */
const FILE = 'lock'

/** Locks the store in `dir`. Returns unlock. Throws InUseError, naming the process that has it. */
export function lockStore(dir: string): () => void {
  const path = join(dir, FILE)
  const unlock = lockFile(path)
  if (!unlock) throw new InUseError(dir, `it is open already, by ${holder(path)}; stop that first`)
  return unlock
}

/** Locks a file, which is made if there is none, and says in it who has it. Returns unlock; undefined: another process has it. Throws, and has not locked it, on a full disk. */
export function lockFile(path: string): (() => void) | undefined {
  const fd = openSync(path, 'a+', 0o600)
  let isOpen = false
  try {
    if (!locked(fd, path)) return undefined
    ftruncateSync(fd)
    writeSync(fd, `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}\n`)
    isOpen = true
  } finally {
    if (!isOpen) closeSync(fd)
  }
  return () => {
    if (isOpen) closeSync(fd)
    isOpen = false
  }
}

function locked(fd: number, path: string): boolean {
  try {
    return tryLock(fd)
  } catch (error) {
    const instead = 'keep the store on a local disk'
    throw new DatasetError(path, `expected a file that can be locked, got: ${(error as Error).message}; ${instead}`)
  }
}

/** What the file says, for people: anybody may have written it. */
function holder(path: string): string {
  const [line = ''] = readFileSync(path, 'utf8').split('\n', 1)
  return /^[\x20-\x7e]{1,200}$/.test(line) ? line : 'another process'
}
