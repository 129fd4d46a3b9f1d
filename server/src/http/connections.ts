// How many connections a server takes. One that has opened all the files that the system lets it open can neither take a
// connection nor read its store; the system then has newcomers hung up on, and nobody hears of it. So somewhat fewer are taken,
// and those beyond are hung up on here: counted, and told.

import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'

/** For files, a database, threads and the port of figures; but never more than half of what there is. */
const ROOM = 256

/** The log is told when connections begin to be refused, and then at most so often. */
const TOLD_EVERY_MILLISECONDS = 60_000

export interface ConnectionsOptions {
  /** default: any number */
  readonly most?: number | undefined
  /** default: the monotonic clock, milliseconds */
  readonly now?: (() => number) | undefined
}

/** How many connections this process may have, by what Linux says of it; undefined where nothing does, or it says there is no limit. */
export function mostConnections(limits = ownLimits()): number | undefined {
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
  if (soft === undefined) return undefined
  return Math.max(Number(soft) - ROOM, Math.floor(Number(soft) / 2))
}

function ownLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'latin1')
  } catch {
    return '' // not Linux
  }
}

/** Bounds those of `server`, and says of how many that was too many. */
export class Connections {
  /** connections that were refused */
  refused = 0
  /** hears of that, now and then */
  tell: (refused: number) => void = () => {}
  #toldAt = Number.NEGATIVE_INFINITY

  constructor(server: Server, { most, now = () => performance.now() }: ConnectionsOptions) {
    if (most === undefined) return
    server.maxConnections = most
    server.on('drop', () => {
      this.refused++
      if (now() - this.#toldAt < TOLD_EVERY_MILLISECONDS) return
      this.#toldAt = now()
      this.tell(this.refused)
    })
  }
}
