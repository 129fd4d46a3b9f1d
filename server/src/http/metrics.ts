// Figures of a server for Prometheus, on a port of the operator's own: counts and durations by route, how full each bound is, and the
// state of each database. They hold nothing of a client or its query (P7).

import { type FastifyInstance, fastify } from 'fastify'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { ChangingEpochs } from '../database/changing-epochs.js'
import type { AnyEpoch } from '../database/epochs.js'
import type { Replica } from '../sharded/fabric.js'
import type { Computations } from './computations.js'
import { boundedServer, Connections, whenOver } from './limits/connections.js'
import type { Unsent } from './limits/unsent.js'
import type { MountedDataset } from './plugin.js'
import { sendError } from './plugins/errors.js'
import { routeOf } from './plugins/logging.js'
import { healthRoutes, type Readiness } from './readiness.js'
import { bytesOf, freeBytes } from './room.js'

/** What there is to watch of a server. */
export interface Watched {
  readonly datasets: readonly MountedDataset[]
  readonly readiness: Readiness
  readonly unsent: Unsent
  readonly bodies: Unsent
  readonly connections: Connections
  readonly computations: Computations
}

/** By name, without `keyhush_`. docs/operations/monitoring.md has a row for each. */
type Figures<Read> = Readonly<Record<string, readonly [help: string, read: Read]>>

/** undefined: the database has no such figure */
type OfDatabase = (mounted: MountedDataset) => number | undefined | Promise<number | undefined>

const changingOf = ({ updatable, sharded }: MountedDataset) => sharded ?? updatable

const manifestOf = (mounted: MountedDataset) => (changingOf(mounted)?.newest ?? mounted.dataset!).manifest

/** Of a database that has publishers. */
function ofPublished(read: (changing: ChangingEpochs<AnyEpoch>) => number): OfDatabase {
  return mounted => {
    const changing = (mounted.publisherKeys ?? []).length > 0 ? changingOf(mounted) : undefined
    return changing && read(changing)
  }
}

const OF_DATABASES: Figures<OfDatabase> = {
  generation: ['Generation of the newest epoch', mounted => manifestOf(mounted).generation],
  epoch: ['Newest epoch', mounted => manifestOf(mounted).epoch],
  records: ['Records of the newest epoch, deleted ones included', mounted => manifestOf(mounted).records],
  database_bytes: ['Bytes of the records of the newest epoch', mounted => bytesOf(manifestOf(mounted))],
  signed_epoch: ['Newest answered epoch that is signed; 0: none', ofPublished(({ signed }) => signed.signedEpoch)],
  proved_epoch: [
    'Newest answered epoch that has a proof of witnesses; 0: none',
    ofPublished(({ signed }) => signed.provedEpoch),
  ],
  unsigned_seconds: [
    'Seconds that the newest epoch has been here unsigned; 0: it is signed',
    ofPublished(({ signed }) => signed.unsignedSeconds),
  ],
  expires_seconds: [
    'When the manifest of the newest epoch expires, in seconds since 1970; 0: never',
    mounted => manifestOf(mounted).expires,
  ],
  one_server_ready: [
    '1 if the base of the newest epoch is prepared for lookups with one server, else 0',
    ({ updatable }) => updatable?.newest.oneServer?.prepared && Number(updatable.newest.oneServer.prepared.ready),
  ],
  one_server_base_epoch: [
    'Epoch whose records lookups with one server are answered from',
    mounted => manifestOf(mounted).oneServer?.baseEpoch,
  ],
  one_server_patch_bytes: [
    'Bytes of the patch from there to the newest epoch',
    mounted => manifestOf(mounted).oneServer?.patchBytes,
  ],
  fence_hints: ['Hints in the fence', ({ updatable }) => updatable?.fence.hints],
  fence_room: ['Most hints that the fence can hold', ({ updatable }) => updatable?.fence.most],
  fence_turned_away: [
    'Registrations that a full fence has refused since the start',
    ({ updatable }) => updatable?.fence.turnedAway,
  ],
  scatters: [
    'Times that a coordinator has asked all shards since the start',
    ({ sharded }) => sharded?.lookups.scatters,
  ],
  scatters_waiting: [
    'Instant queries that wait until a coordinator asks all shards',
    ({ sharded }) => sharded?.lookups.waiting,
  ],
  store_failing: [
    '1 if the latest write failed, else 0',
    mounted => {
      const changing = changingOf(mounted)
      return changing && Number(changing.storageFailure !== undefined)
    },
  ],
  store_free_bytes: [
    'Free bytes on the disk of the store, if that is a file of this machine',
    mounted => {
      const changing = changingOf(mounted)
      return changing && freeBytes(changing.location)
    },
  ],
}

/** Of each replica of a coordinator's shards. */
const OF_REPLICAS: Figures<(replica: Replica) => number> = {
  shard_failed: ['Calls to a replica of a shard that have failed since the start', ({ failed }) => failed],
  shard_late: ['Replies of a replica of a shard that have not come in time since the start', ({ late }) => late],
}

/** Seconds: from an answer that is in memory to a partition over a slow line. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10, 60]

/** Connections to the port of figures, so that these do not use up the files that the process may open. */
const MOST_CONNECTIONS = 64

/** As nginx has it: the connection ended before there was a reply. */
const HUNG_UP = 499

/** Figures for Prometheus: of routes, databases and the process. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #seconds = new Histogram({
    name: 'keyhush_request_seconds',
    help: "Seconds from a request's headers until its reply was sent or its connection ended",
    labelNames: ['route', 'status'],
    buckets: BUCKETS,
    registers: [this.#registry],
  })
  readonly #underWay = new Gauge({
    name: 'keyhush_requests_under_way',
    help: 'Requests without a complete reply; for GET /v1/events, open streams',
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
        const status = reply.raw.headersSent ? reply.statusCode : HUNG_UP
        this.#seconds.observe({ route, status }, (performance.now() - since) / 1000)
      })
      done()
    })
  }

  readiness(readiness: Readiness): void {
    this.gauges({
      ready: ['1 if /readyz returns 200, else 0', () => Number(readiness.ready)],
      problems: ['Problems that /readyz lists', () => readiness.problems.length],
    })
  }

  /** Reads these at each scrape. To be called once. */
  watch({ datasets, readiness, unsent, bodies, connections, computations }: Watched): void {
    const { instant, oneServer, proved } = computations
    this.readiness(readiness)
    const gauges: Figures<() => number> = {
      unsent_bytes: ['Bytes reserved for replies that are being sent', () => unsent.bytes],
      incoming_bytes: ['Bytes reserved for request bodies that are arriving', () => bodies.bytes],
      ...(instant !== undefined && {
        instant_waiting: ['Instant queries that wait for a pass over the database', () => instant.waiting],
        instant_passes: ['Passes over the database that are running', () => instant.passes],
      }),
      ...(oneServer !== undefined && {
        one_server_waiting: ['Queries to one server that wait for an answer', () => oneServer.waiting],
        one_server_answering: ['Queries to one server that threads are answering', () => oneServer.answering],
      }),
      proofs_waiting: ['Records of answers that wait to be proved', () => proved.waiting],
      proofs_proving: ['Answers that threads are proving', () => proved.proving],
    }
    const counters: Figures<() => number> = {
      connections_refused_total: [
        'Connections refused, or closed for others: too many were open',
        () => connections.refused,
      ],
      requests_total: ['Requests with any reply', () => connections.requests],
      pipelined_total: ['Connections ended because a request came before the last reply', () => connections.pipelined],
      broken_total: ['Requests that were malformed or too slow', () => connections.broken],
    }
    this.gauges(gauges)
    this.counters(counters)
    for (const [name, [help, read]] of Object.entries(OF_DATABASES)) this.#perDatabase(name, help, datasets, read)
    for (const [name, [help, read]] of Object.entries(OF_REPLICAS)) this.#perReplica(name, help, datasets, read)
  }

  /** Reads further figures at each scrape. */
  gauges(figures: Figures<() => number>): void {
    for (const [name, [help, read]] of Object.entries(figures)) this.#figure(Gauge, name, help, read)
  }

  counters(figures: Figures<() => number>): void {
    for (const [name, [help, read]] of Object.entries(figures)) this.#figure(Counter, name, help, read)
  }

  /** An app for a port of its own: /metrics, /healthz, /readyz. Closing it ends its connections. */
  async server(readiness: Readiness): Promise<FastifyInstance> {
    const app = fastify({ logger: false, serverFactory: boundedServer, forceCloseConnections: true })
    Connections.of(app.server, { most: MOST_CONNECTIONS })
    app.removeAllContentTypeParsers()
    app.setErrorHandler((error, _request, reply) => sendError(app, error, reply))
    app.get('/metrics', async (_request, reply) => {
      return reply.type(this.#registry.contentType).send(await this.#registry.metrics())
    })
    healthRoutes(app, readiness, () => readiness.problems)
    await app.ready()
    return app
  }

  #figure(Kind: typeof Gauge | typeof Counter, name: string, help: string, read: () => number): void {
    const collect = () => {
      figure.reset()
      figure.inc(read())
    }
    const figure = new Kind({ name: `keyhush_${name}`, help, registers: [this.#registry], collect })
  }

  #perDatabase(name: string, help: string, datasets: readonly MountedDataset[], read: OfDatabase): void {
    const collect = async () => {
      gauge.reset()
      for (const mounted of datasets) {
        const value = await read(mounted)
        if (value !== undefined) gauge.set({ database: mounted.name ?? '' }, value)
      }
    }
    const gauge = new Gauge({
      ...{ name: `keyhush_${name}`, help, collect },
      labelNames: ['database'],
      registers: [this.#registry],
    })
  }

  #perReplica(
    name: string,
    help: string,
    datasets: readonly MountedDataset[],
    read: (replica: Replica) => number,
  ): void {
    const collect = () => {
      gauge.reset() // another generation may have fewer
      for (const { name: database = '', sharded } of datasets) {
        for (const replica of sharded?.fabric.replicas ?? []) {
          gauge.set({ database, shard: replica.shard, replica: replica.number }, read(replica))
        }
      }
    }
    const gauge = new Gauge({
      ...{ name: `keyhush_${name}`, help, collect },
      labelNames: ['database', 'shard', 'replica'],
      registers: [this.#registry],
    })
  }
}
