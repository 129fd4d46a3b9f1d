// GET /v1/manifest: the newest manifest, or the one of a generation and epoch. GET /v1/manifests: those since an epoch.

import { ManifestQuerySchema, ManifestsQuerySchema } from '@keyhush/protocol/schemas'
import { epochUnknown, Refusal } from '../../base/refusal.js'
import type { Epochs } from '../../database/epochs.js'
import type { Unsent } from '../limits/unsent.js'
import { numberOf } from './numbers.js'
import type { Routes } from './types.js'

export function manifestRoute(app: Routes, epochs: Epochs, unsent: Unsent): void {
  app.get('/v1/manifest', { schema: { querystring: ManifestQuerySchema } }, async (request, reply) => {
    const { generation, epoch } = request.query
    if ((generation === undefined) !== (epoch === undefined)) {
      throw new Refusal('bad_request', 'generation and epoch are given together or not at all')
    }
    const { newest } = epochs
    const bytes =
      generation === undefined || epoch === undefined
        ? newest.manifestBytes
        : await epochs.manifestOf(numberOf(generation), numberOf(epoch))
    if (bytes === undefined) throw epochUnknown(newest.manifest)
    unsent.reserve(request, reply, bytes.length)
    return reply.header('cache-control', 'no-store').type('application/octet-stream').send(bytes)
  })

  app.get('/v1/manifests', { schema: { querystring: ManifestsQuerySchema } }, async (request, reply) => {
    const chain = await epochs.since(numberOf(request.query.since))
    if (chain === undefined) throw epochUnknown(epochs.newest.manifest)
    unsent.reserve(request, reply, chain.length)
    return reply.header('cache-control', 'no-store').type('application/octet-stream').send(chain)
  })
}
