// A limit on queries, per client address (IPv6: per /64) and minute. Addresses are kept in memory for that minute and
// go nowhere else.

import rateLimit, { type FastifyRateLimitStore } from '@fastify/rate-limit'
import type { FastifyInstance } from 'fastify'
import { AgingMap } from '../../base/aging-map.js'
import { Refusal } from '../../base/refusal.js'

const WINDOW_MILLISECONDS = 60_000
const REMEMBERED_CLIENTS = 100_000

/** How many requests a client has sent, and when that begins anew. */
export interface Counted {
  readonly current: number
  /** milliseconds */
  readonly ttl: number
}

/** What counts them. */
export interface Counts {
  /** One more. */
  count(client: string): Counted | Promise<Counted>
}

/** In this thread's memory. */
export class OwnCounts implements Counts {
  readonly #clients = new AgingMap<{ current: number; readonly since: number }>()

  count(client: string): Counted {
    const now = Date.now()
    const known = this.#clients.get(client)
    if (known !== undefined && known.since + WINDOW_MILLISECONDS > now) {
      known.current += 1
      return { current: known.current, ttl: known.since + WINDOW_MILLISECONDS - now }
    }
    this.#clients.delete(client)
    if (this.#clients.size >= REMEMBERED_CLIENTS) this.#clients.delete(this.#clients.oldest!)
    this.#clients.set(client, { current: 1, since: now })
    return { current: 1, ttl: WINDOW_MILLISECONDS }
  }
}

/** A route's `counts`, or its own, as the plugin asks for them. */
class Store implements FastifyRateLimitStore {
  readonly #counts: Counts

  constructor({ counts }: { readonly counts?: Counts | undefined } = {}) {
    this.#counts = counts ?? new OwnCounts()
  }

  incr(client: string, call: (error: Error | null, counted?: Counted) => void): void {
    Promise.resolve(this.#counts.count(client)).then(counted => call(null, counted), call)
  }

  child(options: object): Store {
    return new Store(options)
  }
}

/**
 * Registers the plugin, if there is anything to limit, and returns the `rateLimit` configurations of the routes that have
 * these limits; each route counts for itself, or where its configuration has `counts`, there. 0: none.
 */
export async function limitRates<const Limits extends readonly (number | undefined)[]>(
  app: FastifyInstance,
  perMinute: Limits,
): Promise<{ [K in keyof Limits]: object | undefined }> {
  const limits = perMinute.map(max => (max ? { max, timeWindow: WINDOW_MILLISECONDS } : undefined))
  if (limits.some(limit => limit !== undefined)) await register(app)
  return limits as { [K in keyof Limits]: object | undefined }
}

async function register(app: FastifyInstance): Promise<void> {
  const silent = { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false }
  await app.register(rateLimit, {
    global: false,
    store: Store,
    addHeadersOnExceeding: silent,
    addHeaders: { ...silent, 'retry-after': true },
    errorResponseBuilder: () => new Refusal('rate_limited', 'too many queries; Retry-After says when to come again'),
  })
}
