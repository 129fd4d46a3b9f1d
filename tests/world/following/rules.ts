// The rules, by the names that reports have:
//
//   wrong-value      a lookup says what the plain map says, at an epoch that its map was at during the call
//   went-back        a map's epoch never goes back
//   ended-in-time    a call ends within its timeoutMs and a second awake, counted from the last blob that it has whole
//   typed-error      a call fails with an error of the SDK, which is no bug of it
//   sync-newest      sync() resolves, a watch too, at the newest signed epoch that any honest server showed, or at what enough agreed on
//   sync-names       sync() that fails beside servers that misbehave names a server
//   answered         a call that enough honest servers can answer succeeds …
//   answered-soon    … within three and a half seconds, and two for each further server that misbehaves meanwhile
//   held             a map of mode local answers at once, whatever the servers do
//   filter-behind    a filter answers at the epoch that an honest server has shown, or up to a minute behind it, and at none that has expired
//   watch-told       each change of a watched key is told once, in order, as the publisher made it; none is a contradiction
//   signed-answered  each server answers an epoch that it shows signed
//   fork             servers take one batch for an epoch
//
// And of life.ts: left-behind, calm-publish, calm-open, calm-call, calm-close.

import type { MapEvent } from '@keyhush/client'
import { hexKey, KEYS } from './keys.js'
import type { Server } from './servers.js'
import type { Call, Plan, Show, Tab, Watched } from './tab.js'
import type { World } from './world.js'

/** Beyond `timeoutMs`. */
const GRACE_MS = 1_000
/** What a call may take that enough honest servers can answer. */
export const SOON_MS = 3_500
/** What each further server may add that misbehaves during a call: it is late once. */
const LATE_MS = 2_000
/** How long a filter may be behind an epoch that it was shown, where it hears lines; and where it asks every five minutes. */
const BEHIND_MS = 60_000 + 20_000
const UNHEARD_MS = 300_000
/** By how much a tab's clock may be wrong, and more. */
const CLOCKS_MS = 5_000
/** What all attempts at a lookup take at most, about. */
const ON_THE_WIRE_MS = 16_000
/** A request that has left arrives within so long. */
const ON_ITS_WAY_MS = 50
/** Requests of a call, one after the other, each of which a slow server delays: it may download a state twice. */
const REQUESTS_OF_A_CALL = 50
/** A budget counts in such steps. */
const STEP_MS = 1_000

interface Facts {
  /** of each server that was honest when the call began: the newest epoch that it showed, signed if the map has a key */
  readonly shown: ReadonlyMap<Server, number>
  /** enough honest servers could answer when it began */
  readonly answerable: boolean
  /** it is the first of its tab since a server's mood changed last */
  readonly isFirst: boolean
  /** milliseconds by which the slowest server delayed its replies when it began */
  readonly slowAtFirst: number
  /** requests of lookups before */
  readonly lookups: number
}

/** How many honest servers a map needs. */
export function needed({ mode, publisherKey, atLeast, servers }: Plan): number {
  if (mode === 'local' && publisherKey !== undefined) return 1
  return atLeast ?? servers.length
}

/** How long a call may wait for the lookups of a schedule: for two at most. */
export function tickMs({ filter }: Plan): number {
  return typeof filter?.cover === 'object' ? 2 * filter.cover.everyMs : 0
}

export function serversOf(world: World, { servers }: Plan): Server[] {
  return servers.map(number => world.servers[number]!)
}

export class Rules {
  /** rules that are not asked: of schedules that show something else */
  readonly off = new Set<string>()
  readonly #world: World
  /** the newest epoch that each tab's map has been seen at */
  readonly #seen = new Map<Tab, number>()

  constructor(world: World) {
    this.#world = world
  }

  begins(call: Call): void {
    const { tab } = call
    const servers = serversOf(this.#world, tab.plan)
    const shown = new Map<Server, number>()
    for (const server of servers) if (server.honest) shown.set(server, this.#newestOf(server, tab.plan))
    const moodsSince = Math.max(...servers.map(({ since }) => since))
    const isFirst = !tab.calls.some(other => other.begun > moodsSince && other !== call && other.outcome !== undefined)
    const answerable = this.#answerable(tab, servers)
    call.facts = {
      shown,
      answerable,
      isFirst,
      slowAtFirst: slowest(servers),
      lookups: tab.lookups,
    } satisfies Facts
    this.#watch(call)
  }

  ends(call: Call): void {
    const { tab, kind, outcome } = call
    const facts = call.facts as Facts
    const error = outcome !== undefined && 'error' in outcome ? (outcome.error as Error & { code?: string }) : undefined
    this.#looksAt(tab)
    if (error !== undefined) this.#failed(call, error)
    if (error === undefined && kind === 'lookup') {
      if (tab.map?.filter === undefined) this.#checkValue(call)
      else this.#checkValues(call)
      if (tab.lookups === facts.lookups) this.#checkFilter(call)
    }
    if (error === undefined && kind === 'sync') this.#checkSync(call, facts)
    this.#checkAnswered(call, facts, error)
  }

  heard(tab: Tab, event: MapEvent): void {
    this.#looksAt(tab)
    const { type, epoch, servers } = event as unknown as { type: string; epoch?: number; servers?: readonly string[] }
    if (type !== 'behind') return
    const named = servers?.every(name => serversOf(this.#world, tab.plan).some(server => server.name === name))
    if (named !== true || typeof epoch !== 'number' || (tab.map !== undefined && epoch < tab.map.epoch)) {
      this.#violate('behind-says', `${tab.name} hears of epoch ${epoch} and ${servers}`)
    }
  }

  /** A server's database has changed. */
  changed(server: Server): void {
    const { answered } = server
    const signed = KEYS.flatMap(key => server.signedUnder(hexKey(key)))
    // Of one that was just put back, a batch that was on its way takes the signed epoch away; its own signature follows.
    const { now } = this.#world.time
    if (server.episodes.some(({ mood, from }) => mood.is === 'back' && from > now - ON_ITS_WAY_MS)) return
    if (!answered.some(epoch => signed.includes(epoch))) {
      this.#violate('signed-answered', `${server.letter} answers epochs ${answered}, of which none is signed`)
    }
  }

  #violate(rule: string, what: string): void {
    if (!this.off.has(rule)) this.#world.violate(rule, what)
  }

  // ---- one rule each -----------------------------------------------------------------------------

  /** A map's epoch never goes back. */
  #looksAt(tab: Tab): void {
    const { map } = tab
    if (map === undefined) return
    const [seen, now] = [this.#seen.get(tab) ?? 0, map.epoch]
    // Without a key, servers that were put back together may take a map back that is reset. A stored filter may be ahead of lookups.
    if (now !== 0 && now < seen && tab.plan.publisherKey !== undefined && tab.plan.filter === undefined) {
      this.#violate('went-back', `${tab.name} was at epoch ${seen}, and is at ${now}`)
    }
    if (now > seen) this.#seen.set(tab, now)
  }

  #watch(call: Call): void {
    const { tab, timeoutMs, awake, what } = call
    if (!Number.isFinite(timeoutMs)) return
    const limit = timeoutMs + GRACE_MS
    const look = () => {
      if (call.outcome !== undefined || tab.state === 'dead' || this.#world.over) return
      // A blob that is there whole has earned time for more than itself (base/budget.ts).
      const left = limit + Math.max(awake, tab.blobAt + STEP_MS) - tab.awake
      // A frozen tab is looked at again; one that is just back has its timers run first.
      if (left > 0 || tab.state === 'frozen') return void this.#world.time.after(Math.max(left, 1_000), look)
      const took = `${((tab.awake - awake) / 1000).toFixed(1)} s`
      this.#violate('ended-in-time', `${tab.name}: ${what} has not ended after ${took}, with timeoutMs ${timeoutMs}`)
    }
    this.#world.time.after(limit, look)
  }

  #failed(
    { tab, what, kind }: Call,
    error: Error & { code?: string; server?: string; servers?: readonly string[] },
  ): void {
    const { code, name, message } = error
    if (typeof code !== 'string' || code === 'internal' || code === 'usage' || code === 'storage') {
      const cause = (error.cause as Error | undefined)?.stack ?? ''
      this.#violate('typed-error', `${tab.name}: ${what} fails with ${name} ${code}: ${message} ${cause}`)
    }
    if (kind !== 'sync' || serversOf(this.#world, tab.plan).every(({ honest }) => honest)) return
    const names = serversOf(this.#world, tab.plan).map(({ name }) => name)
    const isNamed = names.some(name => message.includes(name) || error.server === name || error.servers?.includes(name))
    if (!isNamed && code !== 'closed' && code !== 'condemned' && code !== 'signature') {
      this.#violate('sync-names', `${tab.name}: sync() names no server: ${name}: ${message}`)
    }
  }

  #checkValue({ tab, what, question, outcome, epoch }: Call): void {
    if (question === undefined || tab.map === undefined) return
    const { versions } = this.#world.truth
    const got = String((outcome as { value: unknown }).value)
    const expected: string[] = []
    for (let at = epoch; at <= tab.map.epoch; at++) {
      const version = versions.get(at)
      if (version === undefined) continue
      const right = String(question.answer(version))
      if (right === got) return
      expected.push(`${at}: ${right}`)
    }
    this.#violate('wrong-value', `${tab.name}: ${what} is ${got}, and should be ${expected.join(' or ')}`)
  }

  /** Each by itself: what is absent is so at an epoch of the filter, or at one of the map. */
  #checkValues({ tab, what, question, outcome, epoch, filterEpoch }: Call): void {
    const { versions } = this.#world.truth
    const { epoch: last } = tab.map!.filter!
    const ofMap = (at: number) => at >= epoch // it tells of an epoch once its filter is there too
    const ofFilter = (at: number) => at >= (filterEpoch || last - 1) && at <= last
    for (const [i, value] of (outcome as { value: readonly unknown[] }).value.entries()) {
      const mayBe = (at: number) => ofMap(at) || ((value === undefined || value === false) && ofFilter(at))
      const answers = [...versions]
        .filter(([at]) => mayBe(at))
        .map(([, version]) => String(question!.answer(version)[i]))
      if (!answers.includes(String(value)))
        this.#violate('wrong-value', `${tab.name}: ${what}: ${value}, and should be ${answers.join(' or ')}`)
    }
  }

  #checkFilter({ tab, what, begun }: Call): void {
    const { map, plan } = tab
    if (map?.filter === undefined) return
    const { epoch } = map.filter
    const servers = serversOf(this.#world, plan)
    const date = this.#world.date - this.#world.time.now + begun
    if (this.#expiresBy(epoch, date - CLOCKS_MS))
      this.#violate(
        'filter-behind',
        `${tab.name} (${describe(plan)}): ${what} is absent at epoch ${epoch}, which has expired`,
      )
    if (plan.push && servers.some(hasMisled)) return
    const most = BEHIND_MS + (plan.push ? 0 : UNHEARD_MS)
    const isLate = (show: Show) =>
      show.epoch > epoch &&
      tab.awake - show.awake > most &&
      tab.disturbedAt < show.at &&
      show.server.episodes.every(({ mood, to }) => mood.is === 'withholds' || to < show.at) &&
      !this.#expiresBy(show.epoch, this.#world.date)
    const late = tab.shows.find(isLate)
    if (late === undefined) return
    const since = `${late.server.letter} showed ${late.epoch} ${((tab.awake - late.awake) / 1000).toFixed(0)} s ago`
    this.#violate('filter-behind', `${tab.name} (${describe(plan)}): ${what} is absent at epoch ${epoch}; ${since}`)
  }

  /** Whether lists lead from this epoch to the newest. */
  leadsOn(epoch: number): boolean {
    const { truth, history } = this.#world
    const { newest, versions } = truth
    return newest.epoch - epoch <= history && newest.shape.generation === versions.get(epoch)!.shape.generation
  }

  checkWatch({ key, watch, from, isMarked, changes }: Watched): void {
    const { versions } = this.#world.truth
    const at = (epoch: number) => String(versions.get(epoch)?.get(key))
    const wrong = (what: string) => this.#violate('watch-told', `${key}, from ${from} to ${watch.epoch}: ${what}`)
    for (const { value, before, epoch, how } of changes) {
      const isRight = String(value) === at(epoch) && (how === 'gap' || String(before) === at(epoch - 1))
      if (!isRight || how === 'contradiction') wrong(`told of ${before} and then ${value} at ${epoch}, by ${how}`)
    }
    if (String(watch.value) !== at(watch.epoch)) wrong(`its value is ${watch.value}, not ${at(watch.epoch)}`)
    if (changes.some(({ how }) => how === 'gap')) return
    const told = changes.filter(
      ({ value, before, epoch }) => (isMarked || epoch > from) && String(value) !== String(before),
    )
    const made = [...versions.keys()].filter(
      epoch => epoch > from && epoch <= watch.epoch && at(epoch) !== at(epoch - 1),
    )
    if (String(told.map(({ epoch }) => epoch)) !== String(made))
      wrong(`told of changes at ${told.map(({ epoch }) => epoch)}, and made were those of ${made}`)
  }

  /** The newest epoch that a server shows: signed and not expired, if the map has a key. */
  #newestOf(server: Server, { publisherKey }: Plan): number {
    if (publisherKey === undefined) return server.epoch
    const lasts = (epoch: number) => !this.#expiresBy(epoch, this.#world.date + 10_000)
    return Math.max(0, ...server.signedUnder(publisherKey).filter(lasts))
  }

  #expiresBy(epoch: number, date: number): boolean {
    const expires = this.#world.truth.expires.get(epoch) ?? 0
    return expires !== 0 && expires * 1000 <= date
  }

  #checkSync({ tab, begun }: Call, { shown }: Facts): void {
    const { map, plan } = tab
    if (map === undefined) return
    const honest = [...shown].filter(([server]) => server.honestSince(begun))
    const epochs = honest.map(([, epoch]) => epoch).sort((a, b) => b - a)
    const need = plan.publisherKey === undefined ? (plan.atLeast ?? plan.servers.length) : 1
    const newest = epochs[need - 1]
    if (newest === undefined) return
    const { epoch = newest } = tab.watched?.watch ?? {}
    if (map.epoch >= newest && (epoch >= newest || !this.leadsOn(epoch))) return
    const where = honest.map(([{ letter }, epoch]) => `${letter} showed ${epoch}`).join(', ')
    this.#violate(
      'sync-newest',
      `${tab.name} (${describe(plan)}): sync() resolves at epoch ${map.epoch}, its watch at ${epoch}; ${where}`,
    )
  }

  /** Whether enough honest servers answer an epoch that the map may ask at. */
  #answerable(tab: Tab, servers: readonly Server[]): boolean {
    const { plan } = tab
    const seen = this.#seen.get(tab) ?? 0
    // Behind a filter lookups may have been at a later epoch than the map tells. If that has expired, they do not go back.
    const hasExpired = ({ epoch }: Show) => epoch > seen && this.#expiresBy(epoch, this.#world.date)
    if (plan.filter !== undefined && tab.shows.some(hasExpired)) return false
    const honest = servers.filter(({ honest }) => honest)
    const need = needed(plan)
    const agree = plan.publisherKey === undefined ? (plan.atLeast ?? servers.length) : need
    if (honest.length < agree) return false
    const newest = (server: Server) => Math.max(0, ...KEYS.flatMap(key => server.signedUnder(hexKey(key))))
    // Of what is signed, under whatever key, the newest epoch decides, and the one before it serves while servers turn.
    const usable = (epoch: number) =>
      plan.publisherKey === undefined ||
      (epoch >= seen && honest.some(server => this.#showsSigned(server, plan, epoch) && epoch >= newest(server) - 1))
    const epochs = [...new Set(honest.flatMap(({ answered }) => answered))].filter(usable)
    return epochs.some(epoch => honest.filter(({ answered }) => answered.includes(epoch)).length >= agree)
  }

  /** When it began, or a call before it that its caller has given up: its query or claim stays on the wire, and others wait for that. */
  #waitsSince({ tab, begun }: Call): number {
    const isLeft = ({ kind, outcome, ended }: Call) =>
      (kind === 'lookup' || kind === 'open') &&
      outcome !== undefined &&
      'error' in outcome &&
      ended > begun - ON_THE_WIRE_MS
    return Math.min(begun, ...tab.calls.filter(isLeft).map(({ begun }) => begun))
  }

  #showsSigned(server: Server, plan: Plan, epoch: number): boolean {
    return !this.#expiresBy(epoch, this.#world.date + 30_000) && server.signedUnder(plan.publisherKey!).includes(epoch)
  }

  #checkAnswered(
    call: Call,
    { answerable, isFirst, slowAtFirst }: Facts,
    error: (Error & { code?: string }) | undefined,
  ): void {
    const { tab, begun, ended, kind, what } = call
    const { plan } = tab
    const servers = serversOf(this.#world, plan)
    const undisturbed = tab.disturbedAt < begun - 1_000
    if (!undisturbed || kind === 'close' || (error?.code === 'closed' && tab.closing)) return
    const took = ended - begun
    const says = error === undefined ? `takes ${(took / 1000).toFixed(1)} s` : `fails: ${error.name}: ${error.message}`
    const whose = `${tab.name} (${describe(plan)}): ${what} ${says}`
    if (kind === 'lookup' && plan.mode === 'local' && tab.map !== undefined) {
      if (took > 1_000 || (error !== undefined && error.code !== 'signature' && error.code !== 'condemned')) {
        this.#violate('held', whose)
      }
      return
    }
    if (maybeListed(call)) return
    // Without a key what any server shows makes a filter wait for the others.
    const waits = plan.filter?.meanwhile === 'wait' && plan.publisherKey === undefined
    if (waits && new Set(servers.map(({ epoch }) => epoch)).size > 1) return
    // A lie condemns a state; so does a server that was put back, and with it its fence.
    if (error?.code === 'condemned' && servers.some(mayCondemn)) return
    if (error?.code === 'tampered' && plan.mode !== 'instant' && servers.some(mayCondemn)) return
    if (!answerable || !this.#answerable(tab, servers)) return
    const honest = servers.filter(server => server.honestSince(this.#waitsSince(call)))
    if (honest.length < needed(plan)) return
    const moods = servers.map(({ letter, mood }) => `${letter} ${mood.is}`).join(', ')
    if (error !== undefined) this.#violate('answered', `${whose} (${moods})`)
    const slow = Math.max(slowAtFirst, slowest(servers))
    const late = LATE_MS * Math.max(0, servers.length - honest.length - 1)
    // A watch reads lists, for as long at most, before its app gets it.
    const more = late + tickMs(plan) + (kind === 'watch' ? LATE_MS : 0)
    if (error === undefined && (kind === 'open' || !isFirst) && took > SOON_MS + more + REQUESTS_OF_A_CALL * slow) {
      this.#violate('answered-soon', `${whose} (${moods})`)
    }
  }
}

function slowest(servers: readonly Server[]): number {
  return Math.max(0, ...servers.map(({ mood }) => (mood.is === 'slow' ? mood.ms : 0)))
}

/** A map of mode `filter` has not excluded the key. */
export function maybeListed({ outcome, tab }: Call): boolean {
  const isRefused =
    outcome !== undefined && 'error' in outcome && (outcome.error as { reason?: unknown }).reason === 'filter'
  return tab.plan.mode === 'filter' && isRefused
}

/** Whether a server has announced, or said, what is not so: its stream may stay closed for an hour. */
export function hasMisled({ episodes }: Server): boolean {
  return episodes.some(({ mood }) => mood.is === 'announces' || mood.is === 'lies')
}

/** Whether a server has lied, or an old copy of its fence has answered. */
export function mayCondemn({ episodes }: Server): boolean {
  return episodes.some(({ mood }) => ['lies', 'back', 'frozen'].includes(mood.is))
}

/** Whether it has left requests unanswered within the last so many milliseconds. */
export function hasHung({ episodes }: Server, ms: number, now: number): boolean {
  return episodes.some(({ mood, to }) => mood.is === 'silent' && to > now - ms)
}

export function describe({ mode = 'auto', publisherKey, atLeast, servers, push, collusion, filter }: Plan): string {
  const parts = [
    mode,
    ...(filter === undefined ? [] : [`a filter with cover ${JSON.stringify(filter.cover)}, ${filter.meanwhile}`]),
    `${servers.length} servers`,
    ...(atLeast === undefined ? [] : [`at least ${atLeast}`]),
    ...(collusion === undefined ? [] : ['which may collude']),
    publisherKey === undefined ? 'no key' : `key ${publisherKey.slice(0, 4)}`,
    push === true ? 'push' : 'no push',
  ]
  return parts.join(', ')
}
