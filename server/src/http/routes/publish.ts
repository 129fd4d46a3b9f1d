// What publishers use: POST /v1/epochs, /v1/checks and /v1/signatures, and GET /v1/epochs/<E> to find out how far a server is. The first three
// exist only if the operator named a publisher's key. A batch may be long, so its signature is verified before its body is read.

import type { IncomingHttpHeaders } from 'node:http'
import {
  BATCH_SIGNATURE_HEADER,
  type BatchSignature,
  type BatchUse,
  type EpochStatus,
  equalBytes,
  fromHex,
  LONGEST_PROOF_BYTES,
  type PostedSignature,
  parseBatchSignature,
  parsePostedSignature,
  signedBatchBytes,
  toHex,
} from '@keyhush/protocol'
import { EpochParamsSchema } from '@keyhush/protocol/schemas'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { verifies } from '../../base/ed25519.js'
import { isTrap } from '../../base/errors.js'
import { parseMembers } from '../../base/json.js'
import { MOST_BATCH_BYTES } from '../../base/most.js'
import { epochUnknown, Refusal, readMessage } from '../../base/refusal.js'
import type { ChangingEpochs } from '../../database/changing-epochs.js'
import type { AnyEpoch } from '../../database/epochs.js'
import type { CheckedBatch } from '../../database/publishing.js'
import { bytesOf, numberOf } from '../binary.js'
import { WEIGHTS } from '../limits/rate.js'
import type { Routes, Surroundings } from './types.js'

const EPOCHS = '/v1/epochs'
const CHECKS = '/v1/checks'
const SIGNATURES = '/v1/signatures'

/** Paths that only publishers may use. */
export const PUBLISHER_ROUTES = [EPOCHS, CHECKS, SIGNATURES] as const

/** A proof's text has few characters that JSON writes as two. */
const MOST_SIGNATURE_BYTES = 4096 + 2 * LONGEST_PROOF_BYTES

/** A database that takes batches. */
type TakesBatches = ChangingEpochs<AnyEpoch> & {
  publish(body: Uint8Array, signed: BatchSignature | undefined, isLate: boolean): Promise<EpochStatus>
  check(body: Uint8Array, signed: BatchSignature | undefined, isLate: boolean): Promise<CheckedBatch>
}

/** `publisherKeys`: 32 bytes each. Batches must be signed with one of them, and no other key's signatures are kept. */
export function publishRoutes(
  app: Routes,
  { readiness, rate, batches, trapped }: Omit<Surroundings, 'epochs'>,
  updatable: TakesBatches,
  publisherKeys: readonly Uint8Array[],
): void {
  // At least one character: without it the path is not ours.
  app.get(`${EPOCHS}/:epoch([^]+)`, { schema: { params: EpochParamsSchema } }, async (request, reply) => {
    const status = updatable.status(numberOf(request.params.epoch))
    if (status === undefined) throw epochUnknown(updatable.newest.manifest)
    return reply.header('cache-control', 'no-store').send(status)
  })

  updatable.onFailure = trapped
  if (publisherKeys.length === 0) return

  /** what is signed, once it is verified: it takes long */
  const verified = new WeakMap<FastifyRequest, BatchSignature>()
  /** A route of batches that are signed for this use. */
  const takeBatches = (
    path: string,
    use: BatchUse,
    take: (body: Uint8Array, signed: BatchSignature | undefined, isLate: boolean) => Promise<object>,
  ) => {
    const onRequest = async (request: FastifyRequest, reply: FastifyReply) => {
      rate.take(request, reply, WEIGHTS.signature)
      const signed = signedBatch(request.headers, updatable.databaseId, publisherKeys, use)
      verified.set(request, signed)
      readiness.check()
      const isNext = toHex(signed.previousManifest) === updatable.answerable().at(-1)!.manifestHash
      batches.add(request, reply, isNext)
    }
    const options = { bodyLimit: MOST_BATCH_BYTES, config: { boundsBodies: true as const }, onRequest }
    app.post(path, options, async (request, reply) => {
      try {
        const isLate = (request.query as { late?: unknown }).late === '1'
        const taken = await take(bytesOf(request.body), verified.get(request), isLate)
        return await reply.header('cache-control', 'no-store').send(taken)
      } catch (error) {
        if (isTrap(error)) trapped(error)
        throw error
      }
    })
  }
  takeBatches(EPOCHS, 'batch', (...batch) => updatable.publish(...batch))
  takeBatches(CHECKS, 'check', (...batch) => updatable.check(...batch))

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
    const { proof: _, proofSignature: _ofProof, ...sent } = signature
    return reply.header('cache-control', 'no-store').send(sent)
  })
}

function readSignature(body: Uint8Array): PostedSignature {
  const members = parseMembers(Buffer.from(body.buffer, body.byteOffset, body.length).toString())
  if (typeof members === 'string') throw new Refusal('bad_request', members)
  const signature = readMessage(() => parsePostedSignature(members))
  for (const name of Object.keys(members)) {
    if (!Object.hasOwn(signature, name))
      throw new Refusal('bad_request', 'expected only the members of a signature, got another')
  }
  return signature
}

/**
 * What one of the publishers with these keys signed. Throws an `unauthorized` Refusal unless it verifies for this database.
 * Whether the body is the batch that was signed remains to be seen.
 */
function signedBatch(
  headers: IncomingHttpHeaders,
  databaseId: Uint8Array,
  publisherKeys: readonly Uint8Array[],
  use: BatchUse,
): BatchSignature {
  const signature = readHeader(headers[BATCH_SIGNATURE_HEADER])
  checkKey(signature.publicKey, publisherKeys)
  if (!verifies(signature.signature, signedBatchBytes({ ...signature, databaseId }, use), signature.publicKey)) {
    throw new Refusal('unauthorized', `expected a publisher's signature of this ${use}, got one that does not verify`)
  }
  return signature
}

/** Throws an `unauthorized` Refusal for a key that is none of these. */
function checkKey(publicKey: Uint8Array, publisherKeys: readonly Uint8Array[]): void {
  if (!publisherKeys.some(key => equalBytes(key, publicKey))) {
    throw new Refusal('unauthorized', `expected a key that --publisher-key names here, got ${toHex(publicKey)}`)
  }
}

function readHeader(header: string | string[] | undefined): BatchSignature {
  if (typeof header !== 'string') throw new Refusal('unauthorized', "expected a publisher's signature, got none")
  return readMessage(() => parseBatchSignature(header), 'unauthorized')
}
