// The whole HTTP server: one or more databases, and what surrounds them in every deployment.

import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { type FastifyInstance, type FastifyServerOptions, fastify } from 'fastify'
import { Refusal } from '../base/refusal.js'
import type { UpdatableDatabase } from '../database/updatable.js'
import type { Dataset } from '../dataset/load.js'
import type { InstantOptions } from '../instant/lookups.js'
import type { LightOptions } from '../light/hints.js'
import { Computations } from './computations.js'
import { hangUpWhenIdle } from './idle.js'
import type { Metrics } from './metrics.js'
import { exitSoon, pirouettePlugin } from './plugin.js'
import { errors, frameworkError } from './plugins/errors.js'
import { headers, readableBy } from './plugins/headers.js'
import { logging, loggingOptions, serializers } from './plugins/logging.js'
import { Readiness } from './readiness.js'
import { healthRoutes } from './routes/health.js'
import { PUBLISHER_ROUTES } from './routes/publish.js'
import { Shedding, type SheddingOptions, shedLoad } from './shedding.js'
import { Unsent, type UnsentOptions } from './unsent.js'

export interface ServerOptions {
  /** A database with a name is served under `/name/v1/…`, the one without under `/v1/…`. */
  readonly datasets: readonly MountedDataset[]
  /** web origins whose pages may read replies; `localhost`: those of this machine, on any port; default: `*`, any */
  readonly allowOrigins?: readonly string[] | undefined
  /**
   * Addresses of the proxies whose X-Forwarded-For is believed: comma-separated addresses, CIDR blocks or the names
   * `loopback`, `linklocal`, `uniquelocal`. Default: none. Matters to the rate limit alone.
   */
  readonly trustProxy?: string | undefined
  /** queries a minute that one client address may send; 0 (default): any number */
  readonly rateLimit?: number | undefined
  /** how instant lookups are answered; false: not at all */
  readonly instant?: InstantOptions | false | undefined
  /** requests of instant lookups a minute that one client address may send; 0 (default): any number */
  readonly instantRateLimit?: number | undefined
  /** how light hints are made; false: not at all */
  readonly light?: LightOptions | false | undefined
  /** requests of light hints, of either kind, a minute that one client address may send; 0 (default): any number */
  readonly lightRateLimit?: number | undefined
  /** pino's level and where lines go; default: no log */
  readonly log?: { readonly level: string; readonly stream: { write(line: string): void } } | undefined
  /** what publishers must show, for every updatable database; default: nothing */
  readonly publisherToken?: string | undefined
  /** how much of replies may stand in memory, for clients that do not read; and as much of bodies on their way */
  readonly unsent?: UnsentOptions | undefined
  /** when requests are refused because there is no time for them; default: none is, ever */
  readonly shedding?: SheddingOptions | undefined
  /** times requests, and watches what is bounded; of one server */
  readonly metrics?: Metrics | undefined
  /** see PirouetteOptions */
  readonly onTrap?: ((error: Error) => void) | undefined
}

export interface MountedDataset {
  /** letters, digits, `-`, `_`, `.`; not `v1` */
  readonly name?: string | undefined
  /** a database that does not change, or … */
  readonly dataset?: Dataset | undefined
  /** … one that does */
  readonly updatable?: UpdatableDatabase | undefined
  /** see PirouetteOptions */
  readonly blobBase?: string | undefined
  /**
   * Of an updatable database: public keys, 32 bytes each. Only batches signed with one of them are taken. Without any, and
   * without a token, nobody may publish.
   */
  readonly publisherKeys?: readonly Uint8Array[] | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    /** whether this process answers; see readiness.ts */
    readiness: Readiness
  }
}

const SECOND = 1000

/** What a server says that is about to end. */
export const SHUTTING_DOWN = 'this server is shutting down'

/** A Fastify instance, ready for `listen` or `inject`. The datasets stay the caller's to close. */
export async function createServer(options: ServerOptions): Promise<FastifyInstance> {
  checkNames(options.datasets)
  const readiness = new Readiness()
  const unsent = new Unsent(options.unsent)
  const bodies = new Unsent(options.unsent)
  const app: FastifyInstance = fastify({
    ...timeouts,
    ...loggingOptions,
    logger: options.log === undefined ? false : { ...options.log, base: null, serializers },
    trustProxy: options.trustProxy ?? false,
    frameworkErrors: frameworkError,
    clientErrorHandler: answerBrokenRequest,
    return503OnClosing: false, // its reply would not have the protocol's form; Readiness gives ours
  })
  app.decorate('readiness', readiness)
  const computations = new Computations({ instant: options.instant, light: options.light })
  computations.onFailure = error => {
    readiness.stop('this server has failed and is restarting')
    ;(options.onTrap ?? exitSoon)(error)
  }
  app.addHook('onClose', () => computations.close())
  app.addHook('onRequest', (_request, reply, done) => {
    // The next request of this connection goes to another server, if there is one.
    if (readiness.leaving) reply.header('connection', 'close')
    done()
  })
  const shedding = options.shedding && new Shedding(options.shedding)
  if (shedding !== undefined) {
    shedding.tell = refused => app.log.warn({ refused }, 'overloaded: what has waited too long is refused')
    shedLoad(app.server, shedding, readableBy(options.allowOrigins ?? ['*']))
  }
  app.addHook('preClose', async () => readiness.stop(SHUTTING_DOWN))
  hangUpWhenIdle(app)

  options.metrics?.time(app)
  options.metrics?.watch({ datasets: options.datasets, readiness, unsent, bodies, shedding, computations })
  await app.register(logging)
  await app.register(errors, { databases: options.datasets.map(({ name }) => prefixOf(name) || '/') })
  await app.register(headers, {
    allowOrigins: options.allowOrigins ?? ['*'],
    publisherPaths: publisherPathsOf(options),
  })
  for (const { name, dataset, updatable, publisherKeys, blobBase } of options.datasets) {
    const { rateLimit, instantRateLimit, lightRateLimit, onTrap, publisherToken: token } = options
    const prefix = prefixOf(name)
    await app.register(pirouettePlugin, {
      ...{ prefix, blobBase, dataset, updatable, token, publisherKeys, readiness, unsent, bodies, rateLimit, onTrap },
      ...{ computations, instantRateLimit, lightRateLimit },
    })
  }
  // Whoever restarts or routes to this process asks at the root, also when every database has a name.
  if (options.datasets.every(({ name }) => name !== undefined)) healthRoutes(app, readiness)
  await app.ready()
  return app
}

function prefixOf(name: string | undefined): string {
  return name === undefined ? '' : `/${name}`
}

function publisherPathsOf({ datasets, publisherToken }: ServerOptions): Set<string> {
  const updatable = datasets.filter(
    ({ updatable, publisherKeys = [] }) =>
      updatable !== undefined && (publisherToken !== undefined || publisherKeys.length > 0),
  )
  return new Set(updatable.flatMap(({ name }) => PUBLISHER_ROUTES.map(route => prefixOf(name) + route)))
}

/** A query is at most a few kilobytes and arrives at once; a partition may take a slow line minutes, but keeps moving. */
const timeouts = {
  connectionTimeout: 60 * SECOND, // without any traffic
  requestTimeout: 30 * SECOND, // until a request has arrived whole
  keepAliveTimeout: 75 * SECOND, // longer than common proxies keep theirs, so that they close first
  pluginTimeout: 30 * SECOND,
} satisfies FastifyServerOptions

/** Replies to what is not HTTP, or did not arrive in time. It has no log line: the error holds the bytes. */
function answerBrokenRequest({ code }: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable) return
  const { statusCode, reply } = refusalOfBroken(code)
  const body = JSON.stringify(reply)
  socket.end(
    `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode]}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  )
}

function refusalOfBroken(code: string | undefined): Refusal {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Refusal('bad_request', 'the request came too slowly', 408)
    case 'HPE_HEADER_OVERFLOW':
      return new Refusal('bad_request', 'the headers are too long', 431)
    default:
      return new Refusal('bad_request', 'the request is not well-formed HTTP')
  }
}

function checkNames(datasets: readonly MountedDataset[]): void {
  const seen = new Set<string | undefined>()
  for (const { name } of datasets) {
    if (
      name !== undefined &&
      (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name) || ['v1', 'healthz', 'readyz'].includes(name))
    ) {
      throw new Error(`a dataset cannot be served under the name ${JSON.stringify(name)}`)
    }
    if (seen.has(name))
      throw new Error(`two datasets are to be served under ${name === undefined ? '/v1' : `/${name}/v1`}`)
    seen.add(name)
  }
  if (seen.size === 0) throw new Error('there is no dataset to serve')
}
