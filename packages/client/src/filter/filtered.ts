// Instant lookups behind a filter: a call of which all keys are excluded is answered here, and sends nothing. In mode `auto` the filter rests
// while a state answers, or a copy is due.
//
//   1. The coin is tossed, before the filter is read: a share `cover` of the calls asks all the same.
//   2. Without a usable filter the call is sent, or waits.
//   3. A call that passes and one that is covered are one: as many queries, random records in place of excluded keys.
//   4. After a sent call has failed, all are sent until one succeeds. Else a server that refuses sees who asks again.
//
// Indices and watched keys are never filtered: a watch whose key was deleted would fall silent.

import type { Manifest } from '@keyhush/protocol'
import { equalBytes, toHex } from '@keyhush/protocol'
import type { Mode } from '@keyhush/wasm/client'
import { abortable, onAbort, scoped } from '../base/abort.js'
import { expected } from '../base/boundary.js'
import { SLOW_MS } from '../base/constants.js'
import { ClosedError, ServerError, UsageError } from '../base/errors.js'
import type { Condemnation, MapEvent, StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import { randomBelow } from '../base/random.js'
import { type Found, type Question, valuesOf } from '../lookup/question.js'
import type { Environment } from '../platform/environment.js'
import { whileShown } from '../platform/page.js'
import { startInstant } from '../platform/starting.js'
import type { Agreed } from '../servers/manifests.js'
import { namesOf } from '../servers/parties.js'
import type { Stats } from '../servers/stats.js'
import { isNews } from '../servers/target.js'
import { assertScheduled, checkWishes } from '../session/filter-wishes.js'
import type { Behind, FilteredParts, FilterOptions, UnbegunSession } from '../session/opening.js'
import type { FilterInfo, Session } from '../session/session.js'
import { Filter, withoutMarks } from './filter.js'
import type { HeldFilter } from './held.js'
import { Ticks } from './schedule.js'

const COIN = 2 ** 32

/** Once so many keys of failed calls are kept, no more are, and every call counts as a repeated one. */
const MOST_FAILED = 10_000

/** The calls of a page's maps that were sent to the same servers. */
interface Sent {
  /** when those that are under way were sent, and for what */
  readonly underWay: Set<{ readonly since: number; readonly keys: readonly string[] }>
  /** the keys of those that have failed, while none that began later has succeeded. Each failure makes another set. */
  failed?: ReadonlySet<string> | undefined
}

/** By the clock, which the maps of a page have in common, and by the names of servers. */
const everySent = new WeakMap<Environment['clock'], Map<string, Sent>>()

function sentOf({ servers, environment: { clock } }: FilteredParts): Sent {
  const ofPage = everySent.get(clock) ?? new Map<string, Sent>()
  const sent = ofPage.get(namesOf(servers)) ?? { underWay: new Set() }
  everySent.set(clock, ofPage.set(namesOf(servers), sent))
  return sent
}

export async function filteredSession(
  given: FilteredParts,
  wishes: FilterOptions,
  behind: Behind,
): Promise<UnbegunSession> {
  checkWishes(given, wishes)
  let made: FilteredSession | undefined
  // `updated` comes once both have moved.
  const announce = (event: MapEvent) => {
    if (event.type !== 'updated') given.announce(event)
    made?.innerChanged()
  }
  const ofFilter = (event: MapEvent) => {
    if (event.type !== 'updated') given.announce(event)
    made?.moved()
  }
  const directoryAt = ({ bytes }: Agreed) => {
    const held = made?.held
    return held !== undefined && equalBytes(held.at.bytes, bytes) ? held : undefined
  }
  const inner = await behind({ announce, directoryAt })
  try {
    const core = await startInstant(given.environment, () => {})
    const filter = await Filter.open({ ...given, announce: ofFilter, core, consent: inner.choosing?.filterConsent })
    made = new FilteredSession(given, wishes, inner, filter)
    return made
  } catch (error) {
    await inner.close()
    throw error
  }
}

/** The same question, with random records in place of the keys that are proved absent; one flag a key. */
function without(
  keys: readonly Uint8Array[],
  padTo: number,
  absent: readonly boolean[],
  random: Environment['random'],
): Question<readonly Found[]> {
  const wanted = keys.filter((_, i) => !absent[i])
  const asked = valuesOf(wanted, Math.max(padTo, wanted.length), random)
  const read: typeof asked.read = (...found) => {
    const values = [...asked.read(...found)]
    return absent.map(isAbsent => (isAbsent ? undefined : values.shift()))
  }
  return { ...asked, read }
}

class FilteredSession implements Session {
  readonly #parts: FilteredParts
  readonly #wishes: FilterOptions
  readonly #inner: UnbegunSession
  readonly #filter: Filter
  /** of the epoch that the app knows */
  #announced: Manifest | undefined
  #beginning: Promise<void> | undefined
  #hasBegun = false
  #begin: () => Promise<void> = async () => {}
  #listens = false
  readonly #ticks: Ticks | undefined
  readonly #closing = new AbortController()
  /** calls that were answered here */
  #unsent = 0
  readonly #calls: Sent

  constructor(parts: FilteredParts, wishes: FilterOptions, inner: UnbegunSession, filter: Filter) {
    this.#parts = parts
    this.#wishes = wishes
    this.#inner = inner
    this.#filter = filter
    this.#calls = sentOf(parts)
    const { cover } = wishes
    if (typeof cover === 'object') this.#ticks = new Ticks(cover, parts.environment, asked => this.#tick(asked))
  }

  get dead(): boolean {
    return this.#inner.dead
  }

  get maxQueries(): number | undefined {
    const { cover } = this.#wishes
    return typeof cover === 'object' ? cover.queries : this.#inner.maxQueries
  }

  /** While the filter answers, the older one of its own and that of lookups. Either may be ahead. */
  get manifest(): Manifest | undefined {
    const ofInner = this.#inner.manifest
    const ofFilter = this.#filter.held?.at.manifest
    if (ofInner === undefined || ofFilter === undefined) return ofInner ?? ofFilter
    const answers = this.#isWanted && this.#filter.state === 'ready'
    return answers && isNews(ofInner, ofFilter) ? ofFilter : ofInner
  }

  get mode(): Mode | 'filter' | undefined {
    return this.#inner.mode ?? (this.#hasBegun ? undefined : 'instant')
  }

  get condemned(): Condemnation | undefined {
    return this.#inner.condemned
  }

  get storage(): StorageKind {
    return (this.#inner.choosing === undefined ? this.#filter : this.#inner).storage
  }

  get stats(): Stats {
    const { stats } = this.#inner
    return { ...stats, unsent: this.#unsent, ...(this.filter && { held: { filter: this.filter.bytes } }) }
  }

  get held(): HeldFilter | undefined {
    return this.#filter.held
  }

  get filter(): FilterInfo | undefined {
    return this.#isWanted ? this.#filter.info : undefined
  }

  get #isWanted(): boolean {
    return this.#inner.choosing?.wantsFilter ?? true
  }

  /** With a stored filter the map opens at once. The first call waits for servers, briefly, unless the device is offline. */
  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    this.#begin = () => this.#inner.begin(progress, signal)
    const begun = this.#begun()
    if (this.#filter.held !== undefined) {
      const hasBegun = () => {
        const { mode } = this.#inner
        if (mode !== 'instant' && mode !== 'filter') this.#parts.announce({ type: 'mode', mode })
        this.innerChanged()
        this.#catchUp()
      }
      begun.then(hasBegun).catch(() => {}) // the next call that is sent tries again
      this.#filter.refresh().catch(() => {}) // the first call waits for it
    } else {
      await begun
      const { mode, manifest, maxQueries } = this.#inner
      if (mode === 'instant' && manifest?.slotMarksHash === undefined) throw withoutMarks()
      const { cover } = this.#wishes
      if (typeof cover === 'object' && cover.queries > maxQueries!)
        throw new UsageError(
          `filter: queries: ${expected(`at most ${maxQueries}, which the servers allow`, cover.queries)}`,
        )
      this.#tend()
    }
    const ticks = this.#ticks
    if (ticks) whileShown(signal => ticks.run(signal), this.#closing.signal).catch(() => {}) // it has closed
  }

  /** Keeps the filter up to date while it is wanted. */
  #tend(): void {
    if (!this.#hasBegun && this.#filter.held === undefined) return
    if (this.#isWanted) this.#filter.wake(this.#listens)
    else this.#filter.rest()
  }

  /** Another session may answer now, or at another epoch. */
  innerChanged(): void {
    const { manifest } = this.#inner
    if (manifest !== undefined && this.#isWanted) this.#filter.isBefore(manifest)
    this.#tend()
    this.#filter.changed()
    this.moved()
  }

  /** The app learns of a newer epoch once no call is answered at an older one. */
  moved(): void {
    const { manifest } = this
    if (manifest === undefined) return
    const before = this.#announced
    this.#announced = manifest
    this.#filter.notBefore = manifest.epoch
    const { generation, epoch } = manifest
    if (before !== undefined && isNews(manifest, before)) this.#parts.announce({ type: 'updated', generation, epoch })
  }

  /** Lookups can be made; tried again after a failure. */
  #begun(): Promise<void> {
    if (this.#beginning === undefined) {
      this.#beginning = this.#begin().then(() => {
        this.#hasBegun = true
        this.moved()
        if (this.#listens) this.#inner.listen()
      })
      this.#beginning.catch(error => {
        this.#beginning = undefined
        if (error instanceof ServerError && error.server) this.#parts.stats.incident(error.server, error.code)
      })
    }
    return this.#beginning
  }

  listen(): void {
    this.#listens = true
    if (this.#hasBegun) this.#inner.listen()
    this.#tend()
  }

  async ask<T>(question: Question<T>, signal?: AbortSignal, late?: AbortSignal): Promise<T> {
    const { keys, padTo = 1 } = question
    const { environment, stats } = this.#parts
    const { cover } = this.#wishes
    const ticks = this.#ticks
    assertScheduled(cover, padTo)
    const enders = [signal, late, this.#closing.signal]
    const byTick = <R>(question: Question<R>) => scoped(enders, ender => ticks!.ask(question, ender))
    if (keys === undefined) return await (ticks ? byTick(question) : this.#send(question, signal))
    const isCovered = typeof cover === 'number' && randomBelow(COIN, environment.random) < cover * COIN
    // A call that is out of time before it is sent is never sent: the app may have made it again meanwhile.
    const absent = await scoped(enders, ender => this.#absentOf(keys, ender))
    if (absent === 'unfiltered') return await this.#send(question, signal)
    if (ticks && absent.includes(false)) return (await byTick(without(keys, 0, absent, environment.random))) as T
    // Random records are all that a call without keys wants. One of too many is refused alike, whatever its keys are.
    const isAlwaysSent = keys.length === 0 || padTo > (this.maxQueries ?? this.manifest?.maxQueries ?? padTo)
    if (ticks || !(absent.includes(false) || isCovered || isAlwaysSent || this.#mayBeRepeated(keys))) {
      stats.lookedUp(stats.onlineTotal(), 0)
      this.#unsent++
      return keys.map(() => undefined) as T
    }
    return await abortable(
      this.#sent(without(keys, padTo, absent, environment.random), keys.map(toHex), [signal, late]) as Promise<T>,
      signal,
    )
  }

  /** Which keys are proved absent, one flag a key. With `wait`, once the filter says so. `unfiltered`: what answers now needs no filter. */
  async #absentOf(keys: readonly Uint8Array[], ender: AbortSignal): Promise<readonly boolean[] | 'unfiltered'> {
    const { environment, stats } = this.#parts
    const { choosing } = this.#inner
    await environment.pause() // the app may abort a call that it has just made
    ender.throwIfAborted()
    choosing?.filterConsent.look()
    this.#tend()
    if (this.#isWanted && this.#ticks === undefined) await abortable(this.#filter.refresh(), ender)
    const waits = this.#wishes.meanwhile === 'wait'
    const isAwaited = () => waits && this.mode === 'instant' // a state, or a copy, answers as well
    const look = () => {
      if (!this.#isWanted) return isAwaited() ? undefined : 'unfiltered'
      return this.#filter.absentOf(keys) ?? (waits ? undefined : keys.map(() => false))
    }
    if (!this.#isWanted && isAwaited()) choosing!.waits() // where a copy is due, that begins it
    // Errors and `slow` name all servers, also while the filter is asked of none.
    const waiting = (by: number) => {
      stats.waitingForFilter += by
      for (const meter of stats.offline) meter.asked += by
    }
    waiting(1)
    try {
      return await this.#filter.when(look, ender)
    } finally {
      waiting(-1)
    }
  }

  /** What is asked, and when, does not depend on calls: not even whether servers are asked what is new. */
  async #tick<T>(asked: Question<T>): Promise<T> {
    this.#filter.refresh().catch(() => {})
    try {
      return await this.#send(asked)
    } finally {
      this.#catchUp()
    }
  }

  /**
   * Whether this call may repeat one that was sent and has not succeeded. Online that is every call after a failure, and while one is slow:
   * a server that refuses, or keeps silent, must not see who asks again. Offline no server sees anything; there a call repeats another if
   * they have a key in common.
   */
  #mayBeRepeated(keys: readonly Uint8Array[]): boolean {
    const { environment } = this.#parts
    const { failed, underWay } = this.#calls
    const now = environment.clock.now()
    const slow = [...underWay].filter(({ since }) => now - since >= SLOW_MS)
    if (!environment.connection?.isOffline || (failed && failed.size >= MOST_FAILED)) return !!failed || slow.length > 0
    return keys.map(toHex).some(key => failed?.has(key) || slow.some(({ keys }) => keys.includes(key)))
  }

  async #sent<T>(
    question: Question<T>,
    keys: readonly string[],
    enders: readonly (AbortSignal | undefined)[],
  ): Promise<T> {
    const own = { since: this.#parts.environment.clock.now(), keys }
    const calls = this.#calls
    const before = calls.failed
    const failed = () => {
      const known = calls.failed ?? new Set()
      calls.failed = new Set([...known, ...(known.size < MOST_FAILED ? keys : [])])
    }
    const ends = enders.map(ender => ender && onAbort(ender, failed))
    calls.underWay.add(own)
    try {
      const answer = await this.#send(question)
      if (calls.failed === before) calls.failed = undefined
      return answer
    } catch (error) {
      if (!(error instanceof UsageError)) failed()
      throw error
    } finally {
      calls.underWay.delete(own)
      for (const end of ends) end?.()
      this.#catchUp()
    }
  }

  /** Lookups may have learned of a newer epoch, where nobody tells of one. */
  #catchUp(): void {
    const { manifest } = this.#inner
    if (manifest !== undefined && this.#isWanted && this.#filter.isBefore(manifest))
      this.#filter.follow({}).catch(() => {})
  }

  async #send<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    if (!this.#hasBegun) await abortable(this.#begun(), signal)
    return await this.#inner.ask(question, signal)
  }

  async sync(signal?: AbortSignal): Promise<void> {
    if (!this.#hasBegun) await abortable(this.#begun(), signal)
    const followed = this.#isWanted && abortable(this.#filter.follow({ patient: true }), signal)
    await Promise.all([this.#inner.sync(signal), followed])
  }

  async reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    const progress = new ProgressMeter(this.#parts.onProgress, onProgress)
    await this.#inner.reset(onProgress, signal)
    if (this.#isWanted) await this.#filter.download(progress, signal ?? new AbortController().signal)
    progress.phase('ready')
  }

  async prepare(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    await this.#inner.prepare(onProgress, signal)
  }

  /** A call that waits ends; one that is under way runs to its end. */
  async close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    await this.#filter.close()
    await this.#inner.close()
  }
}
