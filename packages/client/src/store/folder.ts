// The file store's folder and process, as Node has them. The one file of this package that needs Node's own modules;
// nothing that a browser loads imports it.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { Disk, OpenFile, Processes } from './disk.js'
import { FileStore } from './file.js'
import { type DurableStore, StateUnreadableError, StoreUnavailableError } from './store.js'

/**
 * The state of a pair of servers, in a folder of its own under `parent`, which is made if there is none. Not sealed:
 * its files are readable by their owner alone. Throws StoreUnavailableError, if another process has it open among other
 * reasons, and StoreFullError.
 */
export async function openFileStore(parent: string, servers: readonly [string, string]): Promise<DurableStore> {
  const [a, b] = [...servers].sort().map(shortHash)
  const name = `${a}-${b}`
  const folder = resolve(parent, name)
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await syncFolder(dirname(folder))
  } catch (cause) {
    throw new StoreUnavailableError(`the folder ${folder} cannot be made`, { cause })
  }
  return {
    store: await FileStore.open(new Folder(folder), thisMachine()),
    sealed: false,
    // Windows does not let a folder be synced: a rename is in its file system's journal, some time later on its disk.
    durability: process.platform === 'win32' ? 'unconfirmed' : 'strict',
    async discardOthers() {
      const others = (await readdir(parent)).filter(
        other => other !== name && [a, b].some(part => other.split('-').includes(part!)),
      )
      const discarded = await Promise.all(others.map(other => discardState(new Folder(resolve(parent, other)))))
      return discarded.includes(true)
    },
  }
}

/** Whether there was anything to discard. */
async function discardState(disk: Disk): Promise<boolean> {
  let store: FileStore
  try {
    store = await FileStore.open(disk, thisMachine())
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
    return await readdir(this.#path)
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

  async #open(name: string, flags: string): Promise<OpenFile> {
    const file = await open(join(this.#path, name), flags, 0o600)
    return {
      write: bytes => file.writeFile(bytes),
      sync: () => file.sync(),
      close: () => file.close(),
    }
  }
}

async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/**
 * Process numbers come round again, after a restart above all. So a process is called by when it started, too, where the
 * system says so (Linux): in ticks since the boot of that id.
 */
function thisMachine(): Processes {
  const host = encodeURIComponent(hostname())
  return {
    self: `${process.pid}.${startOf(process.pid)}.${host}`,
    async isAlive(name) {
      const [, pid, started, itsHost] = /^(\d+)\.([^.]*)\.(.+)$/.exec(name) ?? []
      // Of another machine, or container, that shares this folder, nothing can be known. Better to refuse: two processes
      // with one state would ask with the same columns twice.
      if (itsHost !== host) return true
      if (!isRunning(Number(pid))) return false
      const startedNow = startOf(Number(pid))
      return startedNow === started || startedNow === '' || started === ''
    },
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0) // no signal, only the question
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM' // it is someone else's
  }
}

function startOf(pid: number): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').slice(0, 8)
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // Field 22 of proc(5); the second, in brackets, may hold anything.
    return `${boot}-${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]}`
  } catch {
    return ''
  }
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code
}
