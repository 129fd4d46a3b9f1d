// A session whose scheme keeps no state: it has a manifest, and nothing else. It needs no turn, lock, journal or fence:
// lookups are independent, and one that fails may be repeated with fresh randomness. A key is found in two private steps at
// one epoch: a block of the directory, then the record.

import type { InstantOf, Manifest } from '@keyhush/protocol'
import type { Mode } from '@keyhush/wasm/client'
import { abortable } from '../base/abort.js'
import { ATTEMPTS, BACKOFF_MS, UNHEARD_MS } from '../base/constants.js'
import { ClosedError, ServerError, TamperedError, UsageError } from '../base/errors.js'
import type { StorageKind } from '../base/events.js'
import type { OnProgress, ProgressMeter } from '../base/progress.js'
import { shuffled } from '../base/random.js'
import { FetchedBlocks } from '../lookup/blocks.js'
import { type KeyIndex, openVerified, type Question } from '../lookup/question.js'
import { bytesOf, isAhead, type Sending, sendAll } from '../lookup/sending.js'
import { assertAlive, isDead } from '../platform/core.js'
import { whileShown } from '../platform/page.js'
import { assertOffered, lacking } from '../scheme/offered.js'
import type { Equipment, SchemeContext, StatelessScheme } from '../scheme/scheme.js'
import { firstOf, isPassing, Pace, sleepAfter, type Try } from '../servers/ask.js'
import { worstOf } from '../servers/failures.js'
import { type Greeting, greet } from '../servers/info.js'
import { type Agreed, isSame } from '../servers/manifests.js'
import { listed, namesOf } from '../servers/parties.js'
import type { EpochId } from '../servers/signatures.js'
import type { Stats } from '../servers/stats.js'
import { assertNoFork, findTarget, isNews, Lag, type Looking, type Target } from '../servers/target.js'
import { type Link, type Links, linksOf } from '../servers/transport.js'
import type { Parts } from '../state/machine.js'
import type { How } from '../state/newest.js'
import { followEvents } from './events.js'
import type { Session } from './session.js'
import { Subsets } from './subsets.js'

export interface StatelessParts extends Omit<Parts, 'choose' | 'schemes'> {
  /** the whole directory of an epoch, if it is at hand: then the record alone is asked for */
  readonly directoryAt?: ((at: Agreed) => KeyIndex | undefined) | undefined
}

/** The epoch that a lookup is made at. */
interface Equipped {
  readonly manifest: Manifest
  readonly equipment: Equipment | undefined
}

/** What a session that it is part of has to do with it. */
interface Owner {
  /** called when a lookup that has sent something has ended, also if it failed, or if the app gave it up */
  readonly onEnded?: () => void
  /** called when it answers from this epoch from now on */
  readonly onShown?: (at: EpochId) => void
  readonly remembered?: EpochId | undefined
  /** called when it has closed */
  readonly onClosed?: () => Promise<void>
}

export class StatelessSession implements Session {
  readonly #parts: StatelessParts
  readonly #scheme: StatelessScheme
  readonly #onEnded: () => void
  readonly #onShown: (at: EpochId) => void
  readonly #onClosed: () => Promise<void>
  /** where an earlier life has been; with a publisher's key the map does not go back behind it */
  readonly #remembered: EpochId | undefined
  readonly #downloads: Links
  readonly #lookups: Links
  readonly #subsets: Subsets
  readonly #lag: Lag
  readonly #closing = new AbortController()
  /** aborts after `#closing`, once no lookup is under way any more */
  readonly #ending = new AbortController()
  readonly #underWay = new Set<Promise<unknown>>()
  #at: Agreed | undefined
  /** when a server last told of its newest epoch, or was asked for it */
  #heardAt = 0
  /** what lookups at an epoch need */
  readonly #equipped = new WeakMap<Agreed, Promise<Equipment>>()
  #closed: Promise<void> | undefined
  #successor: Pick<Session, 'ask'> | undefined
  #listening: Promise<void> = Promise.resolve()
  #syncing: Promise<void> | undefined
  /** whether `#syncing` uses replies to requests that were sent before it began */
  #hasHeard = false
  /** the servers' first replies, if they were asked already */
  #greeting: Greeting | undefined

  constructor(
    parts: StatelessParts,
    scheme: StatelessScheme,
    { onEnded = () => {}, onShown = () => {}, onClosed = async () => {}, remembered }: Owner = {},
    greeting?: Greeting | undefined,
  ) {
    this.#parts = parts
    this.#scheme = scheme
    this.#onEnded = onEnded
    this.#onShown = onShown
    this.#onClosed = onClosed
    this.#remembered = remembered
    this.#greeting = greeting
    const { servers, environment, stats } = parts
    this.#lag = new Lag(parts.announce)
    this.#downloads = linksOf(servers, environment, stats.standing, stats.offline)
    this.#lookups = linksOf(servers, environment, stats.standing, stats.online)
    this.#subsets = new Subsets(this.#lookups, parts.atLeast, parts.environment.random)
  }

  get dead(): boolean {
    return isDead(this.#parts.core) || this.#scheme.dead === true
  }

  get manifest(): Manifest | undefined {
    return this.#at?.manifest
  }

  get mode(): Mode {
    return this.#scheme.name
  }

  get condemned(): undefined {
    return undefined
  }

  get storage(): StorageKind {
    return 'memory'
  }

  get stats(): Stats {
    return this.#parts.stats.snapshot({
      core: this.#parts.core.kind,
      fenced: undefined,
      held: {},
      lookupsLeft: undefined,
    })
  }

  get base(): Agreed | undefined {
    return this.#at
  }

  get maxQueries(): number | undefined {
    return this.#at && this.#scheme.maxQueries(this.#parts.core, this.#at.manifest, this.#lookups.length)
  }

  /** It has no hints. */
  readonly madeAnew = 0

  async begin(_progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    const greeting = this.#greeting ?? greet(this.#downloads, this.#parts.environment, signal)
    this.#greeting = undefined
    await this.#moveToNewest(signal, greeting)
  }

  listen(): void {
    const task = (signal: AbortSignal) => followEvents(this.#parts, this, signal)
    this.#listening = whileShown(task, this.#closing.signal)
  }

  heard(): void {
    this.#heardAt = this.#parts.environment.clock.date()
  }

  ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    let begun = false
    const answer = this.#lookUp(question, signal, () => {
      begun = true
    })
    const ended = () => {
      this.#underWay.delete(answer)
      if (begun) this.#onEnded()
    }
    this.#underWay.add(answer)
    answer.then(ended, ended).catch(() => {}) // of a core that has crashed: the next lookup says so
    return abortable(answer, signal)
  }

  async #lookUp<T>(question: Question<T>, signal: AbortSignal | undefined, begin: () => void): Promise<T> {
    this.#assertOpen()
    const { environment, stats, signing, core, atLeast, directoryAt } = this.#parts
    signal?.throwIfAborted()
    await environment.pause() // the app asks in a task of its own, perhaps right after open()
    // An old epoch is answered for as long as its base is: nothing else says that there is a newer one.
    const isUnheard = Math.abs(environment.clock.date() - this.#heardAt) > UNHEARD_MS
    if (this.#scheme.equip && isUnheard) await this.follow().catch(() => {})
    signal?.throwIfAborted()
    const start = environment.clock.now()
    const before = stats.onlineTotal()
    // From here on the app cannot stop it: a lookup that has begun ends as usual (P5), at whatever epoch.
    for (let attempt = 1; ; attempt++) {
      assertAlive(core)
      const unoffered = lacking(this.#scheme, this.#downloads, atLeast) // it may be offered again
      if (unoffered || signing?.hasExpired(this.#at!.manifest)) await this.follow()
      const at = this.#at!
      signing?.checkExpiry(at.manifest)
      const { manifest } = at
      const maxQueries = this.maxQueries!
      const epoch = { core, manifest, base: at, directory: undefined, maxQueries }
      const known = directoryAt?.(at)
      const numbers = known ? undefined : question.blocks(epoch)
      let sends = false
      try {
        const equipment = await this.#equipment(at)
        const { base = manifest, changes } = equipment ?? {}
        const fetch = (of: InstantOf, indices: Uint32Array) => {
          sends = true
          begin()
          return this.#fetch({ manifest: base, equipment }, of, indices)
        }
        // Both steps at one epoch. If servers no longer answer it, the lookup starts again from the first step.
        const directory = numbers && new FetchedBlocks(core, base, numbers, await fetch('directory', numbers))
        const indices = question.indices({ ...epoch, directory: known ?? directory })
        // A record that the base lacks is in the changes: another is asked for in its place.
        const bytes = await fetch(
          'records',
          indices.map(index => index % base.records),
        )
        const records = openVerified(epoch, indices, bytes)
        directory?.assertWellFormed()
        signing?.checkExpiry(manifest)
        stats.lookedUp(before, environment.clock.now() - start)
        return question.read(epoch, records, changes)
      } catch (error) {
        const isOver = sends ? isAhead(error, manifest) : isForgotten(error)
        if (attempt === ATTEMPTS || !isOver) throw error
        await this.follow()
        if (this.#successor) return await this.#successor.ask(question) // it has begun: the app cannot stop it
        if (this.#at === at) throw error
      }
    }
  }

  /** What lookups at an epoch need, downloaded once. If that fails, the next lookup asks again. */
  #equipment(at: Agreed): Promise<Equipment | undefined> {
    const known = this.#equipped.get(at)
    if (known !== undefined || this.#scheme.equip === undefined) return known ?? Promise.resolve(undefined)
    const [link] = this.#downloads as [Link]
    const equipped = this.#scheme.equip(this.#context, at, link, this.#ending.signal)
    this.#equipped.set(at, equipped)
    equipped.catch(() => this.#equipped.delete(at))
    return equipped
  }

  async #fetch(at: Equipped, of: InstantOf, indices: Uint32Array): Promise<Uint8Array> {
    const { manifest } = at
    const { environment, atLeast } = this.#parts
    // Which server gets which request is drawn anew each time.
    if (atLeast === this.#lookups.length) {
      return await this.#askOf(shuffled(this.#lookups, environment.random), at, of, indices).found
    }
    const attempts = { tried: new Set<number>(), away: new Set<Link>() }
    const failures: ServerError[] = []
    const isNoted = (error: ServerError) => failures.push(error) > 0
    const next = () => {
      const links = this.#subsets.next(attempts)
      return links && this.#askSubset(links, attempts.away, at, of, indices)
    }
    for (let round = 1; ; round++) {
      try {
        return await firstOf(this.#lookups[0]!, next, isNoted, ([first]) => first!)
      } catch (error) {
        // The device may have lost its connection for a moment.
        if (!(error instanceof ServerError)) throw error
        if (round === ATTEMPTS || !failures.every(isPassing)) {
          throw failures.find(error => isAhead(error, manifest)) ?? worstOf(failures)
        }
      }
      const pause = (link: Link) => link.meter.asking(() => sleepAfter(failures[0], link, BACKOFF_MS))
      await Promise.all(this.#lookups.map(pause))
      attempts.tried.clear()
      attempts.away.clear()
    }
  }

  /** Asks a subset, and notes what has come of it. */
  #askSubset(links: Links, away: Set<Link>, at: Equipped, of: InstantOf, indices: Uint32Array): Try<Uint8Array> {
    const waiting = new Set(links)
    // Once one is further on, the subset has no answer at this epoch, and no server that is late is waited for.
    let [isLate, ahead]: [boolean, unknown] = [false, undefined]
    let refuse: (reason: unknown) => void = () => {}
    const refused = new Promise<never>((_, reject) => {
      refuse = reject
    })
    const giveUp = () => {
      if (isLate && ahead !== undefined) refuse(ahead)
    }
    const onSettled = (party: number, failure?: unknown) => {
      const link = links[party]!
      // A reply that breaks the protocol is a failure as well.
      if (failure !== undefined) away.add(link)
      if (isAhead(failure, at.manifest)) ahead = failure
      waiting.delete(link)
      giveUp()
    }
    const { found, bytes } = this.#askOf(links, at, of, indices, { attempts: 1, onSettled })
    const late = () => {
      for (const link of waiting) {
        link.standing.note(link, 'late')
        away.add(link)
      }
      isLate = true
      giveUp()
    }
    const answered = async () => {
      try {
        const records = await Promise.race([found, refused])
        this.#subsets.answered(links)
        return records
      } catch (failure) {
        const error = failure instanceof TamperedError ? failure : (ahead ?? failure)
        if (error instanceof TamperedError) {
          const name = this.#subsets.wrong(links)?.server.name
          const names = namesOf(links.map(({ server }) => server))
          this.#parts.stats.incident(name ?? `one of ${names}`, error.code)
        }
        throw error
      }
    }
    return { work: answered(), pace: new Pace(links[0]!, bytes), late }
  }

  /**
   * Asks these servers, whose order says which gets which request. `bytes`: of the longest exchange with one of them. Throws TamperedError, of
   * nobody, if their answers are wrong.
   */
  #askOf(
    links: Links,
    { manifest, equipment }: Equipped,
    of: InstantOf,
    indices: Uint32Array,
    how: Pick<Sending, 'attempts' | 'onSettled'> = {},
  ): { readonly found: Promise<Uint8Array>; readonly bytes: number } {
    const { stats } = this.#parts
    const names = links.map(({ server }) => server.name)
    const requests = this.#scheme.begin(this.#context, manifest, names, of, indices, equipment)
    const onForged = async (party: number) => {
      throw this.#scheme.forged!(names[party]!)
    }
    const asked = async () => {
      try {
        await sendAll({ manifest, requests, links, stats, ...how, onForged })
        const found = requests.finish()
        if (found !== undefined) return found
        const finds = names.length === 2 ? "; mode 'full' finds out which server it is" : ''
        throw new TamperedError(
          undefined,
          `expected answers from the database, got others from one of ${listed(names.sort())}; warn your user. Asking again is safe${finds}`,
        )
      } finally {
        requests.free()
      }
    }
    return { found: asked(), bytes: bytesOf(requests) }
  }

  async sync(signal?: AbortSignal): Promise<void> {
    this.#assertOpen()
    await abortable(this.follow({ patient: true }), signal)
    this.#assertOpen() // else what has taken over is asked
    this.#lag.assertNone()
  }

  /**
   * Moves to the newest epoch. One at a time, and not by one that was under way: it has asked some servers before, and may miss what is new.
   * Lookups that wait share the next one. They wait for it, so aborting sync() does not call it off; only the end of the map does.
   */
  async follow(asked?: How): Promise<void> {
    const underWay = this.#syncing
    await underWay?.catch(() => {})
    while (this.#syncing !== undefined) {
      const isNext = this.#syncing !== underWay && !this.#hasHeard
      if (asked === undefined && isNext) return await this.#syncing
      await this.#syncing.catch(() => {})
    }
    this.#hasHeard = asked?.heard !== undefined
    this.#syncing = this.#moveToNewest(this.#ending.signal, asked)
    const over = () => {
      this.#syncing = undefined
    }
    this.#syncing.then(over, over)
    await this.#syncing
  }

  /** Nothing is kept, so this moves to what the servers have now. */
  async reset(_onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    await this.sync(signal)
  }

  async prepare(): Promise<void> {
    this.#assertOpen()
    throw new UsageError(
      `prepare: expected a map that may keep a state, got mode '${this.mode}'; open({ mode: 'auto' })`,
    )
  }

  close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    this.#closed ??= this.#end()
    return this.#closed
  }

  /** Closes it where another session takes over. Lookups under way go no further than their epoch, and are made again there. */
  giveWay(successor: Pick<Session, 'ask'>): Promise<void> {
    this.#successor = successor
    return this.close()
  }

  async #end(): Promise<void> {
    await Promise.allSettled(this.#underWay)
    this.#ending.abort(new ClosedError())
    await Promise.allSettled([this.#listening, this.#syncing])
    await this.#onClosed()
    this.#at = undefined
  }

  /** To the newest epoch that the servers it needs show, and that the publisher has signed, if a key was given. */
  async #moveToNewest(signal: AbortSignal, asked: Partial<Looking> = {}): Promise<void> {
    const before = this.#at
    this.heard()
    const { at } = await this.#look(before, signal, asked)
    const moves = at !== undefined && (before === undefined || isNews(at.manifest, before.manifest))
    // What has taken over may be at an older epoch.
    if (moves && this.#at === before && !this.#successor) this.#moveTo(at)
  }

  #moveTo(agreed: Agreed): void {
    const { generation, epoch } = agreed.manifest
    const moves = this.#at !== undefined && !isSame(this.#at, agreed)
    this.#at = agreed
    this.#onShown(agreed.manifest)
    this.#equipment(agreed).catch(() => {}) // a lookup that needs it says why
    if (moves) this.#parts.announce({ type: 'updated', generation, epoch })
  }

  /** Where to be; undefined: where it is, because servers that it needs lack what is newer. Throws VersionError if it is nowhere yet. */
  async #look(base: Agreed | undefined, signal: AbortSignal, asked: Partial<Looking> = {}): Promise<Target> {
    const { core, signing, servers, stats, environment, atLeast } = this.#parts
    const lag = this.#lag
    const following = { core, links: this.#downloads, signing, stats, pause: environment.pause, lag }
    const seen = this.#at?.manifest ?? this.#remembered
    // Before anything else is said of them, and before any lookup.
    const onReplies = () => assertOffered(this.#scheme, this.#downloads, atLeast)
    const looking = { needed: atLeast, notBefore: seen?.epoch, onReplies, ...asked }
    const target = await findTarget(following, base, looking, signal)
    const { at } = target
    if (at === undefined && this.#at === undefined) throw lag.error
    if (at === undefined) return target
    if (seen !== undefined) signing?.checkSuccession(seen, at.manifest)
    if (signing && this.#at !== undefined) assertNoFork(following, this.#at, at)
    if (this.#at !== undefined) this.#scheme.checkNext?.(this.#at.manifest, at.manifest)
    this.#scheme.maxQueries(core, at.manifest, servers.length) // throws
    return target
  }

  get #context(): SchemeContext {
    const { core, environment, options } = this.#parts
    return { core, environment, options }
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError()
  }
}

/** Whether a server has a blob of this epoch no more, or not yet: it may have a newer epoch. */
function isForgotten(error: unknown): boolean {
  return error instanceof ServerError && error.refusal === 'not_found'
}
