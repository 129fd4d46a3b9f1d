// POST /v1/answer: a query in, an answer out, with a claim and the fence's verdict behind them if there is one. The
// reply's length depends on the manifest, the suite, the batch's count and the claim's being there alone: never
// compressed, never chunked, not to be transformed on the way.

import {
  blockBytes,
  FENCE_REQUEST_BYTES,
  HEADER_BYTES,
  MAX_BATCH,
  MAX_ENTRIES_BYTES,
  MAX_PARTITIONS,
  OFFSET_BYTES,
} from '@keyhush/protocol'
import type { Epoch } from '../../database/epochs.js'
import { sendBytes } from '../binary.js'
import type { Readiness } from '../readiness.js'
import type { Unsent } from '../unsent.js'
import type { Routes } from './types.js'

/** Whoever makes the replies. */
export interface Answers {
  /** bytes of the longest query */
  readonly longest: number
  /**
   * What a query's body is replied to with; a promise only where something has to be waited for, for it takes as long as decoding a
   * query. `reserve` is told how many bytes an answer will have before they are made, and may throw. Throws a Refusal, or
   * rejects with one, for any bytes that are not a query.
   */
  reply(body: unknown, reserve: (bytes: number) => void): Uint8Array | Promise<Uint8Array>
}

export interface AnswerOptions {
  readonly answers: Answers
  readonly readiness: Readiness
  readonly unsent: Unsent
  /** configuration of @fastify/rate-limit for this route */
  readonly rateLimit: object | undefined
}

export function answerRoute(app: Routes, { answers, readiness, unsent, rateLimit }: AnswerOptions): void {
  const options = {
    bodyLimit: answers.longest,
    compress: false, // for an app that uses @fastify/compress
    ...(rateLimit === undefined ? {} : { config: { rateLimit } }),
    onRequest: readiness.hook,
  }
  app.post('/v1/answer', options, (request, reply) => {
    const answer = answers.reply(request.body, length => unsent.reserve(request, reply, length))
    if (!(answer instanceof Uint8Array)) return answer.then(bytes => sendBytes(reply, bytes))
    sendBytes(reply, answer)
    return undefined
  })
}

/**
 * In bytes, a claim included. An updatable database may come to have any layout with its ℓ′: a generation with smaller M,
 * hence shorter proofs, may make batches of more offsets than this one. (Queries of suite 3 never take more than 128 KiB.)
 */
export function longestQuery(epoch: Epoch, updatable: boolean): number {
  if (!updatable) {
    const bodies = Array.from(epoch.suites, suite => epoch.queryLimits(suite).reduce((each, most) => each * most))
    return HEADER_BYTES + Math.max(...bodies) + FENCE_REQUEST_BYTES
  }
  const longest = Math.min(MAX_BATCH * MAX_PARTITIONS, Math.floor(MAX_ENTRIES_BYTES / blockBytes(epoch.manifest)))
  const offsets = Math.max(MAX_PARTITIONS, longest)
  return HEADER_BYTES + OFFSET_BYTES * offsets + FENCE_REQUEST_BYTES
}
