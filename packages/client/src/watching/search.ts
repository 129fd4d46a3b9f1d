// Watched keys are looked up again: where no list leads on, and about once a day, to compare lists with lookups. All keys are asked for,
// and as many as there ever were, so that no server learns that one is watched no more. When they are asked for depends on epochs and on
// what was drawn beforehand.

import { BACKOFF_MS, WATCH_AGAIN_MS, WATCH_BATCH, WATCH_CHECK_MS, WATCH_LONGEST_PAUSE_MS } from '../base/constants.js'
import { KeyhushError } from '../base/errors.js'
import { randomBelow } from '../base/random.js'
import { type Placed, placesOf } from '../lookup/places.js'
import type { Environment } from '../platform/environment.js'
import { sleep } from '../servers/ask.js'
import type { Session } from '../session/session.js'
import type { Watched } from './watched.js'

/** What is looked up. */
export interface Sought {
  readonly keys: readonly Watched[]
  /** the most keys that there ever were */
  readonly most: number
  /** called with what was found of some keys; returns whether that is of the database whose lists are read */
  found(keys: readonly Watched[], placed: Placed): Promise<boolean>
}

export class Search {
  readonly #wanted: Sought
  readonly #session: Session
  readonly #environment: Pick<Environment, 'clock' | 'random'>
  readonly #signal: AbortSignal
  #running: Promise<void> | undefined
  /** the date of the next comparison */
  #checkAt: number

  constructor(
    wanted: Sought,
    session: Session,
    environment: Pick<Environment, 'clock' | 'random'>,
    signal: AbortSignal,
  ) {
    this.#wanted = wanted
    this.#session = session
    this.#environment = environment
    this.#signal = signal
    this.#checkAt = this.#drawn()
  }

  /** Settles when nothing is under way. */
  get idle(): Promise<void> {
    return this.#running ?? Promise.resolve()
  }

  #drawn(): number {
    const { clock, random } = this.#environment
    return clock.date() + WATCH_CHECK_MS + randomBelow(WATCH_CHECK_MS, random)
  }

  /** Called now and then: begins if keys are lost, or if a comparison is due. */
  look(): void {
    const isDue = this.#environment.clock.date() >= this.#checkAt
    if (this.#running !== undefined || !this.#isFarEnough || !(isDue || this.#hasLost)) return
    if (isDue) this.#checkAt = this.#drawn()
    this.#running = this.#run().finally(() => {
      this.#running = undefined
    })
  }

  get #hasLost(): boolean {
    return this.#wanted.keys.some(({ isLost }) => isLost)
  }

  /** Whether lookups are answered at an epoch that all lost keys need. */
  get #isFarEnough(): boolean {
    const { manifest } = this.#session
    return manifest !== undefined && this.#wanted.keys.every(({ lostFrom }) => manifest.epoch >= lostFrom)
  }

  /** Until no key is lost. At a time of its own: a generation brings everybody. */
  async #run(): Promise<void> {
    const { clock, random } = this.#environment
    await sleep(clock, randomBelow(WATCH_AGAIN_MS + 1, random), this.#signal)
    for (let pause = BACKOFF_MS; !this.#signal.aborted; pause = Math.min(2 * pause, WATCH_LONGEST_PAUSE_MS)) {
      if (this.#isFarEnough && (await this.#hasAskedAll()) && !this.#hasLost) return
      await sleep(clock, pause, this.#signal)
    }
  }

  async #hasAskedAll(): Promise<boolean> {
    const { keys, most } = this.#wanted
    const batch = Math.min(WATCH_BATCH, this.#session.maxQueries ?? this.#session.manifest?.maxQueries ?? 1)
    try {
      for (let i = 0; i < most; i += batch) {
        const some = keys.slice(i, i + batch)
        const asked = some.map(({ key }) => key)
        const question = placesOf(asked, Math.min(batch, most - i), this.#environment.random)
        const placed = await this.#session.ask(question, this.#signal)
        if (!(await this.#wanted.found(some, placed))) return false
      }
      return true
    } catch (error) {
      if (error instanceof KeyhushError || this.#signal.aborted) return false
      throw error
    }
  }
}
