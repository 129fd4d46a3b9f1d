// A server that is asked for more than it can do says so, and does the rest in time. Node would answer whatever has come, in
// one turn of its event loop, and take a single new connection in each; whoever comes last waits for all of it, unseen. So
// requests wait here, before Fastify sees them and before their bodies are read: some milliseconds are for answers, then as
// many for seeing who has come, and what has waited for too long is refused, by a reply that is the same for everybody and
// costs little. The oldest goes first: whoever is answered has not waited longer than that, so the newest would gain what
// others lose.

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Refusal } from '../base/refusal.js'

/** When to come again: always the same, whatever is asked, and however late the server is. */
const RETRY_AFTER_SECONDS = 1

/** Of answering, before others are read; and of reading, before others are answered. */
const SLICE_MILLISECONDS = 5

/** How many requests of those that go first may do so, in which time: anybody may ask for health, and as often as they like. */
const MOST_FIRST = 20
const FIRST_MILLISECONDS = 100

/** The log is told when requests begin to be refused, and then at most so often. */
const TOLD_EVERY_MILLISECONDS = 60_000

/** Health, which tells whether the process is alive, and publishers, who have a token or a signature to show. */
const FIRST = /(?:^|\/)(?:healthz|readyz|v1\/(?:epochs|signatures)(?:\/\d+)?)$/

/** Is none of these, which is seen sooner so. */
const MOST_ASKED = '/v1/answer'

export interface SheddingOptions {
  /** what has waited so long for its turn is refused */
  readonly milliseconds: number
  /** default: the monotonic clock, milliseconds */
  readonly now?: (() => number) | undefined
  /** calls back after a turn of the event loop; default: setImmediate */
  readonly afterTurn?: ((call: () => void) => void) | undefined
}

/** What is to become of a request, once: it is answered, or refused; or it has gone. */
export interface Turn {
  readonly answer: () => void
  readonly refuse: () => void
  readonly isGone: () => boolean
}

/** Whose turn it is. */
export class Shedding {
  /** requests that were refused */
  refused = 0
  /** hears of that, now and then */
  tell: (refused: number) => void = () => {}
  readonly #most: number
  readonly #now: () => number
  readonly #afterTurn: (call: () => void) => void
  /** oldest first, and since when */
  readonly #waiting = new Map<Turn, number>()
  /** since when is answered, in this slice */
  #answering: number | undefined
  /** since when is read, in this slice */
  #reading: number | undefined
  /** whether this turn of the loop has brought anybody */
  #came = false
  #toldAt = Number.NEGATIVE_INFINITY
  /** that have gone first, since when */
  #first = 0
  #firstSince = Number.NEGATIVE_INFINITY

  constructor(options: SheddingOptions) {
    this.#most = options.milliseconds
    this.#now = options.now ?? (() => performance.now())
    this.#afterTurn = options.afterTurn ?? (call => void setImmediate(call))
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** There is a new connection, which may bring a request. */
  connected(): void {
    this.#came = true
  }

  /** A request is there. It is answered at once if nothing waits and there is time in this slice. */
  come(turn: Turn): void {
    this.#came = true
    const now = this.#now()
    if (this.#answering === undefined && this.#reading === undefined) {
      this.#answering = now
      this.#afterTurn(() => this.#goOn())
    }
    const hasTime = this.#answering !== undefined && now - this.#answering < SLICE_MILLISECONDS
    if (hasTime && this.#waiting.size === 0) turn.answer()
    else this.#waiting.set(turn, now)
  }

  /** The same of one that goes before all that wait, unless too many have just now. */
  comeFirst(turn: Turn): void {
    const now = this.#now()
    if (now - this.#firstSince >= FIRST_MILLISECONDS) {
      this.#firstSince = now
      this.#first = 0
    }
    if (this.#first++ < MOST_FIRST) turn.answer()
    else this.come(turn)
  }

  /** After a turn of the loop: one answer a turn, for what it takes is done when this has returned. */
  #goOn(): void {
    if (this.#waiting.size === 0) {
      this.#answering = undefined
      this.#reading = undefined
      return
    }
    this.#afterTurn(() => this.#goOn())
    const now = this.#now()
    if (this.#answering !== undefined && now - this.#answering >= SLICE_MILLISECONDS) {
      this.#answering = undefined
      this.#reading = now
      this.#came = false
    } else if (this.#reading !== undefined && this.#came && now - this.#reading < SLICE_MILLISECONDS) {
      this.#came = false
    } else {
      this.#reading = undefined
      this.#answering ??= now
      this.#answerNext()
    }
  }

  /** The oldest that is neither gone nor too old. */
  #answerNext(): void {
    for (const [turn, since] of this.#waiting) {
      const now = this.#now()
      this.#waiting.delete(turn)
      if (turn.isGone()) continue
      if (now - since < this.#most) {
        turn.answer()
        return
      }
      this.#refuse(turn, now)
    }
  }

  #refuse(turn: Turn, now: number): void {
    this.refused++
    turn.refuse()
    if (now - this.#toldAt < TOLD_EVERY_MILLISECONDS) return
    this.#toldAt = now
    this.tell(this.refused)
  }
}

/**
 * Lets the requests of `server` wait for their turn before what handles them now. `readable`: the headers by which a page of
 * that origin may read a reply.
 */
export function shedLoad(
  server: Server,
  shedding: Shedding,
  readable: (origin: string | undefined) => Readonly<Record<string, string>>,
): void {
  const refusal = new Refusal(
    'overloaded',
    'this server has more to do than it can; Retry-After says when to come again',
  )
  const body = Buffer.from(JSON.stringify(refusal.reply))
  const fixed = {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': body.length,
    'Cache-Control': 'no-store',
    'Retry-After': RETRY_AFTER_SECONDS,
  }
  const handlers = server.listeners('request')
  server.removeAllListeners('request')
  server.on('connection', () => shedding.connected())
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const answer = () => {
      for (const handler of handlers) handler.call(server, request, response)
    }
    const refuse = () => {
      response.writeHead(refusal.statusCode, { ...fixed, ...readable(request.headers.origin) })
      response.end(request.method === 'HEAD' ? undefined : body)
    }
    const turn = { answer, refuse, isGone: () => request.socket.destroyed }
    if (!request.url!.endsWith(MOST_ASKED) && FIRST.test(pathOf(request))) shedding.comeFirst(turn)
    else shedding.come(turn)
  })
}

function pathOf({ url = '' }: IncomingMessage): string {
  const end = url.indexOf('?')
  return end === -1 ? url : url.slice(0, end)
}
