// POST /v1/instant: queries of an instant lookup in, sums out. They wait for a pass of a worker thread; a reply's length
// depends on the manifest and the number of queries alone, and it is as any answer's: never compressed, never chunked.

import {
  decodeInstantQuery,
  encodeInstantAnswer,
  equalBytes,
  HEADER_BYTES,
  hasInstant,
  INSTANT_PATH,
  type InstantQuery,
  MAX_INSTANT_BYTES,
  WireError,
} from '@pirouette/protocol'
import type { CoreError } from '@pirouette/wasm'
import { networkOf } from '../../base/address.js'
import { epochUnknown, Refusal } from '../../base/refusal.js'
import type { Epoch, Epochs } from '../../database/epochs.js'
import { checkQueries, type InstantLookups, type InstantSizes } from '../../instant/lookups.js'
import { whenOver } from '../over.js'
import type { Readiness } from '../readiness.js'
import type { Unsent } from '../unsent.js'
import type { Routes } from './types.js'

export interface InstantRouteOptions {
  readonly epochs: Epochs
  readonly lookups: InstantLookups
  readonly readiness: Readiness
  readonly unsent: Unsent
  /** configuration of @fastify/rate-limit for this route */
  readonly rateLimit: object | undefined
}

/** When to come again if the queue is full: always the same, whatever is in it. */
const RETRY_AFTER_SECONDS = 1

export function instantRoute(app: Routes, options: InstantRouteOptions): void {
  const { epochs, lookups, readiness, unsent, rateLimit } = options
  const routeOptions = {
    bodyLimit: MAX_INSTANT_BYTES,
    compress: false, // for an app that uses @fastify/compress
    ...(rateLimit === undefined ? {} : { config: { rateLimit } }),
    onRequest: async () => readiness.check(),
  }
  app.post(INSTANT_PATH, routeOptions, async (request, reply) => {
    const query = read(request.body)
    const epoch = findEpoch(epochs, query)
    const { answerBytes } = checked(epoch, query)
    const { generation, count, queries } = query
    const made = unsent.reserve(request, reply, HEADER_BYTES + count * answerBytes, true)
    try {
      const network = networkOf(request.ip)
      const waiting = lookups.submit({ epochs, generation, epoch: query.epoch, queries, count, network })
      whenOver(request, reply, waiting.cancel)
      const answers = await waiting.answers
      made()
      const bytes = encodeInstantAnswer(epoch.manifest, count, answers)
      return reply
        .header('cache-control', 'no-store, no-transform')
        .header('content-length', bytes.length)
        .type('application/octet-stream')
        .send(bytes)
    } catch (error) {
      if (error instanceof Refusal && error.code === 'instant_full') reply.header('retry-after', RETRY_AFTER_SECONDS)
      throw error
    } finally {
      queries.fill(0)
    }
  })
}

function read(body: unknown): InstantQuery {
  try {
    return decodeInstantQuery(body instanceof Uint8Array ? body : new Uint8Array())
  } catch (error) {
    if (error instanceof WireError) throw new Refusal('bad_request', error.message)
    throw error
  }
}

function findEpoch(epochs: Epochs, query: InstantQuery): Epoch {
  if (!equalBytes(query.databaseId, epochs.databaseId)) {
    throw new Refusal('wrong_database', 'the query is for another database than the one served here')
  }
  const epoch = epochs.find(query.generation, query.epoch)
  if (epoch === undefined) throw epochUnknown(epochs.newest.manifest)
  if (!hasInstant(epoch.manifest)) {
    throw new Refusal('bad_request', 'suite: this database has no commitments, so no instant lookups')
  }
  if (query.partitions !== epoch.manifest.partitions) {
    throw new Refusal('bad_request', `partitions: expected ${epoch.manifest.partitions}, got ${query.partitions}`)
  }
  return epoch
}

/** Looked at whole before they wait with others' queries: a pass is made of what is right. */
function checked(epoch: Epoch, { queries, count }: InstantQuery): InstantSizes {
  try {
    const sizes = checkQueries(epoch.shared().core, epoch.manifest, queries)
    if (queries.length === count * sizes.requestBytes) return sizes
    const expected = HEADER_BYTES + count * sizes.requestBytes
    throw new Refusal('bad_request', `query length: expected ${expected}, got ${HEADER_BYTES + queries.length}`)
  } catch (error) {
    const { code, message } = error as CoreError
    // What is wrong with a query, as the core says it, repeats none of it.
    if (code === 'length' || code === 'query') throw new Refusal('bad_request', message)
    throw error
  }
}
