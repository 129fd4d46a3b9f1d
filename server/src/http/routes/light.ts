// POST /v1/hint and POST /v1/tags: what one server is shown for a light hint, and its half of it. They wait for worker
// threads; a reply's length follows from the manifest, it is of one epoch, and none of it is sent before all of it is
// there. What was shown, and tags, which are as secret as their key, are overwritten as soon as nobody needs them.

import {
  decodeLightRequest,
  encodeLightReply,
  hasLight,
  type LightPart,
  type LightRequest,
  lightPath,
  lightReplyBytes,
  lightRequestBytes,
} from '@keyhush/protocol'
import { networkOf } from '../../base/address.js'
import { Refusal } from '../../base/refusal.js'
import type { Epoch, Epochs } from '../../database/epochs.js'
import type { LightHints } from '../../light/hints.js'
import { decoded, epochOf, expectPartitions, sendBytes } from '../binary.js'
import { whenOver } from '../over.js'
import type { Readiness } from '../readiness.js'
import type { Unsent } from '../unsent.js'
import type { Routes } from './types.js'

export interface LightRouteOptions {
  readonly epochs: Epochs
  readonly hints: LightHints
  readonly readiness: Readiness
  readonly unsent: Unsent
  /** configuration of @fastify/rate-limit for these routes */
  readonly rateLimit: object | undefined
}

/** When to come again if the queue is full: always the same, whatever is in it. */
const RETRY_AFTER_SECONDS = 1

export function lightRoutes(app: Routes, options: LightRouteOptions): void {
  for (const part of ['hint', 'tags'] as const) lightRoute(app, part, options)
}

function lightRoute(app: Routes, part: LightPart, options: LightRouteOptions): void {
  const { epochs, hints, readiness, unsent, rateLimit } = options
  const routeOptions = {
    bodyLimit: lightRequestBytes(part, 'tags'), // the longer one
    compress: false, // for an app that uses @fastify/compress
    ...(rateLimit === undefined ? {} : { config: { rateLimit } }),
    onRequest: readiness.hook,
  }
  app.post(lightPath(part), routeOptions, async (request, reply) => {
    const asked = decoded(request.body, body => decodeLightRequest(part, body))
    const { generation, epoch, proofs, secrets } = asked
    try {
      const { manifest } = findEpoch(epochs, asked)
      hints.count()
      const bytes = lightReplyBytes(part, manifest, proofs)
      let made = () => {}
      // Who waits holds nothing yet: many who do would else keep everybody else's replies from being sent.
      const reserve = () => {
        made = unsent.reserve(request, reply, bytes, { waits: true })
      }
      const network = networkOf(request.ip)
      const waiting = hints.submit({ part, epochs, generation, epoch, secrets, network, reserve })
      whenOver(reply, waiting.cancel)
      const body = await waiting.reply
      made()
      const whole = encodeLightReply(part, manifest, body, proofs)
      body.fill(0)
      whenOver(reply, () => whole.fill(0))
      return sendBytes(reply, whole)
    } catch (error) {
      if (error instanceof Refusal && error.code === 'light_full') reply.header('retry-after', RETRY_AFTER_SECONDS)
      throw error
    } finally {
      secrets.fill(0)
    }
  })
}

function findEpoch(epochs: Epochs, request: LightRequest): Epoch {
  const epoch = epochOf(epochs, request)
  if (!hasLight(epoch.manifest)) {
    throw new Refusal('bad_request', 'suite: this database has no commitments, so no light hints')
  }
  expectPartitions(epoch, request)
  return epoch
}
