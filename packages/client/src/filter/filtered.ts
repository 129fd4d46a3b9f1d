// Instant lookups behind a filter: a call of which all keys are excluded is answered here, and sends nothing.
//
//   1. The coin is tossed, before the filter is read: a share `cover` of the calls asks all the same.
//   2. Without a usable filter the call is sent, or waits.
//   3. A call that passes and one that is covered are one: as many queries, random records in place of excluded keys.
//   4. After a sent call has failed, all are sent until one succeeds. Else a server that refuses sees who asks again.
//
// Indices and watched keys are never filtered: a watch whose key was deleted would fall silent.

import type { Manifest } from '@keyhush/protocol'
import { equalBytes } from '@keyhush/protocol'
import type { Mode } from '@keyhush/wasm/client'
import { abortable, onAbort } from '../base/abort.js'
import { checkNames, checkOptions, expected, oneOf } from '../base/boundary.js'
import { SLOW_MS } from '../base/constants.js'
import { UsageError } from '../base/errors.js'
import type { StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import { randomBelow } from '../base/random.js'
import { type Found, type Question, valuesOf } from '../lookup/question.js'
import type { Environment } from '../platform/environment.js'
import { startInstant } from '../platform/starting.js'
import type { StatelessScheme } from '../scheme/scheme.js'
import { greet } from '../servers/info.js'
import type { Agreed } from '../servers/manifests.js'
import type { Stats } from '../servers/stats.js'
import { linksOf } from '../servers/transport.js'
import type { FilteredParts, FilterOptions, UnbegunSession } from '../session/opening.js'
import type { FilterInfo, Session } from '../session/session.js'
import { StatelessSession } from '../session/stateless.js'
import { Filter, withoutMarks } from './filter.js'

const COIN = 2 ** 32

export async function filteredSession(
  given: FilteredParts,
  wishes: FilterOptions,
  scheme: StatelessScheme,
  signal: AbortSignal,
): Promise<UnbegunSession> {
  checkWishes(wishes)
  const { servers, environment, stats, announce, apart } = given
  const greeting = greet(linksOf(servers, environment, stats.standing, stats.offline), environment, signal)
  const core = await startInstant(environment, announce)
  signal.throwIfAborted()
  const filter = await Filter.open({ ...given, core })
  const directoryAt = ({ bytes }: Agreed) =>
    filter.held !== undefined && equalBytes(filter.held.at.bytes, bytes) ? filter.held : undefined
  try {
    const inner =
      apart === 1
        ? await (await given.loadOneServer!()).oneServerSession(given, greeting, directoryAt)
        : new StatelessSession({ ...given, core }, scheme, { directoryAt }, greeting)
    return new FilteredSession(given, wishes, inner, filter)
  } catch (error) {
    await filter.close()
    throw error
  }
}

/** Throws UsageError. */
function checkWishes(wishes: FilterOptions): void {
  checkOptions('filter', wishes)
  checkNames('filter', wishes, ['cover', 'meanwhile'])
  const { cover, meanwhile } = wishes
  if (!(typeof cover === 'number' && cover >= 0 && cover <= 1))
    throw new UsageError(`filter: cover: ${expected('a share from 0 to 1', cover)}; it has no default`)
  oneOf('filter: meanwhile', ['ask', 'wait'], meanwhile)
}

/** The same question, with random records in place of the keys that are proved absent; one flag a key. */
function without(
  { keys = [], padTo = 0 }: Question<unknown>,
  absent: readonly boolean[],
  random: Environment['random'],
): Question<readonly Found[]> {
  const wanted = keys.filter((_, i) => !absent[i])
  const asked = valuesOf(wanted, padTo, random)
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
  readonly condemned = undefined
  #beginning: Promise<void> | undefined
  #hasBegun = false
  #begin: () => Promise<void> = async () => {}
  /** calls that were sent so far */
  #calls = 0
  /** how many there were when one had failed, or was given up; 0: one that began later has succeeded */
  #failedAfter = 0
  /** when those that are under way were sent */
  readonly #underWay = new Set<{ readonly since: number }>()

  constructor(parts: FilteredParts, wishes: FilterOptions, inner: UnbegunSession, filter: Filter) {
    this.#parts = parts
    this.#wishes = wishes
    this.#inner = inner
    this.#filter = filter
  }

  get dead(): boolean {
    return this.#inner.dead
  }

  get manifest(): Manifest | undefined {
    return this.#inner.manifest ?? this.#filter.held?.at.manifest
  }

  get mode(): Mode | 'filter' | undefined {
    return this.#inner.mode
  }

  get storage(): StorageKind {
    return this.#filter.storage
  }

  get stats(): Stats {
    return { ...this.#inner.stats, held: { filter: this.#filter.info.bytes } }
  }

  get filter(): FilterInfo {
    return this.#filter.info
  }

  /** With a stored filter the map opens at once. The first call waits for servers, briefly, unless the device is offline. */
  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    this.#begin = () => this.#inner.begin(progress, signal)
    const begun = this.#begun()
    if (this.#filter.held !== undefined) {
      begun.then(() => this.#catchUp()).catch(() => {}) // the next call that is sent tries again
      this.#filter.hear().catch(() => {}) // the first call waits for it
      return
    }
    await begun
    if (this.#inner.manifest?.slotMarksHash === undefined) throw withoutMarks()
    void this.#filter.load(new ProgressMeter(() => {}))
  }

  /** Lookups can be made; tried again after a failure. */
  #begun(): Promise<void> {
    if (this.#beginning === undefined) {
      this.#beginning = this.#begin().then(() => {
        this.#hasBegun = true
      })
      this.#beginning.catch(() => {
        this.#beginning = undefined
      })
    }
    return this.#beginning
  }

  listen(): void {
    this.#inner.listen()
    this.#filter.listen()
  }

  async ask<T>(question: Question<T>, signal?: AbortSignal, late?: AbortSignal): Promise<T> {
    const { keys, padTo = 0 } = question
    const isTooLong = padTo > (this.#inner.maxQueries ?? padTo) // refused alike, whatever its keys are
    if (keys === undefined || isTooLong) return await this.#send(question, signal)
    const { environment } = this.#parts
    const isCovered = randomBelow(COIN, environment.random) < this.#wishes.cover * COIN
    await environment.pause() // the app may abort a call that it has just made
    signal?.throwIfAborted()
    await abortable(this.#filter.hear(), signal)
    if (this.#wishes.meanwhile === 'wait') await this.#waitForFilter(signal)
    // All keys are looked at, whichever passes.
    const absent = keys.map(key => this.#filter.excludes(key))
    if (!(absent.includes(false) || isCovered || this.#hasFailed)) return keys.map(() => undefined) as T
    return await abortable(
      this.#sent(without(question, absent, environment.random), [signal, late]) as Promise<T>,
      signal,
    )
  }

  /** Whether the app may be asking again, for a server has refused, or keeps silent. It sees nothing in that, as all calls are sent. */
  get #hasFailed(): boolean {
    const { clock } = this.#parts.environment
    return this.#failedAfter > 0 || [...this.#underWay].some(({ since }) => clock.now() - since >= SLOW_MS)
  }

  async #sent<T>(question: Question<T>, enders: readonly (AbortSignal | undefined)[]): Promise<T> {
    const own = { since: this.#parts.environment.clock.now() }
    const number = ++this.#calls
    const failed = () => {
      this.#failedAfter = this.#calls
    }
    const ends = enders.map(ender => ender && onAbort(ender, failed))
    this.#underWay.add(own)
    try {
      const answer = await this.#send(question)
      if (number > this.#failedAfter) this.#failedAfter = 0
      return answer
    } catch (error) {
      if (!(error instanceof UsageError)) failed()
      throw error
    } finally {
      this.#underWay.delete(own)
      for (const end of ends) end?.()
      this.#catchUp()
    }
  }

  /** Lookups may have learned of a newer epoch, where nobody tells of one. */
  #catchUp(): void {
    const { manifest } = this.#inner
    if (manifest !== undefined && this.#filter.isBefore(manifest)) this.#filter.follow({}).catch(() => {})
  }

  async #waitForFilter(signal: AbortSignal | undefined): Promise<void> {
    const { stats } = this.#parts
    stats.waitingForFilter++
    try {
      await this.#filter.whenReady(signal)
    } finally {
      stats.waitingForFilter--
    }
  }

  async #send<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    if (!this.#hasBegun) await abortable(this.#begun(), signal)
    return await this.#inner.ask(question, signal)
  }

  async sync(signal?: AbortSignal): Promise<void> {
    if (!this.#hasBegun) await abortable(this.#begun(), signal)
    await Promise.all([this.#inner.sync(signal), abortable(this.#filter.follow({ patient: true }), signal)])
  }

  async reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    const progress = new ProgressMeter(this.#parts.onProgress, onProgress)
    await this.#inner.reset(onProgress, signal)
    await this.#filter.download(progress, signal ?? new AbortController().signal)
    progress.phase('ready')
  }

  async prepare(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    await this.#inner.prepare(onProgress, signal)
  }

  /** A call that waits ends; one that is under way runs to its end. */
  async close(): Promise<void> {
    await this.#filter.close()
    await this.#inner.close()
  }
}
