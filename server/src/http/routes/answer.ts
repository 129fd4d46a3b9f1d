// POST /v1/answer (TAPIR Fig. 5, Answer): a query, perhaps with a claim for the fence, gets an answer, then with the verdict. The length of
// the reply depends on the manifest, the suite, the number of queries and the claim alone, so it is never compressed or chunked.

import {
  blockBytes,
  decodeClaimedQuery,
  encodeAnswerTo,
  FENCE_REQUEST_BYTES,
  type FenceClaim,
  type FenceVerdict,
  HEADER_BYTES,
  MAX_BATCH,
  MAX_ENTRIES_BYTES,
  MAX_PARTITIONS,
  type MessageHeader,
  OFFSET_BYTES,
  type Query,
  withVerdict,
} from '@keyhush/protocol'
import type { CoreError } from '@keyhush/wasm'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isTrap } from '../../base/errors.js'
import { Refusal } from '../../base/refusal.js'
import type { Epoch, Epochs } from '../../database/epochs.js'
import type { Fence } from '../../database/fence.js'
import { decoded, epochOf, expectPartitions, queriesIn, sendBytes } from '../binary.js'
import { WEIGHTS } from '../limits/rate.js'
import type { Routes, Surroundings } from './types.js'

/** `fence`: an updatable database has one. */
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
    if (fence === undefined) throw new Refusal('not_found', 'expected a database that changes: this one has no fence')
    return fence.judge({ kind: 'confirm', ...claim })
  }
}

/** An answer, and the claim that came with the query, for the fence to judge. */
export interface Answered {
  readonly answer: Uint8Array
  readonly claim: FenceClaim | undefined
}

/**
 * Answers a query. `reserve` is called with the length of the answer before that is made, and may throw. Throws a Refusal for bytes
 * that are not a query, and lets a trap of the core through.
 */
export function answerQuery(epochs: Epochs, body: unknown, reserve: (bytes: number) => void): Answered {
  const { query, claim } = decoded(body, bytes =>
    decodeClaimedQuery(bytes, header => answerable(epochs, header).queryBytes),
  )
  const { epoch } = answerable(epochs, query)
  const bytes = HEADER_BYTES + epoch.answerBytes(query.count, query.suite)
  reserve(bytes)
  const room = new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer) // of its own: a pool's would stand as long as any other answer there
  return { answer: encodeAnswerTo(query, epoch.manifest, bodyFor(epoch, query), room), claim }
}

/** The epoch that a query is for, if it is answered there, and the bytes of one of its queries. */
function answerable(epochs: Epochs, header: MessageHeader): { readonly epoch: Epoch; readonly queryBytes: number } {
  const epoch = epochOf(epochs, header)
  if (!epoch.suites.includes(header.suite)) {
    throw new Refusal('bad_request', `suite: expected ${epoch.suites.join(' or ')}, got ${header.suite}`)
  }
  expectPartitions(epoch, header)
  const limits = epoch.queryLimits(header.suite)
  const [queryBytes, most] = [limits[0]!, limits[1]!] // taken apart as a list it would take as long as all else here
  if (header.count > most) throw new Refusal('bad_request', `count: expected at most ${most}, got ${header.count}`)
  return { epoch, queryBytes }
}

function bodyFor(epoch: Epoch, { vectors, suite }: Query): Uint8Array {
  try {
    return epoch.answer(vectors, suite)
  } catch (error) {
    // The core names the offset; the reply does not, for it is part of a query.
    if ((error as CoreError).code === 'index') {
      throw new Refusal('bad_request', 'expected offsets below the number of records in a partition, got a larger one')
    }
    if ((error as CoreError).code === 'query') throw new Refusal('bad_request', (error as CoreError).message)
    throw error
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
