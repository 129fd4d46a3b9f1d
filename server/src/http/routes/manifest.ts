// GET /v1/manifest: the newest manifest, or the one of a generation and epoch. GET /v1/manifests: those since an epoch.

import { ManifestQuerySchema, ManifestsQuerySchema } from '@keyhush/protocol/schemas'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { epochUnknown, Refusal } from '../../base/refusal.js'
import type { AnyEpoch } from '../../database/epochs.js'
import { neverKept, numberOf } from '../binary.js'
import { WEIGHTS } from '../limits/rate.js'
import type { Routes, Surroundings } from './types.js'

export function manifestRoute(app: Routes, { epochs, unsent, rate, reads }: Surroundings<AnyEpoch>): void {
  /** Reads what memory has not: counted, and once there is a place. */
  const past = <T>(request: FastifyRequest, reply: FastifyReply, read: (assertWaits: () => void) => Promise<T>) => {
    rate.take(request, reply, WEIGHTS.past)
    return reads.wait(request, read)
  }
  app.get('/v1/manifest', { schema: { querystring: ManifestQuerySchema } }, async (request, reply) => {
    const { generation, epoch } = request.query
    if ((generation === undefined) !== (epoch === undefined)) {
      throw new Refusal('bad_request', 'expected generation and epoch together or neither, got one of them')
    }
    const { newest } = epochs
    const wanted =
      generation === undefined || epoch === undefined
        ? newest.manifest
        : { generation: numberOf(generation), epoch: numberOf(epoch) }
    const bytes =
      epochs.find(wanted.generation, wanted.epoch)?.manifestBytes ??
      (await past(request, reply, () => epochs.manifestOf(wanted.generation, wanted.epoch)))
    if (bytes === undefined) throw epochUnknown(newest.manifest)
    unsent.reserve(request, reply, bytes.length)
    return neverKept(reply).type('application/octet-stream').send(bytes)
  })

  app.get('/v1/manifests', { schema: { querystring: ManifestsQuerySchema } }, async (request, reply) => {
    // Those who wait for the same reading of the store go on at once: each chain takes room before it is made.
    const reserve = (bytes: number) => void unsent.reserve(request, reply, bytes)
    const since = numberOf(request.query.since)
    const chain = await (epochs.remembers(since)
      ? epochs.since(since, reserve)
      : past(request, reply, assertWaits => epochs.since(since, reserve, assertWaits)))
    if (chain === undefined) throw epochUnknown(epochs.newest.manifest)
    return neverKept(reply).type('application/octet-stream').send(chain)
  })
}
