// A life, drawn from its seed: a publisher that is killed and runs again, servers that misbehave one after the other, tabs that open maps
// in all modes, look up, follow, freeze and die. Then all is calm, and nobody may be left behind.
//
// The rules of the calm, besides those of rules.ts:
//
//   calm-publish  the publisher finishes what it began, and one more batch
//   left-behind   each open map is at the newest signed epoch ten seconds later, with its filter and watch; one without push after a sync()
//   calm-open     a new map opens within three seconds, at that epoch, and a stored one
//   calm-call     lookups and sync() succeed, without reset(), and say what is right
//   calm-close    a map closes within a second

import { Chance } from '../chance.js'
import { Batches } from '../living/batches.js'
import type { Version } from '../living/model.js'
import { at, get, getMany, has, type Question } from '../questions.js'
import type { Ground, Grounds } from './foundations.js'
import { hexKey, KEYS } from './keys.js'
import type { RunPlan } from './publisher.js'
import { describe, hasHung, hasMisled, maybeListed, mayCondemn, SOON_MS, serversOf, tickMs } from './rules.js'
import type { Mood } from './servers.js'
import { type Call, type Plan, Profile, Tab } from './tab.js'
import { linesOf } from './truth.js'
import { type Seen, type Violation, World } from './world.js'

export interface Outcome {
  readonly seed: number
  readonly violations: readonly Violation[]
  readonly trace: readonly string[]
  readonly counts: ReadonlyMap<string, number>
  /** what servers could see, a line a request */
  readonly transcript: readonly string[]
  /** virtual milliseconds */
}

/**
 * Twins differ in the keys that they look up, and in nothing else. Their keys are in the database all the time, or never: an absent key
 * takes a random number more, and what is drawn after that, such as who is asked first, would be another draw.
 */
export type Twin = 'none' | 'first' | 'second'

/** What a seed draws, before anything happens. */
export interface Lot {
  readonly servers: 1 | 2 | 3
  readonly ground: keyof Omit<Grounds, 'remove'>
  readonly history: number
  readonly plans: readonly Plan[]
  /** one that misbehaves at a time; false: none does */
  readonly faults: boolean
  readonly kills: boolean
  readonly rotates: boolean
  /** for how many seconds an epoch is valid; 0: for ever */
  readonly validSeconds: number
  /** how many batches add many keys, so that generations begin */
  readonly grows: boolean
  readonly runs: number
  readonly skews: readonly number[]
  /** maps have filters, which servers withhold */
  readonly filters: boolean
  /** all of them are tabs of one browser */
  readonly shares: boolean
}

const MINUTE = 60_000
/** How long a client may wait for a stream of events that hangs, before it opens another. */
const STREAM_HANGS_MS = 60_000
/** How long it may wait for the reply of one server, and then before it looks again. */
const LOOK_HANGS_MS = 30_000

export function draw(seed: number): Lot {
  const chance = new Chance(seed)
  const servers = chance.pick([1, 2, 2, 2, 2, 3, 3] as const)
  const rotates = chance.happens(0.12)
  const plans = Array.from({ length: chance.between(1, 3) }, () => anyPlan(chance, servers, rotates))
  const lot = {
    ...{ servers, rotates },
    ground: chance.pick(['keyed', 'keyed', 'packed', 'keyless'] as const),
    history: chance.pick([3, 64, 64]),
    faults: chance.happens(0.75),
    kills: chance.happens(0.6),
    validSeconds: chance.happens(0.2) ? chance.between(60, 400) : 0,
    grows: chance.happens(0.4),
    runs: chance.between(2, 6),
    skews: Array.from({ length: servers }, () => chance.between(-3_000, 3_000)),
  }
  const filters = lot.ground !== 'keyless' && chance.happens(0.35)
  const shares = filters && chance.happens(0.4)
  const filtered = filters ? plans.map(plan => withFilter(plan, chance, servers)) : plans
  const more = new Chance(seed * 53 + 7)
  const whole = filtered.map(plan => withMore(plan, more, lot.ground !== 'keyless'))
  return { ...lot, filters, shares, plans: shares ? whole.map(() => whole[0]!) : whole }
}

/** Some maps watch a key; some filters have a schedule. Its calls wait for two lookups at most. */
function withMore({ timeoutMs, ...plan }: Plan, chance: Chance, keyed: boolean): Plan {
  const watches = chance.happens(0.25) && keyed && plan.mode !== 'filter'
  const { filter } = plan
  const isScheduled = chance.happens(0.3) && filter !== undefined && plan.mode === 'instant'
  return {
    ...plan,
    ...(watches && { watches }),
    ...(isScheduled && { filter: { ...filter, cover: { everyMs: 4_000, queries: 4 } } }),
    ...(timeoutMs !== undefined && !isScheduled && { timeoutMs }),
  }
}

function withFilter({ collusion: _, ...plan }: Plan, chance: Chance, servers: 1 | 2 | 3): Plan {
  if (servers === 1 || chance.happens(0.3)) return { ...plan, mode: 'filter' }
  const filter = { cover: chance.pick([0, 0.25, 1]), meanwhile: chance.pick(['ask', 'wait'] as const) }
  return { ...plan, mode: chance.pick(['instant', 'instant', 'auto'] as const), filter }
}

function anyPlan(chance: Chance, servers: 1 | 2 | 3, rotates: boolean): Plan {
  const modes = {
    1: ['local', 'single', 'auto'],
    2: ['local', 'full', 'instant', 'auto', 'single'],
    3: ['local', 'single', 'instant', 'auto'],
  } as const
  const mode = chance.pick(modes[servers])
  const signed = chance.happens(0.65)
  const key = rotates && chance.happens(0.4) ? KEYS[1] : KEYS[0]
  const numbers = Array.from({ length: servers }, (_, number) => number)
  const atLeast = servers === 3 && chance.happens(0.7)
  const timeoutMs = chance.pick([undefined, undefined, 4_000, 8_000])
  return {
    servers: chance.happens(0.5) ? numbers : numbers.reverse(),
    mode,
    storage: chance.happens(0.5) ? 'memory' : 'preferred',
    push: chance.happens(0.7),
    ...(signed ? { publisherKey: hexKey(key) } : servers === 1 && { integrity: 'server' as const }),
    ...(servers === 2 && mode === 'single' && { collusion: 'tolerated' as const }),
    ...(atLeast && { atLeast: 2 }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  }
}

export async function live(seed: number, grounds: Grounds, twin: Twin = 'none', lot = draw(seed)): Promise<Outcome> {
  const ground: Ground = grounds[lot.ground]
  const { servers, history, skews } = lot
  const world = await World.begin(seed, { foundation: ground, servers, history, skews })
  try {
    await new Life(world, lot, twin).run()
  } finally {
    await world.end()
  }
  const { violations, trace, counts } = world
  return { seed, violations, trace, counts, transcript: transcriptOf(world) }
}

/**
 * A line for all that leaves a tab at once for one path. Which of three servers gets the longer half of an instant lookup is drawn by
 * hedged random bytes, and so is another for another key.
 */
function transcriptOf({ seen }: World): string[] {
  const together = new Map<string, Seen[]>()
  for (const request of seen) {
    const name = `${request.at} ${request.tab.name} ${request.method} ${request.path}`
    together.set(name, [...(together.get(name) ?? []), request])
  }
  return [...together].map(([name, requests]) => {
    const servers = requests.map(({ server }) => server.letter).sort()
    const lengths = requests.map(({ bytes }) => bytes).sort((a, b) => a - b)
    return `${name} ${servers} ${lengths}`
  })
}

class Life {
  readonly #world: World
  readonly #lot: Lot
  readonly #twin: Twin
  readonly #batches: Batches
  /** of batches, of servers' moods, and one for each plan: what one draws moves no other */
  readonly #chances: readonly Chance[]
  /** what the publisher has not finished, as far as it knows */
  #pending: RunPlan | undefined
  /** operations of earlier batches, which may be published again */
  readonly #published: Uint8Array[] = []
  /** keys that are watched, and which of them a batch edits */
  readonly #edited = new Set<string>()
  readonly #edits: Chance
  #calm = false

  constructor(world: World, lot: Lot, twin: Twin) {
    this.#world = world
    this.#lot = lot
    this.#twin = twin
    this.#chances = Array.from({ length: 3 + lot.plans.length }, (_, i) => new Chance(world.seed * 101 + i))
    this.#edits = new Chance(world.seed * 307)
    this.#batches = new Batches(this.#chances[2]!, world.truth.newest)
  }

  async run(): Promise<void> {
    const { time } = this.#world
    const shared = this.#lot.shares ? new Profile() : undefined
    const actors = [
      this.#publish(),
      ...(this.#lot.faults ? [this.#disturb()] : []),
      ...this.#lot.plans.map((plan, i) => this.#use(plan, this.#chances[3 + i]!, shared ?? new Profile())),
    ]
    let left = actors.length
    for (const actor of actors) {
      actor.then(
        () => left--,
        error => {
          left--
          this.#world.violate('the world itself', `${(error as Error).stack}`)
        },
      )
    }
    await time.until(() => left === 0, 30 * MINUTE)
    await this.#becomeCalm()
  }

  // ---- the publisher -----------------------------------------------------------------------------

  async #publish(): Promise<void> {
    const chance = this.#chances[0]!
    const { time } = this.#world
    for (let run = 0; run < this.#lot.runs; run++) {
      await time.sleep(chance.pick([200, 1_000, 3_000, 8_000, 20_000]))
      if (this.#calm) return
      const again = this.#pending !== undefined && chance.happens(0.7)
      const plan = again ? this.#pending! : this.#batch(chance)
      const killed = this.#lot.kills && chance.happens(0.6)
      const killAt = killed ? chance.between(1, 44) : undefined
      const lateMs = chance.happens(0.5) ? chance.pick([10, 400, 2_000, 9_000, 30_000]) : undefined
      await this.#run({ ...plan, killAt, ...(lateMs !== undefined && { lateMs }) })
      if (this.#lot.rotates && !this.#calm && chance.happens(0.6)) await this.#signWithOther()
    }
  }

  /** A batch on the newest epoch that a server has taken. */
  #batch(chance: Chance): RunPlan {
    const { truth, date } = this.#world
    const { grows, validSeconds } = this.#lot
    const key = this.#lot.rotates && chance.happens(0.5) ? KEYS : KEYS[0]
    const expires = validSeconds === 0 ? undefined : Math.floor(date / 1000) + validSeconds
    const skewMs = chance.between(-3_000, 3_000)
    const more = { key, skewMs, ...(expires !== undefined && { expires }) }
    const drawn = chance.below(100)
    if (drawn < 12) return { ...more, operations: linesOf([{ op: 'generation', headroom: chance.below(12) }]) }
    if (drawn < 20) return { ...more, operations: linesOf([{ op: 'renew' }]) }
    if (drawn < 26 && this.#published.length > 0) {
      return { ...more, operations: chance.pick(this.#published), again: true }
    }
    const operations = [...this.#batches.next(truth.newest)]
    if (grows && truth.newest.size < 300 && chance.happens(0.5)) {
      const added = truth.newest.size / 3
      for (let i = 0; i < added; i++) operations.push(this.#added(truth.newest, `grown ${truth.newest.epoch} ${i}`))
    }
    for (const key of this.#edited) {
      const isFree =
        truth.newest.get(key) !== undefined && !operations.some(other => 'key' in other && other.key === key)
      if (isFree && this.#edits.happens(0.6)) operations.push({ op: 'edit', key, value: this.#edits.bytes(3) })
    }
    const lines = linesOf(operations)
    this.#published.push(lines)
    return { ...more, operations: lines }
  }

  #added({ shape }: Version, key: string) {
    const value = new Uint8Array(shape.keyed ? 3 : shape.valueBytes).fill(0x67)
    return shape.keyed ? ({ op: 'add', key, value } as const) : ({ op: 'add', value } as const)
  }

  async #run(plan: RunPlan): Promise<boolean> {
    const { killAt: _killAt, lateMs: _lateMs, ...whole } = plan
    this.#pending = whole
    const outcome = await this.#world.publisher.run(plan)
    if (outcome.is === 'done') this.#pending = undefined
    // What the servers refuse as a batch stays refused, and what was published before was published.
    else if (outcome.is === 'failed' && isInVain(outcome.error)) this.#pending = undefined
    return outcome.is === 'done'
  }

  async #signWithOther(): Promise<void> {
    await this.#world.publisher.run({ key: KEYS[1] })
  }

  // ---- the servers -------------------------------------------------------------------------------

  async #disturb(): Promise<void> {
    const chance = this.#chances[1]!
    const { servers, time } = this.#world
    const first = chance.pick(servers)
    const faithful = chance.happens(0.5) // one server alone misbehaves in this life
    for (let episode = chance.between(1, 4); episode > 0; episode--) {
      await time.sleep(chance.pick([0, 500, 4_000, 15_000]))
      const server = faithful ? first : chance.pick(servers)
      if (this.#lot.filters && chance.happens(0.3)) {
        const some = chance.happens(0.5) ? servers : [server]
        for (const each of some) await each.become({ is: 'withholds' })
        await time.sleep(chance.pick([5_000, 100_000]))
        if (this.#calm) return
        for (const each of some) await each.calm()
        continue
      }
      const mood = anyMood(chance)
      // What every server has lost is lost, and the publisher stops.
      const { newest } = this.#world.truth
      if (mood.is === 'back' && !servers.some(other => other !== server && other.epoch === newest.epoch)) continue
      await server.become(mood)
      await time.sleep(chance.pick([1_000, 5_000, 20_000, 60_000]))
      if (this.#calm) return
      await server.calm()
      if (server.episodes.at(-1)?.mood.is === 'back') return // until the publisher has brought it up
    }
  }

  // ---- tabs --------------------------------------------------------------------------------------

  async #use(plan: Plan, chance: Chance, profile: Profile): Promise<void> {
    const { time } = this.#world
    await time.sleep(chance.pick([0, 0, 700, 6_000, 25_000]))
    let tab = this.#tab(plan, profile, chance)
    let watched: string | undefined
    for (let actions = chance.between(4, 14); actions > 0; actions--) {
      if (tab.map === undefined) {
        await ended(time, tab.open())
        if (tab.map === undefined) await time.sleep(1_000)
        continue
      }
      if (plan.watches && tab.watched === undefined) {
        watched ??= this.#watched(plan)
        await ended(time, tab.watch(watched))
      }
      await this.#act(tab, chance)
      if (tab.state === 'dead' || tab.map === undefined) {
        await time.sleep(chance.pick([0, 500, 10_000]))
        tab = this.#tab(plan, profile, chance)
      }
    }
  }

  #tab(plan: Plan, profile: Profile, chance: Chance): Tab {
    return new Tab(this.#world, plan, profile, chance.between(-3_000, 3_000), chance.happens(0.7))
  }

  async #act(tab: Tab, chance: Chance): Promise<void> {
    const { time } = this.#world
    const what = chance.below(20)
    if (what < 12) {
      const calls = Array.from({ length: chance.pick([1, 1, 2]) }, () => tab.ask(this.#question(chance, tab.plan)))
      for (const call of calls) await ended(time, call)
      await time.sleep(chance.pick([0, 300, 2_000]))
    } else if (what < 14) await ended(time, tab.sync())
    else if (what === 14) await this.#for(chance, tab.freeze.bind(tab), tab.thaw.bind(tab))
    else if (what === 15) await this.#for(chance, tab.goOffline.bind(tab), tab.goOnline.bind(tab))
    else if (what === 16) await ended(time, tab.close())
    else if (what === 17) tab.kill()
    else await time.sleep(chance.pick(this.#lot.filters ? [1_000, 12_000, 65_000, 400_000] : [1_000, 5_000, 12_000]))
  }

  async #for(chance: Chance, begin: () => void, end: () => void): Promise<void> {
    begin()
    await this.#world.time.sleep(chance.pick([700, 4_000, 40_000]))
    end()
    await this.#world.time.sleep(chance.pick([0, 2_000]))
  }

  #question(chance: Chance, { mode }: Plan): Question {
    const { newest, versions } = this.#world.truth
    const { keyed } = newest.shape
    if (!keyed || (chance.happens(0.1) && mode !== 'filter')) {
      const size = Math.min(40, ...[...versions.values()].map(({ size }) => size))
      return at(this.#place(chance, size, this.#twin))
    }
    const kind = chance.below(5)
    if (kind === 0) return has(this.#key(chance))
    if (kind < 4) return get(this.#key(chance))
    const keys = [this.#key(chance), this.#key(chance)]
    return getMany(keys, keys.length + chance.below(2))
  }

  #key(chance: Chance, twin = this.#twin): string {
    const { newest, versions } = this.#world.truth
    const absent = ['nobody', 'nowhere', 'nothing']
    if (chance.happens(0.1)) return absent[this.#place(chance, absent.length, twin)]!
    const known = newest.keys.slice(0, 40)
    const recent = this.#batches.recent.filter((key): key is string => typeof key === 'string').slice(-8)
    const always = known.filter(
      key => !recent.includes(key) && [...versions.values()].every(version => version.get(key)),
    )
    const list = twin === 'none' ? [...recent, ...known.slice(0, 24)] : always
    return list[this.#place(chance, list.length, twin)]!
  }

  #place(chance: Chance, length: number, twin: Twin): number {
    const drawn = chance.below(length)
    return twin === 'second' ? (drawn + 1) % length : drawn
  }

  /** The key that a map watches. Batches edit it; those of twins the first one's. */
  #watched(plan: Plan): string {
    const keyOf = (twin: Twin) => this.#key(new Chance(this.#world.seed * 211 + this.#lot.plans.indexOf(plan)), twin)
    this.#edited.add(keyOf(this.#twin === 'second' ? 'first' : this.#twin))
    return keyOf(this.#twin)
  }

  // ---- the calm ----------------------------------------------------------------------------------

  async #becomeCalm(): Promise<void> {
    const world = this.#world
    const { time, servers } = world
    this.#calm = true
    world.note('', 'everything is calm from now on')
    world.publisher.kill() // its own timers run by the machine's clock, by which hardly a second has passed
    for (const server of servers) if (server.mood.is !== 'honest') await server.calm()
    for (const tab of world.tabs) {
      tab.goOnline()
      tab.thaw()
    }
    if (!(await this.#finishPublishing())) return
    await time.pass(10_000)
    await time.until(() => world.tabs.every(tab => tab.state === 'dead' || tab.calls.every(isOver)), MINUTE)
    const tabs = world.tabs.filter(({ state, map }) => state !== 'dead' && map !== undefined)
    for (const tab of tabs) await this.#checkCalm(tab)
    for (const tab of tabs) if (tab.map !== undefined) await this.#reopen(tab)
    for (const plan of this.#lot.plans) await this.#openCalmly(new Tab(world, plan), 'a new map')
  }

  async #finishPublishing(): Promise<boolean> {
    const world = this.#world
    const { time } = world
    const failures: string[] = []
    const attempt = async (plan: RunPlan): Promise<boolean> => {
      const outcome = await time.finish(world.publisher.run(plan), 10 * MINUTE)
      if (outcome.is === 'failed') failures.push(outcome.error.message)
      return outcome.is === 'done'
    }
    const key = KEYS[0]
    if (this.#pending !== undefined && (await attempt(this.#pending))) this.#pending = undefined
    for (let tries = 0; tries < 3; tries++) {
      const last = this.#batch(this.#chances[0]!)
      if (await attempt(last)) {
        if (this.#lot.rotates) await time.finish(world.publisher.run({ key: KEYS[1] }))
        return true
      }
      await attempt({ key })
      if (this.#pending !== undefined && (await attempt(this.#pending))) this.#pending = undefined
    }
    world.violate('calm-publish', failures.join('\n'))
    return false
  }

  /** The newest epoch that a map of this plan may be at. */
  #newest(plan: Plan): number {
    const { publisherKey } = plan
    const epochs = serversOf(this.#world, plan).map(server =>
      publisherKey === undefined ? server.epoch : Math.max(0, ...server.signedUnder(publisherKey)),
    )
    return Math.min(...epochs)
  }

  async #checkCalm(tab: Tab): Promise<void> {
    const world = this.#world
    const { map, plan } = tab
    if (map === undefined) return
    const newest = this.#newest(plan)
    const servers = serversOf(world, plan)
    // Streams of servers that had announced what was not there may stay closed for long, and those that were left unanswered.
    const { now } = world.time
    const hung =
      servers.every(server => hasHung(server, STREAM_HANGS_MS, now)) ||
      servers.some(server => hasHung(server, LOOK_HANGS_MS, now))
    const heard = plan.push === true && !servers.some(hasMisled) && !hung
    if (map.condemned !== undefined && servers.some(mayCondemn)) await this.#resets(tab)
    if (!heard) await this.#succeeds(tab, tab.sync(), 'calm-call')
    if (map.epoch < newest) {
      const where = `${tab.name} (${describe(plan)}) is at epoch ${map.epoch}, and the newest is ${newest}`
      world.violate('left-behind', `${where}${heard ? '' : ', after sync()'}`)
    }
    await this.#checkWatch(tab, newest)
    const question = this.#question(this.#chances[0]!, plan)
    await this.#succeeds(tab, tab.ask(question), 'calm-call')
    const { filter } = map
    if (filter !== undefined && (filter.state !== 'ready' || filter.epoch < newest))
      world.violate(
        'left-behind',
        `${tab.name} (${describe(plan)}): its filter is ${filter.state} at epoch ${filter.epoch}, not at ${newest}`,
      )
  }

  async #checkWatch({ watched, name, plan }: Tab, newest: number): Promise<void> {
    const world = this.#world
    if (watched === undefined) return
    const { watch } = watched
    // Where no list leads on, its key is looked up within minutes.
    const isLost = !world.rules.leadsOn(watch.epoch)
    for (let i = 0; i < 60 && isLost && watch.epoch < newest; i++) await world.time.pass(5_000)
    if (watch.epoch < newest)
      world.violate(
        'left-behind',
        `${name} (${describe(plan)}): its watch is at epoch ${watch.epoch}, not at ${newest}`,
      )
    await world.time.pass(100) // until it is told
    world.rules.checkWatch(watched)
  }

  async #succeeds(tab: Tab, call: Call, rule: string, mostMs = SOON_MS + tickMs(tab.plan)): Promise<void> {
    const { time } = this.#world
    await time.until(() => call.outcome !== undefined, MINUTE)
    const { outcome } = call
    const whose = `${tab.name} (${describe(tab.plan)}): ${call.what}`
    if (outcome === undefined) this.#world.violate(rule, `${whose} does not end`)
    else if (isCondemned(outcome) && serversOf(this.#world, tab.plan).some(mayCondemn)) await this.#resets(tab)
    else if ('error' in outcome && !maybeListed(call)) this.#world.violate(rule, `${whose} fails: ${outcome.error}`)
    else if (call.ended - call.begun > mostMs) this.#world.violate(rule, `${whose} takes ${call.ended - call.begun} ms`)
  }

  async #resets(tab: Tab): Promise<void> {
    const call = tab.reset()
    await this.#world.time.until(() => call.outcome !== undefined, MINUTE)
  }

  async #reopen(tab: Tab): Promise<void> {
    const world = this.#world
    await this.#succeeds(tab, tab.close(), 'calm-close', 1_000)
    if (tab.plan.storage === 'memory') return
    await this.#openCalmly(new Tab(world, tab.plan, tab.profile), 'a stored map')
  }

  async #openCalmly(tab: Tab, what: string): Promise<void> {
    const world = this.#world
    await this.#succeeds(tab, tab.open(), 'calm-open')
    const { map, plan } = tab
    if (map === undefined) return
    const newest = this.#newest(plan)
    // A stored map may answer from its old generation while it downloads the next.
    const mayLag = what === 'a stored map'
    if (map.epoch < newest && mayLag) await world.time.pass(2_000)
    if (map.epoch < newest && mayLag && !plan.push) await this.#succeeds(tab, tab.sync(), 'calm-call')
    if (map.epoch < newest) {
      world.violate(
        'calm-open',
        `${tab.name} (${describe(plan)}): ${what} opens at epoch ${map.epoch}, not at ${newest}`,
      )
    }
    if (map.condemned !== undefined && serversOf(world, plan).some(mayCondemn)) await this.#resets(tab)
    await this.#succeeds(tab, tab.ask(this.#question(this.#chances[0]!, plan)), 'calm-call')
    await this.#succeeds(tab, tab.close(), 'calm-close', 1_000)
  }
}

function anyMood(chance: Chance): Mood {
  const ms = () => chance.pick([20, 80, 150])
  const about = () => chance.pick([/answer|instant/, /blobs/, /manifest/, /info/, /events/, /./])
  const moods: readonly (() => Mood)[] = [
    () => ({ is: 'silent' }),
    () => ({ is: 'silent' }),
    () => ({ is: 'drips', everyMs: chance.pick([300, 2_000, 8_000]), endless: chance.happens(0.5) }),
    () => ({ is: 'breaks', after: chance.pick([0, 1, 40, 300]) }),
    () => ({ is: 'frozen', changes: chance.between(1, 6) }),
    () => ({ is: 'frozen', changes: chance.between(0, 2) }),
    () => ({ is: 'slow', ms: ms() }),
    () => ({ is: 'down' }),
    () => ({ is: 'announces', ahead: chance.pick([1, 2, 90]) }),
    () => ({ is: 'lies', about: about() }),
    () => ({ is: 'back', changes: chance.between(1, 4) }),
    () => ({ is: 'mixed', changes: chance.between(1, 2) }),
  ]
  return chance.pick(moods)()
}

function isInVain({ message, exit }: Error & { readonly exit?: number }): boolean {
  return exit === 5 || message.includes('batch_refused')
}

function isOver({ outcome }: Call): boolean {
  return outcome !== undefined
}

function isCondemned(outcome: NonNullable<Call['outcome']>): boolean {
  return 'error' in outcome && (outcome.error as { code?: unknown }).code === 'condemned'
}

/** Waits until the call has ended, or its tab is dead; but not for ever. */
async function ended(time: World['time'], call: Call): Promise<void> {
  for (let waited = 0; call.outcome === undefined && call.tab.state !== 'dead' && waited < 600; waited++) {
    await time.sleep(waited < 100 ? 50 : 1_000)
  }
}

/** What was wrong, and what led to it. */
export function report({ seed, violations, trace }: Outcome, lines = 80): string {
  const broken = violations.map(({ rule, what }) => `${rule}: ${what}`)
  const from = Math.max(0, trace.findIndex(line => line.includes('RULE')) - lines)
  const part = trace.slice(from, from + lines + 5)
  return [`seed ${seed} breaks ${violations.length} rules`, ...broken, '', ...part, '', replay(seed)].join('\n')
}

const replay = (seed: number) => `npm run soak -- following --seed ${seed} shows all of it`
