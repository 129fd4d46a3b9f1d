// The file store's folder in Node, and its lock in the operating system.

/// <reference path="./fs-native-extensions.d.ts" />

import { createHash } from 'node:crypto'
import { fsync } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { UnsupportedError, UsageError } from '../base/errors.js'
import type { Disk, OpenFile } from './disk.js'
import { FileStore } from './file.js'
import { isCondition, isRival } from './identity.js'
import { type DurableStore, StateUnreadableError, StoreUnavailableError } from './store.js'

/**
 * The state of some servers, in a folder of its own under `parent`, which is made if there is none. Not sealed:
 * its files are readable by their owner alone. Throws StoreUnavailableError, if it is open already among other reasons,
 * and StoreFullError.
 */
export async function openFileStore(parent: string, servers: readonly string[]): Promise<DurableStore> {
  await assertLocks()
  const parts = [...servers].sort().map(part => (isCondition(part) ? part : shortHash(part)))
  const name = parts.join('-')
  const folder = resolve(parent, name)
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await syncFolder(dirname(folder))
  } catch (cause) {
    throw new StoreUnavailableError(`the folder ${folder} cannot be made`, { cause })
  }
  return {
    store: await FileStore.open(new Folder(folder)),
    sealed: false,
    // Windows does not let a folder be synced: a rename is in its file system's journal, some time later on its disk.
    durability: process.platform === 'win32' ? 'unconfirmed' : 'strict',
    async discardOthers() {
      const others = (await readdir(parent)).filter(other => isRival(parts, other.split('-')))
      const discarded = await Promise.all(others.map(other => discardState(new Folder(resolve(parent, other)))))
      return discarded.includes(true)
    },
  }
}

/** Throws UsageError if the package that locks folders is not installed: only Node needs it, and only here. In Deno it would end the process. */
async function assertLocks(): Promise<void> {
  if ('Deno' in globalThis) {
    const message =
      "fileStore: expected Node, which can lock its folder, got Deno; open the map with storage: 'memory', without a store"
    throw new UnsupportedError('platform', message)
  }
  try {
    await import('fs-native-extensions')
  } catch (cause) {
    // If it is installed and does not work, locking fails later, and says why.
    // The second is how Yarn's Plug'n'Play says it.
    if (!/'fs-native-extensions'|access fs-native-extensions/.test(`${cause}`)) return
    const needed = 'expected the package fs-native-extensions, which locks its folder, got none'
    throw new UsageError(`fileStore: ${needed}: npm install fs-native-extensions`, { cause })
  }
}

/** Whether there was anything to discard. */
async function discardState(disk: Disk): Promise<boolean> {
  let store: FileStore
  try {
    store = await FileStore.open(disk)
  } catch (error) {
    if (error instanceof StoreUnavailableError) return false // someone has it open
    throw error
  }
  try {
    const head = await store.read()
    if (head === undefined || head.condemned !== undefined) return false
    await store.discard(head.record.hintId)
    return true
  } catch (error) {
    if (!(error instanceof StateUnreadableError)) throw error
    await store.discard(undefined)
    return true
  } finally {
    await store.close()
  }
}

/** 64 bits of a server's name that can be a file's: enough to tell apart what one person opens. */
function shortHash(server: string): string {
  return createHash('sha256').update(server).digest('hex').slice(0, 16)
}

/** Never removed: else one process could hold a lock on the removed file, and another on its successor. */
const LOCK = 'lock'

/** Locked files. Without a reference here, garbage collection would close them and release their locks. */
const locked = new Set<FileHandle>()

/** A folder that exists. */
export class Folder implements Disk {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  async read(name: string): Promise<Uint8Array | undefined> {
    try {
      const { buffer, byteOffset, byteLength } = await readFile(join(this.#path, name))
      return new Uint8Array(buffer, byteOffset, byteLength) // a Buffer's slice() would be a view, not a copy
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined
      throw error
    }
  }

  async list(): Promise<readonly string[]> {
    return (await readdir(this.#path)).filter(name => name !== LOCK)
  }

  async create(name: string): Promise<OpenFile> {
    return await this.#open(name, 'wx')
  }

  async append(name: string): Promise<OpenFile> {
    return await this.#open(name, 'a')
  }

  async rename(from: string, to: string): Promise<void> {
    await rename(join(this.#path, from), join(this.#path, to))
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.#path, name), { force: true })
  }

  async sync(): Promise<void> {
    await syncFolder(this.#path)
  }

  // The operating system's lock on the file, for as long as it is open. Other containers see it and, if the file system
  // supports that, other machines. A process releases it when it ends, however it ends.
  async lock(): Promise<(() => Promise<void>) | undefined> {
    const file = await open(join(this.#path, LOCK), 'a+', 0o600)
    try {
      const { tryLock } = await import('fs-native-extensions')
      if (tryLock(file.fd)) {
        locked.add(file)
        return async () => {
          locked.delete(file)
          await file.close()
        }
      }
    } catch (cause) {
      await file.close()
      const instead = "keep the state on a local disk, or open the map with storage: 'memory'"
      const message = `the folder ${this.#path} cannot be locked: its file system or this platform has no locks; ${instead}`
      throw new StoreUnavailableError(message, { cause })
    }
    await file.close()
    return undefined
  }

  async #open(name: string, flags: string): Promise<OpenFile> {
    const file = await open(join(this.#path, name), flags, 0o600)
    return {
      write: bytes => file.writeFile(bytes),
      sync: () => flushed(file),
      close: () => file.close(),
    }
  }
}

/** Yarn's Plug'n'Play has no `FileHandle.sync`. */
const flushed = (file: FileHandle) => promisify(fsync)(file.fd)

async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const folder = await open(path, 'r')
  try {
    await flushed(folder)
  } finally {
    await folder.close()
  }
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code
}
