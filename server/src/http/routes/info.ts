// GET /v1/info: which epochs this server answers, their signatures, and what it offers.

import { FORMAT, hasInstant, hasOneServer, proofsOf, SUITE_PARITIES, toHex } from '@keyhush/protocol'
import { InfoSchema } from '@keyhush/protocol/schemas'
import { SOFTWARE } from '../../base/version.js'
import type { Epochs } from '../../database/epochs.js'
import type { UpdatableDatabase } from '../../database/updatable.js'
import { neverKept } from '../binary.js'
import type { Routes } from './types.js'

export function infoRoute(
  app: Routes,
  epochs: Epochs,
  updatable: UpdatableDatabase | undefined,
  offered: { readonly instant: boolean; readonly oneServer: boolean; readonly blobs: boolean },
): void {
  app.get('/v1/info', { schema: { response: { 200: InfoSchema } } }, async (_request, reply) => {
    return neverKept(reply).send({
      format: FORMAT,
      software: SOFTWARE,
      database: toHex(epochs.databaseId),
      epochs: epochs.list(),
      offers: {
        proofs: [...proofsOf(epochs.newest.manifest)],
        updates: updatable !== undefined,
        push: updatable !== undefined,
        blobs: offered.blobs,
        fence: updatable !== undefined,
        instant: offered.instant && hasInstant(epochs.newest.manifest),
        single: epochs.newest.suites.includes(SUITE_PARITIES),
        oneServer:
          offered.oneServer && epochs.newest.oneServer?.problem === undefined && hasOneServer(epochs.newest.manifest),
        history: updatable?.history ?? 0,
      },
      signatures: updatable?.signed.list() ?? [],
    })
  })
}
