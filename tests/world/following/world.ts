// The world of one life: servers, a publisher, tabs, and virtual time. rules.ts has the rules, life.ts the lives that are drawn from
// seeds, stage.ts what lives need that are written by hand, a file for each property.
//
// Not modelled:
//
//   - a read that meets a batch which is half applied: a server takes one request at a time (tests/world/living has that);
//   - bandwidth, and time that computing takes (costs.test.ts counts hashes);
//   - disks that fail or lose writes (tests/world/state and living);
//   - generations that linger for hours, PostgreSQL, Pointproofs, mode `instant` with one server, four servers or more;
//   - twins of which one key is in the database and the other is not (tests/privacy).

import type { MapEvent } from '@keyhush/client'
import { parsePostedSignature } from '@keyhush/protocol'
import type { Asked, Reply } from '../living/servers.js'
import type { Ground } from './foundations.js'
import { Publisher } from './publisher.js'
import { Rules } from './rules.js'
import { Server } from './servers.js'
import type { Call, Tab } from './tab.js'
import { Time } from './time.js'
import { Truth } from './truth.js'

export interface WorldOptions {
  readonly foundation: Ground
  readonly servers: number
  /** epochs that servers keep before the newest */
  readonly history?: number
  /** by how much the servers' clocks are wrong, in milliseconds */
  readonly skews?: readonly number[]
}

/** A broken rule. */
export interface Violation {
  readonly rule: string
  readonly what: string
}

/** What a server could see of a request. */
export interface Seen {
  readonly at: number
  readonly tab: Tab
  readonly server: Server
  readonly method: string
  readonly path: string
  readonly bytes: number
}

/** November 2026 */
const BEGINNING = 1_795_000_000_000

export class World {
  readonly seed: number
  readonly time = new Time()
  readonly foundation: Ground
  readonly history: number
  readonly servers: Server[] = []
  readonly tabs: Tab[] = []
  readonly truth: Truth
  readonly publisher: Publisher
  readonly rules: Rules
  readonly violations: Violation[] = []
  /** what happened, one line each */
  readonly trace: string[] = []
  /** what happened how often */
  readonly counts = new Map<string, number>()
  /** all requests of tabs */
  readonly seen: Seen[] = []
  over = false

  private constructor(seed: number, { foundation, history = 64 }: WorldOptions) {
    this.seed = seed
    this.foundation = foundation
    this.history = history
    this.truth = new Truth(foundation.laid.first)
    this.publisher = new Publisher(this)
    this.rules = new Rules(this)
  }

  static async begin(seed: number, options: WorldOptions): Promise<World> {
    const world = new World(seed, options)
    for (let number = 0; number < options.servers; number++) {
      world.servers.push(await Server.start(world, number, options.skews?.[number] ?? 0))
    }
    return world
  }

  /** milliseconds since 1970, by a right clock */
  get date(): number {
    return BEGINNING + this.time.now
  }

  note(who: string, what: string): void {
    this.trace.push(`${(this.time.now / 1000).toFixed(2).padStart(8)}  ${who.padEnd(10)}${what}`)
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
  }

  violate(rule: string, what: string): void {
    this.note('RULE', `${rule}: ${what}`)
    this.violations.push({ rule, what })
  }

  // ---- what those in it report -------------------------------------------------------------------

  begins(call: Call): void {
    this.rules.begins(call)
  }

  ends(call: Call): void {
    const { outcome, kind, tab, what } = call
    const error = outcome !== undefined && 'error' in outcome ? (outcome.error as Error) : undefined
    this.note(tab.name, `${what}: ${error === undefined ? 'done' : `${error.name}: ${error.message}`}`)
    this.count(`${kind}: ${error?.name ?? 'done'}`)
    if (!this.over) this.rules.ends(call)
  }

  heard(tab: Tab, event: MapEvent): void {
    this.count(`event: ${event.type}`)
    if (!this.over) this.rules.heard(tab, event)
  }

  saw(tab: Tab, server: Server, path: string, { method = 'GET', body }: RequestInit): void {
    const bytes = (body as Uint8Array | undefined)?.length ?? 0
    this.seen.push({ at: this.time.now, tab, server, method, path, bytes })
    this.count(`requests`)
    this.note(tab.name, `${method} ${path.replace(/(blobs\/.{6}).*/, '$1')} ${server.letter}`)
  }

  /** A server has replied to the publisher. */
  async changed(server: Server, path: string, { method, body }: Asked, { status }: Reply): Promise<void> {
    if (method !== 'POST' || status !== 200 || path === '/v1/checks') return
    if (path.split('?')[0] === '/v1/epochs') {
      const wrong = this.truth.took(body!)
      if (wrong !== undefined) this.violate('fork', `${server.letter} takes another batch: ${wrong}`)
      this.note(server.letter, `has epoch ${server.epoch}, generation ${server.generation}`)
    } else {
      const { epoch, publicKey } = parsePostedSignature(JSON.parse(Buffer.from(body!).toString()))
      this.note(server.letter, `shows epoch ${epoch} signed under ${publicKey.slice(0, 4)}`)
    }
    await this.time.during('a copy', server.keepCopy())
    this.rules.changed(server)
  }

  /** Ends everything in it. */
  async end(): Promise<void> {
    this.over = true
    for (const tab of this.tabs) tab.kill()
    for (const server of this.servers) await this.time.during(`the end of ${server.letter}`, server.end())
  }
}
