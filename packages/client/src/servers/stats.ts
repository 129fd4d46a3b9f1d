// What a map has cost so far, and failures of servers that failed no call.

import { INCIDENTS_KEPT } from '../base/constants.js'
import type { KeyhushError, ServerError } from '../base/errors.js'
import type { Awaited } from './budget.js'
import { worstOf } from './failures.js'
import { commonHost, type Server, type Servers } from './parties.js'
import { Standing } from './standing.js'

/** Bytes of bodies; headers are not counted. */
export interface Traffic {
  readonly bytesUp: number
  readonly bytesDown: number
}

/** A failure of a server. The call may have succeeded all the same. Nothing here depends on a key. */
export interface Incident {
  /** The server's name; `one of a, b and c` if it is not known which server sent a wrong answer. */
  readonly server: string
  /** The `code` of the error. Or `slow`: another server took over a part of a download, because this one took too long. */
  readonly code: string
}

/** A map's counters since it was opened. Bytes are of request and response bodies. */
export interface Stats {
  /**
   * A host that two servers are on: this machine, or another with `development`. With two servers its operator can see your keys.
   * Undefined: each server has a host of its own.
   */
  readonly commonHost: string | undefined
  /** What makes queries and checks answers: WebAssembly. In mode `instant`, JavaScript (`script`) where there is no WebAssembly. */
  readonly core: 'wasm' | 'script'
  /**
   * Whether the rollback fence of each server that lookups may ask knows the state. Undefined: there is no state, it is condemned, or
   * it needs no fence.
   */
  readonly fenced: boolean | undefined
  readonly servers: readonly {
    readonly server: string
    /** Manifests, directory, partitions and update lists, with those of `reset()`. */
    readonly offline: Traffic
    /** Queries and answers, with repeated ones. */
    readonly lookups: Traffic
    /** To and from the rollback fence: 88 bytes a lookup, at one server. */
    readonly fence: Traffic
  }[]
  /**
   * Bytes kept in memory between lookups, by what they are. Mode `local`: `records`. Mode `full`: `parities`, `permutations` and `tags`
   * (0: the map checks proofs instead). Mode `single`: `hints` and `tags`. Empty while there is no state.
   */
  readonly held: Readonly<Record<string, number>>
  /** In mode `single`: queries left until the hints are used up. Undefined: any number. */
  readonly lookupsLeft: number | undefined
  /** Calls that got their answer. */
  readonly lookups: number
  /** Of these, calls that a filter answered: nothing was sent for them. Undefined: there is no filter. */
  readonly unsent?: number | undefined
  /** Bytes and milliseconds of the last call that got its answer. Undefined: there was none. */
  readonly lastLookup: (Traffic & { readonly ms: number }) | undefined
  /** Attempts that failed, and servers that were not asked again for a time. The newest 100, oldest first. */
  readonly incidents: readonly Incident[]
}

/** Counts the bytes of one link, and what is under way on it. */
export class Meter implements Traffic {
  bytesUp = 0
  bytesDown = 0
  /** milliseconds that blobs may have taken, whose lengths the agreed manifest gives */
  earnedMs = 0
  /** requests under way, with the pauses between their attempts */
  asked = 0
  /** why the server was not asked again yet, while a pause lasts */
  failure: ServerError | undefined

  async asking<T>(work: () => Promise<T>): Promise<T> {
    this.asked++
    try {
      return await work()
    } finally {
      this.asked--
    }
  }

  snapshot(): Traffic {
    return { bytesUp: this.bytesUp, bytesDown: this.bytesDown }
  }
}

export class StatsKeeper implements Awaited {
  readonly standing = new Standing()
  waitingForTab = 0
  waitingForFilter = 0
  /** why the filter did not come last */
  filterFailure: KeyhushError | ServerError | undefined
  readonly offline: readonly Meter[]
  readonly online: readonly Meter[]
  readonly fence: readonly Meter[]
  readonly #servers: Servers
  readonly #incidents: Incident[] = []
  #lookups = 0
  #arrived = 0
  #lastLookup: Stats['lastLookup']

  constructor(servers: Servers) {
    this.#servers = servers
    const meters = () => servers.map(() => new Meter())
    ;[this.offline, this.online, this.fence] = [meters(), meters(), meters()]
  }

  /** calls that got their answer */
  get lookups(): number {
    return this.#lookups
  }

  get asked(): readonly string[] {
    const lookups = this.#askedBy(this.online, this.fence)
    return lookups.length > 0 ? lookups : this.#askedBy(this.offline)
  }

  get lastFailure(): KeyhushError | ServerError | undefined {
    const failures = [...this.online, ...this.fence, ...this.offline].flatMap(({ failure }) => failure ?? [])
    return failures.length > 0 ? worstOf(failures) : this.filterFailure
  }

  get arrived(): number {
    if (this.#askedBy(this.online).length === 0) this.#arrived = this.downloaded
    return this.#arrived
  }

  get downloaded(): number {
    return sum(this.offline, 'earnedMs')
  }

  #askedBy(...kinds: readonly (readonly Meter[])[]): string[] {
    return this.#servers.flatMap(({ name }, s) => (kinds.some(meters => meters[s]!.asked > 0) ? [name] : []))
  }

  incident(server: string, code: string): void {
    this.#incidents.push({ server, code })
    if (this.#incidents.length > INCIDENTS_KEPT) this.#incidents.shift()
  }

  /** For `ask`. */
  readonly onFailed = ({ server }: { readonly server: Server }, { code }: ServerError): void =>
    this.incident(server.name, code)

  /** Moves bytes that were counted as a lookup's to the fence's. */
  fenced(server: string, { bytesUp, bytesDown }: Traffic): void {
    const s = this.#servers.findIndex(({ name }) => name === server)
    const [online, fence] = [this.online[s], this.fence[s]]
    if (online === undefined || fence === undefined) return
    online.bytesUp -= bytesUp
    online.bytesDown -= bytesDown
    fence.bytesUp += bytesUp
    fence.bytesDown += bytesDown
  }

  /** Queries and answers so far, all servers together. */
  onlineTotal(): Traffic {
    return { bytesUp: sum(this.online, 'bytesUp'), bytesDown: sum(this.online, 'bytesDown') }
  }

  /** A lookup that began at traffic `before` has taken `ms`. */
  lookedUp(before: Traffic, ms: number): void {
    const now = this.onlineTotal()
    this.#lookups++
    this.#lastLookup = { ms, bytesUp: now.bytesUp - before.bytesUp, bytesDown: now.bytesDown - before.bytesDown }
  }

  snapshot(sizes: Pick<Stats, 'core' | 'fenced' | 'held' | 'lookupsLeft'>): Stats {
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

function sum(meters: readonly Meter[], what: 'bytesUp' | 'bytesDown' | 'earnedMs'): number {
  return meters.reduce((total, meter) => total + meter[what], 0)
}
