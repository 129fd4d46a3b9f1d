// A file that is open once while any requests read it: there are few descriptors and many requests.

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

  /** As `Blob.open`. Opens the file before the stream begins; rejects if it cannot. */
  async stream(first: number, last: number, turn = async () => {}): Promise<Readable> {
    this.#readers++
    try {
      this.#handle ??= open(this.#path)
      const { fd } = await this.#handle
      const close = (_fd: number, done?: (error: Error | null) => void) => {
        this.#leave()
        done?.(null)
      }
      type Read = (error: Error | null, bytes: number, buffer: Buffer) => void
      const readInTurn = (fd: number, buffer: Buffer, offset: number, length: number, position: number, done: Read) =>
        read(fd, buffer, offset, length, position, (...results) => void turn().then(() => done(...results)))
      return createReadStream(this.#path, {
        fd,
        start: first,
        end: last,
        fs: { open: openFile, read: readInTurn, close },
      })
    } catch (error) {
      this.#leave()
      throw error
    }
  }

  #leave(): void {
    if (--this.#readers > 0) return
    // Nothing was written, so a failure to close loses nothing.
    this.#handle?.then(handle => handle.close()).catch(() => {})
    this.#handle = undefined
  }
}
