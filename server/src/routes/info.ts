// GET /v1/info: what this server offers. Clients do not compare it, so nothing that decides an answer's meaning is here.

import { FORMAT, type Info, proofsOf } from '@pirouette/protocol'
import { InfoSchema } from '@pirouette/protocol/schemas'
import type { Epochs } from '../epochs.js'
import type { LivingDatabase } from '../living/database.js'
import { SOFTWARE } from '../version.js'
import type { Routes } from './types.js'

export function infoRoute(app: Routes, epochs: Epochs, living: LivingDatabase | undefined): void {
  app.get('/v1/info', { schema: { response: { 200: InfoSchema } } }, async (_request, reply) => {
    const info: Info = {
      format: FORMAT,
      software: SOFTWARE,
      epochs: epochs.list(),
      offers: {
        proofs: [...proofsOf(epochs.newest.manifest)],
        updates: living === undefined ? [] : ['delta', 'record'],
        push: living !== undefined,
        fence: living !== undefined,
        history: living?.history ?? 0,
      },
      signatures: living?.signatures() ?? [],
    }
    return reply.header('cache-control', 'no-store').send(info as never)
  })
}
