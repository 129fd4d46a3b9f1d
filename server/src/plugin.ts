// One database as a Fastify plugin: the routes of docs/protocol.md under whatever prefix it is registered with, as
// often as there are databases. CORS, logging and the reply to unknown paths are the app's; `createServer` has them.

import type { FastifyPluginAsync } from 'fastify'
import type { Dataset } from './dataset/load.js'
import { type Epochs, FixedEpochs } from './epochs.js'
import type { LivingDatabase } from './living/database.js'
import { sendError } from './plugins/errors.js'
import { limitRate } from './plugins/rate-limit.js'
import { Readiness } from './readiness.js'
import { answerRoute } from './routes/answer.js'
import { blobRoute } from './routes/blobs.js'
import { eventsRoute } from './routes/events.js'
import { fenceRoute } from './routes/fence.js'
import { healthRoutes } from './routes/health.js'
import { infoRoute } from './routes/info.js'
import { manifestRoute } from './routes/manifest.js'
import { publishRoutes } from './routes/publish.js'
import type { Routes } from './routes/types.js'

export interface PirouetteOptions {
  /** a database that does not change, or … */
  readonly dataset?: Dataset | undefined
  /** … one that does */
  readonly living?: LivingDatabase | undefined
  /** what publishers authenticate with; default: nobody may publish */
  readonly token?: string | undefined
  /** shared by the databases of one process; default: its own */
  readonly readiness?: Readiness | undefined
  /** queries a minute that one client address may send; 0 (default): any number */
  readonly rateLimit?: number | undefined
  /**
   * The core has trapped: its memory cannot be trusted, and every database in this process shares it. Nothing is
   * answered from here on; the process is to be replaced. Default: it exits with code 1, for a supervisor to restart.
   */
  readonly onTrap?: ((error: Error) => void) | undefined
}

const OCTET_STREAM = 'application/octet-stream'
const FAREWELL_MILLISECONDS = 250

/** `await app.register(pirouettePlugin, { prefix: '/phishing', dataset })` */
export const pirouettePlugin: FastifyPluginAsync<PirouetteOptions> = async (app, options) => {
  const { living } = options
  const epochs = epochsOf(options)
  const onTrap = options.onTrap ?? exitSoon
  const readiness = options.readiness ?? new Readiness()

  app.setErrorHandler((error, _request, reply) => sendError(app, error, reply))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(OCTET_STREAM, { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.addHook('onRequest', async request => {
    // A body is bytes, whatever its Content-Type says, and it need not have one.
    request.headers['content-type'] = OCTET_STREAM
  })

  const routes = app as unknown as Routes
  const rateLimit = options.rateLimit ? await limitRate(app, options.rateLimit) : undefined
  manifestRoute(routes, epochs)
  infoRoute(routes, epochs, living)
  blobRoute(routes, epochs)
  answerRoute(routes, { epochs, fence: living?.fence, readiness, rateLimit, onTrap })
  if (living !== undefined) {
    eventsRoute(app, living)
    fenceRoute(routes, { living, readiness, rateLimit })
    publishRoutes(routes, { living, readiness, token: options.token, onTrap })
  }
  healthRoutes(app, readiness)
}

function epochsOf({ dataset, living }: PirouetteOptions): Epochs {
  if (living !== undefined) return living
  if (dataset === undefined) throw new Error('give a dataset or a living database')
  return new FixedEpochs(dataset)
}

/** Once the reply to the query that broke the core has had time to get out. */
function exitSoon(): void {
  setTimeout(() => process.exit(1), FAREWELL_MILLISECONDS)
}
