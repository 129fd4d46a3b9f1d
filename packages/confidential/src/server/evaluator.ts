// An evaluator: `POST /v1/evaluate` (docs/protocol/confidential.md) multiplies elements by a share, within the meter's limits.

import { createHash } from 'node:crypto'
import { equalBytes } from '@keyhush/protocol'
import {
  BuildError,
  clientOf,
  decoded,
  frame,
  healthRoutes,
  type Metrics,
  networkOf,
  Readiness,
  Refusal,
  sendBytes,
  surround,
  takeBodies,
} from '@keyhush/server/beside'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { databaseIdOf } from '../wire/derive.js'
import {
  decodeRequest,
  ELEMENT_BYTES,
  EVALUATE,
  type EvaluateRequest,
  encodeReply,
  LONGEST_REQUEST_BYTES,
  type Route,
  UNLOCK,
} from '../wire/messages.js'
import type { Share } from './files.js'
import type { Meter } from './meter.js'
import { loadSecrets, type Secret } from './module.js'

/** How long it is known who sent which bytes, for a client that sends them again; and of how many requests of a route. */
const [KEPT_MILLISECONDS, MOST_KEPT] = [600_000, 10_000]

/**
 * Says who may evaluate: resolves to a name under which the client counts, instead of its address. If it is no text, or empty, the request
 * is refused. `token` is the client's, perhaps empty. `elements`: how many it wants. Called once a request; spend the token in it. `request`: the
 * hash of the request's bytes. Keep it with the token, and take both again: after a restart, a client sends again what it has paid for.
 */
export type Authorized = (
  token: Uint8Array,
  elements: number,
  request: string,
) => Promise<string | undefined> | string | undefined

export interface EvaluatorOptions {
  /** For shares of a priced list: says who has paid for one value. It is not counted. Spend the token in it. */
  readonly authorizeUnlock?: Authorized | undefined
  /** of one key; several: of several deals, while shares are replaced */
  readonly shares: readonly Share[]
  readonly meter: Meter
  readonly authorize?: Authorized | undefined
  readonly metrics?: Metrics | undefined
  /** as of `createServer` */
  readonly trustProxy?: string | undefined
  readonly allowOrigins?: readonly string[] | undefined
  readonly log?: { readonly level: string; readonly stream: { write(line: string): void } } | undefined
}

/** A Fastify instance, ready for `listen`. Throws BuildError for shares of several keys, or of one deal twice. */
export async function createEvaluator(options: EvaluatorOptions): Promise<FastifyInstance> {
  const evaluator = await Evaluator.of(options)
  const readiness = new Readiness()
  const { trustProxy, log, meter, metrics, allowOrigins = ['*'] } = options
  const usedUp = 'the limit of all clients is used up for today'
  readiness.watch(usedUp, () => (meter.isUsedUp ? usedUp : undefined))
  const { app, bodies } = frame({ readiness, unsent: undefined, trustProxy, log })
  app.decorate('readiness', readiness)
  metrics?.time(app)
  if (metrics) watch(metrics, readiness, meter, evaluator)
  await surround(app, { databases: [], allowOrigins, publisherPaths: new Set() })
  healthRoutes(app, readiness, () => readiness.publicProblems)
  await app.register((routes, _options, done) => {
    takeBodies(routes, bodies)
    const routeOptions = { bodyLimit: LONGEST_REQUEST_BYTES, onRequest: readiness.hook }
    for (const route of evaluator.isPriced ? [EVALUATE, UNLOCK] : [EVALUATE]) {
      routes.post(route.path, routeOptions, async (request, reply) => {
        if (trustProxy === undefined) refuseForwarded(request)
        try {
          return sendBytes(reply, await evaluator.answer(route, request.body, request.ip))
        } catch (error) {
          if ((error as { code?: string }).code === 'rate_limited') reply.header('retry-after', meter.secondsLeft)
          throw error
        }
      })
    }
    done()
  })
  await app.ready()
  return app
}

/** docs/operations/confidential.md has a row for each. Nothing of a client or its elements is in them. */
function watch(metrics: Metrics, readiness: Readiness, meter: Meter, evaluator: Evaluator): void {
  const { counted } = meter
  metrics.readiness(readiness)
  metrics.counters({
    elements_total: ['Elements counted, which are multiplied', () => counted.elements],
    refused_of_client_total: ['Requests refused by the limit of one client', () => counted.refusedOfClient],
    refused_of_network_total: ['Requests refused by the limit of one network', () => counted.refusedOfNetwork],
    refused_of_all_total: ['Requests refused by the limit of all clients', () => counted.refusedOfAll],
    multiplying_seconds_total: ['Seconds that multiplication has taken', () => evaluator.multiplyingMs / 1000],
  })
  metrics.gauges({
    left_of_client: ['Elements that today leaves the client that has used the most', () => meter.left.ofClient],
    left_of_network: ['Elements that today leaves the network that has used the most', () => meter.left.ofNetwork],
    left_of_all: ['Elements that today leaves all clients', () => meter.left.ofAll],
  })
}

/** All clients of a proxy would count as one. */
function refuseForwarded({ headers }: FastifyRequest): void {
  if (headers['x-forwarded-for'] === undefined && headers.forwarded === undefined) return
  throw new Refusal('bad_request', 'this evaluator does not know its proxy; its operator starts it with --trust-proxy')
}

/** A request with a token, which is spent once. */
interface Asked {
  readonly at: number
  readonly name: Promise<string>
  /** missing: it has failed, and may succeed if it is asked again */
  reply?: Promise<Uint8Array> | undefined
}

interface Dealt {
  readonly number: number
  readonly secret: Secret
  /** of a priced list */
  readonly unlockSecret: Secret | undefined
}

type Deals = ReadonlyMap<number, Dealt>

class Evaluator {
  readonly #databaseId: Uint8Array
  /** by deal, the newest first */
  readonly #deals: Deals
  readonly #meter: Meter
  readonly #authorize: Authorized | undefined
  readonly #authorizeUnlock: Authorized | undefined
  readonly isPriced: boolean
  /** by the request's hash; apart, so that lookups, which may be many, do not push out what is paid for */
  readonly #asked = new Map<Route, Map<string, Asked>>([EVALUATE, UNLOCK].map(route => [route, new Map()]))
  multiplyingMs = 0

  private constructor({ evaluationKey }: Share, isPriced: boolean, deals: Deals, options: EvaluatorOptions) {
    this.#databaseId = databaseIdOf(evaluationKey, isPriced)
    this.isPriced = isPriced
    this.#deals = deals
    this.#meter = options.meter
    this.#authorize = options.authorize
    this.#authorizeUnlock = options.authorizeUnlock
  }

  static async of(options: EvaluatorOptions): Promise<Evaluator> {
    const shares = [...options.shares].sort((a, b) => b.deal - a.deal)
    const { SecretHandle } = await loadSecrets()
    const deals = new Map(
      shares.map(({ deal, number, secret, unlockSecret }) => [
        deal,
        {
          ...{ number, secret: new SecretHandle(secret) },
          unlockSecret: unlockSecret && new SecretHandle(unlockSecret),
        },
      ]),
    )
    const [newest] = shares
    if (!newest || deals.size < shares.length || shares.some(each => each.evaluationKey !== newest.evaluationKey)) {
      throw new BuildError('--share: expected shares of one key, each of another deal, got others')
    }
    const isPriced = newest.unlockSecret !== undefined
    if (isPriced !== (options.authorizeUnlock !== undefined)) {
      const what = isPriced ? 'a module, since the share is of a priced list, got none' : 'none, got one'
      throw new BuildError(`--authorize-unlock: expected ${what}; see docs/operations/confidential.md`)
    }
    return new Evaluator(newest, isPriced, deals, options)
  }

  /** Throws a Refusal. */
  async answer(route: Route, body: unknown, ip: string): Promise<Uint8Array> {
    const request = decoded(body, bytes => decodeRequest(bytes, route))
    if (!equalBytes(request.databaseId, this.#databaseId)) {
      throw new Refusal('wrong_database', 'expected a request for the list evaluated here, got one for another')
    }
    if (request.deal !== 0 && !this.#deals.has(request.deal)) {
      throw new Refusal('epoch_unknown', 'expected a deal that this evaluator has, got another', undefined, {})
    }
    const authorize = route === UNLOCK ? this.#authorizeUnlock : this.#authorize
    if (authorize === undefined) return await this.#multiplied(route, request, clientOf(ip), networkOf(ip))
    // The token is spent by now if its reply was lost, or the evaluator had nothing left.
    const known = this.#asked.get(route)!
    forget(known)
    const bytes = createHash('sha256')
      .update(body as Uint8Array)
      .digest('base64')
    const asked: Asked = known.get(bytes) ?? { at: performance.now(), name: nameOf(request, bytes, authorize) }
    known.set(bytes, asked)
    asked.name.catch(() => known.delete(bytes))
    asked.reply ??= asked.name.then(name => this.#multiplied(route, request, name, name))
    asked.reply.catch(() => {
      asked.reply = undefined
    })
    return await asked.reply
  }

  async #multiplied(
    route: Route,
    { databaseId, deal, elements }: EvaluateRequest,
    client: string,
    network: string,
  ): Promise<Uint8Array> {
    const [[newest = 0] = []] = this.#deals
    const share = this.#deals.get(deal || newest)!
    // What is paid for is not counted.
    if (route === EVALUATE) await this.#meter.take(client, network, elements.length / ELEMENT_BYTES)
    const secret = route === UNLOCK ? share.unlockSecret! : share.secret
    const start = performance.now()
    try {
      const reply = { databaseId, number: share.number, deal: deal || newest, elements: secret.multiply(elements) }
      return encodeReply(reply, route)
    } catch (error) {
      if ((error as { code?: string }).code !== 'element') throw error
      throw new Refusal('bad_request', 'expected canonical elements other than the identity, got others')
    } finally {
      this.multiplyingMs += performance.now() - start
    }
  }
}

function forget(asked: Map<string, Asked>): void {
  const oldest = performance.now() - KEPT_MILLISECONDS
  for (const [bytes, { at }] of asked) {
    if (at > oldest && asked.size <= MOST_KEPT) return
    asked.delete(bytes)
  }
}

/** Under which name the client counts, which is no address. */
async function nameOf({ token, elements }: EvaluateRequest, request: string, authorize: Authorized): Promise<string> {
  const name = await authorize(token, elements.length / ELEMENT_BYTES, request)
  // Not only undefined: what finds no account often gives null or false.
  if (typeof name === 'string' && name !== '') return `authorized ${name}`
  throw new Refusal('unauthorized', 'expected a token that may evaluate, got none or another')
}
