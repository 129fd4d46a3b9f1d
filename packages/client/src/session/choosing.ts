// A session whose mode is left open. What is stored is taken up. Where nothing is, lookups are answered at once by a scheme
// that needs no preparation, and a state is made behind it as soon as that pays: at first for a database that is best kept
// whole, else after a number of lookups, which is counted here and told to nobody. Then it takes the lookups over, for good.
//
//   begin ─► nothing stored: stateless answers ─► due ─► preparing behind ─► whole: stateful answers
//        └─► a whole or condemned state ──────────────────────────────────►        "
//
// When it is due depends on the manifest, on how many lookups have ended, and on whether servers failed: never on what was
// asked, nor on what an app has given up (P5).

import type { Manifest } from '@pirouette/protocol'
import { scoped } from '../base/abort.js'
import { ClosedError, ServerError, UnsupportedError } from '../base/errors.js'
import type { Condemnation, StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import type { Question } from '../lookup/question.js'
import type { StatelessScheme } from '../scheme/scheme.js'
import type { Pays } from '../scheme/table.js'
import { compareEpochs } from '../servers/manifests.js'
import type { Stats } from '../servers/stats.js'
import type { Parts } from '../state/machine.js'
import type { Session } from './session.js'
import { StatefulSession } from './stateful.js'
import { StatelessSession } from './stateless.js'

export class ChoosingSession implements Session {
  readonly #parts: Parts
  readonly #scheme: StatelessScheme
  readonly #pays: Pays
  readonly #closing = new AbortController()
  /** what answers */
  #now: StatelessSession | StatefulSession
  /** what is to take over */
  #next: StatefulSession | undefined
  /** what has been taken over from, with lookups under way perhaps */
  #before: Promise<void> = Promise.resolve()
  #preparing: Promise<void> | undefined
  /** ends what is being prepared */
  #calledOff = new AbortController()
  /** lookups that have ended, however they did */
  #ended = 0
  /** how many there have to be before the next attempt */
  #notBefore = 0
  /** a lookup has failed for its servers: whatever else answers is better */
  #failed = false
  #listens = false
  #closed: Promise<void> | undefined

  private constructor(parts: Parts, scheme: StatelessScheme, pays: Pays, next: StatefulSession) {
    this.#parts = parts
    this.#scheme = scheme
    this.#pays = pays
    this.#now = next
  }

  /** `scheme` answers until a state does, which is made once it `pays`. */
  static async withStore(parts: Parts, scheme: StatelessScheme, pays: Pays): Promise<ChoosingSession> {
    return new ChoosingSession(parts, scheme, pays, await StatefulSession.withStore(parts))
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

  /** What is half-made and stored is something of before, too: another takes its place, and then the lookups over. */
  async #beginAnew(onProgress: OnProgress, signal: AbortSignal): Promise<void> {
    await this.#now.reset(onProgress, signal)
    const next = this.#next // perhaps it was whole already, and has begun anew just now
    if (next === undefined || next.storage === 'memory' || (await next.stored()) === undefined) return
    await next.reset(onProgress, signal)
    if (!this.#isBehind(next)) this.#takeOver(next)
  }

  close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    await Promise.all([this.#next?.close(), this.#preparing]) // which may wait for another tab
    await Promise.all([this.#before, this.#now.close()])
  }

  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    const stateful = this.#now as StatefulSession
    const stored = await stateful.stored()
    if (stored?.stage === 'whole') return await stateful.begin(progress, signal)
    const stateless = new StatelessSession(this.#parts, this.#scheme, error => this.#over(error), stored?.manifest)
    try {
      await stateless.begin(progress, signal)
    } catch (error) {
      await stateless.close()
      if (!(error instanceof UnsupportedError)) throw error
      return await stateful.begin(progress, signal)
    }
    this.#now = stateless
    this.#next = stateful
    this.#failed = stored !== undefined // somebody has found before that it pays
    this.#consider()
  }

  listen(): void {
    this.#listens = true
    this.#now.listen()
  }

  /** A lookup has ended, whoever still waits for it. */
  #over(error: unknown): void {
    this.#ended++
    this.#failed ||= error instanceof ServerError
    this.#consider()
  }

  #consider(): void {
    const { core } = this.#parts
    const { manifest } = this.#now
    if (this.#next === undefined || this.#preparing !== undefined || manifest === undefined) return
    if (this.#closing.signal.aborted || this.dead || this.#ended < this.#notBefore) return
    if (!this.#failed && !this.#pays(core, manifest, this.#ended)) return
    this.#failed = false
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

  /** Never rejects: what fails is tried again after as many lookups more. */
  async #prepare(next: StatefulSession): Promise<void> {
    this.#parts.announce({ type: 'preparing' })
    try {
      await scoped([this.#closing.signal, this.#calledOff.signal], async signal => {
        await next.begin(new ProgressMeter(), signal)
        if (this.#isBehind(next)) await next.sync(signal)
        if (this.#isBehind(next)) return // the servers' word of now against their word of before: not for us to decide
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

  /** Throws SignatureError: what one session has shown, the other has not seen. */
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
