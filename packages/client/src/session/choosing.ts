// A session in mode `auto`. If a whole state is stored, it answers. Else a scheme without preparation answers at once, and a
// state is made in the background as soon as that pays: after one lookup for a database that is best kept whole, else after more.
// Lookups are counted here, and their number is never sent. Then the state answers.
//
//   beginning ─► without         nothing is stored, or a half-made state, or one that has to be downloaded again, and somebody has a say
//   beginning ─► with            a whole state is stored, or a condemned one
//   without ─► with              a state was due, and allowed, and is whole
//   with ─► leaving ─► without   no update leads on from the state, and the app or the line has a say over the next one; or servers
//                                withhold updates and downloads
//   beginning, with ─► needed    as in the first and the last line, but servers offer no lookups without a state
//
// Where the core is JavaScript (no WebAssembly), lookups stay without a state, and a stored one waits.
//
// When a state is due, and which one, depends on the manifest, on how many lookups have ended, on whether there was one before, and on
// whether the line is metered. It never depends on what was asked, on what came back, nor on what the app has aborted (P5, I3).

import { equalBytes, type Manifest } from '@keyhush/protocol'
import type { Mode } from '@keyhush/wasm/client'
import { abortable, scoped } from '../base/abort.js'
import { ClosedError, UnsupportedError } from '../base/errors.js'
import type { Condemnation, StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import type { Question } from '../lookup/question.js'
import { downloadBytes } from '../scheme/download.js'
import { LOCAL } from '../scheme/facts.js'
import type { StatelessScheme } from '../scheme/scheme.js'
import type { EpochId } from '../servers/signatures.js'
import type { Stats } from '../servers/stats.js'
import type { Parts } from '../state/machine.js'
import type { OpenedStore } from '../store/storage.js'
import { Consent, isRefusal, refusalOf } from './consent.js'
import type { Choosing } from './opening.js'
import { CalledOff, type Choice, isBehind, Preparing, type Without } from './preparing.js'
import type { Session } from './session.js'
import { Shown } from './shown.js'
import { StatefulSession, storeOf } from './stateful.js'
import { type StatelessParts, StatelessSession } from './stateless.js'

/** Which session answers, and what may come after it. */
type SessionPhase =
  /** begin() looks for a state, and for what servers offer */
  | { readonly is: 'beginning'; readonly now: StatefulSession }
  | Without
  /** the state answers. `back`: the last attempt to do without it, which may be under way */
  | { readonly is: 'with'; readonly now: StatefulSession; readonly back: Promise<void> }
  /** the state answers: servers offer no lookups without one. The app is asked before each download */
  | { readonly is: 'needed'; readonly now: StatefulSession }
  /** lookups are made without a state again. Its store is closed, and opened again: if that fails, the phase stays */
  | { readonly is: 'leaving'; readonly now: StatelessSession }

/** What is done beside the lookups, one at a time. `done` may reject. */
interface BesideLookups {
  readonly done: Promise<void>
  readonly callOff: () => void
}

type Given = Omit<Parts, 'choose'> & Pick<StatelessParts, 'directoryAt'>

export class ChoosingSession implements Session, Choosing {
  /** with the core of lookups without a state; the state's session gets one for hints before it begins */
  readonly #parts: Parts & Given
  readonly #scheme: StatelessScheme
  readonly #consent: Consent
  readonly #preparing: Preparing
  readonly #shown: Shown | undefined
  readonly choosing = this
  readonly filterConsent: Consent
  readonly #closing = new AbortController()
  #phase: SessionPhase
  #work: BesideLookups | undefined
  /** the session before has closed: it may still have lookups under way */
  #before: Promise<void> = Promise.resolve()
  #listens = false
  #closed: Promise<void> | undefined

  private constructor(
    given: Given,
    scheme: StatelessScheme,
    choice: Choice,
    opened: OpenedStore,
    shown: Shown | undefined,
  ) {
    const { announce, apart, core, environment } = given
    const { connection } = environment
    const hasSay = choice.network === 'unmetered' && connection !== undefined
    const line = hasSay ? { connection, announce } : undefined
    this.#consent = new Consent(choice.download, line)
    this.filterConsent = new Consent(choice.download, line)
    const mayDownload: Parts['mayDownload'] = (...wanted) => this.#mayDownload(...wanted)
    this.#parts = {
      ...given,
      choose: manifest => choice.choose(core, manifest, { lookups: this.#preparing.count.atLast, apart }),
      ...((choice.download !== 'auto' || hasSay) && { mayDownload }),
      onUnoffered: () => this.#makeRoom(),
    }
    this.#scheme = scheme
    this.#preparing = new Preparing(this.#parts, choice, this.#consent)
    this.#shown = shown
    this.#phase = { is: 'beginning', now: new StatefulSession(this.#parts, opened) }
  }

  /** `scheme` answers until a state does, which is made once it pays. */
  static async withStore(given: Given, scheme: StatelessScheme, choice: Choice): Promise<ChoosingSession> {
    const opening = Shown.open(given)
    try {
      const opened = await storeOf(given)
      return new ChoosingSession(given, scheme, choice, opened, await opening)
    } catch (error) {
      await (await opening)?.close()
      throw error
    }
  }

  get #now(): StatelessSession | StatefulSession {
    return this.#phase.now
  }

  get maxQueries(): number | undefined {
    return this.#now instanceof StatelessSession ? this.#now.maxQueries : undefined
  }

  get wantsFilter(): boolean {
    const phase = this.#phase
    if (phase.is !== 'without') return phase.is === 'leaving' || phase.is === 'beginning'
    const { manifest } = phase.now
    if (manifest === undefined) return true // it has closed
    const isCopy = () => this.#parts.choose(manifest).name === LOCAL.name
    return this.#isScript || !phase.next.isOffered || !this.#consent.allows(downloadBytes(manifest)) || !isCopy()
  }

  waits(): void {
    this.#lookedUp()
  }

  get #isScript(): boolean {
    return this.#parts.core.kind === 'script'
  }

  get dead(): boolean {
    return this.#now.dead
  }

  get manifest(): Manifest | undefined {
    return this.#now.manifest
  }

  get mode(): Mode | undefined {
    return this.#now.mode
  }

  get condemned(): Condemnation | undefined {
    return this.#now.condemned
  }

  /** where the state is, or will be */
  get storage(): StorageKind {
    const phase = this.#phase
    return phase.is === 'without' && !this.#isScript ? phase.next.storage : phase.now.storage
  }

  get stats(): Stats {
    return this.#now.stats
  }

  ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    return this.#orOtherwise(now => now.ask(question, signal), signal)
  }

  async sync(signal?: AbortSignal): Promise<void> {
    await this.#orOtherwise(now => now.sync(signal), signal)
  }

  /**
   * A call of the session that answers; where another has taken over meanwhile, of that; where the call needs a download that must not
   * begin, of the one without a state; where lookups without a state are offered no more, of the one with it.
   */
  async #orOtherwise<T>(call: (now: Session) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const now = this.#now
    try {
      return await call(now)
    } catch (error) {
      const isSame = () => this.#now === now
      if (isUnoffered(error) && this.#phase.is === 'without') {
        if (isSame()) await this.#goOn(error, signal)
      } else if (isUnoffered(error) || isRefusal(error)) {
        await abortable(this.#back, signal).catch(cause => {
          if (signal?.aborted || isSame()) throw cause
        })
        if (isSame() && this.#phase.is !== 'needed') throw error
      } else if (!(error instanceof ClosedError) || isSame()) throw error
      return await call(this.#now)
    }
  }

  /** Settles when the map has gone back to lookups without a state, or could not. */
  get #back(): Promise<void> {
    if (this.#phase.is === 'with') return this.#phase.back
    return (this.#phase.is === 'leaving' && this.#work?.done) || Promise.resolve()
  }

  /** With the state, as a new map would. Throws `unoffered` if there can be none. */
  async #goOn(unoffered: unknown, signal: AbortSignal | undefined): Promise<void> {
    if (this.#phase.is !== 'without' || this.#isScript) throw unoffered
    this.#enter({ ...this.#phase, due: 'needed' })
    const work = this.#work ?? this.#prepareNext(false)
    await abortable(work!.done, signal).catch(cause => {
      throw cause instanceof CalledOff ? unoffered : cause
    })
  }

  async reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    if (this.#phase.is !== 'without') return await this.#now.reset(onProgress, signal)
    this.#work?.callOff()
    const before = Promise.allSettled([this.#work?.done])
    const anew = before.then(() =>
      scoped([signal, this.#closing.signal], signal => this.#beginAnew(onProgress, signal)),
    )
    await this.#beside(() => anew).done
  }

  async prepare(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    this.#consent.demand()
    this.#preparing.listeners.add(onProgress)
    try {
      for (;;) {
        if (this.#closing.signal.aborted) throw new ClosedError()
        const work = this.#work ?? this.#prepareNext(true, signal)
        if (work === undefined) break
        try {
          await abortable(work.done, signal)
        } catch (error) {
          if (!(error instanceof CalledOff)) throw error
        }
      }
    } finally {
      this.#preparing.listeners.delete(onProgress)
      this.#considerSoon()
    }
    await this.#now.prepare(onProgress, signal)
  }

  /** reset() must not use what was half-made before either: a new state takes its place, and then the lookups. */
  async #beginAnew(onProgress: OnProgress, signal: AbortSignal): Promise<void> {
    await this.#now.reset(onProgress, signal)
    const phase = this.#phase
    if (phase.is !== 'without') return // it took over meanwhile, and was reset just now
    const { next } = phase
    if (next.storage === 'memory' || (await next.stored()) === undefined) return
    await this.#preparing.equip(next, signal)
    await next.reset(onProgress, signal)
    if (!isBehind(phase)) this.#takeOver(phase)
  }

  close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    const next = () => this.#phase.is === 'without' && this.#phase.next.close()
    await Promise.allSettled([next(), this.#work?.done]) // may wait for another tab
    await Promise.all([next(), this.#before, this.#now.close(), this.#shown?.close()])
  }

  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    if (this.#phase.is !== 'beginning') return
    const { now: stateful } = this.#phase
    const stored = await stateful.stored()
    const seen = newer(stored?.manifest, this.#shown?.at)
    let due: Without['due'] = stored && 'unfinished'
    if (stored?.stage === 'whole' && !this.#isScript) {
      if (await this.#beginsWithStored(stateful, progress, signal)) {
        if (isBefore(stateful.manifest, seen)) await this.#giveWay(stateful, seen) // lookups without a state have gone further
        return this.#assertSuccession(seen, this.#now)
      }
      due = 'outdated'
    }
    const stateless = this.#stateless(seen)
    try {
      await stateless.begin(progress, signal)
    } catch (error) {
      await stateless.close()
      if (!(error instanceof UnsupportedError)) throw error
      this.#enter({ is: 'needed', now: stateful })
      await this.#preparing.begin(stateful, progress, signal)
      return this.#assertSuccession(seen, stateful)
    }
    this.#enter({ is: 'without', now: stateless, next: stateful, due })
    this.#considerSoon()
  }

  /**
   * Whether the stored state answers. Not if it takes a download over which the app has a say: it is asked beside the lookups. Nor if servers
   * withhold it.
   */
  async #beginsWithStored(stateful: StatefulSession, progress: ProgressMeter, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#preparing.begin(stateful, progress, signal)
      this.#enter({ is: 'with', now: stateful, back: Promise.resolve() })
      return true
    } catch (error) {
      const isWithheld = isUnoffered(error) && !stateful.isOffered
      if (!isRefusal(error) && !isWithheld) throw error
      return false
    }
  }

  #stateless(remembered: EpochId | undefined): StatelessSession {
    const shared = { onEnded: () => this.#lookedUp(), onShown: (at: EpochId) => this.#shown?.note(at), remembered }
    return new StatelessSession(this.#parts, this.#scheme, shared)
  }

  listen(): void {
    this.#listens = true
    this.#now.listen()
  }

  #lookedUp(): void {
    this.#preparing.count.ended++
    this.#considerSoon()
  }

  /** In a task of its own: the app has its map, or its answer, first. */
  #considerSoon(): void {
    const { environment } = this.#parts
    environment
      .pause('background')
      .then(() => this.#consider())
      .catch(() => {})
  }

  #consider(): void {
    this.#consent.look()
    if (this.#phase.is !== 'without' || this.#work !== undefined || this.#isScript) return
    if (this.#closing.signal.aborted || this.dead) return
    if (this.#preparing.isDue(this.#phase)) this.#prepareNext(false)
  }

  /** Begins `work`. Its signal aborts when reset() calls it off. */
  #beside(work: (calledOff: AbortSignal) => Promise<void>): BesideLookups {
    const callingOff = new AbortController()
    const own = { done: work(callingOff.signal), callOff: () => callingOff.abort() }
    const over = () => {
      if (this.#work !== own) return
      this.#work = undefined
      this.#consider() // lookups have ended meanwhile
    }
    this.#work = own
    own.done.then(over, over)
    return own
  }

  /**
   * Asked before each download. One that is being prepared was allowed before, if it is not larger now. A state that cannot go on without
   * one makes room for lookups without a state, so that none waits for the app; where there are none, the app is asked.
   */
  async #mayDownload(mode: string, manifest: Manifest, signal: AbortSignal): Promise<void> {
    const offer = { mode, bytes: downloadBytes(manifest) }
    if (this.#consent.allows(offer.bytes)) return
    const phase = this.#phase
    if (phase.is === 'without') {
      if (this.#consent.covers(offer.bytes)) return
      return await this.#consent.askToPrepare({ ...this.#preparing.offer(phase), ...offer }, signal)
    }
    if (phase.is === 'needed') return await this.#consent.ask({ ...offer, reason: 'needed' }, signal)
    this.#makeRoom()
    throw refusalOf(offer)
  }

  /** The state cannot go on: unless something else is under way, lookups are made without one. */
  #makeRoom(): void {
    const phase = this.#phase
    if (phase.is === 'with' && this.#work === undefined) this.#giveWay(phase.now, phase.now.manifest).catch(() => {})
  }

  // ---- from one phase to another ---------------------------------------------------------------------

  #enter(phase: SessionPhase): void {
    const isNew = phase.now !== this.#now
    this.#phase = phase
    if (isNew && this.#listens) phase.now.listen()
  }

  /** Prepares the state; undefined: none is to take over. `demanded`: by prepare(). */
  #prepareNext(demanded: boolean, wanted?: AbortSignal): BesideLookups | undefined {
    if (this.#phase.is !== 'without') return undefined
    const phase = { ...this.#phase, due: this.#phase.due ?? (demanded ? 'unfinished' : undefined) }
    this.#enter(phase)
    const takeOver = () => this.#takeOver(phase)
    return this.#beside(calledOff => {
      const enders = [wanted, this.#closing.signal, calledOff]
      return this.#preparing.prepare(phase, demanded, enders, takeOver)
    })
  }

  /** Throws SignatureError. */
  #takeOver({ now, next }: Without): void {
    this.#assertSuccession(now.manifest, next)
    this.#before = now.giveWay(next)
    this.#enter({ is: 'with', now: next, back: Promise.resolve() })
    this.#parts.announce({ type: 'prepared' })
    this.#parts.announce({ type: 'mode', mode: next.mode })
  }

  /** Begins to go back. Calls that the state refuses wait for that. */
  #giveWay(now: StatefulSession, seen: EpochId | undefined): Promise<void> {
    const { done: back } = this.#beside(() => this.#goBack(now, seen))
    this.#enter({ is: 'with', now, back })
    return back
  }

  /** From the state to lookups without one. Rejects if these cannot begin, or if the store cannot be opened again. */
  async #goBack(stateful: StatefulSession, seen: EpochId | undefined): Promise<void> {
    const stateless = this.#stateless(seen)
    try {
      await stateless.begin(new ProgressMeter(this.#parts.onProgress), this.#closing.signal)
    } catch (error) {
      await stateless.close()
      if (!(error instanceof UnsupportedError)) throw error // the next call tries again
      this.#enter({ is: 'needed', now: stateful })
      return
    }
    this.#enter({ is: 'leaving', now: stateless })
    this.#parts.announce({ type: 'mode', mode: stateless.mode })
    const { generation, epoch } = stateless.manifest!
    if (epoch !== stateful.manifest?.epoch) this.#parts.announce({ type: 'updated', generation, epoch })
    await stateful.close()
    const next = await StatefulSession.withStore(this.#parts)
    this.#enter({ is: 'without', now: stateless, next, due: 'outdated' })
  }

  /** Throws SignatureError if the state's session is at an epoch that must not follow the one shown. */
  #assertSuccession(shown: EpochId | undefined, { manifest }: Session): void {
    if (manifest !== undefined && shown !== undefined) this.#parts.signing?.checkSuccession(shown, manifest)
  }
}

/** Whether a state is of the same database as what was shown, and older. */
function isBefore(state: Manifest | undefined, shown: EpochId | undefined): boolean {
  if (state === undefined || shown === undefined) return false
  return state.epoch < shown.epoch && equalBytes(state.databaseId, shown.databaseId)
}

function newer(one: EpochId | undefined, other: EpochId | undefined): EpochId | undefined {
  return (one?.epoch ?? 0) > (other?.epoch ?? 0) ? one : other
}

/** Whether these servers, or this database, have no lookups without a state any more. */
function isUnoffered(error: unknown): boolean {
  return error instanceof UnsupportedError && error.reason === 'offer'
}
