// One database as a Fastify plugin: the routes of docs/protocol.md under whatever prefix it is registered with, as
// often as there are databases. CORS, logging and the reply to unknown paths are the app's; `createServer` has them.

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { Manifest } from '@keyhush/protocol'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import type { ChangingEpochs } from '../database/changing-epochs.js'
import type { AnyEpoch, Epochs } from '../database/epochs.js'
import { FixedEpochs } from '../database/fixed-epochs.js'
import type { UpdatableDatabase } from '../database/updatable.js'
import type { Dataset } from '../dataset/load.js'
import type { ShardedDatabase } from '../sharded/database.js'
import { Computations } from './computations.js'
import { Batches } from './limits/batches.js'
import { takeBodies } from './limits/bodies.js'
import { Connections } from './limits/connections.js'
import { RateLimit } from './limits/rate.js'
import { Reads } from './limits/reads.js'
import { Streams } from './limits/streams.js'
import { Unsent } from './limits/unsent.js'
import { sendError } from './plugins/errors.js'
import { healthRoutes, Readiness } from './readiness.js'
import { bytesOf, Room } from './room.js'
import { answerRoute } from './routes/answer.js'
import { blobRoute } from './routes/blobs.js'
import { eventsRoute } from './routes/events.js'
import { fenceRoute } from './routes/fence.js'
import { infoRoute } from './routes/info.js'
import { instantRoute } from './routes/instant.js'
import { manifestRoute } from './routes/manifest.js'
import { oneServerRoute } from './routes/one-server.js'
import { publishRoutes } from './routes/publish.js'

/** One of the databases of a server, and who may publish into it. */
export interface MountedDataset {
  /** letters, digits, `-`, `_`, `.`; not `v1` */
  readonly name?: string | undefined
  /** a database that does not change; or: */
  readonly dataset?: Dataset | undefined
  /** a database that changes */
  readonly updatable?: UpdatableDatabase | undefined
  /** a database whose records are at its shards, of which this is the coordinator */
  readonly sharded?: ShardedDatabase | undefined
  /** public keys, 32 bytes each: only batches signed with one of them are taken. Default: none */
  readonly publisherKeys?: readonly Uint8Array[] | undefined
}

export interface KeyhushOptions extends Omit<MountedDataset, 'name'> {
  /** false: nobody can download partitions, directories and update lists. Default: true */
  readonly blobs?: boolean | undefined
  /** shared by the databases of one process; default: its own */
  readonly readiness?: Readiness | undefined
  /** shared by the databases of one process; default: its own */
  readonly unsent?: Unsent | undefined
  /** the same for bodies on their way */
  readonly bodies?: Unsent | undefined
  /** event streams, batches of changes that are being read, and reads of the store; shared as these */
  readonly streams?: Streams | undefined
  readonly batches?: Batches | undefined
  readonly reads?: Reads | undefined
  /**
   * What threads compute, shared by the databases of one process. Default: its own.
   * The caller closes it, once no request is under way.
   */
  readonly computations?: Computations | undefined
  /** what one client address may ask for in a minute, in queries to hints (limits/rate.ts), or what counts it; 0 (default): any number */
  readonly rateLimit?: number | RateLimit | undefined
  /**
   * The core has trapped: its memory cannot be trusted, and every database in this process shares it. Nothing is
   * answered from here on; the process is to be replaced. Default: it exits with code 1, for a supervisor to restart.
   */
  readonly onTrap?: ((error: Error) => void) | undefined
}

const FAREWELL_MILLISECONDS = 250
const MOST_UNSIGNED_SECONDS = 60

/**
 * One database as a Fastify plugin, for an app of one's own.
 * @example
 * await app.register(keyhushPlugin, { prefix: '/phishing', dataset: await loadDataset('dataset') })
 */
export const keyhushPlugin: FastifyPluginAsync<KeyhushOptions> = async (app, options) => {
  const { updatable, sharded, rateLimit, publisherKeys = [], onTrap = exitSoon } = options
  const blobs = sharded === undefined && (options.blobs ?? true)
  const readiness = options.readiness ?? new Readiness()
  const unsent = options.unsent ?? new Unsent().watch(app)
  const changing: ChangingEpochs<AnyEpoch> | undefined = sharded ?? updatable
  const fixed = changing === undefined ? fixedOf(options) : undefined
  const epochs: Epochs<AnyEpoch> = changing ?? fixed!
  const rate = rateLimit instanceof RateLimit ? rateLimit : new RateLimit({ perMinute: rateLimit })
  const trapped = (error: Error) => {
    readiness.fail()
    onTrap(error)
  }
  const { most } = Connections.of(app.server)
  const { batches = new Batches(), streams = new Streams(most), reads = new Reads() } = options
  const around = { readiness, unsent, rate, batches, reads, trapped }
  const surroundings = { ...around, epochs }

  takeBodies(app, options.bodies ?? new Unsent().watch(app))
  app.setErrorHandler((error, _request, reply) => sendError(app, error, reply))

  const routes = app.withTypeProvider<TypeBoxTypeProvider>()
  manifestRoute(routes, surroundings)
  const { instant, oneServer, proved } = options.computations ?? ownComputations(app, trapped)
  const own = updatable ?? fixed
  const offered = { instant: (sharded?.lookups ?? instant) !== undefined, oneServer: oneServer !== undefined, blobs }
  infoRoute(routes, epochs, { own, changing, fence: updatable !== undefined }, offered)
  blobRoute(routes, epochs, unsent, !blobs)
  if (own !== undefined) {
    const ofOwn = { ...around, epochs: own }
    answerRoute(routes, ofOwn, proved, updatable?.fence)
    if (instant !== undefined) instantRoute(routes, ofOwn, instant)
    if (oneServer !== undefined) {
      await fixed?.prepare()
      app.addHook('onClose', () => fixed?.close())
      oneServerRoute(routes, ofOwn, oneServer)
      const prepared = () => own.newest.oneServer?.prepared
      readiness.needs(() => (prepared()?.preparing ? 'lookups with one server are being prepared' : undefined))
      readiness.watch('lookups with one server cannot be answered', () => prepared()?.problem)
    }
  }
  if (sharded !== undefined) {
    const { lookups, fabrics, publishing } = sharded
    lookups.onFailure = trapped
    sharded.onFailure = trapped
    instantRoute(routes, { ...around, epochs: sharded }, lookups)
    app.addHook('onClose', () => lookups.close())
    readiness.watch('a shard does not answer', () => sharded.problem)
    readiness.watch('a shard takes no batches', () => publishing?.problem)
    if (publishing !== undefined)
      publishing.onProblem = problem => app.log.warn({ problem }, 'a shard takes no batches')
    for (const fabric of fabrics) {
      fabric.onChange = ({ shard, number, problem }) => {
        const which = { shard, replica: number, of: fabric.flag }
        if (problem === undefined) app.log.info(which, 'a replica of a shard answers again')
        else app.log.warn(which, 'a replica of a shard has failed: it is asked last')
      }
    }
  }
  readiness.watch('the newest epoch has expired', () => expiredIn(epochs.newest.manifest))
  if (changing !== undefined) {
    readiness.needs(() => changing.behind)
    readiness.watch('the store cannot be written', () => changing.storageFailure)
    if (publisherKeys.length > 0) readiness.watch('the newest epoch is not signed', () => unsignedIn(changing))
    eventsRoute(app, changing, streams)
  }
  if (updatable !== undefined) {
    const room = new Room(updatable.location, () => bytesOf(updatable.newest.manifest))
    readiness.watch('the disk of the store has little room', () => room.problem)
    readiness.watch('edits are not folded into openings', () => updatable.folding?.failure)
    readiness.watch('the fence is full', () => updatable.fence.problem)
    if (updatable.folding !== undefined) {
      updatable.folding.onFailure = error => app.log.error({ err: error }, 'cannot fold edits into openings')
    }
    fenceRoute(routes, { ...around, epochs: updatable }, updatable)
  }
  const published = sharded ?? updatable
  if (published !== undefined) publishRoutes(routes, around, published, publisherKeys)
  healthRoutes(app, readiness, () => readiness.publicProblems)
}

/** By this machine's clock. It is answered all the same: whether it has expired is for clients to say, by theirs. */
function expiredIn({ epoch, expires }: Manifest): string | undefined {
  if (expires === 0 || Date.now() < expires * 1000) return undefined
  return `epoch ${epoch} has expired: apps with a publisherKey refuse it; the publisher must publish the next one`
}

/** A publisher signs within a second. Until then clients use the epoch before, and new ones cannot begin once that has gone. */
function unsignedIn({ newest, signed: { unsignedSeconds } }: ChangingEpochs<AnyEpoch>): string | undefined {
  if (unsignedSeconds <= MOST_UNSIGNED_SECONDS) return undefined
  return `epoch ${newest.manifest.epoch} is not signed: apps with a publisherKey do not use it; the publisher must run publish again`
}

function ownComputations(app: FastifyInstance, trapped: (error: Error) => void): Computations {
  const computations = new Computations()
  computations.onFailure = trapped
  app.addHook('onClose', () => computations.close())
  return computations
}

function fixedOf({ dataset }: KeyhushOptions): FixedEpochs {
  if (dataset === undefined) throw new Error('expected a dataset or an updatable database, got neither; give one')
  return new FixedEpochs(dataset)
}

/** Once the reply to the query that broke the core has had time to get out. */
export function exitSoon(): void {
  setTimeout(() => process.exit(1), FAREWELL_MILLISECONDS)
}
