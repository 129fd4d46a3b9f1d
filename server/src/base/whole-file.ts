// Writes files that are read while they are replaced, or after a crash.

import { randomUUID } from 'node:crypto'
import { fsync } from 'node:fs'
import * as fs from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

/** What writes; tests make it fail. */
export type Disk = Pick<typeof fs, 'mkdir' | 'open' | 'rename' | 'rm'>

/** Resolves when a file, or the names in a folder, are on disk. Yarn's Plug'n'Play has no `FileHandle.sync`. */
export const flushed = (handle: fs.FileHandle) => promisify(fsync)(handle.fd)

/** The name of a file that is not whole yet. */
export const LEFT_BY_A_CRASH = /^[0-9a-f-]{36}\.new$/

/** After a crash the file is there whole, or as it was. Resolves when it is on disk. */
export async function writeWhole(path: string, content: Uint8Array, mode: number, disk: Disk = fs): Promise<void> {
  const folder = dirname(path)
  const fresh = join(folder, `${randomUUID()}.new`)
  const synced = async (path: string, flags: string, content?: Uint8Array) => {
    const handle = await disk.open(path, flags, mode)
    try {
      if (content !== undefined) await handle.writeFile(content)
      await flushed(handle)
    } finally {
      await handle.close()
    }
  }
  await synced(fresh, 'w', content)
  await disk.rename(fresh, path)
  if (process.platform !== 'win32') await synced(folder, 'r') // Windows syncs no folders
}
