// POST /v1/answer: a query in, an answer out, with a claim and the fence's verdict behind them if there is one. The
// reply's length depends on the manifest, the suite, the batch's count and the claim's being there alone: never
// compressed, never chunked, not to be transformed on the way.

import {
  blockBytes,
  FENCE_REQUEST_BYTES,
  type FenceClaim,
  type FenceVerdict,
  HEADER_BYTES,
  MAX_BATCH,
  MAX_ENTRIES_BYTES,
  MAX_PARTITIONS,
  OFFSET_BYTES,
  withVerdict,
} from '@keyhush/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import type { Epoch } from '../../database/epochs.js'
import type { Fence } from '../../database/fence.js'
import { type Answered, answerQuery } from '../answer.js'
import { queriesIn, sendBytes } from '../binary.js'
import { WEIGHTS } from '../limits/rate.js'
import { isTrap } from '../readiness.js'
import type { Routes, Surroundings } from './types.js'

/** `fence`: of an updatable database, whose layouts may come and go. */
export function answerRoute(app: Routes, surroundings: Surroundings, fence: Fence | undefined): void {
  const { epochs, readiness, unsent, rate, trapped } = surroundings
  const routeOptions = {
    bodyLimit: longestQuery(epochs.newest, fence !== undefined),
    compress: false, // for an app that uses @fastify/compress
    onRequest: readiness.hook,
  }
  // No promise without a claim: it takes as long as decoding a query.
  app.post('/v1/answer', routeOptions, (request, reply) => {
    rate.take(request, reply, WEIGHTS.answer * queriesIn(request))
    const { answer, claim } = answered(request, reply)
    if (claim === undefined) {
      sendBytes(reply, answer)
      return undefined
    }
    // Whatever the verdict, it comes with the answer: the vectors have been shown.
    return judge(claim).then(verdict => sendBytes(reply, withVerdict(answer, verdict)))
  })

  function answered(request: FastifyRequest, reply: FastifyReply): Answered {
    try {
      return answerQuery(epochs, request.body, length => unsent.reserve(request, reply, length))
    } catch (error) {
      if (isTrap(error)) trapped(error)
      throw error
    }
  }

  function judge(claim: FenceClaim): Promise<FenceVerdict> {
    if (fence === undefined) throw new Refusal('not_found', 'this database does not change, and has no fence')
    return fence.judge({ kind: 'confirm', ...claim })
  }
}

/**
 * In bytes, a claim included. An updatable database may come to have any layout with its ℓ′: a generation with smaller M,
 * hence shorter proofs, may make batches of more offsets than this one. (Queries of suite 3 never take more than 128 KiB.)
 */
function longestQuery(epoch: Epoch, updatable: boolean): number {
  if (!updatable) {
    const bodies = Array.from(epoch.suites, suite => epoch.queryLimits(suite).reduce((each, most) => each * most))
    return HEADER_BYTES + Math.max(...bodies) + FENCE_REQUEST_BYTES
  }
  const longest = Math.min(MAX_BATCH * MAX_PARTITIONS, Math.floor(MAX_ENTRIES_BYTES / blockBytes(epoch.manifest)))
  const offsets = Math.max(MAX_PARTITIONS, longest)
  return HEADER_BYTES + OFFSET_BYTES * offsets + FENCE_REQUEST_BYTES
}
