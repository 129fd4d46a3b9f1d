// Answers lookups with one server. Requests wait in a bounded queue, and networks take turns. The thread of an epoch answers one query
// at a time. The epoch of a query is looked up when its turn comes.

import type { Sharing } from '@keyhush/protocol'
import { epochUnknown, Refusal } from '../base/refusal.js'
import type { Epochs } from '../database/epochs.js'
import type { Prepared } from '../one-server/prepared.js'
import { FairQueue } from '../workers/fair-queue.js'
import { isFatal } from '../workers/workers.js'
import type { InstantRequest, Waiting } from './lookups.js'

export interface OneServerOptions {
  /** most queries that may wait; default 64: a second or two of work */
  readonly waiting?: number | undefined
}

/** What one request asks. Of its queries the lengths have been checked. */
export type OneServerRequest = Omit<InstantRequest, keyof Sharing>

/** A request under way. */
interface Entry {
  readonly request: OneServerRequest
  readonly network: string
  readonly answers: Uint8Array[]
  /** a thread has one of its queries */
  asked: boolean
  resolve(answers: Uint8Array): void
  reject(error: Error): void
}

const DEFAULT_WAITING = 64

export class OneServerLookups {
  readonly #queue: FairQueue<Entry>
  readonly #replies = new Set<Promise<unknown>>()
  #answering = 0
  #closed: Refusal | undefined

  constructor({ waiting = DEFAULT_WAITING }: OneServerOptions = {}) {
    this.#queue = new FairQueue(waiting, ({ request, answers }) => request.count - answers.length)
  }

  /** Queries that wait, and those that are being answered. */
  get waiting(): number {
    return this.#queue.weight
  }

  /** Queries that threads are answering. */
  get answering(): number {
    return this.#answering
  }

  /** Lets a request wait for its turns. Throws an `instant_full` Refusal if there is no room for it. */
  submit(request: OneServerRequest): Waiting {
    if (this.#closed !== undefined) throw this.#closed
    const { epochs, generation, epoch } = request
    if (epochs.find(generation, epoch)?.oneServer?.ready !== true) throw notPrepared(epochs)
    let entry: Entry | undefined
    const answers = new Promise<Uint8Array>((resolve, reject) => {
      entry = { request, network: request.network, answers: [], asked: false, resolve, reject }
    })
    const leaving = this.#queue.add(entry!)
    if (leaving === undefined) throw full()
    for (const each of leaving) this.#drop(each, full())
    this.#replies.add(answers)
    const settled = () => void this.#replies.delete(answers)
    answers.then(settled, settled)
    this.#wake()
    return { answers, cancel: () => this.#drop(entry!, new Refusal('not_ready', 'the client has hung up')) }
  }

  /** From now on nothing is taken on. What waits is answered. */
  async close(): Promise<void> {
    this.#closed ??= new Refusal('not_ready', 'this server is shutting down')
    while (this.#replies.size > 0) await Promise.allSettled(this.#replies)
  }

  /** Gives each free thread the next query for its epoch. */
  #wake(): void {
    for (const entry of this.#queue.inTurn()) {
      if (entry.asked) continue
      const { epochs, generation, epoch } = entry.request
      const found = epochs.find(generation, epoch)
      const prepared = found?.oneServer
      if (found === undefined) this.#drop(entry, epochUnknown(epochs.newest.manifest))
      else if (prepared?.ready !== true) this.#drop(entry, notPrepared(epochs))
      else if (!prepared.busy) void this.#answer(entry, prepared)
    }
  }

  async #answer(entry: Entry, prepared: Prepared): Promise<void> {
    const { of, queries, count } = entry.request
    const bytes = queries.length / count
    const number = entry.answers.length
    entry.asked = true
    this.#queue.served(entry)
    this.#answering += 1
    try {
      entry.answers.push(await prepared.answer(of, queries.subarray(number * bytes, (number + 1) * bytes)))
      if (entry.answers.length === count) {
        this.#queue.remove(entry)
        entry.resolve(Buffer.concat(entry.answers))
      }
    } catch (error) {
      const isLost = isFatal(error) // its epoch is answered no more, or another thread is to take its place
      this.#drop(entry, isLost ? notPrepared(entry.request.epochs) : (error as Error))
    } finally {
      entry.asked = false
      this.#answering -= 1
      this.#wake()
    }
  }

  #drop(entry: Entry, error: Error): void {
    this.#queue.remove(entry)
    entry.reject(error)
  }
}

/** For an epoch whose hint is not prepared: any more, if there is a newer one that is; not ever, if that has failed; else not yet. */
function notPrepared({ newest }: Epochs): Refusal {
  if (newest.oneServer?.ready === true) return epochUnknown(newest.manifest)
  if (newest.oneServer?.problem !== undefined) {
    return new Refusal(
      'not_ready',
      'lookups with one server cannot be answered; the operator finds the reason at /readyz of the port for metrics',
    )
  }
  return new Refusal('not_ready', 'lookups with one server are being prepared; try again later')
}

function full(): Refusal {
  return new Refusal('instant_full', 'too many lookups are waiting; try again later')
}
