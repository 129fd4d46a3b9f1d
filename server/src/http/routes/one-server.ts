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
import { epochUnknown, Refusal } from '../../base/refusal.js'
import type { Epoch, Epochs } from '../../database/epochs.js'
import type { OneServerLookups } from '../../instant/one-server.js'
import type { Base } from '../../one-server/base.js'
import { kindsOf, sizesFor } from '../../one-server/contents.js'
import { decoded, expectDatabase, queriesIn } from '../binary.js'
import { WEIGHTS } from '../limits/rate.js'
import { sendWaited } from '../waited.js'
import type { Routes, Surroundings } from './types.js'

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
    const base = baseOf(epochs, query)
    const answerBytes = checked(epochs.newest, base, query)
    const { of, count, queries } = query
    return await sendWaited(request, reply, {
      made: unsent.reserve(request, reply, HEADER_BYTES + count * answerBytes, { waits: true }),
      queries,
      submit: network => lookups.submit({ epochs, base, of, queries, count, network }),
      encode: answers => encodeOneServerAnswer({ ...base.manifest, partitions: query.partitions }, of, count, answers),
    })
  })
}

/** The base that a request asks at. Throws a Refusal. */
function baseOf(epochs: Epochs, query: OneServerQuery): Base {
  expectDatabase(epochs, query)
  const { generation, epoch } = query
  const base = epochs.bases.find(({ manifest }) => manifest.generation === generation && manifest.epoch === epoch)
  if (base !== undefined) return base
  const found = epochs.find(generation, epoch)
  if (found === undefined || hasOneServer(found.manifest)) throw epochUnknown(epochs.newest.manifest)
  throw new Refusal('bad_request', 'suite: expected a database with a public hint for one server, got one without')
}

/** Checks a request at the base that it asks at, and says how long one answer is. */
function checked({ core }: Epoch, { manifest }: Base, query: OneServerQuery): number {
  const least = Math.ceil(manifest.records / manifest.partitionRecords) // later epochs may have more
  if (query.partitions < least)
    throw new Refusal('bad_request', `partitions: expected at least ${least}, got ${query.partitions}`)
  const { of, count, queries } = query
  if (!kindsOf(manifest).includes(of)) {
    throw new Refusal('bad_request', 'suite: expected a database with keys, got one without')
  }
  const { requestBytes, answerBytes, maxQueries } = sizesFor(core, manifest, of)
  const most = Math.min(manifest.maxQueries, maxQueries)
  if (count > most) throw new Refusal('bad_request', `count: expected at most ${most}, got ${count}`)
  if (queries.length === count * requestBytes) return answerBytes
  throw new Refusal('bad_request', `queries: expected ${count * requestBytes} bytes, got ${queries.length}`)
}
