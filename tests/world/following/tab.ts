// A tab: the real SDK on a clock, a network and a disk of the world. While it is frozen nothing runs in it; what comes then, comes when
// it is back.

import type { Change, KeyhushMap, MapEvent, Watch } from '@keyhush/client'
import {
  awakeClock,
  type Clock,
  type Environment,
  noTabs,
  type OpenWithOptions,
  openWith,
} from '@keyhush/client/environment'
import type { Info } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { Chance } from '../chance.js'
import { Company, type Member } from '../company.js'
import { Disk } from '../disk.js'
import { Locks } from '../locks.js'
import type { Question } from '../questions.js'
import { storeOn } from '../store.js'
import { subtle } from './keys.js'
import type { Server } from './servers.js'
import type { Due } from './time.js'
import type { World } from './world.js'

const core = await loadCore()

/** A browser's profile, or an app's folder: its stores, by identity, and what its tabs share. */
export class Profile {
  readonly disks = new Map<string, Disk>()
  readonly locks = new Locks()
  readonly company = new Company()
  /** of watched keys */
  readonly marks = new Map<string, string>()
}

/** What an app asks of a map, for the trace and for the rules. */
export type Kind = 'open' | 'lookup' | 'watch' | 'sync' | 'close' | 'reset' | 'prepare'

export interface Call {
  readonly tab: Tab
  readonly kind: Kind
  readonly what: string
  readonly question: Question | undefined
  readonly timeoutMs: number
  /** when it began */
  readonly begun: number
  /** by the time that the tab is awake */
  readonly awake: number
  /** the epoch of the map then; 0: it was not open */
  readonly epoch: number
  /** and that of its filter */
  readonly filterEpoch: number
  /** what the rules noted when it began */
  facts: unknown
  outcome: { readonly value: unknown } | { readonly error: unknown } | undefined
  /** when it ended */
  ended: number
}

/** How a map is opened. */
export type Plan = Pick<
  OpenWithOptions,
  'mode' | 'atLeast' | 'collusion' | 'storage' | 'push' | 'timeoutMs' | 'integrity' | 'experimental' | 'filter'
> & {
  /** in hex; undefined: the map has none */
  readonly publisherKey?: string | undefined
  /** numbers of the servers, in any order */
  readonly servers: readonly number[]
  /** its map watches a key */
  readonly watches?: boolean
}

/** A watched key, and what was told of it. */
export interface Watched {
  readonly key: string
  readonly watch: Watch
  /** the epoch from which on changes are told, and whether that is a mark's: else earlier ones may be told too */
  readonly from: number
  readonly isMarked: boolean
  readonly changes: readonly Change[]
}

/** An epoch that a server has shown to a tab, in `/v1/info`: with a publisher's key the newest that is signed. */
export interface Show {
  readonly server: Server
  readonly epoch: number
  readonly at: number
  /** by the time that the tab was awake */
  readonly awake: number
}

export class Tab implements Member {
  readonly name: string
  readonly world: World
  readonly plan: Plan
  readonly profile: Profile
  readonly environment: Environment
  readonly calls: Call[] = []
  readonly events: (MapEvent & { readonly at: number })[] = []
  state: 'running' | 'frozen' | 'dead' = 'running'
  map: KeyhushMap | undefined
  watched: Watched | undefined
  /** the app has closed it */
  closing = false
  /** when a blob was there whole last, by the time that it is awake */
  blobAt = 0
  /** when it was frozen or offline last */
  disturbedAt = Number.NEGATIVE_INFINITY
  offline = false
  /** called when it goes offline next */
  readonly whenOffline = new Set<() => void>()
  /** called when it is killed */
  readonly whenDead = new Set<() => void>()
  /** calls of the core that hash, and bytes that they hashed */
  readonly hashed = { calls: 0, bytes: 0 }
  /** requests of lookups */
  lookups = 0
  /** newer and newer epochs that servers have shown it */
  readonly shows: Show[] = []
  #losses = 0
  readonly #whenOnline = new Set<() => void>()
  /** what has come while it was frozen: its timers run first when it is back, as if no reply had come yet */
  #held: (() => void)[] = []
  #heldTimers: (() => void)[] = []
  #frozenAt = 0
  #frozenMs = 0
  readonly #bornAt: number

  constructor(world: World, plan: Plan, profile = new Profile(), skewMs = 0, browser = true) {
    this.world = world
    this.name = `tab ${world.tabs.length + 1}`
    this.plan = plan
    this.profile = profile
    this.#bornAt = world.time.now
    const chance = new Chance(world.seed * 31 + world.tabs.length)
    const clock = awakeClock(this.#clock(skewMs))
    this.environment = {
      clock,
      fetch: (url, init) => this.#fetch(url, init),
      ...(browser && { connection: this.#connection() }),
      random: bytes => chance.bytes(bytes),
      subtle,
      openStore: async (identity, preference) => {
        if (preference === 'memory') return { store: this.#mount(new Disk(false)), storage: 'memory' }
        const { disks } = profile
        const name = identity.join(' ')
        if (!disks.has(name)) disks.set(name, new Disk(true))
        const preparers = profile.company.preparers(this)
        return { store: this.#mount(disks.get(name)!), storage: 'best-effort', preparers }
      },
      locks: profile.locks.of(this, clock),
      tabs: browser ? profile.company.of(this) : noTabs,
      loadCore: async () => this.#core(),
      pause: () => new Promise(resolve => void world.time.after(0, () => this.run(resolve))),
    }
    world.tabs.push(this)
  }

  /** Runs it in the tab: now, or when it is no longer frozen. */
  run(work: () => void): void {
    if (this.state === 'running') work()
    else if (this.state === 'frozen') this.#held.push(work)
  }

  /** Milliseconds that it has been awake. */
  get awake(): number {
    const now = this.state === 'frozen' ? this.#frozenAt : this.world.time.now
    return now - this.#bornAt - this.#frozenMs
  }

  async hears(listener: () => void): Promise<void> {
    this.world.time.after(1, () => this.run(listener))
  }

  // ---- what people and machines do -----------------------------------------------------------------

  freeze(): void {
    if (this.state !== 'running') return
    this.world.note(this.name, 'freezes')
    this.state = 'frozen'
    this.#frozenAt = this.world.time.now
    this.disturbedAt = Number.POSITIVE_INFINITY
  }

  thaw(): void {
    if (this.state !== 'frozen') return
    this.world.note(this.name, 'runs again')
    this.state = 'running'
    this.#frozenMs += this.world.time.now - this.#frozenAt
    this.disturbedAt = this.world.time.now
    const held = [...this.#heldTimers, ...this.#held]
    this.#heldTimers = []
    this.#held = []
    for (const work of held) this.world.time.after(0, () => this.run(work))
  }

  goOffline(): void {
    if (this.offline) return
    this.world.note(this.name, 'is offline')
    this.offline = true
    this.disturbedAt = Number.POSITIVE_INFINITY
    this.#losses++
    const lost = [...this.whenOffline]
    this.whenOffline.clear()
    for (const call of lost) call()
  }

  goOnline(): void {
    if (!this.offline) return
    this.world.note(this.name, 'is online')
    this.offline = false
    this.disturbedAt = this.world.time.now
    const listeners = [...this.#whenOnline]
    this.#whenOnline.clear()
    for (const listener of listeners) this.world.time.after(0, () => this.run(listener))
  }

  /** The process is gone. */
  kill(): void {
    if (this.state === 'dead') return
    this.world.note(this.name, 'is killed')
    this.state = 'dead'
    this.map = undefined
    this.watched = undefined
    for (const end of [...this.whenDead]) end()
    this.profile.company.leave(this)
    this.profile.locks.leave(this)
  }

  /** A server's `/v1/info` has come. */
  sees(server: Server, { epochs, signatures }: Info): void {
    const { publisherKey } = this.plan
    const isSigned = ({ epoch }: { epoch: number }) =>
      publisherKey === undefined || signatures.some(of => of.epoch === epoch && of.publicKey === publisherKey)
    const epoch = Math.max(0, ...epochs.filter(isSigned).map(({ epoch }) => epoch))
    const known = this.shows.some(show => show.server === server && show.epoch >= epoch)
    if (!known) this.shows.push({ server, epoch, at: this.world.time.now, awake: this.awake })
  }

  // ---- calls ---------------------------------------------------------------------------------------

  open(): Call {
    const { servers, publisherKey, watches: _, ...rest } = this.plan
    const options: OpenWithOptions = {
      ...rest,
      ...(publisherKey !== undefined && { publisherKey }),
      servers: servers.map(number => this.world.servers[number]!.name),
      onEvent: event => this.#hear(event),
    }
    return this.#call('open', 'open', undefined, async () => {
      this.map = await openWith(this.environment, options)
      return this.map
    })
  }

  ask(question: Question, timeoutMs?: number): Call {
    const map = this.map!
    const limit = timeoutMs === undefined ? {} : { timeoutMs }
    const work = () => question.ask(withLimit(map, limit), new AbortController().signal)
    return this.#call('lookup', question.what, question, work, timeoutMs)
  }

  /** Watches a key, from the mark on that its profile has. */
  watch(key: string): Call {
    const map = this.map!
    const { marks } = this.profile
    const changes: Change[] = []
    const since = marks.get(key)
    return this.#call('watch', `watch ${key}`, undefined, async () => {
      const told = (change: Change) => {
        changes.push(change)
        this.world.note(this.name, `is told: ${key} has changed at ${change.epoch} (${change.how})`)
        this.world.count(`change: ${change.how}`)
      }
      const watch = await map.watch(key, told, { since, save: mark => void marks.set(key, mark) })
      const from = since === undefined ? watch.epoch : epochIn(since)
      this.watched = { key, watch, from, isMarked: since !== undefined, changes }
    })
  }

  sync(): Call {
    const map = this.map!
    return this.#call('sync', 'sync', undefined, () => map.sync())
  }

  reset(): Call {
    const map = this.map!
    return this.#call('reset', 'reset', undefined, () => map.reset())
  }

  close(): Call {
    const map = this.map!
    this.map = undefined
    this.watched = undefined
    this.closing = true
    return this.#call('close', 'close', undefined, () => map.close())
  }

  #call(
    kind: Kind,
    what: string,
    question: Question | undefined,
    work: () => Promise<unknown>,
    timeoutMs = this.plan.timeoutMs ?? 15_000,
  ): Call {
    const { world } = this
    const { now } = world.time
    const epoch = this.map?.epoch ?? 0
    const filterEpoch = this.map?.filter?.epoch ?? 0
    const own = { tab: this, kind, what, question, timeoutMs }
    const state = { epoch, filterEpoch, facts: undefined, outcome: undefined, ended: 0 }
    const call: Call = { ...own, begun: now, awake: this.awake, ...state }
    this.calls.push(call)
    world.note(this.name, `${what} …`)
    world.begins(call)
    const end = (outcome: Call['outcome']) => {
      if (this.state === 'dead') return
      call.outcome = outcome
      call.ended = world.time.now
      world.ends(call)
    }
    work().then(
      value => end({ value }),
      error => end({ error }),
    )
    return call
  }

  #hear(event: MapEvent): void {
    if (this.state === 'dead') return
    this.events.push({ ...event, at: this.world.time.now })
    this.world.note(this.name, `hears: ${Object.values(event).join(' ')}`)
    this.world.heard(this, event)
  }

  // ---- its environment -----------------------------------------------------------------------------

  #clock(skewMs: number): Clock {
    const { time } = this.world
    return {
      now: () => time.now,
      date: () => this.world.date + skewMs,
      setTimeout: (callback, ms) => {
        const timer = { due: undefined as Due | undefined, cleared: false }
        const ring = () => {
          if (!timer.cleared) callback()
        }
        timer.due = time.after(ms, () => {
          if (this.state === 'frozen') this.#heldTimers.push(ring)
          else this.run(ring)
        })
        return timer
      },
      clearTimeout: timer => {
        const own = timer as { due: Due; cleared: boolean } | undefined
        if (own === undefined) return
        own.cleared = true
        time.cancel(own.due)
      },
    }
  }

  #connection(): NonNullable<Environment['connection']> {
    const losses = () => this.#losses
    const offline = () => this.offline
    return {
      get losses() {
        return losses()
      },
      get isOffline() {
        return offline()
      },
      whenOnline: listener => {
        this.#whenOnline.add(listener)
        return () => this.#whenOnline.delete(listener)
      },
      isMetered: false,
      whenChanged: () => () => {},
    }
  }

  #mount(disk: Disk) {
    return storeOn(disk, {
      inOrder: false,
      comes: () => (this.state === 'dead' ? new Promise(() => {}) : Promise.resolve()),
      fails: () => false,
      wrote: () => undefined,
      flushed() {},
      note() {},
      count: what => this.world.count(what),
      reported: result => result,
    })
  }

  #core(): typeof core {
    return {
      ...core,
      blake3: bytes => {
        this.hashed.calls++
        this.hashed.bytes += bytes.length
        return core.blake3(bytes)
      },
    }
  }

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    if (this.state === 'dead' || this.world.over) return await new Promise(() => {})
    const server = this.world.servers.find(({ name }) => url.startsWith(name))!
    const path = url.slice(server.name.length)
    if (path === '/v1/instant') this.lookups++
    this.world.saw(this, server, path, init)
    return await server.fetch(this, path, init)
  }
}

/** Of a mark (packages/client/src/watching/marks.ts). */
function epochIn(mark: string): number {
  return Number.parseInt(mark.slice(42, 50), 16)
}

/** A map whose lookups have a limit of their own. */
function withLimit(map: KeyhushMap, limit: { readonly timeoutMs?: number }): KeyhushMap {
  if (limit.timeoutMs === undefined) return map
  return new Proxy(map, {
    get: (_target, name) => {
      const member = Reflect.get(map, name, map)
      if (typeof member !== 'function') return member
      return (first: unknown, options: object) => member.call(map, first, { ...options, ...limit })
    },
  })
}
