// POST /v1/fence: how far a hint has come; 80 bytes in, 8 bytes out.

import { decodeFenceRequest, encodeFenceReply, equalBytes } from '@keyhush/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../../base/address.js'
import { Refusal } from '../../base/refusal.js'
import type { UpdatableDatabase } from '../../database/updatable.js'
import { decoded, sendBytes } from '../binary.js'
import { WEIGHTS } from '../limits/rate.js'
import type { Routes, Surroundings } from './types.js'

export function fenceRoute(app: Routes, { readiness, rate }: Surroundings, updatable: UpdatableDatabase): void {
  const options = {
    bodyLimit: MOST_BYTES,
    onRequest: async (request: FastifyRequest, reply: FastifyReply) => {
      rate.take(request, reply, WEIGHTS.fence)
      readiness.check()
    },
  }
  app.post('/v1/fence', options, async (request, reply) => {
    const fenceRequest = decoded(request.body, decodeFenceRequest)
    if (!equalBytes(fenceRequest.databaseId, updatable.databaseId)) {
      throw new Refusal('wrong_database', 'expected a hint of the database served here, got one of another')
    }
    const verdict = encodeFenceReply(await updatable.fence.judge(fenceRequest, networkOf(request.ip)))
    return sendBytes(reply, verdict)
  })
}

/** More than any request has, so that the reply to a longer one says what is wrong. */
const MOST_BYTES = 1024
