// POST /v1/fence: how far a hint has come; 80 bytes in, 8 bytes out.

import {
  decodeFenceRequest,
  encodeFenceReply,
  equalBytes,
  FENCE_REQUEST_BYTES,
  type FenceRequest,
  WireError,
} from '@pirouette/protocol'
import type { LivingDatabase } from '../living/database.js'
import type { Readiness } from '../readiness.js'
import { Refusal } from '../refusal.js'
import type { Routes } from './types.js'

export interface FenceRouteOptions {
  readonly living: LivingDatabase
  readonly readiness: Readiness
  /** configuration of @fastify/rate-limit for this route */
  readonly rateLimit: object | undefined
}

export function fenceRoute(app: Routes, { living, readiness, rateLimit }: FenceRouteOptions): void {
  const options = {
    bodyLimit: FENCE_REQUEST_BYTES,
    ...(rateLimit === undefined ? {} : { config: { rateLimit } }),
    onRequest: async () => readiness.check(),
  }
  app.post('/v1/fence', options, async (request, reply) => {
    const fenceRequest = read(request.body)
    if (!equalBytes(fenceRequest.databaseId, living.databaseId)) {
      throw new Refusal('wrong_database', 'the hint is of another database than the one served here')
    }
    const verdict = encodeFenceReply(await living.fence.judge(fenceRequest))
    return reply.header('cache-control', 'no-store, no-transform').type('application/octet-stream').send(verdict)
  })
}

function read(body: unknown): FenceRequest {
  try {
    return decodeFenceRequest(body instanceof Uint8Array ? body : new Uint8Array())
  } catch (error) {
    if (error instanceof WireError) throw new Refusal('bad_request', error.message)
    throw error
  }
}
