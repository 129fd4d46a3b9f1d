// POST /v1/one-server: queries of lookups with one server in, answers out. As in /v1/instant, lengths depend on the manifest and the
// number of queries alone, and a reply is never compressed, never chunked.

import {
  decodeOneServerQuery,
  encodeOneServerAnswer,
  HEADER_BYTES,
  hasOneServer,
  MAX_ONE_SERVER_BYTES,
  ONE_SERVER_PATH,
  type OneServerQuery,
} from '@keyhush/protocol'
import { networkOf } from '../../base/address.js'
import { Refusal } from '../../base/refusal.js'
import type { Epoch } from '../../database/epochs.js'
import type { OneServerLookups } from '../../instant/one-server.js'
import { kindsOf, sizesFor } from '../../one-server/contents.js'
import { decoded, epochOf, expectPartitions, queriesIn, sendBytes } from '../binary.js'
import { whenOver } from '../limits/connections.js'
import { WEIGHTS } from '../limits/rate.js'
import type { Routes, Surroundings } from './types.js'

/** When to come again if the queue is full: always the same, whatever is in it. */
const RETRY_AFTER_SECONDS = 1

export function oneServerRoute(app: Routes, surroundings: Surroundings, lookups: OneServerLookups): void {
  const { epochs, readiness, unsent, rate } = surroundings
  const routeOptions = {
    bodyLimit: MAX_ONE_SERVER_BYTES,
    compress: false, // for an app that uses @fastify/compress
    onRequest: readiness.hook,
  }
  app.post(ONE_SERVER_PATH, routeOptions, async (request, reply) => {
    rate.take(request, reply, WEIGHTS.oneServer * queriesIn(request))
    const query = decoded(request.body, decodeOneServerQuery)
    const epoch = epochOf(epochs, query)
    const answerBytes = checked(epoch, query)
    const { of, generation, count, queries } = query
    const made = unsent.reserve(request, reply, HEADER_BYTES + count * answerBytes, { waits: true })
    try {
      const network = networkOf(request.ip)
      const waiting = lookups.submit({ epochs, of, generation, epoch: query.epoch, queries, count, network })
      whenOver(reply, waiting.cancel)
      const answers = await waiting.answers
      made()
      return sendBytes(reply, encodeOneServerAnswer(epoch.manifest, of, count, answers))
    } catch (error) {
      if (error instanceof Refusal && error.code === 'instant_full') reply.header('retry-after', RETRY_AFTER_SECONDS)
      throw error
    } finally {
      queries.fill(0)
    }
  })
}

/** Checks a request at the epoch that it asks at, and says how long one answer is. */
function checked(epoch: Epoch, query: OneServerQuery): number {
  const { manifest } = epoch
  if (!hasOneServer(manifest)) {
    throw new Refusal('bad_request', 'suite: expected a database with a hint for one server, got one without')
  }
  expectPartitions(epoch, query)
  const { of, count, queries } = query
  if (!kindsOf(manifest).includes(of)) {
    throw new Refusal('bad_request', 'suite: expected a database with keys, got one without')
  }
  const { requestBytes, answerBytes, maxBatch } = sizesFor(epoch.shared().core, manifest, of)
  const most = Math.min(manifest.maxBatch, maxBatch)
  if (count > most) throw new Refusal('bad_request', `count: expected at most ${most}, got ${count}`)
  if (queries.length === count * requestBytes) return answerBytes
  throw new Refusal('bad_request', `queries: expected ${count * requestBytes} bytes, got ${queries.length}`)
}
