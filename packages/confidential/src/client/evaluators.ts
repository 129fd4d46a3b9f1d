// Asks evaluators (docs/protocol/confidential.md, What a client does). All get the same elements in one tick. The replies are used when
// they pass the check together, and never before.

import {
  callApp,
  ProtocolError,
  type ServerBeside,
  ServerError,
  TamperedError,
  UsageError,
  VersionError,
  worstOf,
} from '@keyhush/client/beside'
import { equalBytes, WireError } from '@keyhush/protocol'
import {
  decodeReply,
  ELEMENT_BYTES,
  EVALUATE,
  type EvaluateReply,
  encodeRequest,
  MOST_TOKEN_BYTES,
  type Route,
  replyBytes,
  UNLOCK,
} from '../wire/messages.js'
import { type Element, ENTROPY_BYTES, Evaluation, elementsOf, type Product, Unlocking } from './evaluation.js'

/** Most sets of replies that are checked together: a liar must not make the device work for long. */
const MOST_SETS = 20

/** Gives a token for each evaluator. `elements`: what it will count. */
export type Authorize = (evaluator: string, elements: number) => Uint8Array | Promise<Uint8Array>

export interface Evaluators {
  readonly servers: readonly ServerBeside[]
  /** how many of them suffice */
  readonly atLeast: number
  readonly key: Element
  readonly databaseId: Uint8Array
  readonly authorize: Authorize | undefined
  readonly random: (bytes: number) => Uint8Array
  /** which deal is asked for first, since its shares sufficed; 0: the newest */
  deal: number
  /** whose shares sufficed last */
  used: number
}

/** While shares are replaced, some have new ones already. All have the old ones until all have the new. */
interface Next {
  readonly next: number
}

interface Reply extends Product {
  readonly server: string
  readonly deal: number
}

/**
 * The outputs for these inputs, 64 bytes each. `begin` is called when the first request leaves, and may throw before. Throws a
 * ServerError; TamperedError if the replies do not pass the check.
 */
export async function evaluate(
  evaluators: Evaluators,
  inputs: readonly Uint8Array[],
  begin: () => void,
): Promise<Uint8Array[]> {
  let { deal } = evaluators
  for (let isFirst = true; ; isFirst = false) {
    const found = await asked(evaluators, inputs, deal, isFirst ? begin : () => {})
    if (Array.isArray(found)) {
      evaluators.deal = deal
      return found
    }
    deal = found.next
  }
}

/** The outputs; or, where no deal's shares suffice, which deal to ask for next. */
async function asked(
  evaluators: Evaluators,
  inputs: readonly Uint8Array[],
  deal: number,
  begin: () => void,
): Promise<Uint8Array[] | Next> {
  const evaluation = new Evaluation(inputs, evaluators.random(ENTROPY_BYTES))
  const { elements } = evaluation
  const sent = await sentOf(evaluators, EVALUATE, { deal, elements }, evaluators.authorize)
  begin()
  const finish = (products: readonly Product[]) => evaluation.finish(evaluators.key, products)
  return await posted(evaluators, EVALUATE, sent, new Replies(evaluators, EVALUATE, deal, finish))
}

/** One purchase. It may be sent again: the same bytes with the same token are answered, and not paid twice. */
export interface Purchase {
  readonly unlocking: Unlocking
  readonly sent: Sent
}

interface Sent {
  readonly deal: number
  readonly elements: Uint8Array
  /** for each evaluator */
  readonly bodies: readonly Uint8Array[]
}

/** `input`: salt and input. Gets the tokens. Throws what `authorize` throws. */
export async function purchaseOf(evaluators: Evaluators, input: Uint8Array, authorize: Authorize): Promise<Purchase> {
  const unlocking = new Unlocking(input, evaluators.random(ENTROPY_BYTES))
  const { elements } = unlocking
  return { unlocking, sent: await sentOf(evaluators, UNLOCK, { deal: evaluators.used, elements }, authorize) }
}

/** What `open` makes of the evaluation; undefined is not accepted. Throws as `evaluate`. */
export async function unlock(
  evaluators: Evaluators,
  { unlocking, sent }: Purchase,
  open: (evaluated: Uint8Array) => Uint8Array | undefined,
): Promise<Uint8Array> {
  const finish = (products: readonly Product[]) => {
    const evaluated = unlocking.finish(products)
    const value = open(evaluated)
    evaluated.fill(0)
    return value && [value]
  }
  const found = await posted(evaluators, UNLOCK, sent, new Replies(evaluators, UNLOCK, sent.deal, finish))
  return (found as Uint8Array[])[0]!
}

async function sentOf(
  { servers, databaseId }: Evaluators,
  route: Route,
  { deal, elements }: Omit<Sent, 'bodies'>,
  authorize: Authorize | undefined,
): Promise<Sent> {
  const tokens = await tokensOf(servers, authorize, elements.length / ELEMENT_BYTES)
  const bodies = tokens.map(token => encodeRequest({ databaseId, deal, elements, token }, route))
  return { deal, elements, bodies }
}

async function posted(
  { servers }: Evaluators,
  route: Route,
  { bodies, elements }: Sent,
  under: Replies,
): Promise<Uint8Array[] | Next> {
  return await new Promise((resolve, reject) => {
    let [left, isFound] = [servers.length, false]
    servers.forEach(async ({ name, post }, i) => {
      try {
        const reply = await post(route.path, bodies[i]!, replyBytes(elements.length / ELEMENT_BYTES))
        const outputs = isFound ? undefined : under.add(name, read(name, reply, route))
        if (outputs) {
          isFound = true
          resolve(outputs)
        }
      } catch (error) {
        if (!(error instanceof ServerError)) return reject(error)
        under.failures.push(explained(error, route))
      }
      left -= 1
      if (left === 0) under.end(resolve, reject)
    })
  })
}

/** Says what a refusal means at an evaluator. */
function explained(error: ServerError, { path }: Route): ServerError {
  const { server, refusal } = error
  if (!(error instanceof ProtocolError) || server === undefined) return error
  const what = {
    unauthorized: 'expected a token that this evaluator accepts, got none, a wrong one or a spent one; see `authorize`',
    not_found: `expected an evaluator, got nothing at ${path}; check evaluators. Its operator sends that path to \`keyhush-confidential serve\``,
    bad_request:
      'expected an evaluator that takes this request, got a refusal: it does not know its proxy, or has another version; tell its operator',
    wrong_database:
      'expected an evaluator of this evaluation key, got one of another; check evaluationKey and evaluators',
  }[refusal as string]
  return what === undefined ? error : new ProtocolError(server, what, { refusal })
}

/** All before any request leaves: that one is missing must not show by a request that another evaluator has had. */
async function tokensOf(
  servers: readonly ServerBeside[],
  authorize: Authorize | undefined,
  elements: number,
): Promise<Uint8Array[]> {
  if (!authorize) return servers.map(() => new Uint8Array())
  const tokenOf = async ({ name }: ServerBeside) => {
    try {
      return await authorize(name, elements)
    } catch (error) {
      return callApp(() => {
        throw error
      })
    }
  }
  const tokens = await Promise.all(servers.map(tokenOf))
  const isToken = (token: unknown) => Object.prototype.toString.call(token) === '[object Uint8Array]'
  const lengths = new Set(tokens.map(token => (isToken(token) ? token.length : -1)))
  if (lengths.size === 1 && !lengths.has(-1) && tokens[0]!.length <= MOST_TOKEN_BYTES) return tokens
  throw new UsageError(
    `authorize: expected Uint8Arrays of one length, at most ${MOST_TOKEN_BYTES} bytes, got others; pad tokens to one length`,
  )
}

/** The codec's errors name the evaluator. */
function read(server: string, bytes: Uint8Array, route: Route): EvaluateReply {
  try {
    return decodeReply(bytes, route)
  } catch (error) {
    if (!(error instanceof WireError)) throw error
    if (error.code !== 'version') throw new ProtocolError(server, `${error.message}; tell its operator`)
    throw new VersionError(server, `${error.message}; update the older of app and evaluator`)
  }
}

/** What has come so far. */
class Replies {
  readonly #evaluators: Evaluators
  readonly #route: Route
  readonly #deal: number
  readonly #finish: (products: readonly Product[]) => Uint8Array[] | undefined
  readonly #good: Reply[] = []
  readonly failures: ServerError[] = []
  #sets = 0

  /** `finish`: the outputs of enough products; undefined: they are wrong. */
  constructor(
    evaluators: Evaluators,
    route: Route,
    deal: number,
    finish: (products: readonly Product[]) => Uint8Array[] | undefined,
  ) {
    this.#evaluators = evaluators
    this.#route = route
    this.#deal = deal
    this.#finish = finish
  }

  /** Checks each set of enough replies that has this one. Throws ProtocolError for a reply that fits no request. */
  add(server: string, { databaseId, number, deal, elements }: EvaluateReply): Uint8Array[] | undefined {
    const isAsked = this.#deal === 0 || deal === this.#deal
    if (!isAsked || !equalBytes(databaseId, this.#evaluators.databaseId)) {
      throw wrong(server, 'expected the database and the deal that were asked for, got others')
    }
    const points = elementsOf(elements)
    if (!points) throw wrong(server, 'expected canonical elements other than the identity, got others')
    const alike = this.#good.filter(other => other.deal === deal && other.number !== number)
    const reply = { server, number, deal, points }
    this.#good.push(reply)
    for (const others of setsOf(alike, this.#evaluators.atLeast - 1)) {
      if (++this.#sets > MOST_SETS) return undefined
      const outputs = this.#finish([...others, reply])
      if (!outputs) continue
      this.#evaluators.used = deal
      return outputs
    }
    return undefined
  }

  /** All have replied or failed. */
  end(resolve: (found: Next) => void, reject: (error: Error) => void): void {
    const { atLeast, deal } = this.#evaluators
    const isGone = (error: ServerError) => error instanceof VersionError
    if (this.#sets > 0 && this.#route === UNLOCK) {
      const what = 'expected an evaluation that opens the value, got another: evaluators or the value are wrong'
      reject(
        new TamperedError(undefined, `${what}; tell the seller. Asking again within ten minutes is not paid again`),
      )
    } else if (this.#sets > 0) {
      const what = 'expected elements that were multiplied by enough shares of the evaluation key, got others'
      const next =
        'warn your user. Asking again is safe. If it has never worked: name all evaluators, and check atLeast'
      reject(new TamperedError(undefined, `${what} from at least one evaluator; ${next}`))
    } else if (this.#deal === 0 && this.#good.length >= atLeast) {
      resolve({ next: Math.min(...this.#good.map(({ deal }) => deal)) })
    } else if (this.#route === EVALUATE && this.#deal !== 0 && this.#deal === deal && this.failures.some(isGone)) {
      this.#evaluators.deal = 0 // it was remembered, and is gone
      resolve({ next: 0 })
    } else {
      reject(worstOf([...this.failures, ...this.#twins()]))
    }
  }

  /** Whose share another has named too. One of the two may lie, and none tells which: so no reply is refused for it. */
  #twins(): ProtocolError[] {
    return this.#good.flatMap(({ server, number }, i) => {
      const twin = this.#good.slice(0, i).find(other => other.number === number)
      return twin ? [wrong(server, `expected another share than that of ${twin.server}, got the same`)] : []
    })
  }
}

function wrong(server: string, what: string): ProtocolError {
  return new ProtocolError(server, `${what}; tell its operator`)
}

/** All sets of so many replies of different shares. */
function* setsOf(replies: readonly Reply[], size: number): Generator<readonly Reply[]> {
  if (size === 0) yield []
  else if (size <= replies.length) {
    const [first, ...rest] = replies as [Reply, ...Reply[]]
    const others = rest.filter(({ number }) => number !== first.number)
    for (const set of setsOf(others, size - 1)) yield [first, ...set]
    yield* setsOf(rest, size)
  }
}
