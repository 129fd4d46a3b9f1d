// What a route is given: what it reads, and what bounds it.

import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox'
import type { AnyEpoch, Epoch, Epochs } from '../../database/epochs.js'
import type { Batches } from '../limits/batches.js'
import type { RateLimit } from '../limits/rate.js'
import type { Reads } from '../limits/reads.js'
import type { Unsent } from '../limits/unsent.js'
import type { Readiness } from '../readiness.js'

export interface Surroundings<E extends AnyEpoch = Epoch> {
  readonly epochs: Epochs<E>
  readonly readiness: Readiness
  readonly unsent: Unsent
  readonly rate: RateLimit
  readonly batches: Batches
  readonly reads: Reads
  /** The core has failed in a way that leaves its memory in doubt. Nothing is answered after that. */
  readonly trapped: (error: Error) => void
}

/** An app whose route schemas are TypeBox and type its requests. */
export type Routes = Parameters<FastifyPluginCallbackTypebox>[0]
