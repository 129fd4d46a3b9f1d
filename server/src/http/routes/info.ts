// GET /v1/info: which epochs this server answers, their signatures, and what it offers.

import { FORMAT, hasInstant, hasOneServer, proofsOf, SUITE_PARITIES, toHex } from '@keyhush/protocol'
import { InfoSchema } from '@keyhush/protocol/schemas'
import { SOFTWARE } from '../../base/version.js'
import type { ChangingEpochs } from '../../database/changing-epochs.js'
import type { AnyEpoch, Epochs } from '../../database/epochs.js'
import { neverKept } from '../binary.js'
import type { Routes } from './types.js'

export function infoRoute(
  app: Routes,
  epochs: Epochs<AnyEpoch>,
  database: {
    /** whose records are here; undefined: they are at shards */
    readonly own: Epochs | undefined
    readonly changing: ChangingEpochs<AnyEpoch> | undefined
    readonly fence: boolean
  },
  offered: { readonly instant: boolean; readonly oneServer: boolean; readonly blobs: boolean },
): void {
  app.get('/v1/info', { schema: { response: { 200: InfoSchema } } }, async (_request, reply) => {
    const { own, changing, fence } = database
    return neverKept(reply).send({
      format: FORMAT,
      software: SOFTWARE,
      database: toHex(epochs.databaseId),
      epochs: epochs.list(),
      offers: {
        proofs: own === undefined ? [] : [...proofsOf(own.newest.manifest)],
        updates: changing !== undefined,
        push: changing !== undefined,
        blobs: offered.blobs,
        fence,
        instant: offered.instant && hasInstant(epochs.newest.manifest),
        single: own?.newest.suites.includes(SUITE_PARITIES) ?? false,
        oneServer:
          offered.oneServer &&
          own?.newest.oneServer?.prepared?.problem === undefined &&
          hasOneServer(epochs.newest.manifest),
        history: changing?.history ?? 0,
      },
      signatures: changing?.signed.list() ?? [],
    })
  })
}
