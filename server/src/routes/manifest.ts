// GET /v1/manifest: the newest manifest, or the one of a generation and epoch.

import { ManifestQuerySchema } from '@pirouette/protocol/schemas'
import type { Epochs } from '../epochs.js'
import { Refusal } from '../refusal.js'
import type { Routes } from './types.js'

export function manifestRoute(app: Routes, epochs: Epochs): void {
  app.get('/v1/manifest', { schema: { querystring: ManifestQuerySchema } }, async (request, reply) => {
    const { generation, epoch } = request.query
    if ((generation === undefined) !== (epoch === undefined)) {
      throw new Refusal('bad_request', 'generation and epoch are given together or not at all')
    }
    const dataset = generation === undefined || epoch === undefined ? epochs.newest : epochs.find(generation, epoch)
    if (dataset === undefined) throw new Refusal('epoch_unknown', 'this server has no such generation and epoch')
    return reply.header('cache-control', 'no-store').type('application/octet-stream').send(dataset.manifestBytes)
  })
}
