// What publishers use: POST /v1/epochs, POST /v1/signatures, and GET /v1/epochs/<E> to find out how far a server is. The
// two that write do not exist unless the operator configured a token.

import { timingSafeEqual } from 'node:crypto'
import { parseSignature, type SignatureInfo, WireError } from '@pirouette/protocol'
import { EpochParamsSchema } from '@pirouette/protocol/schemas'
import type { FastifyRequest } from 'fastify'
import type { LivingDatabase } from '../living/database.js'
import type { Readiness } from '../readiness.js'
import { epochUnknown, Refusal } from '../refusal.js'
import type { Routes } from './types.js'

const EPOCHS = '/v1/epochs'
const SIGNATURES = '/v1/signatures'

/** Those that take the publisher's token. */
export const TOKEN_ROUTES = [EPOCHS, SIGNATURES] as const

const MOST_BATCH_BYTES = 64 * 1024 * 1024
const MOST_SIGNATURE_BYTES = 4096

export interface PublishOptions {
  readonly living: LivingDatabase
  readonly readiness: Readiness
  /** what publishers authenticate with; undefined: nobody may write */
  readonly token: string | undefined
  /** the core has failed, or memory and disk have parted */
  readonly onTrap: (error: Error) => void
}

export function publishRoutes(app: Routes, { living, readiness, token, onTrap }: PublishOptions): void {
  app.get(`${EPOCHS}/:epoch`, { schema: { params: EpochParamsSchema } }, async (request, reply) => {
    const status = living.status(request.params.epoch)
    if (status === undefined) throw epochUnknown(living.newest.manifest)
    return reply.header('cache-control', 'no-store').send(status as never)
  })

  if (token === undefined) return
  const onRequest = async (request: FastifyRequest) => {
    if (!isAuthorized(request.headers.authorization, token)) {
      throw new Refusal('unauthorized', "this takes the publisher's token")
    }
    readiness.check()
  }
  living.onFailure = error => {
    readiness.stop('this server has failed and is restarting')
    onTrap(error)
  }

  app.post(EPOCHS, { bodyLimit: MOST_BATCH_BYTES, onRequest }, async (request, reply) => {
    try {
      const status = await living.publish(bytesOf(request.body))
      return await reply.header('cache-control', 'no-store').send(status as never)
    } catch (error) {
      if (error instanceof Error && error.name === 'RuntimeError') living.onFailure(error)
      throw error
    }
  })

  app.post(SIGNATURES, { bodyLimit: MOST_SIGNATURE_BYTES, onRequest }, async (request, reply) => {
    const signature = readSignature(bytesOf(request.body))
    await living.addSignature(signature)
    return reply.header('cache-control', 'no-store').send(signature as never)
  })
}

function bytesOf(body: unknown): Uint8Array {
  return body instanceof Uint8Array ? body : new Uint8Array()
}

/** Takes as long for a token that is nearly right as for one that is not at all. */
function isAuthorized(header: string | undefined, token: string): boolean {
  const given = Buffer.from(header ?? '')
  const expected = Buffer.from(`Bearer ${token}`)
  const same = given.length === expected.length
  return timingSafeEqual(same ? given : expected, expected) && same
}

function readSignature(body: Uint8Array): SignatureInfo {
  try {
    return parseSignature(JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString()))
  } catch (error) {
    if (error instanceof WireError) throw new Refusal('bad_request', error.message)
    throw new Refusal('bad_request', 'it is not JSON')
  }
}
