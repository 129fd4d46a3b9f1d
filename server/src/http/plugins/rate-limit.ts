// A limit on queries, per client address (IPv6: per /64) and minute; a batch is as many as it carries. Addresses are kept in
// memory for that minute and go nowhere else.

import rateLimit, { type FastifyRateLimitStore } from '@fastify/rate-limit'
import { claimedCount } from '@keyhush/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { clientOf } from '../../base/address.js'
import { AgingMap } from '../../base/aging-map.js'
import { Refusal } from '../../base/refusal.js'

const WINDOW_MILLISECONDS = 60_000
const REMEMBERED_CLIENTS = 100_000

/** How many queries a client has sent, the last batch counted as one, and when that begins anew. */
export interface Counted {
  readonly current: number
  /** milliseconds */
  readonly ttl: number
}

/** What counts them, of one route. */
class Counts {
  readonly #clients = new AgingMap<{ current: number; readonly since: number }>()

  /** So many more. Whoever has any left may send a batch of any size. */
  count(client: string, queries: number): Counted {
    const now = Date.now()
    const known = this.#clients.get(client)
    if (known !== undefined && known.since + WINDOW_MILLISECONDS > now) {
      const current = known.current + 1
      known.current += queries
      return { current, ttl: known.since + WINDOW_MILLISECONDS - now }
    }
    this.#clients.delete(client)
    if (this.#clients.size >= REMEMBERED_CLIENTS) this.#clients.delete(this.#clients.oldest!)
    this.#clients.set(client, { current: queries, since: now })
    return { current: 1, ttl: WINDOW_MILLISECONDS }
  }
}

/** A route's own, as the plugin asks for them. */
class Store implements FastifyRateLimitStore {
  readonly #counts = new Counts()

  incr(key: string, call: (error: Error | null, counted?: Counted) => void): void {
    const [queries, client] = key.split(' ') as [string, string]
    call(null, this.#counts.count(client, Number(queries)))
  }

  child(): Store {
    return new Store()
  }
}

/**
 * Registers the plugin, if there is anything to limit, and returns the `rateLimit` configurations of the routes that have
 * these limits; each route counts for itself. 0: none.
 */
export async function limitRates<const Limits extends readonly (number | undefined)[]>(
  app: FastifyInstance,
  perMinute: Limits,
): Promise<{ [K in keyof Limits]: object | undefined }> {
  const limits = perMinute.map(max => (max ? { max, timeWindow: WINDOW_MILLISECONDS } : undefined))
  if (limits.some(limit => limit !== undefined)) await register(app)
  return limits as { [K in keyof Limits]: object | undefined }
}

/** The same of a route whose requests carry queries: each counts, once the body is here that says how many there are. */
export function ofQueries(limit: object | undefined): object | undefined {
  if (limit === undefined) return undefined
  const keyGenerator = ({ ip, body }: FastifyRequest) => keyOf(body instanceof Uint8Array ? claimedCount(body) : 1, ip)
  return { ...limit, hook: 'preHandler', keyGenerator }
}

/** What a store is told. */
function keyOf(queries: number, ip: string): string {
  return `${queries} ${clientOf(ip)}`
}

async function register(app: FastifyInstance): Promise<void> {
  const silent = { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false }
  await app.register(rateLimit, {
    global: false,
    store: Store,
    keyGenerator: ({ ip }: FastifyRequest) => keyOf(1, ip),
    addHeadersOnExceeding: silent,
    addHeaders: { ...silent, 'retry-after': true },
    errorResponseBuilder: () => new Refusal('rate_limited', 'too many queries; Retry-After says when to come again'),
  })
}
