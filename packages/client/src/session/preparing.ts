// Makes the state of mode `auto` beside its lookups: when one is due, who is asked before, and what is announced.

import type { Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { abortable, scoped } from '../base/abort.js'
import { InternalError, KeyhushError, ServersDisagreeError } from '../base/errors.js'
import { type OnProgress, type Progress, ProgressMeter } from '../base/progress.js'
import { downloadBytes } from '../scheme/download.js'
import type { Choose, Pays } from '../scheme/table.js'
import { compareEpochs } from '../servers/manifests.js'
import type { Parts } from '../state/machine.js'
import { type Consent, type Download, type DownloadOffer, isRefusal, type Network } from './consent.js'
import type { StatefulSession } from './stateful.js'
import type { StatelessSession } from './stateless.js'

/** What was prepared is not wanted any more. */
export class CalledOff extends Error {}

/** How the state is chosen, and when it may be downloaded. */
export interface Choice {
  readonly download: Download
  readonly network: Network
  readonly pays: Pays
  readonly choose: Choose
  /** loads the core that a state needs. Throws UnsupportedError. */
  readonly loadHints: () => Promise<Core>
}

/** Lookups are made without a state. */
export interface Without {
  readonly is: 'without'
  readonly now: StatelessSession
  /** the session that will take over */
  readonly next: StatefulSession
  /** why a state is due, however few lookups there were */
  readonly due: DownloadOffer['reason'] | undefined
}

export class Preparing {
  readonly count = new Count()
  /** those of prepare(), while they wait */
  readonly listeners = new Set<OnProgress>()
  readonly #parts: Parts
  readonly #choice: Choice
  readonly #consent: Consent
  #hints: Promise<Core> | undefined

  constructor(parts: Parts, choice: Choice, consent: Consent) {
    this.#parts = parts
    this.#choice = choice
    this.#consent = consent
  }

  /** Whether a state is to be prepared now, undemanded. The first one waits for a lookup: a page that makes none downloads none. */
  isDue({ now, next, due }: Without): boolean {
    const { manifest } = now
    if (manifest === undefined || this.count.left > 0 || !next.isOffered) return false
    if (this.listeners.size > 0) return false // prepare() begins it, which asks nobody
    const { ended } = this.count
    return due !== undefined || (ended > 0 && this.#pays(manifest, ended))
  }

  #pays(manifest: Manifest, lookups: number): boolean {
    return this.#choice.pays(this.#parts.core, manifest, lookups, this.#parts.apart)
  }

  /** Begins the state's session, with a core that can make hints. */
  async begin(session: StatefulSession, progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    await this.equip(session, signal)
    await session.begin(progress, signal)
  }

  /**
   * Loads the core for hints, once: handles of one instance must not meet another. If that instance has crashed, no state
   * is made any more. No lookup waits for the download.
   */
  equip(session: StatefulSession, signal: AbortSignal): Promise<void> {
    this.#hints ??= this.#choice.loadHints().catch(error => {
      this.#hints = undefined
      throw error
    })
    return abortable(
      this.#hints.then(core => session.equip(core)),
      signal,
    )
  }

  /**
   * Makes the state, and says what becomes of it. A failed preparation is retried after twice as many lookups. One that the line ends
   * goes on when the line is another. `demanded`: by prepare(). Throws CalledOff.
   */
  async prepare(
    phase: Without,
    demanded: boolean,
    enders: readonly (AbortSignal | undefined)[],
    takeOver: () => void,
  ): Promise<void> {
    this.count.begin()
    const metered = new AbortController()
    await scoped([...enders, metered.signal], async signal => {
      let begun = false
      let withdraw = () => {}
      try {
        if (!demanded) {
          const offer = this.offer(phase)
          await this.#consent.askToPrepare(offer, signal)
          withdraw = this.#consent.whenMetered(offer.bytes, () => metered.abort())
        }
        this.#parts.announce({ type: 'preparing' })
        begun = true
        await this.#makeNext(phase, signal, takeOver)
      } catch (error) {
        if (metered.signal.aborted) this.count.again()
        else this.#announceFailure(signal.aborted ? undefined : error, begun)
        throw signal.aborted ? new CalledOff() : error
      } finally {
        withdraw()
      }
    })
  }

  async #makeNext(phase: Without, signal: AbortSignal, takeOver: () => void): Promise<void> {
    const { next } = phase
    const tellCallers = (progress: Progress) => {
      for (const listener of this.listeners) listener(progress)
    }
    const progress = new ProgressMeter(this.#parts.onProgress, tellCallers)
    await this.begin(next, progress, signal)
    if (isBehind(phase)) await next.sync(signal)
    if (isBehind(phase)) {
      throw new ServersDisagreeError('the servers show an older epoch than before; try again later')
    }
    signal.throwIfAborted()
    progress.phase('ready')
    takeOver()
  }

  /** What it downloads, and why. */
  offer({ now, due }: Without): DownloadOffer {
    const manifest = now.manifest!
    const { name: mode } = this.#parts.choose(manifest)
    const reason = due ?? (this.#pays(manifest, 0) ? 'small' : 'lookups')
    return { mode, bytes: downloadBytes(manifest), reason }
  }

  /** Not if the app has said no before it began: it knows. */
  #announceFailure(cause: unknown, begun: boolean): void {
    if (!begun && isRefusal(cause) && cause.cause === undefined) return
    const error = cause === undefined || cause instanceof KeyhushError ? cause : new InternalError(cause)
    const retryAfterLookups = this.#consent.refused ? undefined : this.count.left
    this.#parts.announce({ type: 'preparing-failed', error, retryAfterLookups })
  }
}

/** Whether the state is at an older epoch than lookups have shown: a map never goes back. */
export function isBehind({ now: { manifest: shown }, next: { manifest } }: Without): boolean {
  return manifest !== undefined && shown !== undefined && compareEpochs(manifest, shown) < 0
}

/** Lookups without a state. When one is made depends on how many have ended, and on nothing else of them (P5, I3). */
class Count {
  /** that have ended, however they did */
  ended = 0
  /** that had when the last preparation began: the state is chosen by it */
  atLast = 0
  #notBefore = 0

  /** A preparation begins. If it fails, as many lookups more come before the next one. */
  begin(): void {
    this.atLast = this.ended
    this.#notBefore = 2 * this.ended + 1
  }

  /** The next one need not wait. */
  again(): void {
    this.#notBefore = this.ended
  }

  /** that have to end before the next one */
  get left(): number {
    return Math.max(0, this.#notBefore - this.ended)
  }
}
