// A session in mode `auto`. If a whole state is stored, it answers. Else a scheme without preparation answers at once, and a
// state is made in the background as soon as that pays: at once for a database that is best kept whole, else after a number
// of lookups, which is counted here and never sent. Then the state answers.
//
//   begin ─► nothing stored: stateless answers ─► due, allowed ─► preparing behind ─► whole: stateful answers
//        └─► a whole or condemned state ───────────────────────────────────────────►        "
//        ▲                                                                                  │
//        └── stateless answers ◄────── no update leads on, and the app or the line has a say ┘
//
// Where the core is JavaScript (no WebAssembly), lookups stay without a state, and a stored one waits.
//
// When a state is due, and which one, depends on the manifest, on how many lookups have ended, on whether there was one before, and on
// whether the line is metered. It never depends on what was asked, on what came back, nor on what the app has aborted (P5, I3).

import { equalBytes, type Manifest } from '@keyhush/protocol'
import type { Core, Mode } from '@keyhush/wasm/client'
import { abortable, scoped } from '../base/abort.js'
import { ClosedError, InternalError, KeyhushError, ServersDisagreeError, UnsupportedError } from '../base/errors.js'
import type { Condemnation, StorageKind } from '../base/events.js'
import { type OnProgress, type Progress, ProgressMeter } from '../base/progress.js'
import type { Question } from '../lookup/question.js'
import { downloadBytes } from '../scheme/download.js'
import type { StatelessScheme } from '../scheme/scheme.js'
import type { Basis, Choose, Pays } from '../scheme/table.js'
import { compareEpochs } from '../servers/manifests.js'
import type { Place } from '../servers/signatures.js'
import type { Stats } from '../servers/stats.js'
import type { Parts } from '../state/machine.js'
import { Consent, type Download, type DownloadOffer, isRefusal, type Network, refusalOf } from './consent.js'
import type { Session } from './session.js'
import { Shown } from './shown.js'
import { StatefulSession } from './stateful.js'
import { StatelessSession } from './stateless.js'

/** What was prepared is not wanted any more. */
class CalledOff extends Error {}

/** How the state is chosen, and when it may be downloaded. */
export interface Choice {
  readonly download: Download
  readonly network: Network
  readonly pays: Pays
  readonly choose: Choose
  /** loads the core that a state needs. Throws UnsupportedError. */
  readonly loadHints: () => Promise<Core>
}

export class ChoosingSession implements Session {
  /** the state's session shares them; their core is replaced by one for hints before it begins */
  readonly #parts: { -readonly [K in keyof Parts]: Parts[K] }
  /** of lookups without a state */
  readonly #core: Core
  readonly #scheme: StatelessScheme
  readonly #choice: Choice
  #hints: Promise<Core> | undefined
  /** what the state is chosen by, as of when its preparation began */
  readonly #basis: { -readonly [K in keyof Basis]: Basis[K] }
  readonly #closing = new AbortController()
  /** the session that answers */
  #now: StatelessSession | StatefulSession
  /** the session that will take over */
  #next: StatefulSession | undefined
  /** the session before, which may still have lookups under way */
  #before: Promise<void> = Promise.resolve()
  /** what is done behind the lookups; may reject */
  #preparing: Promise<void> | undefined
  /** aborts the preparation */
  #calledOff = new AbortController()
  /** lookups that have ended, however they did */
  #ended = 0
  /** how many there have to be before the next attempt */
  #notBefore = 0
  /** why a state is due, however few lookups there were */
  #due: DownloadOffer['reason'] | undefined
  readonly #consent: Consent
  /** what the preparation may download unasked: the database may have grown since the app was asked */
  #allowed = 0
  readonly #shown: Shown | undefined
  /** from a state that must not be downloaded again to lookups without one */
  #goingBack: Promise<void> = Promise.resolve()
  /** those of prepare() */
  readonly #listeners = new Set<OnProgress>()
  /** the state's session has begun, and answers */
  #begun = false
  #listens = false
  #closed: Promise<void> | undefined

  private constructor(
    parts: { -readonly [K in keyof Parts]: Parts[K] },
    scheme: StatelessScheme,
    choice: Choice,
    basis: Basis,
    next: StatefulSession,
    shown: Shown | undefined,
  ) {
    this.#parts = parts
    this.#core = parts.core
    this.#shown = shown
    const { announce, environment } = parts
    const { connection } = environment
    const hasSay = choice.network === 'unmetered' && connection !== undefined
    this.#consent = new Consent(choice.download, hasSay ? { connection, announce } : undefined)
    if (choice.download !== 'auto' || hasSay) parts.mayDownload = (...wanted) => this.#mayDownload(...wanted)
    this.#scheme = scheme
    this.#choice = choice
    this.#basis = basis
    this.#now = next
  }

  /** `scheme` answers until a state does, which is made once it pays. */
  static async withStore(
    given: Omit<Parts, 'choose'>,
    scheme: StatelessScheme,
    choice: Choice,
  ): Promise<ChoosingSession> {
    const basis: Basis = { lookups: 0, apart: given.apart }
    const parts = { ...given, choose: (manifest: Manifest) => choice.choose(given.core, manifest, basis) }
    const opening = Shown.open(given)
    try {
      const next = await StatefulSession.withStore(parts)
      return new ChoosingSession(parts, scheme, choice, basis, next, await opening)
    } catch (error) {
      await (await opening)?.close()
      throw error
    }
  }

  get #isScript(): boolean {
    return this.#core.kind === 'script'
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

  get storage(): StorageKind {
    return this.#now.storage
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
      if (error instanceof ClosedError && this.#now !== now) return await call(this.#now)
      if (isUnoffered(error)) {
        if (this.#now === now) await this.#goOn(error, signal)
        return await call(this.#now)
      }
      if (!isRefusal(error)) throw error
      await abortable(this.#goingBack, signal).catch(cause => {
        if (signal?.aborted || this.#now === now) throw cause
      })
      if (this.#now === now && this.#due !== 'needed') throw error
      return await call(this.#now)
    }
  }

  /** With the state, as a new map would. Throws `unoffered` if there can be none. */
  async #goOn(unoffered: unknown, signal: AbortSignal | undefined): Promise<void> {
    if (this.#next === undefined || this.#isScript) throw unoffered
    this.#due = 'needed'
    if (this.#preparing === undefined) this.#prepareBy(this.#prepare(false))
    await abortable(this.#preparing!, signal).catch(cause => {
      throw cause instanceof CalledOff ? unoffered : cause
    })
  }

  async reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    if (this.#next === undefined) return await this.#now.reset(onProgress, signal)
    this.#calledOff.abort()
    this.#calledOff = new AbortController()
    const before = Promise.allSettled([this.#preparing])
    const anew = before.then(() =>
      scoped([signal, this.#closing.signal], signal => this.#beginAnew(onProgress, signal)),
    )
    this.#prepareBy(anew)
    await anew
  }

  async prepare(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    this.#consent.demand()
    this.#allowed = Number.POSITIVE_INFINITY
    this.#listeners.add(onProgress)
    try {
      for (;;) {
        if (this.#closing.signal.aborted) throw new ClosedError()
        if (this.#preparing === undefined && this.#next === undefined) break
        try {
          if (this.#preparing === undefined) this.#prepareBy(this.#prepare(true, signal))
          await abortable(this.#preparing!, signal)
        } catch (error) {
          if (!(error instanceof CalledOff)) throw error
        }
      }
    } finally {
      this.#listeners.delete(onProgress)
      this.#considerSoon()
    }
    await this.#now.prepare(onProgress, signal)
  }

  /** reset() must not use what was half-made before either: a new state takes its place, and then the lookups. */
  async #beginAnew(onProgress: OnProgress, signal: AbortSignal): Promise<void> {
    await this.#now.reset(onProgress, signal)
    const next = this.#next // none, if it took over meanwhile and was reset just now
    if (next === undefined) return
    if (next.storage === 'memory' || (await next.stored()) === undefined) return
    await abortable(this.#equip(), signal)
    await next.reset(onProgress, signal)
    if (!this.#isBehind(next)) this.#takeOver(next)
  }

  close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    await Promise.allSettled([this.#next?.close(), this.#preparing]) // may wait for another tab
    await Promise.all([this.#next?.close(), this.#before, this.#now.close(), this.#shown?.close()])
  }

  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    const stateful = this.#now as StatefulSession
    const stored = await stateful.stored()
    const seen = newer(stored?.manifest, this.#shown?.place)
    this.#due = stored && 'unfinished'
    if (stored?.stage === 'whole' && !this.#isScript) {
      if (await this.#beginsWithStored(stateful, progress, signal)) {
        if (isBefore(stateful.manifest, seen)) await this.#giveWay(seen) // lookups without a state have gone further
        return this.#assertSuccession(seen, this.#now)
      }
      this.#due = 'outdated'
    }
    const stateless = this.#stateless(seen)
    try {
      await stateless.begin(progress, signal)
    } catch (error) {
      await stateless.close()
      if (!(error instanceof UnsupportedError)) throw error
      this.#due = 'needed'
      await this.#beginWith(stateful, progress, signal)
      return this.#assertSuccession(seen, stateful)
    }
    this.#now = stateless
    this.#next = stateful
    this.#considerSoon()
  }

  /** Whether the stored state answers. Not if it takes a download over which the app has a say: it is asked behind the lookups. */
  async #beginsWithStored(stateful: StatefulSession, progress: ProgressMeter, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#beginWith(stateful, progress, signal)
      this.#begun = true
      return true
    } catch (error) {
      if (!isRefusal(error)) throw error
      return false
    }
  }

  /** A copy of the parts: it keeps its core. */
  #stateless(remembered: Place | undefined): StatelessSession {
    const shared = { onEnded: () => this.#lookedUp(), onShown: (at: Place) => this.#shown?.note(at), remembered }
    return new StatelessSession({ ...this.#parts, core: this.#core }, this.#scheme, shared)
  }

  listen(): void {
    this.#listens = true
    this.#now.listen()
  }

  #lookedUp(): void {
    this.#ended++
    this.#considerSoon()
  }

  /** In a turn of its own: the app has its map, or its answer, first. */
  #considerSoon(): void {
    const { environment } = this.#parts
    environment
      .pause('behind')
      .then(() => this.#consider())
      .catch(() => {})
  }

  #consider(): void {
    const { manifest } = this.#now
    this.#consent.look()
    if (this.#next === undefined || this.#preparing !== undefined || manifest === undefined || this.#isScript) return
    if (this.#closing.signal.aborted || this.dead || this.#ended < this.#notBefore) return
    if (this.#listeners.size > 0) return // prepare() begins it, which asks nobody
    if (this.#due === undefined && !this.#choice.pays(this.#core, manifest, this.#ended, this.#basis.apart)) return
    this.#prepareBy(this.#prepare(false))
  }

  #prepareBy(work: Promise<void>): void {
    const over = () => {
      if (this.#preparing !== work) return
      this.#preparing = undefined
      this.#consider() // lookups have ended meanwhile
    }
    this.#preparing = work
    work.then(over, over)
  }

  /**
   * Asked before each download. One that is being prepared was allowed before, if it is not larger now. A state that cannot go on without
   * one makes room for lookups without a state, so that none waits for the app; where there are none, the app is asked.
   */
  async #mayDownload(mode: string, manifest: Manifest, signal: AbortSignal): Promise<void> {
    const offer = { mode, bytes: downloadBytes(manifest) }
    if (this.#consent.allows(offer.bytes)) return
    if (this.#next !== undefined) {
      if (offer.bytes <= this.#allowed) return
      this.#allowed = offer.bytes
      return await this.#consent.ask({ ...this.#offer(), ...offer }, signal)
    }
    if (this.#due === 'needed') return await this.#consent.ask({ ...offer, reason: 'needed' }, signal)
    if (this.#begun && this.#preparing === undefined) this.#giveWay(this.#now.manifest).catch(() => {})
    throw refusalOf(offer)
  }

  async #giveWay(seen: Place | undefined): Promise<void> {
    this.#goingBack = this.#goBack(seen)
    this.#prepareBy(this.#goingBack)
    await this.#goingBack
  }

  /** From the state to lookups without one. Rejects if these cannot begin, or if the store cannot be opened again. */
  async #goBack(seen: Place | undefined): Promise<void> {
    const stateful = this.#now
    const stateless = this.#stateless(seen)
    try {
      await stateless.begin(new ProgressMeter(this.#parts.onProgress), this.#closing.signal)
    } catch (error) {
      await stateless.close()
      if (!(error instanceof UnsupportedError)) throw error // the next call tries again
      this.#due = 'needed' // whoever needs the download asks the app
      return
    }
    this.#now = stateless
    this.#begun = false
    if (this.#listens) stateless.listen()
    this.#parts.announce({ type: 'mode', mode: stateless.mode })
    const { generation, epoch } = stateless.manifest!
    if (epoch !== stateful.manifest?.epoch) this.#parts.announce({ type: 'updated', generation, epoch })
    await stateful.close()
    this.#next = await StatefulSession.withStore(this.#parts)
    this.#due = 'outdated'
  }

  /** Begins the state's session, with a core that can make hints. */
  async #beginWith(session: StatefulSession, progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    await abortable(this.#equip(), signal)
    await session.begin(progress, signal)
  }

  /**
   * Loads the core for hints, once: handles of one instance must not meet another. If that instance has crashed, no state
   * is made any more. No lookup waits for the download.
   */
  async #equip(): Promise<void> {
    this.#hints ??= this.#choice.loadHints().catch(error => {
      this.#hints = undefined
      throw error
    })
    this.#parts.core = await this.#hints
  }

  /**
   * Makes the state, and says what becomes of it. A failed preparation is retried after twice as many lookups. One that the line ends
   * goes on when the line is another. `demanded`: by prepare(). Throws CalledOff.
   */
  async #prepare(demanded: boolean, wanted?: AbortSignal): Promise<void> {
    if (demanded) this.#due ??= 'unfinished'
    this.#basis.lookups = this.#ended
    this.#notBefore = 2 * this.#ended + 1 // if it fails
    const metered = new AbortController()
    await scoped([wanted, this.#closing.signal, this.#calledOff.signal, metered.signal], async signal => {
      let begun = false
      let withdraw = () => {}
      try {
        if (!demanded) {
          const offer = this.#offer()
          this.#allowed = offer.bytes
          await this.#consent.ask(offer, signal)
          withdraw = this.#consent.whenMetered(offer.bytes, () => {
            if (this.#allowed !== Number.POSITIVE_INFINITY) metered.abort()
          })
        }
        this.#parts.announce({ type: 'preparing' })
        begun = true
        await this.#makeNext(signal)
      } catch (error) {
        if (metered.signal.aborted) this.#notBefore = this.#ended
        else this.#announceFailure(signal.aborted ? undefined : error, begun)
        throw signal.aborted ? new CalledOff() : error
      } finally {
        withdraw()
      }
    })
  }

  async #makeNext(signal: AbortSignal): Promise<void> {
    const next = this.#next!
    const tellCallers = (progress: Progress) => {
      for (const listener of this.#listeners) listener(progress)
    }
    const progress = new ProgressMeter(this.#parts.onProgress, tellCallers)
    await this.#beginWith(next, progress, signal)
    if (this.#isBehind(next)) await next.sync(signal)
    if (this.#isBehind(next)) {
      throw new ServersDisagreeError('the servers show an older epoch than before; try again later')
    }
    signal.throwIfAborted()
    progress.phase('ready')
    this.#takeOver(next)
  }

  #offer(): DownloadOffer {
    const manifest = this.#now.manifest!
    const { name: mode } = this.#parts.choose(manifest)
    const reason = this.#due ?? (this.#choice.pays(this.#core, manifest, 0, this.#basis.apart) ? 'small' : 'lookups')
    return { mode, bytes: downloadBytes(manifest), reason }
  }

  /** Not if the app has said no before it began: it knows. */
  #announceFailure(cause: unknown, begun: boolean): void {
    if (!begun && isRefusal(cause) && cause.cause === undefined) return
    const error = cause === undefined || cause instanceof KeyhushError ? cause : new InternalError(cause)
    const retryAfterLookups = this.#consent.refused ? undefined : Math.max(0, this.#notBefore - this.#ended)
    this.#parts.announce({ type: 'preparing-failed', error, retryAfterLookups })
  }

  /** Throws SignatureError. */
  #takeOver(next: StatefulSession): void {
    this.#assertSuccession(this.#now.manifest, next)
    this.#before = this.#now instanceof StatelessSession ? this.#now.giveWay(next) : this.#now.close()
    this.#now = next
    this.#next = undefined
    this.#begun = true
    this.#due = undefined
    if (this.#listens) next.listen()
    this.#parts.announce({ type: 'prepared' })
    this.#parts.announce({ type: 'mode', mode: next.mode })
  }

  /** Throws SignatureError if the state's session is at an epoch that must not follow the one shown. */
  #assertSuccession(shown: Place | undefined, { manifest }: Session): void {
    if (manifest !== undefined && shown !== undefined) this.#parts.publisher?.checkSuccession(shown, manifest)
  }

  /** A map never goes back to an older epoch. */
  #isBehind({ manifest }: StatefulSession): boolean {
    const shown = this.#now.manifest
    return manifest !== undefined && shown !== undefined && compareEpochs(manifest, shown) < 0
  }
}

/** Whether a state is of the same database as what was shown, and older. */
function isBefore(state: Manifest | undefined, shown: Place | undefined): boolean {
  if (state === undefined || shown === undefined) return false
  return state.epoch < shown.epoch && equalBytes(state.databaseId, shown.databaseId)
}

function newer(one: Place | undefined, other: Place | undefined): Place | undefined {
  return (one?.epoch ?? 0) > (other?.epoch ?? 0) ? one : other
}

/** Whether these servers, or this database, have no lookups without a state any more. */
function isUnoffered(error: unknown): boolean {
  return error instanceof UnsupportedError && error.reason === 'offer'
}
