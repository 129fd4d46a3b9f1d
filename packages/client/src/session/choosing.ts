// A session in mode `auto`. If a whole state is stored, it answers. Else a scheme without preparation answers at once, and a
// state is made in the background as soon as that pays: at once for a database that is best kept whole, else after a number
// of lookups, which is counted here and never sent. Then the state answers, for good.
//
//   begin ─► nothing stored: stateless answers ─► due ─► preparing behind ─► whole: stateful answers
//        └─► a whole or condemned state ──────────────────────────────────►        "
//
// When a state is due, and which one, depends on the manifest, on how many lookups have ended and on whether servers have
// failed. It never depends on what was asked, nor on what the app has aborted (P5, I3).

import type { Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { abortable, scoped } from '../base/abort.js'
import { FAILED_LOOKUPS } from '../base/constants.js'
import { ClosedError, ProtocolError, ServerError, TamperedError, UnsupportedError } from '../base/errors.js'
import type { Condemnation, StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import type { Question } from '../lookup/question.js'
import type { StatelessScheme } from '../scheme/scheme.js'
import type { Basis, Choose, Pays } from '../scheme/table.js'
import { compareEpochs } from '../servers/manifests.js'
import type { Stats } from '../servers/stats.js'
import type { Parts } from '../state/machine.js'
import type { Session } from './session.js'
import { StatefulSession } from './stateful.js'
import { StatelessSession } from './stateless.js'

/** How the state is chosen. */
export interface Choice {
  readonly pays: Pays
  readonly choose: Choose
  /** loads the core that a state needs. Throws UnsupportedError. */
  readonly loadHints: () => Promise<Core>
}

export class ChoosingSession implements Session {
  /** the state's session shares them; their core is replaced by one for hints before it begins */
  readonly #parts: { -readonly [K in keyof Parts]: Parts[K] }
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
  #preparing: Promise<void> | undefined
  /** aborts the preparation */
  #calledOff = new AbortController()
  /** lookups that have ended, however they did */
  #ended = 0
  /** how many there have to be before the next attempt */
  #notBefore = 0
  /** servers have failed so that only a state can answer */
  #failed = false
  /** lookups in a row that servers have failed, each begun after the last had failed */
  #failures = 0
  #listens = false
  #closed: Promise<void> | undefined

  private constructor(parts: Parts, scheme: StatelessScheme, choice: Choice, basis: Basis, next: StatefulSession) {
    this.#parts = parts
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
    return new ChoosingSession(parts, scheme, choice, basis, await StatefulSession.withStore(parts))
  }

  get dead(): boolean {
    return this.#now.dead
  }

  get manifest(): Manifest | undefined {
    return this.#now.manifest
  }

  get mode(): string | undefined {
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
    return this.#now.ask(question, signal)
  }

  async sync(signal?: AbortSignal): Promise<void> {
    await this.#now.sync(signal)
  }

  async reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    if (this.#next === undefined) return await this.#now.reset(onProgress, signal)
    this.#calledOff.abort()
    this.#calledOff = new AbortController()
    const anew = Promise.resolve(this.#preparing).then(() =>
      scoped([signal, this.#closing.signal], signal => this.#beginAnew(onProgress, signal)),
    )
    this.#prepareBy(anew.catch(() => {}))
    await anew
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
    await Promise.all([this.#next?.close(), this.#preparing]) // may wait for another tab
    await Promise.all([this.#before, this.#now.close()])
  }

  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    const stateful = this.#now as StatefulSession
    const stored = await stateful.stored()
    if (stored?.stage === 'whole') return await this.#beginWith(stateful, progress, signal)
    // A copy of the parts: the stateless session keeps its core.
    const stateless = new StatelessSession({ ...this.#parts }, this.#scheme, () => this.#begun(), stored?.manifest)
    try {
      await stateless.begin(progress, signal)
    } catch (error) {
      await stateless.close()
      if (!(error instanceof UnsupportedError)) throw error
      return await this.#beginWith(stateful, progress, signal)
    }
    this.#now = stateless
    this.#next = stateful
    this.#failed = stored !== undefined // an earlier life has found that a state pays
    this.#considerSoon()
  }

  listen(): void {
    this.#listens = true
    this.#now.listen()
  }

  #begun(): (error: unknown) => void {
    const failures = this.#failures // when this lookup began
    return error => {
      this.#ended++
      if (!(error instanceof ServerError)) this.#failures = 0
      else if (isFinal(error)) this.#failed = true
      else if (failures === this.#failures) this.#failed ||= ++this.#failures >= FAILED_LOOKUPS
      this.#considerSoon()
    }
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
    const { core } = this.#parts
    const { manifest } = this.#now
    if (this.#next === undefined || this.#preparing !== undefined || manifest === undefined) return
    if (this.#closing.signal.aborted || this.dead || this.#ended < this.#notBefore) return
    if (!this.#failed && !this.#choice.pays(core, manifest, this.#ended)) return
    this.#failed = false
    this.#failures = 0
    this.#basis.lookups = this.#ended
    this.#notBefore = 2 * this.#ended + 1 // if it fails
    this.#prepareBy(this.#prepare(this.#next))
  }

  #prepareBy(work: Promise<void>): void {
    const preparing = work.finally(() => {
      if (this.#preparing !== preparing) return
      this.#preparing = undefined
      this.#consider() // lookups have ended meanwhile
    })
    this.#preparing = preparing
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

  /** Never rejects. A failed preparation is retried after twice as many lookups. */
  async #prepare(next: StatefulSession): Promise<void> {
    this.#parts.announce({ type: 'preparing' })
    try {
      await scoped([this.#closing.signal, this.#calledOff.signal], async signal => {
        await this.#beginWith(next, new ProgressMeter(), signal)
        if (this.#isBehind(next)) await next.sync(signal)
        if (this.#isBehind(next)) return // the servers contradict what they have shown before
        signal.throwIfAborted()
        this.#takeOver(next)
      })
    } catch {}
  }

  /** Throws SignatureError. */
  #takeOver(next: StatefulSession): void {
    this.#assertSuccession(next)
    this.#before = this.#now.close()
    this.#now = next
    this.#next = undefined
    if (this.#listens) next.listen()
    this.#parts.announce({ type: 'mode', mode: next.mode })
  }

  /** Throws SignatureError if the new session is at an epoch that must not follow the one shown. */
  #assertSuccession({ manifest }: StatefulSession): void {
    const shown = this.#now.manifest
    if (manifest !== undefined && shown !== undefined) this.#parts.publisher?.checkSuccession(shown, manifest)
  }

  /** A map never goes back to an older epoch. */
  #isBehind({ manifest }: StatefulSession): boolean {
    const shown = this.#now.manifest
    return manifest !== undefined && shown !== undefined && compareEpochs(manifest, shown) < 0
  }
}

/** A lie, or a final refusal: asking again would not help. */
function isFinal(error: ServerError): boolean {
  return error instanceof TamperedError || error instanceof ProtocolError
}
