// One limit for each client address (of IPv6 a /64) and minute, weighed by the work of its requests. Addresses are kept in memory for
// that minute and nowhere else. When they are too many all begin anew: one network (/48) has too few of them for that.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { clientOf } from '../../base/address.js'
import { Refusal } from '../../base/refusal.js'

const WINDOW_MILLISECONDS = 60_000
const MOST_CLIENTS = 100_000

/** What counts for how much. The unit is a query to a hint; `npm run bench -- capacity` measures what others take beside it. */
export const WEIGHTS = {
  /** a query of POST /v1/answer */
  answer: 1,
  /** a query of POST /v1/instant, which reads the whole database */
  instant: 20,
  /** a query of POST /v1/one-server, which takes a thread ten times as long */
  oneServer: 200,
  /** of that, each record in an answer that a thread proves */
  proof: 2,
  /** POST /v1/fence */
  fence: 1,
  /** GET /v1/manifest of an epoch, and GET /v1/manifests */
  past: 1,
  /** POST /v1/signatures, /v1/epochs and /v1/checks: a signature is verified */
  signature: 5,
} as const

export interface RateLimitOptions {
  /** 0 (default): any number */
  readonly perMinute?: number | undefined
  /** default: the monotonic clock, milliseconds */
  readonly now?: (() => number) | undefined
}

export class RateLimit {
  readonly #most: number
  readonly #now: () => number
  #since = Number.NEGATIVE_INFINITY
  #used = new Map<string, number>()

  constructor({ perMinute = 0, now = () => performance.now() }: RateLimitOptions = {}) {
    this.#most = perMinute
    this.#now = now
  }

  /** Counts a request of any weight if the client has anything left. Throws a `rate_limited` Refusal if not. */
  take(request: Pick<FastifyRequest, 'ip'>, reply: Pick<FastifyReply, 'header'>, weight: number): void {
    if (this.#most === 0) return
    const now = this.#now()
    if (now - this.#since >= WINDOW_MILLISECONDS) this.#begin(now)
    const client = clientOf(request.ip)
    const used = this.#used.get(client) ?? 0
    if (used >= this.#most) {
      reply.header('retry-after', Math.ceil((this.#since + WINDOW_MILLISECONDS - now) / 1000))
      throw new Refusal('rate_limited', 'too many queries; try again after Retry-After')
    }
    if (used === 0 && this.#used.size >= MOST_CLIENTS) this.#begin(now)
    this.#used.set(client, used + weight)
  }

  /** Counts more for a request that was let in. */
  add(request: Pick<FastifyRequest, 'ip'>, weight: number): void {
    if (this.#most === 0) return
    const client = clientOf(request.ip)
    this.#used.set(client, (this.#used.get(client) ?? 0) + weight)
  }

  #begin(now: number): void {
    this.#since = now
    this.#used = new Map()
  }
}
