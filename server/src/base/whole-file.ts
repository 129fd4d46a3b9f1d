// Writes files that are read while they are replaced, or after a crash.

import { randomUUID } from 'node:crypto'
import { fsync } from 'node:fs'
import * as fs from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

/** What writes; tests make it fail. */
export type Disk = Pick<typeof fs, 'mkdir' | 'chmod' | 'open' | 'rename' | 'rm'>

/** The mode of a file that is to be shown, by a web server of another user perhaps. */
export const FOR_ALL = 0o644
/** That of its folder. */
const FOLDER_FOR_ALL = 0o755

/** Resolves when a file, or the names in a folder, are on disk. Yarn's Plug'n'Play has no `FileHandle.sync`. */
export const flushed = (handle: fs.FileHandle) => promisify(fsync)(handle.fd)

/** The name of a file that is not whole yet. */
export const LEFT_BY_A_CRASH = /^[0-9a-f-]{36}\.new$/

/**
 * After a crash the file is there whole, or as it was. It has that mode under any umask. Resolves when it is on disk. `content`: all of it,
 * or piece by piece.
 */
export async function writeWhole(
  path: string,
  content: Uint8Array | Iterable<string>,
  mode: number,
  disk: Disk = fs,
): Promise<void> {
  const folder = dirname(path)
  const fresh = join(folder, `${randomUUID()}.new`)
  const handle = await disk.open(fresh, 'w', mode)
  try {
    for (const piece of ArrayBuffer.isView(content) ? [content] : content) await handle.writeFile(piece)
    await setMode(fresh, mode, disk)
    await flushed(handle)
  } catch (error) {
    await disk.rm(fresh, { force: true }) // a full disk must not fill with what did not fit
    throw error
  } finally {
    await handle.close()
  }
  await disk.rename(fresh, path)
  await flushNames(folder, disk)
}

/** Makes a folder to be shown, under any umask, and those above it that are missing. Resolves when they are on disk. */
export async function makeShown(folder: string, disk: Disk = fs): Promise<void> {
  const first = await disk.mkdir(resolve(folder), { recursive: true })
  if (first === undefined) return
  for (let made = resolve(folder); made.length >= first.length; made = dirname(made)) {
    await setMode(made, FOLDER_FOR_ALL, disk)
    await flushNames(dirname(made), disk)
  }
}

/** Some file systems have no modes, and refuse. */
async function setMode(path: string, mode: number, disk: Disk): Promise<void> {
  await disk.chmod(path, mode).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPERM' && error.code !== 'ENOTSUP') throw error
  })
}

async function flushNames(folder: string, disk: Disk): Promise<void> {
  if (process.platform === 'win32') return // it syncs no folders
  const handle = await disk.open(folder, 'r')
  await flushed(handle).finally(() => handle.close())
}
