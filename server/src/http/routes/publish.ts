// What publishers use: POST /v1/epochs, POST /v1/signatures, and GET /v1/epochs/<E> to find out how far a server is. The
// two that write do not exist unless the operator named a key.

import type { IncomingMessage } from 'node:http'
import { fromHex, parseSignature, type SignatureInfo, toHex, WireError } from '@keyhush/protocol'
import { EpochParamsSchema } from '@keyhush/protocol/schemas'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { parseMembers } from '../../base/json.js'
import { epochUnknown, Refusal } from '../../base/refusal.js'
import type { UpdatableDatabase } from '../../database/updatable.js'
import { type RateLimit, WEIGHTS } from '../limits/rate.js'
import { whenOver } from '../over.js'
import { checkKey, signedBatch } from '../publishers.js'
import type { Readiness } from '../readiness.js'
import { numberOf } from './numbers.js'
import type { Routes } from './types.js'

const EPOCHS = '/v1/epochs'
const SIGNATURES = '/v1/signatures'

/** Those that only publishers may use. */
export const PUBLISHER_ROUTES = [EPOCHS, SIGNATURES] as const

const MOST_BATCH_BYTES = 64 * 1024 * 1024
const MOST_SIGNATURE_BYTES = 4096

/** A signature can be seen and sent again, or on, by whoever got it; so many bodies at most are read at a time. */
const MOST_BATCHES_AT_ONCE = 4

export interface PublishOptions {
  readonly updatable: UpdatableDatabase
  readonly readiness: Readiness
  /** 32 bytes each: batches must be signed with one of them, and no other key's signatures are kept */
  readonly publisherKeys: readonly Uint8Array[]
  readonly rate: RateLimit
  /** the core has failed, or memory and disk have parted */
  readonly onTrap: (error: Error) => void
}

export function publishRoutes(app: Routes, options: PublishOptions): void {
  const { updatable, readiness, publisherKeys, rate, onTrap } = options
  // Of one character at least: without any it is no path of ours.
  app.get(`${EPOCHS}/:epoch([^]+)`, { schema: { params: EpochParamsSchema } }, async (request, reply) => {
    const status = await updatable.status(numberOf(request.params.epoch))
    if (status === undefined) throw epochUnknown(updatable.newest.manifest)
    return reply.header('cache-control', 'no-store').send(status as never)
  })

  updatable.onFailure = error => {
    readiness.stop('this server has failed and is restarting')
    onTrap(error)
  }
  if (publisherKeys.length === 0) return

  // Whoever was sent a signed header before, the other operator, has it for good: those are counted apart from the next.
  const underWay = { next: new Map<IncomingMessage, number>(), others: new Map<IncomingMessage, number>() }
  const beforeBatch = async (request: FastifyRequest, reply: FastifyReply) => {
    rate.take(request, reply, WEIGHTS.signature)
    const signed = signedBatch(request.headers, updatable.databaseId, publisherKeys)
    readiness.check()
    const isNext = toHex(signed.previousManifest) === updatable.newest.manifestHash
    const uploads = underWay[isNext ? 'next' : 'others']
    if (uploads.size >= MOST_BATCHES_AT_ONCE) makePlace(uploads)
    const { raw } = request
    uploads.set(raw, raw.socket.bytesRead)
    whenOver(reply, () => uploads.delete(raw))
  }
  const batches = { bodyLimit: MOST_BATCH_BYTES, config: { boundsBodies: true as const }, onRequest: beforeBatch }
  app.post(EPOCHS, batches, async (request, reply) => {
    try {
      const signed = signedBatch(request.headers, updatable.databaseId, publisherKeys)
      const status = await updatable.publish(bytesOf(request.body), signed)
      return await reply.header('cache-control', 'no-store').send(status as never)
    } catch (error) {
      if (error instanceof Error && error.name === 'RuntimeError') updatable.onFailure(error)
      throw error
    }
  })

  const signatures = {
    bodyLimit: MOST_SIGNATURE_BYTES,
    onRequest: async (request: FastifyRequest, reply: FastifyReply) => {
      rate.take(request, reply, WEIGHTS.signature)
      readiness.check()
    },
  }
  app.post(SIGNATURES, signatures, async (request, reply) => {
    const signature = readSignature(bytesOf(request.body))
    checkKey(fromHex(signature.publicKey), publisherKeys)
    await updatable.addSignature(signature)
    return reply.header('cache-control', 'no-store').send(signature as never)
  })
}

/**
 * Hangs up on the batch of which least has come: most likely a header that was sent on, without a body. Throws a
 * `rate_limited` Refusal if all are here and being looked at. `uploads`: what their connections had brought when the
 * header was there.
 */
function makePlace(uploads: Map<IncomingMessage, number>): void {
  const coming = [...uploads].filter(([{ complete }]) => !complete)
  if (coming.length === 0) throw new Refusal('rate_limited', 'other batches are still being looked at')
  const brought = ([{ socket }, before]: [IncomingMessage, number]) => socket.bytesRead - before
  const [least] = coming.reduce((a, b) => (brought(b) < brought(a) ? b : a))
  uploads.delete(least)
  least.socket.destroy()
}

function bytesOf(body: unknown): Uint8Array {
  return Buffer.isBuffer(body) ? body : new Uint8Array()
}

function readSignature(body: Uint8Array): SignatureInfo {
  const members = parseMembers(Buffer.from(body.buffer, body.byteOffset, body.length).toString())
  if (typeof members === 'string') throw new Refusal('bad_request', members)
  try {
    const signature = parseSignature(members)
    for (const name of Object.keys(members)) {
      if (!Object.hasOwn(signature, name))
        throw new Refusal('bad_request', 'a signature has a member that is none of its')
    }
    return signature
  } catch (error) {
    if (error instanceof WireError) throw new Refusal('bad_request', error.message)
    throw error
  }
}
