// POST /v1/answer: a query in, an answer out, with a claim and the fence's verdict behind them if there is one. The
// reply's length depends on the manifest, the suite, the batch's count and the claim's being there alone: never
// compressed, never chunked, not to be transformed on the way.

import {
  entryBytes,
  FENCE_REQUEST_BYTES,
  HEADER_BYTES,
  MAX_PARTITIONS,
  type Manifest,
  maxBatch,
  OFFSET_BYTES,
  queryBytes,
  withVerdict,
} from '@pirouette/protocol'
import type { FastifyRequest } from 'fastify'
import { type Answered, answerQuery } from '../answer.js'
import type { Epochs } from '../epochs.js'
import type { Fence } from '../living/fence.js'
import type { Readiness } from '../readiness.js'
import { Refusal } from '../refusal.js'
import type { Routes } from './types.js'

export interface AnswerOptions {
  readonly epochs: Epochs
  /** of a living database, whose layouts may come and go */
  readonly fence: Fence | undefined
  readonly readiness: Readiness
  /** configuration of @fastify/rate-limit for this route */
  readonly rateLimit: object | undefined
  /** the core has failed in a way that leaves its memory in doubt; nothing is answered after that */
  readonly onTrap: (error: Error) => void
}

export function answerRoute(app: Routes, { epochs, fence, readiness, rateLimit, onTrap }: AnswerOptions): void {
  const options = {
    bodyLimit: longestQuery(epochs.newest.manifest, fence !== undefined),
    compress: false, // for an app that uses @fastify/compress
    ...(rateLimit === undefined ? {} : { config: { rateLimit } }),
    onRequest: async (request: FastifyRequest) => {
      readiness.check()
      if (request.headers['content-encoding'] !== undefined) {
        throw new Refusal('unsupported_encoding', 'a query has no Content-Encoding')
      }
    },
  }
  app.post('/v1/answer', options, async (request, reply) => {
    const body = request.body instanceof Uint8Array ? request.body : new Uint8Array()
    const bytes = await judged(answerOrStop(body))
    return reply
      .header('cache-control', 'no-store, no-transform')
      .header('content-length', bytes.length)
      .type('application/octet-stream')
      .send(bytes)
  })

  /** Whatever the verdict, it comes with the answer: the vectors have been shown. */
  async function judged({ answer, claim }: Answered): Promise<Uint8Array> {
    if (claim === undefined) return answer
    if (fence === undefined) throw new Refusal('not_found', 'this database does not change, and has no fence')
    return withVerdict(answer, await fence.judge({ kind: 'confirm', ...claim }))
  }

  function answerOrStop(body: Uint8Array): Answered {
    try {
      return answerQuery(epochs, body)
    } catch (error) {
      if (error instanceof Error && isTrap(error)) {
        readiness.stop('this server has failed and is restarting')
        onTrap(error)
      }
      throw error
    }
  }
}

/**
 * In bytes, a claim included; with tags, as a batch has most queries then; of a living database for any layout it may
 * come to have.
 */
function longestQuery(manifest: Manifest, living: boolean): number {
  if (!living) return queryBytes(manifest, maxBatch(manifest, 'tags')) + FENCE_REQUEST_BYTES
  const offsets = Math.max(MAX_PARTITIONS, Math.floor(2 ** 23 / entryBytes(manifest, 'tags')))
  return HEADER_BYTES + OFFSET_BYTES * offsets + FENCE_REQUEST_BYTES
}

/** WebAssembly's own error class, which Node's types do not know. */
function isTrap(error: Error): boolean {
  return error.name === 'RuntimeError'
}
