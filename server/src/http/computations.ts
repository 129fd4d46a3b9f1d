// What a server computes in worker threads, for all databases of a process: passes of instant lookups, lookups with one server, and proofs
// of answers that take long.

import { availableParallelism } from 'node:os'
import type { Core } from '@keyhush/wasm'
import { InstantLookups, type InstantOptions } from '../instant/lookups.js'
import { OneServerLookups, type OneServerOptions } from '../instant/one-server.js'
import { ProvedAnswers } from '../instant/proved.js'
import { Workers } from '../workers/workers.js'

export interface ComputationsOptions {
  /** false: instant lookups are not offered */
  readonly instant?: InstantOptions | false | undefined
  /** false: lookups with one server are not offered */
  readonly oneServer?: OneServerOptions | false | undefined
}

const MOST_WORKERS = 4

export class Computations {
  readonly instant: InstantLookups | undefined
  readonly oneServer: OneServerLookups | undefined
  readonly proved: ProvedAnswers
  readonly #workers: Workers | undefined

  constructor({ instant = {}, oneServer = {} }: ComputationsOptions = {}) {
    if (oneServer !== false) this.oneServer = new OneServerLookups(oneServer)
    const usual = Math.min(MOST_WORKERS, Math.max(1, availableParallelism() - 1))
    this.proved = new ProvedAnswers(usual)
    if (instant === false) return
    this.instant = new InstantLookups(instant, (core: Core) => workers.wake(core))
    const workers = new Workers(instant.workers ?? usual, this.instant)
    this.#workers = workers
  }

  /** Told when the core's memory is in doubt; nothing is to be answered after that. */
  set onFailure(listener: (error: Error) => void) {
    if (this.#workers !== undefined) this.#workers.onFailure = listener
  }

  /** From now on nothing is taken on. What waits is answered; then threads and their memory go. */
  async close(): Promise<void> {
    await this.proved.close()
    await this.oneServer?.close()
    await this.instant?.close()
    await this.#workers?.close()
  }
}
