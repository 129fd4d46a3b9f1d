// The generation before the newest, which is answered for some hours after it has ended.

import type { Core } from '@keyhush/wasm'
import { type ChangingOptions, systemClock } from './changing-epochs.js'
import type { EpochStore } from './epoch-store.js'
import type { EpochInMemory, Generation } from './generation.js'
import { loadOld } from './loading.js'
import type { Queue } from './queue.js'
import type { Head } from './stored-values.js'

const HOUR_SECONDS = 60 * 60

const DEFAULT_HOURS = 24

export interface LingeringOptions extends Pick<ChangingOptions, 'now' | 'replica'> {
  /** how long a generation is answered after it has ended, unless the next one ends before; default 24 */
  readonly lingerHours?: number | undefined
}

export class Lingering {
  readonly #lingerSeconds: number
  readonly #now: () => number
  readonly #isReplica: boolean
  readonly #store: EpochStore
  readonly #queue: Queue
  #current: { readonly epoch: EpochInMemory; readonly generation: Generation; until: number } | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: LingeringOptions, store: EpochStore, queue: Queue) {
    this.#lingerSeconds = (options.lingerHours ?? DEFAULT_HOURS) * HOUR_SECONDS
    this.#now = options.now ?? systemClock
    this.#isReplica = options.replica ?? false
    this.#store = store
    this.#queue = queue
  }

  /** When a generation that ends now is not answered any more, in seconds since 1970. */
  get until(): number {
    return Math.floor(this.#now()) + this.#lingerSeconds
  }

  /** Its last epoch, while that is answered. */
  get epoch(): EpochInMemory | undefined {
    if (this.#rest <= 0) this.#end()
    return this.#current?.epoch
  }

  get generation(): Generation | undefined {
    return this.#current?.generation
  }

  /** Answers a generation that lingered when the process ended, and clears away what is left of others. */
  async resume(core: Core, { generation, old }: Head): Promise<void> {
    const lingering = old !== undefined && old.until > this.#now() ? old : undefined
    if (!this.#isReplica) await this.#store.removeAllBut([generation, lingering?.generation ?? generation])
    const loaded = lingering && (await loadOld(core, this.#store, lingering))
    if (lingering === undefined || loaded === undefined) return
    this.begin(loaded.epoch, loaded.generation, lingering.until)
  }

  /** Answers `epoch` until so many seconds since 1970, and no other any more. */
  begin(epoch: EpochInMemory, generation: Generation, until: number): void {
    this.#end()
    generation.directory?.free() // only the next epoch is made of it
    generation.directory = undefined
    this.#current = { epoch, generation, until }
    this.#watch()
  }

  #end(): void {
    clearTimeout(this.#timer)
    if (this.#current === undefined) return
    const { epoch, generation } = this.#current
    this.#current = undefined
    // Not at once: a request that has just found this epoch is about to read it.
    const freed = Promise.resolve().then(() => generation.free())
    const removed = this.#queue(async () => {
      await freed
      if (!this.#isReplica) await this.#store.drop(epoch.manifest.generation)
    })
    removed.catch(() => {}) // the next start clears it away
  }

  /** Gives its memory back; the storage keeps it. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#current?.generation.free()
  }

  /** Ends it when its time is over, also if nobody asks. */
  #watch(): void {
    const rest = this.#rest
    if (rest <= 0) this.#end()
    else this.#timer = setTimeout(() => this.#watch(), 1000 * Math.min(rest, HOUR_SECONDS)).unref()
  }

  /** Seconds that are left: never more than if it had ended now, whatever the clock did. */
  get #rest(): number {
    if (this.#current === undefined) return Number.POSITIVE_INFINITY
    const now = this.#now()
    this.#current.until = Math.min(this.#current.until, now + this.#lingerSeconds)
    return this.#current.until - now
  }
}
