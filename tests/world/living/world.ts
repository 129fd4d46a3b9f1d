// The world of one schedule: tabs, two servers, a publisher, and time. In each tick a pending event happens, or a step is made (an
// app or the publisher acts, or a fault occurs), by the seed. A full check follows each round. checker.ts has the rules.

import type { MapEvent } from '@keyhush/client'
import type { Chance } from '../chance.js'
import type { Head, Write } from '../ledger.js'
import { SERVERS, type ServerName } from '../network.js'
import { type Coming, Simulation, tick, Violation } from '../simulation.js'
import type { Outcome } from '../tab.js'
import { Audit } from './audit.js'
import { Batches } from './batches.js'
import { Checker } from './checker.js'
import { type Call, Profile, Tab } from './client.js'
import { type Foundation, renewed } from './databases.js'
import type { Card, FaultProfile, Ordeal } from './faults.js'
import { assertDirectory, assertStored } from './inspect.js'
import { type Operation, Version } from './model.js'
import { Publisher, type Renewal } from './publisher.js'
import { anyQuestion, everyQuestion } from './questions.js'
import type { Asked, Reply, RunningServer, Stream } from './servers.js'

/** Who waits: a tab, or a server. */
type Who = Tab | ServerName

export interface Setup {
  readonly foundation: Foundation
  readonly faults: FaultProfile
  /** starts both servers; `slowly` holds up their writes */
  readonly start: (
    slowly: (server: ServerName, what: string) => Promise<void>,
    onFailure: (error: Error) => void,
  ) => Promise<Readonly<Record<ServerName, RunningServer>>>
}

/** Ticks without a step after which a time with faults is over. */
const PATIENCE = 2000

/** More ticks than any round takes. */
const MOST_TICKS = 100_000

export class World extends Simulation<Tab, Who> {
  readonly faults: FaultProfile
  readonly audit: Audit
  readonly batches: Batches
  /** cards played so far */
  steps = 0
  /** faults so far for which calls may fail */
  misfortunes = 0
  violation: string | undefined
  publisher: Publisher
  #servers!: Readonly<Record<ServerName, RunningServer>>
  readonly #start: Setup['start']
  readonly #checker = new Checker(this)
  #profile: Profile
  /** requests that servers are answering */
  #asked = 0
  #ticks = 0
  /** events happen at once */
  #swift = false
  /** the step until which a server is not ready or dead, or a tab frozen */
  readonly #until = new Map<Who, number>()
  readonly #refusing = new Set<ServerName>()
  /** the state was put back, and may have been shown before */
  putBack = false
  /** ticks in the times with faults */
  ticks = 0
  /** lulls: times when no card could be played */
  #lulls = 0
  readonly #delivering = new Set<Promise<unknown>>()

  constructor(chance: Chance, { foundation, faults, start }: Setup) {
    super(chance)
    this.faults = faults
    this.#start = start
    this.audit = new Audit(what => this.count(what))
    const { first } = foundation
    this.batches = new Batches(chance, first)
    this.publisher = new Publisher(first, (server, path, asked) => this.#servers[server].ask(path, asked))
    this.#profile = new Profile(faults.locks)
  }

  protected get journalFactor(): number {
    return this.faults.journal
  }

  /** A schedule from beginning to end. Throws a Violation. */
  async run(): Promise<void> {
    this.#servers = await this.#start(
      (server, what) => this.comes(server, what),
      error => this.violate(`a server has failed: ${error.stack}`),
    )
    try {
      for (let round = 1; round <= this.faults.rounds; round++) {
        await this.#disturb()
        await this.#check(round === this.faults.rounds)
      }
    } finally {
      await this.end(this.tabs.map(({ profile }) => profile.locks))
      for (const server of SERVERS) await this.#servers[server].remove()
    }
  }

  // ---- what tabs and servers call ------------------------------------------------------------------

  override comes(who: Who, what: string): Promise<void> {
    const dead = who instanceof Tab && who.state === 'dead'
    return this.#swift && !dead && !this.over ? Promise.resolve() : super.comes(who, what)
  }

  /** A request on its way to a server and back. */
  async asked(server: ServerName, path: string, asked: Asked): Promise<Reply> {
    if (this.#refusing.has(server)) return NOT_READY
    const lost = !this.#swift && this.chance.happens(this.faults.losses)
    if (lost) this.#unfortunate('requests lost')
    if (lost && this.chance.happens(0.5)) throw new TypeError('the connection is lost')
    this.#asked++
    try {
      const reply = await this.#servers[server].ask(path, asked)
      if (asked.body && reply.status === 200) this.audit.answered(path, asked.body)
      if (lost) throw new TypeError('the connection is lost')
      return reply
    } finally {
      this.#asked--
    }
  }

  /** The stream of events of a server. */
  async listened(server: ServerName): Promise<Stream> {
    if (this.#refusing.has(server)) throw new TypeError('the connection is lost')
    this.#asked++
    try {
      return await this.#servers[server].listen()
    } finally {
      this.#asked--
    }
  }

  wrote(tab: Tab, write: Write, before: Head | undefined, torn: boolean): Head | undefined {
    const head = this.audit.wrote(write, before, torn)
    if (this.audit.fault !== undefined) this.violate(`${tab.name}: ${this.audit.fault}`)
    if (!tab.disk.durable) this.audit.flushed([head])
    if (write.method === 'discard') this.#checker.discards(tab, before)
    return head
  }

  override ended(call: Call, outcome: Outcome): void {
    super.ended(call, outcome)
    try {
      this.#checker.ended(call, outcome)
    } catch (error) {
      this.violate(`${call.tab.name}: ${call.what}${(error as Error).message}`)
    }
    // An app would reset then.
    const condemned = 'error' in outcome && (outcome.error as { code?: string }).code === 'condemned'
    if (condemned && call.tab.map && call.tab.waiting === 0 && !this.over) call.tab.reset()
  }

  heard(tab: Tab, event: MapEvent): void {
    this.count(`event: ${event.type}${'reason' in event ? ` ${event.reason}` : ''}`)
    const fault = this.#checker.heard(tab, event)
    if (fault !== undefined) this.violate(`${tab.name} ${fault}`)
  }

  violate(violation: string): void {
    this.violation ??= violation
  }

  // ---- the schedule ------------------------------------------------------------------------------

  /** The time with faults. */
  async #disturb(): Promise<void> {
    const deck = this.#shuffledDeck()
    // Some cards may never be playable. The ordained fault may come while the last call is under way.
    const isOver = () => this.faults.ordained === undefined || this.tabs.every(({ waiting }) => waiting === 0)
    for (let idle = 0, left = 0; (deck.length > 0 || !isOver()) && idle < PATIENCE; ) {
      idle = deck.length === left ? idle + 1 : 0
      left = deck.length
      if (idle % 50 === 49) this.#lulls++
      await this.#quiet()
      this.#wake()
      this.ticks = this.#ticks
      const { ordained } = this.faults
      if (this.#ticks === ordained?.tick) await this.#suffer(ordained.what)
      const coming = this.#ready()
      if (coming.length > 0 && this.chance.happens(this.faults.delays)) {
        this.#unfortunate('delays')
        this.timePasses()
      } else if (coming.length > 0 && !this.chance.happens(this.faults.haste)) {
        this.letCome(this.chance.pick(coming))
      } else if (!(await this.#step(deck)) && coming.length > 0) {
        this.letCome(this.chance.pick(coming))
      } else if (coming.length === 0 && !this.timePasses()) {
        this.#lulls++
        idle += 50
      }
    }
  }

  #shuffledDeck(): Card[] {
    const left = Object.entries(this.faults.deck).flatMap(([card, times]) => Array<Card>(times).fill(card as Card))
    const deck: Card[] = []
    while (left.length > 0) deck.push(...left.splice(this.chance.below(left.length), 1))
    return deck
  }

  /** Plays the first card that can be played. false: there is none. */
  async #step(deck: Card[]): Promise<boolean> {
    if (this.#opens()) return true
    for (const [at, card] of deck.entries()) {
      const play = this.#plays[card]()
      if (play === undefined) continue
      deck.splice(at, 1)
      this.steps++
      this.count(card)
      await play()
      return true
    }
    return false
  }

  /** A tab that has no map yet opens one; where there are too few tabs, there is another. */
  #opens(): boolean {
    const alive = this.tabs.filter(({ state }) => state !== 'dead')
    const idle = alive.find(tab => tab.state === 'running' && tab.map === undefined && tab.waiting === 0)
    if (idle !== undefined) idle.open()
    else if (alive.length === 0 || (alive.length < this.faults.tabs && this.chance.happens(0.3))) this.#newTab().open()
    else return false
    this.steps++
    return true
  }

  /** What each card does, if it can be played now. */
  readonly #plays: Readonly<Record<Card, () => (() => void | Promise<void>) | undefined>> = {
    'look up': () => {
      const tab = this.#pick(this.#maps().filter(({ waiting }) => waiting < 3))
      const version = tab && this.publisher.versions.get(tab.map!.epoch)
      return version && (() => void tab!.ask(anyQuestion(this.chance, version, this.batches)))
    },
    sync: () => this.#withMap(tab => void tab.sync()),
    publish: () => this.#ifPublishable(() => this.#publish(SERVERS)),
    'publish twice': () =>
      this.#ifPublishable(async () => {
        await this.#publish(SERVERS)
        await this.#publish(SERVERS)
      }),
    'publish under way': () => {
      const tab = this.#pick(this.coming.filter(({ what }) => what.startsWith('answer reaches')).map(({ who }) => who))
      if (!(tab instanceof Tab)) return undefined
      const asked = tab.calls.filter(({ outcome }) => outcome === undefined).flatMap(call => call.question?.keys ?? [])
      return this.#ifPublishable(async () => {
        await this.#publish(SERVERS, asked.slice(0, 2))
        await this.#publish(SERVERS, asked.slice(0, 1))
      })
    },
    'publish to one': () => this.#ifPublishable(() => this.#publish([this.chance.pick(SERVERS)])),
    'new generation': () =>
      this.#ifPublishable(async () => {
        await this.#renew()
        await this.#deliverTo(this.chance.happens(0.5) ? SERVERS : [this.chance.pick(SERVERS)])
      }),
    'publish slowly': () => this.#ifPublishable(() => this.#publishSlowly()),
    'publish what cannot be': () => this.#ifPublishable(() => this.#offend()),
    'publish again': () =>
      this.#ifPublishable(() => this.#swiftly(() => this.publisher.repeat(this.chance.pick(SERVERS)))),
    'publish a lot': () =>
      this.#ifPublishable(async () => {
        for (let i = 0; i < this.faults.history + 3; i++) await this.#publish(SERVERS)
      }),
    'kill a tab': () => {
      const tab = this.#pick(this.tabs.filter(({ state }) => state !== 'dead'))
      return tab && (() => this.kill(tab))
    },
    'lose power': () => () => this.losePower(this.#profile.disk),
    'freeze a tab': () => {
      const tab = this.#pick(this.tabs.filter(({ state }) => state === 'running'))
      return tab && (() => this.#freeze(tab))
    },
    'hold back': () => {
      const coming = this.#ready().filter(({ who }) => who instanceof Tab)
      return coming.length === 0 ? undefined : () => this.#holdBack(this.chance.pick(coming))
    },
    'close a tab': () => this.#withMap(tab => void tab.close()),
    reset: () => this.#withMap(tab => void tab.reset()),
    'give up': () => {
      const lookups = this.tabs.flatMap(tab => (tab.state === 'dead' ? [] : tab.calls))
      const call = this.#pick(lookups.filter(({ outcome, question }) => outcome === undefined && question))
      return call && (() => call.giveUp.abort())
    },
    'restore a backup': () => {
      const { disk } = this.#profile
      return disk.writes < 3 || this.faults.storage === 'memory' ? undefined : () => this.#restore()
    },
    'kill a server': () => {
      const server = this.#pick(SERVERS.filter(name => this.#servers[name].running))
      return server && (() => this.#killServer(server))
    },
    'kill a server while it publishes': () => this.#ifPublishable(() => this.#killPublishing()),
    refuse: () => {
      const server = this.chance.pick(SERVERS)
      return () => {
        this.#unfortunate('servers not ready')
        this.#refusing.add(server)
        this.#until.set(server, this.#moment + this.chance.between(1, 6))
      }
    },
  }

  // ---- what people do ----------------------------------------------------------------------------

  #newTab(profile = this.#profile): Tab {
    return this.comesToBe(new Tab(this, this.tabs.length + 1, profile))
  }

  #maps(): Tab[] {
    return this.tabs.filter(({ state, map }) => state === 'running' && map !== undefined)
  }

  #withMap(play: (tab: Tab) => void): (() => void) | undefined {
    const tab = this.#pick(this.#maps())
    return tab && (() => play(tab))
  }

  /** A new batch needs both servers, and the one before it in both. */
  #ifPublishable(play: () => Promise<void>): (() => Promise<void>) | undefined {
    if (!SERVERS.every(server => this.#servers[server].running)) return undefined
    return async () => {
      await this.#deliverTo(this.publisher.lacking)
      await play()
    }
  }

  /** The next epoch, to these servers now. */
  async #publish(servers: readonly ServerName[], keys: readonly string[] = []): Promise<void> {
    await this.#deliverTo(this.publisher.lacking)
    await this.#begin(keys)
    await this.#deliverTo(servers)
  }

  async #begin(keys: readonly string[] = []): Promise<void> {
    const { newest } = this.publisher
    const operations = this.batches.next(newest, keys)
    const next = newest.after(operations)
    if (!(next instanceof Version)) throw new Error('a batch that cannot be')
    await this.#announce(operations, next)
  }

  /** The next generation, in partitions large enough for vectors to be told apart. */
  async #renew(): Promise<void> {
    const { newest } = this.publisher
    const headroom = Math.max(0, 112 - newest.size) + this.chance.below(20)
    await this.#announce([{ op: 'generation', headroom }], renewed(newest, headroom))
  }

  async #announce(operations: readonly (Operation | Renewal)[], next: Version): Promise<void> {
    for (const { calls } of this.tabs) for (const call of calls) if (call.outcome === undefined) call.calm = false
    await this.#swiftly(() => this.publisher.begin(operations, next, this.chance.pick(SERVERS)))
    this.note(
      undefined,
      `epoch ${next.epoch}: ${operations.map(({ op, ...what }) => `${op} ${Object.values(what)[0]}`)}`,
    )
    this.count('epochs')
  }

  async #deliverTo(servers: readonly ServerName[]): Promise<void> {
    for (const server of servers) {
      this.note(undefined, `${server} is sent epoch ${this.publisher.newest.epoch}`)
      await this.#swiftly(() => this.publisher.deliver(server))
    }
  }

  /** To one server, which takes its time; then, when it has it, to the other. */
  async #publishSlowly(): Promise<void> {
    await this.#begin()
    const order = this.chance.happens(0.5) ? SERVERS : [...SERVERS].reverse()
    void this.#inBackground(async () => {
      for (const server of order) await this.publisher.deliver(server)
    })
  }

  async #offend(): Promise<void> {
    const { newest } = this.publisher
    const operations = this.batches.refused(newest)
    const refusal = newest.after(operations)
    if (refusal instanceof Version) throw new Error('a batch that can be')
    for (const server of SERVERS) {
      await this.#swiftly(() => this.publisher.offend(operations, refusal.operation, server))
    }
  }

  #inBackground(work: () => Promise<unknown>): Promise<unknown> {
    this.#asked++
    const done = work()
      .catch((error: Error) => this.violate(error.message))
      .finally(() => {
        this.#asked--
        this.#delivering.delete(done)
      })
    this.#delivering.add(done)
    return done
  }

  /** Does `work` without any event in between. */
  async #swiftly<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#swift
    this.#swift = true
    try {
      // Pending writes come first.
      for (const coming of this.coming.filter(({ who }) => !(who instanceof Tab))) this.letCome(coming)
      return await work()
    } finally {
      this.#swift = before
    }
  }

  // ---- what happens to them ----------------------------------------------------------------------

  async #suffer(what: Ordeal): Promise<void> {
    const tab = this.tabs.find(({ state }) => state !== 'dead')
    const plays = {
      kill: tab && (() => this.kill(tab)),
      freeze: tab && (() => this.#freeze(tab)),
      'power loss': () => this.losePower(this.#profile.disk),
      rollback: this.#plays['restore a backup'](),
    }
    if (plays[what] !== undefined) this.count(`ordained: ${what}`)
    await plays[what]?.()
  }

  protected kill(tab: Tab): void {
    const own = this.abandon(tab)
    this.count('tabs killed')
    if (own.some(({ what }) => / (begins|is done)$/.test(what))) this.count('tabs killed while they write')
    if (own.some(({ what }) => what.includes('answer'))) this.count('tabs killed while they look up')
    tab.profile.locks?.leave(tab)
    tab.profile.tabs.leave(tab)
    tab.hangUp()
  }

  #freeze(tab: Tab): void {
    this.#unfortunate('tabs frozen')
    this.#until.set(tab, this.#moment + this.chance.between(1, 8))
    this.freeze(tab, tab.profile.locks)
  }

  #holdBack(coming: Coming<Who>): void {
    this.#unfortunate('held back')
    coming.notBefore = this.#moment + this.chance.between(1, 5)
    this.note(coming.who, `held back: ${coming.what}`)
  }

  /** An older copy of the state replaces the newest. */
  async #restore(): Promise<void> {
    this.killAll()
    const { disk } = this.#profile
    const back = this.chance.between(1, Math.min(disk.writes - 1, 12))
    this.note(undefined, `a backup is restored: ${back} writes are undone`)
    this.putBack = true
    this.audit.putBack()
    await disk.restore(disk.writes - back)
  }

  async #killServer(server: ServerName): Promise<void> {
    this.#unfortunate('servers killed')
    this.note(undefined, `${server} is killed`)
    const own = this.coming.filter(({ who }) => who === server)
    this.coming = this.coming.filter(({ who }) => who !== server)
    const killing = this.#servers[server].kill()
    for (const { fail } of own) fail(new Error('the process is gone'))
    await killing
    this.#until.set(server, this.#moment + this.chance.between(0, 4))
  }

  async #killPublishing(): Promise<void> {
    const server = this.chance.pick(SERVERS)
    await this.#begin()
    const delivering = this.#inBackground(() => this.publisher.deliver(server))
    await this.#servers[server].meanwhile(this.chance, async () => {
      await this.#quiet()
      const own = this.coming.filter(({ who }) => who === server)
      if (own.length > 0) this.letCome(own[0]!)
    })
    await this.#killServer(server)
    await delivering
  }

  #unfortunate(what: string): void {
    this.count(what)
    this.misfortunes++
  }

  /** Whether calls that begin now may fail because of a present fault. */
  get troubled(): boolean {
    // An event that was held back may still be late.
    return this.#until.size > 0 || this.coming.some(({ notBefore }) => notBefore > 0)
  }

  /** Steps and lulls so far, by which lasting faults are timed. */
  get #moment(): number {
    return this.steps + this.#lulls
  }

  /** Ends the faults whose time is over. */
  #wake(): void {
    for (const [who, step] of this.#until) if (step <= this.#moment) this.#restoreTo(who)
  }

  #restoreTo(who: Who): void {
    this.#until.delete(who)
    this.misfortunes++ // what was late may be too late
    if (who instanceof Tab) {
      if (who.state === 'frozen') who.state = 'running'
      return
    }
    this.#refusing.delete(who)
    if (!this.#servers[who].running) {
      this.note(undefined, `${who} starts again`)
      void this.#inBackground(() => this.#servers[who].start())
    }
  }

  // ---- looking back ------------------------------------------------------------------------------

  /** No more faults: everything under way must end, and be right. */
  async #check(last: boolean): Promise<void> {
    this.note(undefined, '— calm —')
    for (const who of [...this.#until.keys()]) this.#restoreTo(who)
    for (const coming of this.coming) coming.notBefore = 0
    for (const server of SERVERS) this.#refusing.delete(server)
    await this.#settle()
    await this.#deliverTo(this.publisher.lacking)
    if (this.#maps().length === 0) this.#newTab().open()
    await this.#settle()
    this.#swift = true
    for (const tab of this.#maps()) await this.#follow(tab)
    this.putBack = false
    const [eldest, ...others] = this.#maps()
    const { newest } = this.publisher
    const most = last ? newest.size : 40
    for (const question of everyQuestion(this.chance, newest, this.batches, most)) eldest!.ask(question)
    await this.#settle()
    for (const tab of others) {
      for (let i = 0; i < 8; i++) tab.ask(anyQuestion(this.chance, this.publisher.newest, this.batches))
      await this.#settle()
    }
    await this.#compare()
    this.#swift = false
    this.count('checks')
  }

  /** To the newest epoch; after a backup was restored, with a new hint. */
  async #follow(tab: Tab): Promise<void> {
    const syncing = tab.sync()
    await this.#settle()
    if (this.putBack && syncing.outcome && 'error' in syncing.outcome) {
      this.count('condemned after a restored backup')
      tab.reset()
      await this.#settle()
      tab.sync()
      await this.#settle()
    }
    const { newest } = this.publisher
    if (tab.map!.epoch !== newest.epoch) this.violate(`${tab.name} is at ${tab.map!.epoch}, not at ${newest.epoch}`)
  }

  /** The tabs' state, in memory and on disk, equals that of a new client. */
  async #compare(): Promise<void> {
    const fresh = this.#newTab(new Profile(true))
    fresh.open()
    await this.#settle()
    try {
      const { newest } = this.publisher
      const { body: manifest } = await this.#servers[SERVERS[0]].ask('/v1/manifest', { method: 'GET' })
      const profiles = new Set(this.#maps().map(({ disk }) => disk))
      for (const disk of profiles) if (disk.durable) await assertStored(disk, newest, manifest)
      for (const tab of this.#maps()) assertDirectory(tab, fresh)
    } catch (error) {
      this.violate(`at rest ${(error as Error).message}`)
    }
    fresh.close()
    await this.#settle()
    fresh.state = 'dead'
  }

  /** Goes on until nothing is under way. */
  async #settle(): Promise<void> {
    for (;;) {
      await this.#quiet()
      const coming = this.#ready()
      const waiting = this.tabs.some(({ state, waiting }) => state === 'running' && waiting > 0)
      if (!waiting && this.#delivering.size === 0 && coming.length === 0) return
      if (coming.length > 0) this.letCome(this.chance.pick(coming))
      else if (this.#delivering.size === 0 && !this.timePasses()) {
        throw new Violation('deadlock: somebody waits, and nothing comes')
      }
    }
  }

  /** Runs everything that does not wait for the world. */
  async #quiet(): Promise<void> {
    for (let idle = 0, held = 0, ticks = 0; idle < 2; ticks++) {
      await (ticks < 100 ? tick() : moment())
      // A server with a delayed write may delay requests to it.
      const waits = this.coming.some(({ who }) => !(who instanceof Tab))
      idle = this.#asked === 0 || (waits && ++held > 10) ? idle + 1 : 0
    }
    if (++this.#ticks > MOST_TICKS) throw new Violation('it comes to no end')
    if (this.violation !== undefined) throw new Violation(this.violation)
  }

  /** Events that can happen now. */
  #ready(): Coming<Who>[] {
    return this.coming.filter(
      ({ who, notBefore }) => notBefore <= this.#moment && (!(who instanceof Tab) || who.state === 'running'),
    )
  }

  #pick<T>(choices: readonly T[]): T | undefined {
    return choices.length === 0 ? undefined : this.chance.pick(choices)
  }
}

/** Gives the processor to servers that are processes. */
const moment = () => new Promise<void>(resolve => void setTimeout(resolve, 1))

const NOT_READY: Reply = {
  status: 503,
  headers: { 'content-type': 'application/json' },
  body: new TextEncoder().encode(JSON.stringify({ code: 'not_ready', message: 'for people' })),
}
