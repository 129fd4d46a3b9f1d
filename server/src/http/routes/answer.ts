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
  MAX_ENTRIES_BYTES,
  MAX_PARTITIONS,
  MAX_QUERIES,
  type MessageHeader,
  OFFSET_BYTES,
  type Query,
  withVerdict,
} from '@keyhush/protocol'
import type { CoreError } from '@keyhush/wasm'
import type { FastifyRequest } from 'fastify'
import { isTrap } from '../../base/errors.js'
import { Refusal } from '../../base/refusal.js'
import type { Epoch, Epochs } from '../../database/epochs.js'
import type { Fence } from '../../database/fence.js'
import type { Unproved } from '../../dataset/proof-kinds.js'
import type { ProvedAnswers } from '../../instant/proved.js'
import { decoded, epochOf, expectPartitions, queriesIn, sendBytes } from '../binary.js'
import { WEIGHTS } from '../limits/rate.js'
import { sendWaited } from '../waited.js'
import type { Routes, Surroundings } from './types.js'

/** `fence`: an updatable database has one. */
export function answerRoute(
  app: Routes,
  surroundings: Surroundings,
  proved: ProvedAnswers,
  fence: Fence | undefined,
): void {
  const { epochs, readiness, unsent, rate, trapped } = surroundings
  const routeOptions = {
    bodyLimit: longestQuery(epochs.newest, fence !== undefined),
    compress: false, // for an app that uses @fastify/compress
    onRequest: readiness.hook,
  }
  // No promise without a claim: it takes as long as decoding a query.
  app.post('/v1/answer', routeOptions, (request, reply) => {
    rate.take(request, reply, WEIGHTS.answer * queriesIn(request))
    let made = () => {}
    const { answer, claim } = answered(request, bytes => {
      made = unsent.reserve(request, reply, bytes, { waits: true })
    })
    // Whatever the verdict, it comes with the answer: the vectors have been shown.
    const whole = (answer: Uint8Array) =>
      claim === undefined ? answer : judge(claim).then(verdict => withVerdict(answer, verdict))
    if (!(answer instanceof Uint8Array)) {
      const { unproved, queries, encode } = answer
      rate.add(request, WEIGHTS.proof * unproved.entries)
      const submit = (network: string) => proved.submit(unproved, network)
      return sendWaited(request, reply, { made, queries, submit, encode: body => whole(encode(body)) })
    }
    made()
    const bytes = whole(answer)
    if (!(bytes instanceof Uint8Array)) return bytes.then(bytes => sendBytes(reply, bytes))
    sendBytes(reply, bytes)
    return undefined
  })

  function answered({ body }: FastifyRequest, reserve: (bytes: number) => void): Answer {
    try {
      return answerQuery(epochs, body, reserve)
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

/** An answer that a thread is to prove; `encode` makes it of the body. */
export interface ToProve {
  readonly unproved: Unproved
  readonly queries: Uint8Array
  encode(body: Uint8Array): Uint8Array
}

/** An answer, and the claim that came with the query, for the fence to judge. */
export interface Answer {
  readonly answer: Uint8Array | ToProve
  readonly claim: FenceClaim | undefined
}

/**
 * Answers a query. `reserve` is called with the length of the answer before that is made, and may throw. Throws a Refusal for bytes
 * that are not a query, and lets a trap of the core through.
 */
export function answerQuery(epochs: Epochs, body: unknown, reserve: (bytes: number) => void): Answer {
  const { query, claim } = decoded(body, bytes =>
    decodeClaimedQuery(bytes, header => answerable(epochs, header).queryBytes),
  )
  const { epoch } = answerable(epochs, query)
  const bytes = HEADER_BYTES + epoch.answerBytes(query.count, query.suite)
  reserve(bytes)
  const room = new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer) // of its own: a pool's would stand as long as any other answer there
  const encode = (body: Uint8Array) => encodeAnswerTo(query, epoch.manifest, body, room)
  const found = bodyFor(epoch, query)
  const answer = found instanceof Uint8Array ? encode(found) : { unproved: found, queries: query.vectors, encode }
  return { answer, claim }
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

function bodyFor(epoch: Epoch, { vectors, suite }: Query): Uint8Array | Unproved {
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
 * hence shorter proofs, may take lookups of more offsets than this one. (Queries of suite 3 never take more than 128 KiB.)
 */
function longestQuery(epoch: Epoch, updatable: boolean): number {
  if (!updatable) {
    const bodies = Array.from(epoch.suites, suite => epoch.queryLimits(suite).reduce((each, most) => each * most))
    return HEADER_BYTES + Math.max(...bodies) + FENCE_REQUEST_BYTES
  }
  const longest = Math.min(MAX_QUERIES * MAX_PARTITIONS, Math.floor(MAX_ENTRIES_BYTES / blockBytes(epoch.manifest)))
  const offsets = Math.max(MAX_PARTITIONS, longest)
  return HEADER_BYTES + OFFSET_BYTES * offsets + FENCE_REQUEST_BYTES
}
