// Light hints as a server makes its half of them (docs/protocol.md): requests wait in a bounded queue, and a few are
// computed at a time, in worker threads, in steps of some MiB of records, between which passes of instant lookups have
// their turn. A reply is of one epoch: while it is computed, updates wait.

import { type LightPart, partitionBytes } from '@keyhush/protocol'
import type { Core, LightReplyHandle } from '@keyhush/wasm'
import { epochUnknown, Refusal } from '../base/refusal.js'
import type { Epochs, SharedDatabase } from '../database/epochs.js'
import { FairQueue } from '../workers/fair-queue.js'
import { clientGone, Requests } from '../workers/requests.js'
import { isFatal, type Source, type Work } from '../workers/workers.js'

export interface LightOptions {
  /** replies computed at a time, default 1 */
  readonly computations?: number | undefined
  /** most requests that may wait; default 32 */
  readonly waiting?: number | undefined
  /** requests a minute, of all clients together; 0 (default): any number */
  readonly rateLimit?: number | undefined
}

/** What one request asks. */
export interface LightWish {
  readonly part: LightPart
  readonly epochs: Epochs
  readonly generation: number
  readonly epoch: number
  /** what the client has shown this server, of the right length; overwritten by its owner once the reply is there */
  readonly secrets: Uint8Array
  /** of whom it is: networks take turns */
  readonly network: string
  /** makes room for the reply, before it is computed; throws a Refusal if there is none */
  readonly reserve?: (() => void) | undefined
}

export interface Waiting {
  /** its body; rejects with a Refusal */
  readonly reply: Promise<Uint8Array>
  /** nobody wants it any more */
  cancel(): void
}

const DEFAULT_WAITING = 32
/** Records that a step goes over, at least: some milliseconds' work, for which a pass may have to wait. */
const STEP_BYTES = 4 * 1024 * 1024
const WINDOW_MILLISECONDS = 60_000

/** A request under way. */
interface Entry {
  readonly wish: LightWish
  readonly network: string
  cancelled: boolean
  resolve(reply: Uint8Array): void
  reject(error: Error): void
}

/** A reply that is being computed. */
interface Computation {
  readonly entry: Entry
  readonly database: SharedDatabase
  readonly reply: LightReplyHandle
  /** partitions a step */
  readonly step: number
  /** a thread is at it */
  busy: boolean
  /** updates may go on */
  end(): void
}

export class LightHints implements Source {
  /** replies computed at a time */
  readonly most: number
  readonly #rateLimit: number
  readonly #wake: (core: Core) => void
  readonly #queue: FairQueue<Entry>
  readonly #computations = new Set<Computation>()
  readonly #requests = new Requests()
  #window = { began: Number.NEGATIVE_INFINITY, requests: 0 }

  /** `wake`: called when there may be something to compute */
  constructor(
    { computations = 1, waiting = DEFAULT_WAITING, rateLimit = 0 }: LightOptions,
    wake: (core: Core) => void,
  ) {
    this.most = computations
    this.#queue = new FairQueue(waiting)
    this.#rateLimit = rateLimit
    this.#wake = wake
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#queue.weight
  }

  /** Replies that are being computed. */
  get computing(): number {
    return this.#computations.size
  }

  /** Counts a request against the limit of all. Throws a `rate_limited` Refusal beyond it. */
  count(): void {
    const now = performance.now()
    if (now - this.#window.began >= WINDOW_MILLISECONDS) this.#window = { began: now, requests: 0 }
    this.#window.requests += 1
    if (this.#rateLimit > 0 && this.#window.requests > this.#rateLimit) {
      throw new Refusal('rate_limited', 'too many light hints are asked for; come again later')
    }
  }

  /** Lets a request wait for its turn. Throws a `light_full` Refusal if there is no room for it. */
  submit(wish: LightWish): Waiting {
    this.#requests.assertOpen()
    let entry: Entry | undefined
    const reply = new Promise<Uint8Array>((resolve, reject) => {
      entry = { wish, network: wish.network, cancelled: false, resolve, reject }
    })
    const leaving = this.#queue.add(entry!)
    if (leaving === undefined) throw full()
    for (const { reject } of leaving) reject(full())
    this.#requests.add(reply)
    this.#wake(wish.epochs.newest.shared().core)
    return { reply, cancel: () => this.#cancel(entry!) }
  }

  /** From now on nothing is taken on. What waits is answered. */
  close(): Promise<void> {
    return this.#requests.close()
  }

  stop(): void {
    const refusal = this.#requests.stop()
    const waiting = this.#queue.inTurn()
    for (const entry of waiting) this.#queue.remove(entry)
    for (const { reject } of [...waiting, ...[...this.#computations].map(({ entry }) => entry)]) reject(refusal)
  }

  get isAwaited(): boolean {
    return this.#idle.some(isAwaited)
  }

  /** No thread is at these. */
  get #idle(): Computation[] {
    return [...this.#computations].filter(({ busy }) => !busy)
  }

  /** The next steps of a reply that is being computed, of one that an update waits for if there is any, or of another. */
  next(): Work | undefined {
    for (;;) {
      const computation = this.#idle.find(isAwaited) ?? this.#idle[0] ?? this.#begin()
      if (computation === undefined) return undefined
      try {
        const { database, reply, step, entry } = computation
        if (entry.cancelled) throw clientGone()
        const descriptor = reply.descriptor(database.handle, step)
        computation.busy = true
        // Of a thread that has failed the reply is not freed: it may still be at it.
        return {
          kernel: 'makeLightReply',
          descriptor,
          done: () => this.#stepped(computation),
          failed: error => this.#over(computation, error),
        }
      } catch (error) {
        this.#abandon(computation, error)
      }
    }
  }

  /** A computation for whoever's turn it is of those who can be answered now. */
  #begin(): Computation | undefined {
    if (this.#computations.size >= this.most) return undefined
    for (const entry of this.#queue.inTurn()) {
      const { part, epochs, generation, epoch, secrets, reserve } = entry.wish
      const found = epochs.find(generation, epoch)
      if (found === undefined) {
        this.#queue.remove(entry)
        entry.reject(epochUnknown(epochs.newest.manifest))
        continue
      }
      const database = found.shared()
      const { core, handle, readers, previous } = database
      if (!readers.open) {
        readers.onceOpen(this, () => this.#wake(core))
        continue
      }
      this.#queue.remove(entry)
      this.#queue.served(entry)
      try {
        reserve?.()
        const make = part === 'hint' ? core.newLightParities : core.newLightTags
        const reply = make(handle, secrets, previous)
        const step = Math.max(1, Math.floor(STEP_BYTES / partitionBytes(found.manifest)))
        const computation = { entry, database, reply, step, busy: false, end: readers.begin() }
        this.#computations.add(computation)
        return computation
      } catch (error) {
        entry.reject(error as Error)
        if (isFatal(error)) throw error
      }
    }
    return undefined
  }

  #stepped(computation: Computation): void {
    computation.busy = false
    try {
      if (computation.reply.stepped()) return
      const body = computation.reply.finish()
      computation.reply.free()
      this.#over(computation)
      computation.entry.resolve(body)
    } catch (error) {
      this.#abandon(computation, error)
    }
  }

  /** What the core refuses by a code is this computation's; anything else is everybody's. */
  #abandon(computation: Computation, error: unknown): void {
    this.#over(computation, error as Error)
    if (isFatal(error)) throw error
    computation.reply.free()
  }

  #over(computation: Computation, error?: Error): void {
    this.#computations.delete(computation)
    computation.end()
    if (error !== undefined) computation.entry.reject(error)
  }

  #cancel(entry: Entry): void {
    entry.cancelled = true
    // If it does not wait any more, a step may be under way; there is none after it.
    if (this.#queue.remove(entry)) entry.reject(clientGone())
  }
}

function full(): Refusal {
  return new Refusal('light_full', 'as many requests for light hints as may wait are waiting; try again')
}

function isAwaited({ database }: Computation): boolean {
  return !database.readers.open
}
