// A limit on queries, per client address (IPv6: per /64) and minute. Addresses are kept in memory for that minute and
// go nowhere else.

import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance } from 'fastify'
import { Refusal } from '../refusal.js'

const WINDOW_MILLISECONDS = 60_000
const REMEMBERED_CLIENTS = 100_000

/** Registers the plugin and returns the `rateLimit` configuration of the one route it is for. */
export async function limitRate(app: FastifyInstance, perMinute: number): Promise<object> {
  const silent = { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false }
  await app.register(rateLimit, {
    global: false,
    cache: REMEMBERED_CLIENTS,
    addHeadersOnExceeding: silent,
    addHeaders: { ...silent, 'retry-after': true },
    errorResponseBuilder: () => new Refusal('rate_limited', 'too many queries; Retry-After says when to come again'),
  })
  return { max: perMinute, timeWindow: WINDOW_MILLISECONDS }
}
