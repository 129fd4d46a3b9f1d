// The generation before the newest, which is answered for some hours after it has ended.

import type { EpochInMemory, Generation } from './generation.js'

const HOUR_SECONDS = 60 * 60

const DEFAULT_HOURS = 24

export interface OldOptions {
  /** how long a generation is answered after it has ended; default 24 */
  readonly lingerHours?: number | undefined
  /** seconds since 1970; default: the system's */
  readonly now?: (() => number) | undefined
}

export class OldGeneration {
  readonly #lingerSeconds: number
  readonly #now: () => number
  readonly #onEnd: (number: number, freed: Promise<void>) => void
  #current: { readonly epoch: EpochInMemory; readonly generation: Generation; until: number } | undefined
  #timer: NodeJS.Timeout | undefined

  /** `onEnd` is called when a generation has ended; `freed` settles when its memory has been given back. */
  constructor(options: OldOptions, onEnd: (number: number, freed: Promise<void>) => void) {
    this.#lingerSeconds = (options.lingerHours ?? DEFAULT_HOURS) * HOUR_SECONDS
    this.#now = options.now ?? (() => Date.now() / 1000)
    this.#onEnd = onEnd
  }

  /** When a generation that ends now is not answered any more, in seconds since 1970. */
  get until(): number {
    return Math.floor(this.#now()) + this.#lingerSeconds
  }

  lasts(until: number | undefined): boolean {
    return until !== undefined && until > this.#now()
  }

  /** Its last epoch, while that is answered. */
  get epoch(): EpochInMemory | undefined {
    if (this.#rest <= 0) this.end()
    return this.#current?.epoch
  }

  /** Answers `epoch` until so many seconds since 1970, and no other any more. */
  begin(epoch: EpochInMemory, generation: Generation, until: number): void {
    this.end()
    generation.directory?.free() // only the next epoch is made of it
    generation.directory = undefined
    this.#current = { epoch, generation, until }
    this.#watch()
  }

  end(): void {
    clearTimeout(this.#timer)
    if (this.#current === undefined) return
    const { epoch, generation } = this.#current
    this.#current = undefined
    // Not at once: a request that has just found this epoch is about to read it.
    const freed = Promise.resolve().then(() => generation.free())
    this.#onEnd(epoch.manifest.generation, freed)
  }

  /** Gives its memory back; the storage keeps it. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#current?.generation.free()
  }

  /** Ends it when its time is over, also if nobody asks. */
  #watch(): void {
    const rest = this.#rest
    if (rest <= 0) this.end()
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
