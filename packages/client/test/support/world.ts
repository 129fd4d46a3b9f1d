// Several lives of one client, as tabs and reloads are: one disk, one clock, one set of locks, two servers. Each life
// can be killed, frozen or kept from its disk at any moment; an auditor watches everything the servers get to see.

import { type Query, SUITE_PARITIES } from '@keyhush/protocol'
import { expect, onTestFinished } from 'vitest'
import { SAVE_PAUSE_MS } from '../../src/base/constants.js'
import type { KeyhushMap, MapEvent } from '../../src/index.js'
import { type Choose, type Pays, SCHEMES } from '../../src/scheme/table.js'
import type { Preparers } from '../../src/store/storage.js'
import {
  type Environment,
  type Locks,
  MemoryStore,
  noTabs,
  type OpenStore,
  type OpenWithOptions,
  openWith,
  type StateHead,
  type StateStore,
} from '../../src/testing.js'
import { drive, ManualClock, settle } from './clock.js'
import { buildDatabase, type Database, someValues } from './database.js'
import { core, type Failure, failureOf, hex, proofsWith, sameOnBoth } from './harness.js'
import { A, B, busy, claimedQuery, type Network, queryIn } from './network.js'
import { seededRandom } from './random.js'

/** Large enough that two fresh vectors have little in common: 16 offsets below 63. */
export const records = buildDatabase(core, { values: someValues(1000, 8), partitions: 16 })

export type Method = Exclude<keyof StateStore, 'durable'>

/** `before` or `after` the disk has done it. May throw instead of the store, or wait. */
export type Interfere = (method: Method, when: 'before' | 'after') => void | Promise<void>

export interface Planner {
  readonly pays?: Pays
  readonly choose?: Choose
}

export interface Setting {
  readonly network?: Network
  /** a database that changes, and its network */
  readonly living?: { readonly newest: Database; readonly network: Network }
  readonly database?: Database
  readonly before?: World
  readonly disk?: MemoryStore
  readonly shown?: MemoryStore
  readonly seed?: number
  /** false: where its database is so small, or its lookups are so large, that columns are alike by chance; or its lives have other disks */
  readonly audited?: boolean
}

export class World {
  readonly clock = new ManualClock()
  readonly locks = new FakeLocks(this.clock)
  readonly preparers = new FakePreparers()
  readonly disk: MemoryStore
  /** the newest epoch that lookups without a state have shown (src/session/shown.ts) */
  readonly shown: MemoryStore
  readonly auditor: Auditor
  /** closed when the test is over, if it has not done that; what was sent is looked at then (Auditor.assertSound) */
  readonly left: { readonly life: Life; readonly map: KeyhushMap }[] = []
  readonly lives: Life[]
  /** what a partition takes: on a line so slow that each is worth a save */
  blobMs = SAVE_PAUSE_MS

  readonly network: Network
  readonly seed: number
  readonly #newest: () => Database

  /** `before`: the world as it was; its disk remains, and no randomness comes again. */
  constructor({
    living,
    network = living?.network ?? sameOnBoth(records),
    database = records,
    before,
    disk,
    shown,
    seed = 1,
    audited = true,
  }: Setting = {}) {
    this.network = network
    this.#newest = () => living?.newest ?? database
    this.disk = before?.disk ?? disk ?? new MemoryStore({ durable: true })
    this.shown = before?.shown ?? shown ?? new MemoryStore({ durable: true })
    this.lives = before?.lives ?? []
    this.auditor = new Auditor(this.disk)
    this.seed = before?.seed ?? seed
    const { auditor, clock, left } = this
    onTestFinished(async () => {
      for (const { life, map } of left) if (!life.stands) await drive(clock, map.close())
      if (audited) await auditor.assertSound()
    })
  }

  /** as the servers have it; the newest epoch of one that changes */
  get database(): Database {
    return this.#newest()
  }

  /** Another device with what the disk holds now: a backup, a cloned profile. It has a clock and chance of its own. */
  copy(): World {
    const { network, database, seed } = this
    const [disk, shown] = [this.disk, this.shown].map(store => store.copy()) as [MemoryStore, MemoryStore]
    return new World({ network, database, disk, shown, seed: seed + 500 })
  }

  /** The same device when its servers have become others: its tabs are gone. */
  facing(network: Network): World {
    for (const life of this.lives) life.kill()
    return new World({ network, database: this.database, before: this })
  }

  /** A new tab, or the next life of one. Its randomness is its own. */
  life(change: Partial<Environment> = {}): Life {
    const life = new Life(this, this.lives.length + 1, change)
    this.lives.push(life)
    return life
  }

  /** A new tab, and its map. */
  async opened(
    options: Partial<OpenWithOptions> = {},
    planner: Planner = {},
  ): Promise<{ life: Life; map: KeyhushMap }> {
    const life = this.life()
    return { life, map: await life.open(options, planner) }
  }

  /** A tab that was killed when it was about to call its store so. */
  async killedAt(method: Method): Promise<Life> {
    const life = this.life()
    life.at(method, 'before', () => life.kill())
    life.openIdle().catch(() => {})
    await settle()
    expect(life.killed).toBe(true)
    return life
  }

  /** A tab that was killed when so many partitions were stored. */
  async halfDownloaded(partitions: number, options: Partial<OpenWithOptions> = {}): Promise<void> {
    const life = this.life()
    life.at('putPartial', 'after', () => life.kill(), partitions)
    life.openIdle(options).catch(() => {})
    for (let i = 0; i < 250 && !life.killed; i++) await settle()
    expect(life.killed).toBe(true)
  }

  drive<T>(work: Promise<T>): Promise<T> {
    return drive(this.clock, work)
  }

  async head(): Promise<StateHead | undefined> {
    return await this.disk.read()
  }

  /** A lookup that `silent` does not answer: its lookup stays pending. */
  async interrupt(life: Life, map: KeyhushMap, silent = A): Promise<void> {
    this.network.misbehave[silent] = busy
    expect((await life.failure(map.at(9))).code).toBe('network')
    this.network.misbehave[silent] = undefined
  }

  /** Right values, whatever has happened before. */
  async checkValues(map: KeyhushMap, indices: readonly number[] = [0, 6, 6, 999, 62, 63]): Promise<void> {
    for (const index of indices) expect(await this.drive(map.at(index))).toEqual(this.database.byIndex[index])
  }
}

/** Locks as browsers have them: one a name, first come, first served, until somebody steals it, which the owner hears. */
export class FakeLocks {
  readonly #holders = new Map<string, object | undefined>()
  readonly #bells = new Map<string, () => void>()
  readonly #waiting = new Map<string, (() => void)[]>()
  /** how often a lock was asked for, and taken from its holder */
  asked = 0
  stolen = 0

  constructor(private readonly clock: ManualClock) {}

  get held(): number {
    return this.#holders.size
  }

  /** whether a life waits for one that another has */
  get isAwaited(): boolean {
    return [...this.#waiting.values()].some(queue => queue.length > 0)
  }

  /** One life's view of them. */
  of(life: Life): Locks {
    return {
      hold: async (name, patienceMs, task) => {
        this.asked++
        const me = {}
        const wanted = new AbortController()
        this.#bells.get(name)?.()
        this.#bells.set(name, () => life.hear(() => wanted.abort()))
        const take = () => void this.#holders.set(name, me)
        const release = () => {
          if (this.#holders.get(name) !== me) return
          this.#holders.delete(name)
          this.#queue(name).shift()?.()
        }
        life.onKilled.push(release)
        if (this.#holders.has(name)) await this.#turn(name, patienceMs, take)
        else take()
        if (life.killed) release()
        return await task(wanted.signal).finally(release)
      },
    }
  }

  #queue(name: string): (() => void)[] {
    const queue = this.#waiting.get(name) ?? []
    this.#waiting.set(name, queue)
    return queue
  }

  #turn(name: string, patienceMs: number, take: () => void): Promise<void> {
    return new Promise(resolve => {
      const queue = this.#queue(name)
      const granted = () => {
        this.clock.clearTimeout(timer)
        take()
        resolve()
      }
      const timer = this.clock.setTimeout(() => {
        queue.splice(queue.indexOf(granted), 1)
        this.stolen++
        granted()
      }, patienceMs)
      queue.push(granted)
    })
  }
}

/** What tabs know of who prepares hints; the dead do not. */
export class FakePreparers {
  #joined: { readonly life: Life }[] = []

  of(life: Life): Preparers {
    return {
      join: async () => {
        const me = { life }
        this.#joined.push(me)
        return () => {
          this.#joined = this.#joined.filter(other => other !== me)
        }
      },
      whileNone: async task => {
        this.#joined = this.#joined.filter(({ life }) => !life.killed)
        if (this.#joined.length === 0) await task()
      },
    }
  }
}

const NEVER = new Promise<void>(() => {})

export class Life {
  readonly environment: Environment
  readonly events: MapEvent[] = []
  readonly onKilled: (() => void)[] = []
  /** calls of the store that have been carried out */
  readonly writes: Method[] = []
  interfere: Interfere = () => {}
  /** what the life gets to read of what is stored */
  reads = (_method: Method, value: unknown): unknown => value
  #gate: Promise<void> | undefined
  #thaw = () => {}
  killed = false

  constructor(
    readonly world: World,
    readonly number: number,
    change: Partial<Environment>,
  ) {
    const { clock, network, auditor, locks, preparers, disk, shown } = world
    this.environment = {
      clock: {
        now: clock.now,
        date: clock.date,
        setTimeout: (callback, ms) => clock.setTimeout(() => this.hear(callback), ms),
        clearTimeout: clock.clearTimeout,
      },
      fetch: async (url, init) => {
        for (let stop = this.#stopped; stop; stop = this.#stopped) await stop.over
        if (url.endsWith('/v1/answer')) auditor.sent(url, new Uint8Array(init.body as Uint8Array))
        const response = await network.fetch(url, init)
        if (url.includes('/v1/blobs/')) clock.pass(world.blobMs)
        for (let stop = this.#stopped; stop; stop = this.#stopped) await stop.over
        return response
      },
      random: seededRandom(1000 * world.seed + number),
      openStore: async ([name], preference) =>
        preference === 'memory'
          ? { store: this.#memory(), storage: 'memory' }
          : {
              store: this.#mount(name?.startsWith('shown+') ? shown : disk),
              storage: 'best-effort',
              preparers: preparers.of(this),
            },
      locks: locks.of(this),
      tabs: noTabs,
      loadCore: async () => core,
      pause: async () => {},
      ...change,
    }
  }

  /** Acts when the store is called so: each time, or the `nth` time. */
  at(method: Method, when: 'before' | 'after', act: () => void | Promise<void>, nth?: number): void {
    let calls = 0
    this.interfere = (called, moment) => {
      if (called !== method || moment !== when) return
      calls++
      if (nth === undefined || calls === nth) return act()
    }
  }

  /** `planner`: what mode auto goes by in place of its own rules. */
  async openIdle(options: Partial<OpenWithOptions> = {}, { pays, choose }: Planner = {}): Promise<KeyhushMap> {
    const onEvent = (event: MapEvent) => {
      if (event.type !== 'slow') this.events.push(event) // (waiting.test.ts)
    }
    const timeoutMs = Number.POSITIVE_INFINITY // until requests give up
    const usual = { servers: [A, B], mode: 'full', proofs: proofsWith(options), timeoutMs, onEvent } as const
    const map = await openWith(this.environment, { ...usual, ...options }, SCHEMES, pays, choose)
    this.world.left.push({ life: this, map })
    return map
  }

  open(options: Partial<OpenWithOptions> = {}, planner: Planner = {}): Promise<KeyhushMap> {
    return this.world.drive(this.openIdle(options, planner))
  }

  failure(work: Promise<unknown>): Promise<Failure> {
    return this.world.drive(failureOf(work))
  }

  /** The process is gone: nothing it has under way comes to an end, and nothing of it happens any more. */
  kill(): void {
    this.killed = true
    for (const release of this.onKilled) release()
  }

  /** Killed so many turns of the microtask queue after `act` has begun; whether that had ended before. */
  async killAfter(turns: number, act: Promise<unknown>): Promise<boolean> {
    let over = false
    const end = () => {
      over = true
    }
    act.then(end, end)
    for (let i = 0; i < turns; i++) await Promise.resolve()
    this.kill()
    return over
  }

  /** Stands still at its next contact with the outside. It keeps its locks. */
  freeze(): void {
    this.#gate = new Promise(resolve => {
      this.#thaw = resolve
    })
  }

  async thaw(): Promise<void> {
    this.#thaw()
    this.#gate = undefined
    await settle()
  }

  /** Something comes from outside: at once, when it thaws, or never. */
  hear(event: () => void): void {
    const stop = this.#stopped
    if (stop === undefined) event()
    else void stop.over.then(event, event)
  }

  /** It is dead, or stands still. */
  get stands(): boolean {
    return this.#stopped !== undefined
  }

  /** Set while nothing of this life may happen. Looked at right before anything does, with no turn between. */
  get #stopped(): { readonly over: Promise<void> } | undefined {
    return this.killed ? { over: NEVER } : this.#gate && { over: this.#gate }
  }

  #memory(): MemoryStore {
    const store = new MemoryStore()
    this.world.auditor.stores.push(store)
    return store
  }

  /** The disk, at some distance: every call takes a while before and after it is carried out. */
  #mount(disk: MemoryStore): StateStore {
    return new Proxy<StateStore>(disk, {
      get: (_target, name) => {
        const member: unknown = Reflect.get(disk, name, disk)
        if (typeof member !== 'function') return member
        const method = name as Method
        if (method === 'close') return async () => {} // the disk outlives its users
        return async (...parameters: unknown[]) => {
          await this.interfere(method, 'before')
          for (let stop = this.#stopped; stop; stop = this.#stopped) await stop.over
          const result = this.reads(method, await member.apply(disk, parameters))
          this.writes.push(method)
          await this.interfere(method, 'after')
          for (let stop = this.#stopped; stop; stop = this.#stopped) await stop.over
          return result
        }
      },
    })
  }
}

/** Watches what is sent, and checks it against what was stored and what was sent before. */
export class Auditor {
  readonly bodies = new Map<string, string[]>([
    [A, []],
    [B, []],
  ])
  readonly faults: string[] = []
  /** all places in which an intent may be */
  readonly stores: MemoryStore[]
  #checks: Promise<void> = Promise.resolve()

  constructor(disk: MemoryStore) {
    this.stores = [disk]
  }

  sent(url: string, request: Uint8Array): void {
    const server = url.startsWith(A) ? A : B
    const body = queryIn(request)
    const sent = this.bodies.get(server)!
    const before = [...sent]
    sent.push(hex(body))
    // Asked at once, answered as of now.
    const heads = Promise.all(this.stores.map(store => store.read()))
    this.#checks = this.#checks.then(async () => this.#check(server, body, before, await heads))
  }

  /** Distinct queries that each server has seen. */
  distinct(server: string): number {
    return new Set(this.bodies.get(server)).size
  }

  /** All that must hold of everything sent so far. */
  async assertSound(): Promise<void> {
    await this.#checks
    expect(this.faults).toEqual([])
  }

  #check(server: string, body: Uint8Array, before: readonly string[], heads: readonly (StateHead | undefined)[]): void {
    if (before.includes(hex(body))) return // the very same bytes again
    const vectors = body.subarray(40)
    // S1: what is sent for the first time is in the lookup that the disk holds at that moment, and for this server (S5).
    if (!heads.some(head => head && hex(intended(head, server, vectors.length)) === hex(vectors))) {
      this.faults.push(`${server} was sent something that is not pending for it on the disk`)
    }
    // A column shown again with other contents: two different vectors that agree almost everywhere. Of 16 offsets below
    // 63, half agree by chance in one pair of 10^10 (C(16,8)·63⁻⁸); the seeds are fixed. Of one server's queries, which have
    // 64 offsets below 16 behind 8 bytes of subsets, 28 do in one pair of 10^13.
    const single = claimedQuery(body).query.suite === SUITE_PARITIES
    const [first, most] = single ? [8, 28] : [0, 8]
    for (const earlier of before) {
      if (isExtension(body, Buffer.from(earlier, 'hex'))) continue // the very same vectors, at a later epoch
      const other = Buffer.from(earlier, 'hex').subarray(40)
      if (agreeing(vectors, other, first) >= most)
        this.faults.push(`${server} saw a column twice with different contents`)
    }
  }
}

/** In how many places two vectors of 16-bit offsets agree. */
export function agreeing(one: Uint8Array, other: Uint8Array, from = 0): number {
  let equal = 0
  for (let i = from; i + 1 < one.length; i += 2) if (one[i] === other[i] && one[i + 1] === other[i + 1]) equal++
  return equal
}

/** Whether `later` is `earlier` at a later epoch: each of its vectors begins as before, and goes on in new partitions. */
function isExtension(later: Uint8Array, earlier: Uint8Array): boolean {
  const [a, b] = [later, earlier].map(body => claimedQuery(body).query) as [Query, Query]
  if (a.suite === SUITE_PARITIES) return a.epoch > b.epoch && hex(a.vectors) === hex(b.vectors)
  if (a.count !== b.count || a.epoch <= b.epoch || a.partitions < b.partitions) return false
  for (let i = 0; i < a.count; i++) {
    const row = a.vectors.subarray(2 * i * a.partitions, 2 * (i * a.partitions + b.partitions))
    if (hex(row) !== hex(b.vectors.subarray(2 * i * b.partitions, 2 * (i + 1) * b.partitions))) return false
  }
  return true
}

/** The vectors that a head's pending lookup has for a server: they stand last in it, refresh after retrieve. */
function intended({ pending, record }: StateHead, server: string, bytes: number): Uint8Array {
  if (pending === undefined) return new Uint8Array()
  const vectorsEnd = pending.length - 32 - 16 // the lookup's name and the checksum
  const end = record.parties.length > 1 && server === record.parties[0] ? vectorsEnd - bytes : vectorsEnd
  return pending.slice(end - bytes, end)
}

/** A life whose stores are opened otherwise. */
export function openingOtherwise(world: World, change: (openStore: OpenStore) => OpenStore): Life {
  const life = world.life()
  Object.assign(life.environment, { openStore: change(life.environment.openStore) })
  return life
}

/** A platform without locks. */
export const noLocks: Partial<Environment> = { locks: { hold: (_name, _patienceMs, task) => task() } }

/** One origin's stores, by identity. */
export function origin() {
  const stores = new Map<string, MemoryStore>()
  const openStore: OpenStore = async identity => {
    const name = identity.join(' ')
    const store = stores.get(name) ?? new MemoryStore({ durable: true })
    stores.set(name, store)
    return { store, storage: 'best-effort' }
  }
  return { stores, openStore }
}

/** A world with one tab, and its map. */
export async function openedWorld(options: Partial<OpenWithOptions> = {}, setting: Setting = {}) {
  const world = new World(setting)
  return { world, ...(await world.opened(options)) }
}

/** Two tabs of one browser, and their maps. */
export async function twoTabs(change: Partial<Environment> = {}) {
  const world = new World()
  const [one, two] = [world.life(change), world.life(change)]
  return { world, one, two, first: await one.open(), second: await two.open() }
}
