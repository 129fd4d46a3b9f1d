// A limit on queries, per client address (IPv6: per /64) and minute. Addresses are kept in memory for that minute and
// go nowhere else.

import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance } from 'fastify'
import { Refusal } from '../../base/refusal.js'

const WINDOW_MILLISECONDS = 60_000
const REMEMBERED_CLIENTS = 100_000

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

async function register(app: FastifyInstance): Promise<void> {
  const silent = { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false }
  await app.register(rateLimit, {
    global: false,
    cache: REMEMBERED_CLIENTS,
    addHeadersOnExceeding: silent,
    addHeaders: { ...silent, 'retry-after': true },
    errorResponseBuilder: () => new Refusal('rate_limited', 'too many queries; Retry-After says when to come again'),
  })
}
