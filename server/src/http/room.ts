// Whether the disk of a store has room, before a write fails: a new generation takes as much as the database has.

import { statfs } from 'node:fs/promises'
import { type Manifest, partitionBytes } from '@keyhush/protocol'

/** How long what was seen counts. */
const SEEN_MILLISECONDS = 10_000

/** Bytes of a database's records. */
export function bytesOf(manifest: Manifest): number {
  return manifest.partitions * partitionBytes(manifest)
}

/** Free bytes on the disk of a store; undefined: it is not on a disk of this machine. */
export async function freeBytes(location: string): Promise<number | undefined> {
  const room = await statfs(location).catch(() => undefined)
  return room && room.bavail * room.bsize
}

export class Room {
  readonly #location: string
  readonly #needed: () => number
  #seenAt = Number.NEGATIVE_INFINITY
  #free: number | undefined

  constructor(location: string, needed: () => number) {
    this.#location = location
    this.#needed = needed
  }

  /** Why there is not enough, as it was seen some seconds ago; undefined: there is. Looks again in the background, if that is long ago. */
  get problem(): string | undefined {
    const now = performance.now()
    if (now - this.#seenAt >= SEEN_MILLISECONDS) {
      this.#seenAt = now
      void freeBytes(this.#location).then(free => {
        this.#free = free
      })
    }
    const needed = this.#needed()
    if (this.#free === undefined || this.#free >= needed) return undefined
    return `the disk of the store has ${this.#free} bytes free: a new generation needs ${needed}; make room`
  }
}
