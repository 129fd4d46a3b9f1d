// Rows of the stored hint, and of those that are prepared beside it: a file each.

import type { Disk } from '../disk.js'
import { assertRows, type StoredHead } from '../rules.js'
import { decodeRow, encodeRow, rowName, writeNew } from './files.js'

export class RowFiles {
  readonly #disk: Disk
  /** how the names of files begin that are rows of hints which have not begun yet */
  readonly #beside = new Set<string>()

  constructor(disk: Disk) {
    this.#disk = disk
  }

  /** The row is durable before its name is. A checkpoint that names it syncs the name first. */
  async put(hintId: Uint8Array, name: string, row: Uint8Array, isStored: boolean): Promise<void> {
    if (!isStored) this.#beside.add(rowName(hintId, ''))
    const file = rowName(hintId, name)
    await this.#disk.remove(file)
    await writeNew(this.#disk, file, encodeRow(hintId, row))
  }

  async read(hintId: Uint8Array, name: string): Promise<Uint8Array | undefined> {
    const bytes = await this.#disk.read(rowName(hintId, name))
    return bytes && decodeRow(hintId, bytes)
  }

  /** The names of a hint's rows. */
  async names(hintId: Uint8Array): Promise<string[]> {
    const prefix = rowName(hintId, '')
    return (await this.#disk.list()).filter(file => file.startsWith(prefix)).map(file => file.slice(prefix.length))
  }

  /** The files of a hint's rows but these. Throws StateUnreadableError if one of these is missing. */
  async filesBut(hintId: Uint8Array, names: readonly string[]): Promise<readonly string[]> {
    if (names.length > 0) await this.#disk.sync() // their names, before what names them
    const there = await this.names(hintId)
    assertRows(names, new Set(there))
    const named = new Set(names)
    return there.filter(name => !named.has(name)).map(name => rowName(hintId, name))
  }

  /** No hint is prepared beside the stored one any more, or not this one. */
  forget(hintId?: Uint8Array): void {
    if (hintId === undefined) this.#beside.clear()
    else this.#beside.delete(rowName(hintId, ''))
  }

  /** How the names of files begin that are rows which stay. */
  prefixes(head: StoredHead | undefined): string[] {
    const own = head !== undefined && head.condemned === undefined ? [rowName(head.record.hintId, '')] : []
    return [...this.#beside, ...own]
  }
}
