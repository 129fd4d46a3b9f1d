// Figures for whoever watches a server, in the form that Prometheus reads, on a port of their own: they are the operator's,
// not the world's. Counts and durations by route, and how full what is bounded is; nothing of who asked, or what (P7).

import { statfs } from 'node:fs/promises'
import { type FastifyInstance, fastify } from 'fastify'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Computations } from './computations.js'
import { boundedServer, Connections } from './limits/connections.js'
import type { Unsent } from './limits/unsent.js'
import { whenOver } from './over.js'
import type { MountedDataset } from './plugin.js'
import { sendError } from './plugins/errors.js'
import { routeOf } from './plugins/logging.js'
import type { Readiness } from './readiness.js'
import { healthRoutes } from './routes/health.js'

/** What there is to watch of a server. */
export interface Watched {
  readonly datasets: readonly MountedDataset[]
  readonly readiness: Readiness
  readonly unsent: Unsent
  readonly bodies: Unsent
  readonly connections: Connections
  readonly computations: Computations
}

/** Seconds: from an answer that is in memory to a partition over a slow line. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10, 60]

/** To the port of figures, so that whoever reaches it does not take the files that the process may open. */
const MOST_CONNECTIONS = 64

/** Figures for Prometheus: of routes, databases and the process, and of nobody who asks. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #seconds = new Histogram({
    name: 'keyhush_request_seconds',
    help: 'From when the turn of a request has come until its reply has left or its connection is gone',
    labelNames: ['route', 'status'],
    buckets: BUCKETS,
    registers: [this.#registry],
  })
  readonly #underWay = new Gauge({
    name: 'keyhush_requests_under_way',
    help: 'Requests whose replies have not left; of GET /v1/events, streams that are open',
    labelNames: ['route'],
    registers: [this.#registry],
  })

  constructor() {
    collectDefaultMetrics({ register: this.#registry })
  }

  /** Times the requests of `app`, whose routes are still to be added. */
  time(app: FastifyInstance): void {
    app.addHook('onRequest', (request, reply, done) => {
      const route = routeOf(request)
      const since = performance.now()
      this.#underWay.inc({ route })
      whenOver(reply, () => {
        this.#underWay.dec({ route })
        this.#seconds.observe({ route, status: reply.statusCode }, (performance.now() - since) / 1000)
      })
      done()
    })
  }

  /** Reads these whenever it is asked. Once. */
  watch(watched: Watched): void {
    const { datasets, readiness, unsent, bodies, connections } = watched
    const { instant } = watched.computations
    this.#gauge('ready', 'What /readyz says', () => Number(readiness.ready))
    this.#gauge('problems', 'What /readyz says does not work besides', () => readiness.problems.length)
    this.#gauge('unsent_bytes', 'Reserved for replies that have not left', () => unsent.bytes)
    this.#gauge('incoming_bytes', 'Reserved for bodies that are on their way', () => bodies.bytes)
    const help = 'Connections refused because the process may open no more files'
    this.#counter('connections_refused_total', help, () => connections.refused)
    this.#counter('requests_total', 'Requests that came, whatever they were answered', () => connections.requests)
    const pipelined = 'Requests on a connection that had one under way, which was hung up on'
    this.#counter('pipelined_total', pipelined, () => connections.pipelined)
    this.#counter('broken_total', 'What came and was no request, or came too slowly', () => connections.broken)
    if (instant !== undefined) {
      this.#gauge('instant_waiting', 'Queries that wait for a pass', () => instant.waiting)
      this.#gauge('instant_passes', 'Passes under way', () => instant.passes)
    }
    const databases = datasets.map(({ name = '', dataset, updatable }) => ({
      name,
      updatable,
      manifest: () => (updatable?.newest ?? dataset!).manifest,
    }))
    this.#perDatabase('generation', 'Of the newest epoch', databases, ({ manifest }) => manifest().generation)
    this.#perDatabase('epoch', 'The newest', databases, ({ manifest }) => manifest().epoch)
    this.#perDatabase(
      'records',
      'In the newest epoch, with the places of those that were deleted',
      databases,
      ({ manifest }) => manifest().records,
    )
    this.#perDatabase(
      'expires_seconds',
      'When its manifest expires, since 1970; 0: never',
      databases,
      ({ manifest }) => manifest().expires,
    )
    const changing = databases.flatMap(({ name, updatable }) => (updatable === undefined ? [] : [{ name, updatable }]))
    this.#perDatabase('fence_hints', 'Hints that the fence knows', changing, ({ updatable }) => updatable.fence.hints)
    this.#perDatabase('fence_room', 'Hints that it may know at most', changing, ({ updatable }) => updatable.fence.most)
    this.#perDatabase(
      'fence_turned_away',
      'Registrations without room for them, since the start',
      changing,
      ({ updatable }) => updatable.fence.turnedAway,
    )
    this.#perDatabase('store_failing', 'Whether the latest write failed', changing, ({ updatable }) =>
      Number(updatable.storageFailure !== undefined),
    )
    this.#perDatabase('store_free_bytes', 'Free where the store is', changing, async ({ updatable }) => {
      // Not known of a store that is no file here.
      const room = await statfs(updatable.location).catch(() => undefined)
      return room && room.bavail * room.bsize
    })
  }

  /** What is to listen on a port of its own: /metrics, /healthz, /readyz. Hangs up on everybody when it closes. */
  async server(readiness: Readiness): Promise<FastifyInstance> {
    const app = fastify({ logger: false, serverFactory: boundedServer, forceCloseConnections: true })
    Connections.of(app.server, { most: MOST_CONNECTIONS })
    app.removeAllContentTypeParsers()
    app.setErrorHandler((error, _request, reply) => sendError(app, error, reply))
    app.get('/metrics', async (_request, reply) => {
      return reply.type(this.#registry.contentType).send(await this.#registry.metrics())
    })
    healthRoutes(app, readiness)
    await app.ready()
    return app
  }

  #gauge(name: string, help: string, read: () => number): void {
    const gauge: Gauge = new Gauge({
      name: `keyhush_${name}`,
      help,
      registers: [this.#registry],
      collect: () => gauge.set(read()),
    })
  }

  #counter(name: string, help: string, read: () => number): void {
    const counter: Counter = new Counter({
      name: `keyhush_${name}`,
      help,
      registers: [this.#registry],
      collect: () => {
        counter.reset()
        counter.inc(read())
      },
    })
  }

  #perDatabase<T extends { readonly name: string }>(
    name: string,
    help: string,
    databases: readonly T[],
    read: (database: T) => number | Promise<number | undefined>,
  ): void {
    const gauge: Gauge<'database'> = new Gauge({
      name: `keyhush_${name}`,
      help,
      labelNames: ['database'],
      registers: [this.#registry],
      collect: async () => {
        gauge.reset()
        for (const database of databases) {
          const value = await read(database)
          if (value !== undefined) gauge.set({ database: database.name }, value)
        }
      },
    })
  }
}
