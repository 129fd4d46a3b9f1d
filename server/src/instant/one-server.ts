// Answers lookups with one server. Requests wait in a bounded queue, and networks take turns. The thread of a base answers one query at a
// time.

import { epochUnknown, notPreparedYet, Refusal } from '../base/refusal.js'
import type { Base } from '../one-server/base.js'
import type { Prepared } from '../one-server/prepared.js'
import { Requests, type Settles, type Waiting } from '../workers/requests.js'
import { isFatal } from '../workers/workers.js'
import type { InstantRequest } from './lookups.js'

export interface OneServerOptions {
  /** most queries that may wait; default 64: a second or two of work */
  readonly waiting?: number | undefined
}

/** What one request asks. Of its queries the lengths have been checked. */
export interface OneServerRequest extends Pick<InstantRequest, 'epochs' | 'of' | 'queries' | 'count' | 'network'> {
  readonly base: Base
}

/** A request under way. */
interface WaitingRequest extends Settles {
  readonly request: OneServerRequest
  readonly network: string
  readonly answers: Uint8Array[]
  /** a thread has one of its queries */
  asked: boolean
}

const DEFAULT_WAITING = 64
const FULL = 'too many lookups are waiting; try again later'

/** `waiting` counts queries, those that are being answered too. */
export class OneServerLookups extends Requests<WaitingRequest> {
  /** queries that threads are answering */
  answering = 0

  constructor({ waiting = DEFAULT_WAITING }: OneServerOptions = {}) {
    super(waiting, ({ request, answers }) => request.count - answers.length, FULL)
  }

  /** Lets a request wait for its turns. Throws an `instant_full` Refusal if there is no room for it. */
  submit(request: OneServerRequest): Waiting {
    this.assertOpen()
    const { base, network } = request
    if (base.prepared?.ready !== true) throw notPrepared(request)
    const waiting = this.add(settles => ({ ...settles, request, network, answers: [], asked: false }))
    this.#wake()
    return waiting
  }

  /** Gives each free thread the next query for its base. */
  #wake(): void {
    for (const entry of this.queue.inTurn()) {
      if (entry.asked) continue
      const { prepared } = entry.request.base
      if (prepared?.ready !== true) this.drop(entry, notPrepared(entry.request))
      else if (!prepared.busy) void this.#answer(entry, prepared)
    }
  }

  async #answer(entry: WaitingRequest, prepared: Prepared): Promise<void> {
    const { of, queries, count } = entry.request
    const bytes = queries.length / count
    const number = entry.answers.length
    entry.asked = true
    this.queue.served(entry)
    this.answering += 1
    try {
      entry.answers.push(await prepared.answer(of, queries.subarray(number * bytes, (number + 1) * bytes)))
      if (entry.answers.length === count) {
        this.queue.remove(entry)
        entry.resolve(Buffer.concat(entry.answers))
      }
    } catch (error) {
      const isLost = isFatal(error) // its base is answered no more, or another thread is to take its place
      this.drop(entry, isLost ? notPrepared(entry.request) : (error as Error))
    } finally {
      entry.asked = false
      this.answering -= 1
      this.#wake()
    }
  }
}

/** For a base that is not prepared: any more, if it has given way to another; not ever, if that has failed; else not yet. */
function notPrepared({ base, epochs: { bases, newest } }: OneServerRequest): Refusal {
  if (!bases.includes(base)) return epochUnknown(newest.manifest)
  if (base.prepared?.problem !== undefined) {
    return new Refusal(
      'not_ready',
      'lookups with one server cannot be answered; the operator finds the reason at /readyz of the port for metrics',
    )
  }
  return notPreparedYet()
}
