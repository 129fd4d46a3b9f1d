// Answers instant lookups (docs/protocol.md). Queries wait in a bounded queue; one pass of a worker thread serves up to sixteen.
//
// A pass reads the records of the newest epoch, and takes the last update out again for queries at the epoch before. Updates wait
// for it (database/readers.ts). The epoch of a query is looked up when its pass begins.

import { type InstantOf, type InstantQuery, instantLayout, type Manifest, type Sharing } from '@keyhush/protocol'
import type { Core, DatabaseHandle, InstantPassHandle } from '@keyhush/wasm'
import { epochUnknown } from '../base/refusal.js'
import type { AnyEpoch, Epoch, Epochs, SharedDatabase } from '../database/epochs.js'
import { layoutOf } from '../dataset/view.js'
import { Requests, type Settles, type Waiting } from '../workers/requests.js'
import { isFatal, type Source, type Work } from '../workers/workers.js'

export interface InstantOptions {
  /** passes at a time; default: one less than processors, 1 to 4 */
  readonly workers?: number | undefined
  /** most queries that may wait; default 256 */
  readonly waiting?: number | undefined
}

/** What one request asks. */
export interface InstantRequest<E extends AnyEpoch = Epoch> extends Sharing {
  readonly epochs: Epochs<E>
  readonly of: InstantOf
  readonly generation: number
  readonly epoch: number
  /** queries, one after the other, that have been checked */
  readonly queries: Uint8Array
  readonly count: number
  /** networks take turns */
  readonly network: string
}

/** Queries a pass serves. */
const PASS_QUERIES = 16
const DEFAULT_WAITING = 256
const FULL = 'too many instant lookups are waiting; try again later'
/**
 * A pass for sixteen takes about three times as long as one for one. So a pass waits for as many queries as the last one served, at most
 * this part of the time that it took. A client alone never waits.
 */
const GATHERING = 1 / 2

/** A request under way. */
interface WaitingLookup extends Settles {
  readonly request: InstantRequest
  readonly network: string
  /** queries that passes have taken on */
  taken: number
  /** those whose answers are there */
  answered: number
  readonly answers: Uint8Array[]
}

/** A query of an entry, in a pass. */
interface Taken {
  readonly entry: WaitingLookup
  readonly number: number
  readonly query: Uint8Array
  /** as a pass is told: bit 0 for the previous epoch, bit 1 for a vector */
  readonly kind: number
}

/** Queries that one pass can serve. */
interface Gathered extends Pick<Sharing, 'servers' | 'groupLog'> {
  readonly database: SharedDatabase
  readonly taken: Taken[]
}

/** In its queue are those whose queries are not all taken; `waiting` counts queries. */
export class InstantLookups extends Requests<WaitingLookup> implements Source {
  readonly #wake: (core: Core) => void
  /** passes under way */
  passes = 0
  /** for how many queries the next pass waits, and until when */
  #gathering = { queries: 0, until: 0 }
  #timer: NodeJS.Timeout | undefined

  /** `wake`: called when there may be a pass to begin */
  constructor({ waiting = DEFAULT_WAITING }: InstantOptions, wake: (core: Core) => void) {
    super(waiting, ({ request, taken }) => request.count - taken, FULL)
    this.#wake = wake
  }

  /** Lets a request wait for its passes. Throws an `instant_full` Refusal if there is no room for it. */
  submit(request: InstantRequest): Waiting {
    const begun = { request, network: request.network, taken: 0, answered: 0 }
    const waiting = this.add(settles => ({ ...settles, ...begun, answers: [] }))
    this.#wake(request.epochs.newest.core)
    return waiting
  }

  /** From now on nothing is taken on. What waits is answered. */
  override async close(): Promise<void> {
    await super.close()
    clearTimeout(this.#timer)
  }

  /** The next pass. */
  next(): Work | undefined {
    if (this.#gathers()) return undefined
    for (;;) {
      const chosen = this.#choose()
      if (chosen === undefined) return undefined
      try {
        return this.#begin(chosen)
      } catch (error) {
        this.#giveUp(chosen.taken, error)
      }
    }
  }

  /** Whether the next pass waits for more queries; whatever comes of it is heard of then. */
  #gathers(): boolean {
    const { waiting } = this
    const left = this.#gathering.until - performance.now()
    if (waiting === 0 || waiting >= this.#gathering.queries || left <= 0) return false
    const { core } = this.queue.inTurn()[0]!.request.epochs.newest
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#wake(core)
    }, left)
    return true
  }

  /** Takes up to sixteen queries that one pass can serve, of networks in their turn. */
  #choose(): Gathered | undefined {
    let database: SharedDatabase | undefined
    let first: Pick<Sharing, 'servers' | 'groupLog'> | undefined
    const taken: Taken[] = []
    for (const entry of this.queue.inTurn()) {
      const { epochs, of, generation, epoch, queries, count, servers, vectors, groupLog } = entry.request
      const found = epochs.find(generation, epoch)
      const shared = found && sharedOf(found, of)
      if (shared === undefined) {
        this.drop(entry, epochUnknown(epochs.newest.manifest))
        continue
      }
      if (!shared.readers.open) {
        shared.readers.onceOpen(this, () => this.#wake(shared.core))
        continue
      }
      database ??= shared
      first ??= { servers, groupLog }
      // With more than two servers, the size of a group may differ between epochs, and a pass has one.
      const isOneSize = servers === 2 || shared.previous === database.previous
      const alike = servers === first.servers && groupLog === first.groupLog && isOneSize
      if (shared.handle !== database.handle || !alike) continue
      const bytes = queries.length / count
      while (entry.taken < count && taken.length < PASS_QUERIES) {
        const number = entry.taken++
        const query = queries.subarray(number * bytes, (number + 1) * bytes)
        taken.push({ entry, number, query, kind: Number(shared.previous) + 2 * Number(vectors) })
      }
      if (entry.taken === count) this.queue.remove(entry)
      this.queue.served(entry)
      if (taken.length === PASS_QUERIES) break
    }
    return database === undefined ? undefined : { database, ...first!, taken }
  }

  #begin({ database: { core, handle, readers }, servers, groupLog, taken }: Gathered): Work {
    const queries = Buffer.concat(taken.map(({ query }) => query))
    const kinds = Uint8Array.from(taken, ({ kind }) => kind)
    let pass: InstantPassHandle | undefined
    try {
      pass = core.newInstantPass(handle, queries, kinds, servers, groupLog)
      const descriptor = pass.descriptor(handle)
      const end = readers.begin()
      this.passes += 1
      const begun = performance.now()
      const over = () => {
        this.passes -= 1
        const ended = performance.now()
        this.#gathering = { queries: taken.length, until: ended + GATHERING * (ended - begun) }
        end()
      }
      const own = pass
      const done = () => {
        try {
          this.#answer(own, handle, taken)
        } catch (error) {
          this.#giveUp(taken, error)
        } finally {
          over()
        }
      }
      // A failed thread may still use its pass, which is not freed.
      const failed = (error: Error) => {
        over()
        this.#giveUp(taken, error)
      }
      return { descriptor, done, failed }
    } catch (error) {
      pass?.free()
      throw error
    } finally {
      queries.fill(0)
    }
  }

  #answer(pass: InstantPassHandle, handle: DatabaseHandle, taken: readonly Taken[]): void {
    try {
      pass.stepped()
      const answers = pass.finish(handle)
      const bytes = answers.length / taken.length
      taken.forEach(({ entry, number }, i) => {
        entry.answers[number] = answers.subarray(i * bytes, (i + 1) * bytes)
        entry.answered += 1
        if (entry.answered === entry.request.count) entry.resolve(Buffer.concat(entry.answers))
      })
    } finally {
      pass.free()
    }
  }

  /** An error of the core with a code concerns these queries. Any other ends all passes. */
  #giveUp(taken: readonly Taken[], error: unknown): void {
    for (const { entry } of taken) this.drop(entry, error as Error)
    if (isFatal(error)) throw error
  }
}

/** Sizes of a request's queries and of the answers, as the core says. */
export interface InstantSizes {
  readonly requestBytes: number
  readonly answerBytes: number
}

/** What an epoch has of this; undefined: nothing. */
function sharedOf(epoch: Epoch, of: InstantOf): SharedDatabase | undefined {
  return of === 'records' ? epoch.shared() : epoch.blocks()
}

/** Checks a request's queries at the epoch they ask at, and says how long all is. Throws the core's errors. */
export function checkQueries(
  core: Core,
  manifest: Manifest,
  { of, queries, servers, vectors, groupLog }: Pick<InstantQuery, 'of' | 'queries' | keyof Sharing>,
): InstantSizes {
  const layout = layoutOf(core, instantLayout(manifest, of))
  try {
    core.checkInstantQueries(layout, queries, servers, vectors, groupLog)
    if (groupLog !== undefined) {
      const [part, answerBytes] = core.instantPartSizes(layout, servers, groupLog) as unknown as [number, number]
      return { requestBytes: part, answerBytes }
    }
    const [seed, vector, answerBytes] = layout.instantSizes(servers) as unknown as [number, number, number]
    return { requestBytes: vectors ? vector : seed, answerBytes }
  } finally {
    layout.free()
  }
}
