// What a server computes in worker threads, for all databases of a process: passes of instant lookups, and light hints.
// They share the threads, passes going first, and the core's memory.

import { availableParallelism } from 'node:os'
import type { Core } from '@keyhush/wasm'
import { InstantLookups, type InstantOptions } from '../instant/lookups.js'
import { LightHints, type LightOptions } from '../light/hints.js'
import { Workers } from '../workers/workers.js'

export interface ComputationsOptions {
  /** false: instant lookups are not offered */
  readonly instant?: InstantOptions | false | undefined
  /** false: light hints are not offered */
  readonly light?: LightOptions | false | undefined
}

const MOST_WORKERS = 4

/** What makes a server read everything, or much of it, instant lookups and light hints: shared by all databases of a process, with their worker threads. */
export class Computations {
  readonly instant: InstantLookups | undefined
  readonly light: LightHints | undefined
  readonly #workers: Workers

  constructor({ instant = {}, light = {} }: ComputationsOptions = {}) {
    const wake = (core: Core) => this.#workers.wake(core)
    if (instant !== false) this.instant = new InstantLookups(instant, wake)
    if (light !== false) this.light = new LightHints(light, wake)
    const usual = Math.min(MOST_WORKERS, Math.max(1, availableParallelism() - 1))
    const passes = instant === false ? 1 : (instant.workers ?? usual)
    const sources = [this.instant, this.light].filter(source => source !== undefined)
    this.#workers = new Workers(Math.max(passes, this.light?.most ?? 1), sources)
  }

  /** Told when the core's memory is in doubt; nothing is to be answered after that. */
  set onFailure(listener: (error: Error) => void) {
    this.#workers.onFailure = listener
  }

  /** From now on nothing is taken on. What waits is answered; then threads and their memory go. */
  async close(): Promise<void> {
    await Promise.all([this.instant?.close(), this.light?.close()])
    await this.#workers.close()
  }
}
