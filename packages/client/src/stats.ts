// What a map has cost so far, and what went wrong without failing a call.

import { INCIDENTS_KEPT } from './constants.js'
import type { ServerPair } from './servers.js'

/** Bytes of bodies; headers are not counted. */
export interface Traffic {
  readonly bytesUp: number
  readonly bytesDown: number
}

/** A server's failure. Nothing here depends on what was asked. */
export interface Incident {
  readonly server: string
  /** the `code` of the error */
  readonly code: string
}

export interface Stats {
  readonly servers: readonly {
    readonly server: string
    /** manifests, directory, partitions and update lists, `reset()` included */
    readonly offline: Traffic
    /** queries and answers, repeated ones included */
    readonly lookups: Traffic
    /** what the rollback fence was told, and said; 88 bytes a lookup at the refresh server */
    readonly fence: Traffic
  }[]
  /** parities held in memory */
  readonly hintBytes: number
  /** permutations held in memory */
  readonly permutationBytes: number
  /** tags held in memory; 0: opening proofs are checked instead */
  readonly tagBytes: number
  /** calls that got their answer */
  readonly lookups: number
  readonly lastLookup: (Traffic & { readonly ms: number }) | undefined
  /** the newest, oldest first: attempts that failed and servers that were given up for a time */
  readonly incidents: readonly Incident[]
}

/** Counts what goes over one link. */
export class Meter implements Traffic {
  bytesUp = 0
  bytesDown = 0

  snapshot(): Traffic {
    return { bytesUp: this.bytesUp, bytesDown: this.bytesDown }
  }
}

export class StatsKeeper {
  readonly offline = [new Meter(), new Meter()] as const
  readonly online = [new Meter(), new Meter()] as const
  readonly fence = [new Meter(), new Meter()] as const
  readonly #servers: ServerPair
  readonly #incidents: Incident[] = []
  #lookups = 0
  #lastLookup: Stats['lastLookup']

  constructor(servers: ServerPair) {
    this.#servers = servers
  }

  incident(server: string, code: string): void {
    this.#incidents.push({ server, code })
    if (this.#incidents.length > INCIDENTS_KEPT) this.#incidents.shift()
  }

  /** Of what went over the link for lookups to server `s` of the pair, so many bytes were the fence's. */
  fenced(s: 0 | 1, { bytesUp, bytesDown }: Traffic): void {
    this.online[s].bytesUp -= bytesUp
    this.online[s].bytesDown -= bytesDown
    this.fence[s].bytesUp += bytesUp
    this.fence[s].bytesDown += bytesDown
  }

  /** Queries and answers of both servers together, so far. */
  onlineTotal(): Traffic {
    const [a, b] = this.online
    return { bytesUp: a.bytesUp + b.bytesUp, bytesDown: a.bytesDown + b.bytesDown }
  }

  /** A lookup that began at traffic `before` has taken `ms`. */
  lookedUp(before: Traffic, ms: number): void {
    const now = this.onlineTotal()
    this.#lookups++
    this.#lastLookup = { ms, bytesUp: now.bytesUp - before.bytesUp, bytesDown: now.bytesDown - before.bytesDown }
  }

  snapshot(sizes: Pick<Stats, 'hintBytes' | 'permutationBytes' | 'tagBytes'>): Stats {
    return {
      servers: this.#servers.map(({ name }, s) => ({
        server: name,
        offline: this.offline[s]!.snapshot(),
        lookups: this.online[s]!.snapshot(),
        fence: this.fence[s]!.snapshot(),
      })),
      ...sizes,
      lookups: this.#lookups,
      lastLookup: this.#lastLookup,
      incidents: [...this.#incidents],
    }
  }
}
