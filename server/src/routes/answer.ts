// POST /v1/answer: a query in, an answer out. The reply's length depends on the manifest, the suite and the batch's
// count alone: never compressed, never chunked, not to be transformed on the way.

import {
  entryBytes,
  HEADER_BYTES,
  MAX_PARTITIONS,
  type Manifest,
  maxBatch,
  OFFSET_BYTES,
  queryBytes,
} from '@pirouette/protocol'
import type { FastifyRequest } from 'fastify'
import { answerQuery } from '../answer.js'
import type { Epochs } from '../epochs.js'
import type { Readiness } from '../readiness.js'
import { Refusal } from '../refusal.js'
import type { Routes } from './types.js'

export interface AnswerOptions {
  readonly epochs: Epochs
  /** layouts may come and go */
  readonly living: boolean
  readonly readiness: Readiness
  /** configuration of @fastify/rate-limit for this route */
  readonly rateLimit: object | undefined
  /** the core has failed in a way that leaves its memory in doubt; nothing is answered after that */
  readonly onTrap: (error: Error) => void
}

export function answerRoute(app: Routes, { epochs, living, readiness, rateLimit, onTrap }: AnswerOptions): void {
  const options = {
    bodyLimit: longestQuery(epochs.newest.manifest, living),
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
    const answer = answerOrStop(body)
    return reply
      .header('cache-control', 'no-store, no-transform')
      .header('content-length', answer.length)
      .type('application/octet-stream')
      .send(answer)
  })

  function answerOrStop(body: Uint8Array): Uint8Array {
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

/** In bytes, with tags, as a batch has most queries then; of a living database for any layout it may come to have. */
function longestQuery(manifest: Manifest, living: boolean): number {
  if (!living) return queryBytes(manifest, maxBatch(manifest, 'tags'))
  const offsets = Math.max(MAX_PARTITIONS, Math.floor(2 ** 23 / entryBytes(manifest, 'tags')))
  return HEADER_BYTES + OFFSET_BYTES * offsets
}

/** WebAssembly's own error class, which Node's types do not know. */
function isTrap(error: Error): boolean {
  return error.name === 'RuntimeError'
}
