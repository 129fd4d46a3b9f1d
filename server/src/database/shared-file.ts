// A file that is open while anybody reads it, once for all who do: descriptors are few, and requests for parts of a file
// are not.

import { createReadStream, open as openFile, read } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { Readable } from 'node:stream'

export class SharedFile {
  readonly #path: string
  #readers = 0
  #handle: Promise<FileHandle> | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** Bytes `first` to `last`, both included. It is open before the stream begins; rejects if it cannot be. */
  async stream(first: number, last: number): Promise<Readable> {
    this.#readers++
    try {
      this.#handle ??= open(this.#path)
      const { fd } = await this.#handle
      const close = (_fd: number, done?: (error: Error | null) => void) => {
        this.#leave()
        done?.(null)
      }
      return createReadStream(this.#path, { fd, start: first, end: last, fs: { open: openFile, read, close } })
    } catch (error) {
      this.#leave()
      throw error
    }
  }

  #leave(): void {
    if (--this.#readers > 0) return
    // Nothing was written, so nothing is lost if it does not close well.
    this.#handle?.then(handle => handle.close()).catch(() => {})
    this.#handle = undefined
  }
}
