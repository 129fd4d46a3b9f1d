// What a map has cost so far, and what went wrong without failing a call.

import { INCIDENTS_KEPT } from '../base/constants.js'
import { commonHost, type ServerPair } from './pair.js'

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
  /**
   * the host that both servers are on: `localhost` in development, another with `allowSameHost`. Whoever runs it can see
   * what is looked up. undefined: they are on two
   */
  readonly commonHost: string | undefined
  /**
   * whether a rollback fence knows this map's state; undefined: there is none now, it is condemned, say, or it needs none
   */
  readonly fenced: boolean | undefined
  readonly servers: readonly {
    readonly server: string
    /** manifests, directory, partitions and update lists, `reset()` included */
    readonly offline: Traffic
    /** queries and answers, repeated ones included */
    readonly lookups: Traffic
    /** what the rollback fence was told, and said; 88 bytes a lookup at the server that keeps it */
    readonly fence: Traffic
  }[]
  /**
   * Bytes held in memory between lookups, by what they are: parities, permutations and tags (0: opening proofs are checked
   * instead) in mode `full`, records in mode `local`. Empty while there is no state.
   */
  readonly held: Readonly<Record<string, number>>
  /** lookups left before the state has to be made anew; undefined: any number */
  readonly remaining: number | undefined
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

  /** calls that got their answer */
  get lookups(): number {
    return this.#lookups
  }

  incident(server: string, code: string): void {
    this.#incidents.push({ server, code })
    if (this.#incidents.length > INCIDENTS_KEPT) this.#incidents.shift()
  }

  /** Of what went over the link for lookups to this server, so many bytes were the fence's. */
  fenced(server: string, { bytesUp, bytesDown }: Traffic): void {
    const s = this.#servers.findIndex(({ name }) => name === server)
    const [online, fence] = [this.online[s], this.fence[s]]
    if (online === undefined || fence === undefined) return
    online.bytesUp -= bytesUp
    online.bytesDown -= bytesDown
    fence.bytesUp += bytesUp
    fence.bytesDown += bytesDown
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

  snapshot(sizes: Pick<Stats, 'fenced' | 'held' | 'remaining'>): Stats {
    return {
      commonHost: commonHost(this.#servers),
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
