// POST /v1/instant: queries of an instant lookup in, sums out. They wait for a pass of a worker thread; a reply's length
// depends on the manifest and the number of queries alone, and it is as any answer's: never compressed, never chunked.

import {
  decodeInstantQuery,
  encodeInstantAnswer,
  HEADER_BYTES,
  hasInstant,
  INSTANT_PATH,
  type InstantQuery,
  MAX_INSTANT_BYTES,
} from '@keyhush/protocol'
import type { CoreError } from '@keyhush/wasm'
import { Refusal } from '../../base/refusal.js'
import type { AnyEpoch, Epochs } from '../../database/epochs.js'
import { checkQueries, type InstantRequest, type InstantSizes } from '../../instant/lookups.js'
import type { Waiting } from '../../workers/requests.js'
import { decoded, epochOf, expectPartitions, queriesIn } from '../binary.js'
import { WEIGHTS } from '../limits/rate.js'
import { sendWaited } from '../waited.js'
import type { Routes, Surroundings } from './types.js'

/** Answers requests at epochs of this kind. */
export interface Lookups<E extends AnyEpoch> {
  /** databases that each query is read in; missing: one */
  readonly shards?: number
  submit(request: InstantRequest<E>): Waiting
}

export function instantRoute<E extends AnyEpoch>(
  app: Routes,
  surroundings: Surroundings<E>,
  lookups: Lookups<E>,
): void {
  const { epochs, readiness, unsent, rate } = surroundings
  const routeOptions = {
    bodyLimit: MAX_INSTANT_BYTES,
    compress: false, // for an app that uses @fastify/compress
    onRequest: readiness.hook,
  }
  app.post(INSTANT_PATH, routeOptions, async (request, reply) => {
    rate.take(request, reply, WEIGHTS.instant * (lookups.shards ?? 1) * queriesIn(request))
    const query = decoded(request.body, decodeInstantQuery)
    const epoch = findEpoch(epochs, query)
    const { answerBytes } = checked(epoch, query)
    const { of, generation, count, queries, servers, vectors, groupLog } = query
    return await sendWaited(request, reply, {
      made: unsent.reserve(request, reply, HEADER_BYTES + count * answerBytes, { waits: true }),
      queries,
      submit: network =>
        lookups.submit({
          ...{ epochs, of, generation, epoch: query.epoch },
          ...{ queries, count, servers, vectors, groupLog, network },
        }),
      encode: answers => encodeInstantAnswer(epoch.manifest, of, count, answers, servers),
    })
  })
}

function findEpoch<E extends AnyEpoch>(epochs: Epochs<E>, query: InstantQuery): E {
  const epoch = epochOf(epochs, query)
  if (!hasInstant(epoch.manifest)) {
    throw new Refusal('bad_request', 'suite: expected a database with commitments for instant lookups, got one without')
  }
  expectPartitions(epoch, query)
  return epoch
}

/** Looked at whole before they wait with others' queries: a pass is made of what is right. */
function checked({ core, manifest }: AnyEpoch, query: InstantQuery): InstantSizes {
  const { of, queries, count } = query
  if (of === 'directory' && !manifest.keyed)
    throw new Refusal('bad_request', 'suite: expected a database with keys, got one without')
  try {
    const sizes = checkQueries(core, manifest, query)
    if (queries.length === count * sizes.requestBytes) return sizes
    throw new Refusal('bad_request', `queries: expected ${count * sizes.requestBytes} bytes, got ${queries.length}`)
  } catch (error) {
    const { code, message } = error as CoreError
    // What is wrong with a query, as the core says it, repeats none of it.
    if (code === 'length' || code === 'query') throw new Refusal('bad_request', message)
    throw error
  }
}
