// The whole HTTP server: one or more databases, and what surrounds them in every deployment.

import type { FastifyInstance } from 'fastify'
import { BuildError } from '../base/errors.js'
import type { InstantOptions } from '../instant/lookups.js'
import type { OneServerOptions } from '../instant/one-server.js'
import { Computations } from './computations.js'
import { frame, surround } from './frame.js'
import { RateLimit, WEIGHTS } from './limits/rate.js'
import type { UnsentOptions } from './limits/unsent.js'
import type { Metrics } from './metrics.js'
import { exitSoon, keyhushPlugin, type MountedDataset } from './plugin.js'
import { healthRoutes, Readiness } from './readiness.js'
import { PUBLISHER_ROUTES } from './routes/publish.js'

export interface ServerOptions {
  /** A database with a name is served under `/name/v1/…`, the one without under `/v1/…`. */
  readonly datasets: readonly MountedDataset[]
  /** web origins whose pages may read replies; `localhost`: origins on this machine, with any port; default: `*`, any */
  readonly allowOrigins?: readonly string[] | undefined
  /**
   * Addresses of the proxies whose X-Forwarded-For is believed: comma-separated addresses, CIDR blocks or the names
   * `loopback`, `linklocal`, `uniquelocal`. Default: none. Matters to the rate limit alone.
   */
  readonly trustProxy?: string | undefined
  /** what one client address may ask for in a minute, in queries to hints (limits/rate.ts); 0 (default): any number */
  readonly rateLimit?: number | undefined
  /** how instant lookups are answered; false: not at all */
  readonly instant?: InstantOptions | false | undefined
  /** how lookups with one server are answered; false: not at all */
  readonly oneServer?: OneServerOptions | false | undefined
  /** false: nobody can download partitions, directories and update lists. Default: true */
  readonly blobs?: boolean | undefined
  /** pino's level and where lines go; default: no log */
  readonly log?: { readonly level: string; readonly stream: { write(line: string): void } } | undefined
  /** how much of replies may stand in memory, for clients that do not read; and as much of bodies on their way */
  readonly unsent?: UnsentOptions | undefined
  /** times requests, and watches what is bounded; of one server */
  readonly metrics?: Metrics | undefined
  /** see KeyhushOptions */
  readonly onTrap?: ((error: Error) => void) | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    /** whether this process answers; see readiness.ts */
    readiness: Readiness
  }
}

/**
 * A Fastify instance, ready for `listen` or `inject`. The datasets stay the caller's to close.
 * @throws {BuildError} if two datasets have one name, or a name is none that a path can have
 * @example
 * const app = await createServer({ datasets: [{ dataset: await loadDataset('dataset') }] })
 * await app.listen({ port: 8801 })
 */
export async function createServer(options: ServerOptions): Promise<FastifyInstance> {
  checkNames(options.datasets)
  const { metrics, datasets, log, trustProxy, unsent: most, blobs } = options
  const rateLimit = new RateLimit({ perMinute: options.rateLimit })
  const [readiness, allowOrigins] = [new Readiness(), options.allowOrigins ?? ['*']]
  const { app, unsent, bodies, connections, streams, batches, reads } = frame({
    readiness,
    unsent: most,
    log,
    trustProxy,
  })
  app.decorate('readiness', readiness)
  const computations = new Computations({ instant: options.instant, oneServer: options.oneServer })
  const onTrap = options.onTrap ?? exitSoon
  computations.onFailure = error => {
    readiness.fail()
    onTrap(error)
  }
  app.addHook('onClose', () => computations.close())

  metrics?.time(app)
  metrics?.watch({ datasets, readiness, unsent, bodies, connections, computations })
  await surround(app, {
    allowOrigins,
    databases: datasets.map(({ name }) => prefixOf(name) || '/'),
    publisherPaths: publisherPathsOf(options),
  })
  for (const { name, dataset, updatable, sharded, publisherKeys } of datasets) {
    const prefix = prefixOf(name)
    await app.register(keyhushPlugin, {
      ...{ prefix, dataset, updatable, sharded, publisherKeys, readiness, unsent, bodies, rateLimit, onTrap },
      ...{ computations, streams, batches, reads, blobs },
    })
  }
  // Supervisors and balancers ask at the root, also when every database has a name.
  if (datasets.every(({ name }) => name !== undefined)) healthRoutes(app, readiness, () => readiness.publicProblems)
  await app.ready()
  return app
}

function prefixOf(name: string | undefined): string {
  return name === undefined ? '' : `/${name}`
}

function publisherPathsOf({ datasets }: ServerOptions): Set<string> {
  const updatable = datasets.filter(
    ({ updatable, publisherKeys = [] }) => updatable !== undefined && publisherKeys.length > 0,
  )
  return new Set(updatable.flatMap(({ name }) => PUBLISHER_ROUTES.map(route => prefixOf(name) + route)))
}

/** What a lookup by key counts in `rateLimit`: a query of the directory and one of the records, at each shard. */
export function weightOfLookup(shards: number): number {
  return 2 * WEIGHTS.instant * shards
}

/** Throws BuildError. */
export function checkNames(datasets: readonly { readonly name?: string | undefined }[]): void {
  const seen = new Set<string | undefined>()
  for (const { name } of datasets) {
    if (
      name !== undefined &&
      (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name) || ['v1', 'healthz', 'readyz'].includes(name))
    ) {
      throw new BuildError(
        `expected a name of letters, digits, ".", "_" and "-", not v1, healthz or readyz, got ${JSON.stringify(name)}; choose another`,
      )
    }
    if (seen.has(name)) {
      const path = name === undefined ? '/v1' : `/${name}/v1`
      throw new BuildError(`expected one database under ${path}, got two; give each a name: NAME=DIR`)
    }
    seen.add(name)
  }
  if (seen.size === 0) throw new BuildError('expected a database to serve, got none; give a dataset or a store')
}
