// One batch of queries, from intent to effect (Fig. 5), in the only order that is safe:
//
//   the batch is stored  ─►  the fence lets it leave  ─►  both requests leave in one tick, the one to the refresh server
//     with a claim  ─►  each answer is verified as it comes, and the fence's verdict heard  ─►  both verified, and no
//         objection: records recovered, effect stored, batch gone
//
// Once a batch is stored, its bytes are the only bytes ever sent for it, to the same servers, until both answers have
// been applied: fresh randomness for the same index, or another index on the same permutations, would tell a server
// which partition was asked. So nothing here can be called off. Whatever fails leaves the batch pending, and the next
// operation, in this tab or another, in this life of the page or the next, finishes it first.

import {
  answerBytes,
  decodeAnswer,
  encodeQuery,
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  type FenceClaim,
  type FenceVerdict,
  type Manifest,
  splitVerdict,
  withClaim,
} from '@pirouette/protocol'
import { ATTEMPTS, BACKOFF_MS } from './constants.js'
import { inCore } from './core.js'
import { CondemnedError, ServerError, TamperedError, VersionError } from './errors.js'
import type { Hint } from './hint.js'
import { fromWire } from './manifest.js'
import { sleep } from './retry.js'
import type { StatsKeeper } from './stats.js'
import { type Link, postQuery } from './transport.js'

/** Where intents and effects go. */
export interface Journal {
  /** Durable when it resolves (S1). If it throws, nothing is sent. */
  intend(version: number, pending: Uint8Array): Promise<void>
  /**
   * Resolves when the fence lets the pending batch leave (S8), to the claim that leaves with it; undefined: there is no
   * fence. If it throws, nothing is sent.
   */
  admit(): Promise<FenceClaim | undefined>
  /** What the fence has said to that claim. Throws if the hint must not move on. */
  judged(claim: FenceClaim, verdict: FenceVerdict): Promise<void>
  /** The effect in place of the pending batch, in one step (S2). Throws if the records must not be given out. */
  apply(version: number, effect: Uint8Array): Promise<void>
  /** The hint's memory is in an unknown state. */
  lose(): void
  /** Durable when it resolves (S7). Never throws. */
  condemn(culprit: string | undefined): Promise<void>
}

export interface Exchange {
  readonly hint: Hint
  readonly links: readonly [Link, Link]
  readonly journal: Journal
  readonly stats: StatsKeeper
}

/** Whether a batch awaits its answers, because whoever began it could not finish it. */
export function isPending(hint: Hint): boolean {
  return inCore(hint.core, () => hint.client.pending) > 0
}

/** Makes a batch for `indices` out of fresh entropy. Nothing is sent before `finishBatch` has stored it. */
export function beginBatch(hint: Hint, indices: Uint32Array, entropy: Uint8Array): void {
  inCore(hint.core, () => hint.client.query(indices, entropy))
}

/** Sends, verifies and applies the pending batch. Resolves with its records, count·ℓ bytes in query order. */
export async function finishBatch(exchange: Exchange): Promise<Uint8Array> {
  const { hint, journal } = exchange
  const { core, client } = hint
  // Intent before traffic (S1), every time: the first attempt to store it may have failed, and another tab may have
  // finished it meanwhile.
  const { version, pending } = inCore(core, () => ({ version: client.version, pending: client.pendingBytes() }))
  await journal.intend(version, pending)

  const both: BothAnswers = { over: false }
  const requests = queries(hint, await journal.admit())
  const asking = [ask(exchange, both, 0, requests[0]), ask(exchange, both, 1, requests[1])] // one tick (P2)
  // P6: no error is raised before both answers are in, or their time is over.
  const outcomes = await Promise.allSettled(asking)
  const errors: unknown[] = outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [outcome.reason] : []))
  if (errors.length > 0) {
    // A lie before a refusal of the fence, and that before a silence. Only if nothing else stands in the way do the
    // queries go out again at the next epoch.
    const first = (kind: typeof TamperedError | typeof CondemnedError) => errors.find(error => error instanceof kind)
    const isOther = (error: unknown) => !hasTurned(error, hint.manifest)
    throw first(TamperedError) ?? first(CondemnedError) ?? errors.find(isOther) ?? errors[0]
  }

  // Parities and permutations go to the next state together, in the core's memory and then in the store.
  const { records, effect } = applied(exchange)
  await journal.apply(version, effect)
  return records
}

/** Whether a server has refused queries at this manifest's epoch because it is further on. */
export function hasTurned(error: unknown, manifest: Manifest): boolean {
  return error instanceof VersionError && error.newest !== undefined && error.newest.epoch > manifest.epoch
}

function applied({ hint: { core, client }, journal }: Exchange): { records: Uint8Array; effect: Uint8Array } {
  try {
    return inCore(core, () => ({ records: client.recon(), effect: client.takeEffect() }))
  } catch (error) {
    journal.lose()
    throw error
  }
}

/** What the two requests of a batch know of each other. */
interface BothAnswers {
  /** one answer was forged, or the core has crashed: the other server is not asked again */
  over: boolean
}

/** What one server is asked: a request's body, the queries in it, and the claim behind them. */
interface Request {
  readonly body: Uint8Array
  readonly count: number
  readonly claim: FenceClaim | undefined
}

/** The requests to the first and the second server of the pair. Made anew each time, and always the same. */
function queries(
  { core, client, manifest, roles, proofs }: Hint,
  claim: FenceClaim | undefined,
): readonly [Request, Request] {
  const count = inCore(core, () => client.pending)
  const vectors = inCore(core, () => [client.retrieveVectors(), client.refreshVectors()] as const)
  const request = (s: 0 | 1): Request => {
    const query = encodeQuery(manifest, count, vectors[roles[s]], proofs)
    // Its refresh server alone knows the hint by its id.
    if (roles[s] === 0 || claim === undefined) return { body: query, count, claim: undefined }
    return { body: withClaim(query, claim), count, claim }
  }
  return [request(0), request(1)]
}

/** Asks one server until an answer of the right shape has come, verifies it, and hears the fence. */
async function ask(exchange: Exchange, both: BothAnswers, s: 0 | 1, request: Request): Promise<void> {
  const verdict = await askPatiently(exchange, both, s, request)
  if (request.claim !== undefined && verdict !== undefined) await exchange.journal.judged(request.claim, verdict)
}

async function askPatiently(
  exchange: Exchange,
  both: BothAnswers,
  s: 0 | 1,
  request: Request,
): Promise<FenceVerdict | undefined> {
  const { hint, links, stats } = exchange
  const link = links[s]
  for (let attempt = 1; ; attempt++) {
    try {
      const { entries, verdict } = await answerOf(exchange, s, request)
      if (!both.over) await verify(exchange, both, s, entries)
      return verdict
    } catch (error) {
      if (error instanceof ServerError) stats.incident(link.server.name, error.code)
      // Only what happened on the way is repeated: the same bytes, to the same server.
      if (both.over || attempt === ATTEMPTS || hasTurned(error, hint.manifest)) throw error
    }
    await sleep(link.environment.clock, BACKOFF_MS)
    if (both.over) return undefined
  }
}

/** The entries of one server's answer, not yet verified, and the verdict behind them if there was a claim. */
async function answerOf(
  { hint: { manifest, proofs }, links, stats }: Exchange,
  s: 0 | 1,
  { body, count, claim }: Request,
): Promise<{ entries: Uint8Array; verdict: FenceVerdict | undefined }> {
  const link = links[s]
  const [bytesUp, bytesDown] = claim === undefined ? [0, 0] : [FENCE_REQUEST_BYTES, FENCE_REPLY_BYTES]
  stats.fenced(s, { bytesUp, bytesDown: 0 })
  const reply = await postQuery(link, body, answerBytes(manifest, count, proofs) + bytesDown)
  stats.fenced(s, { bytesUp: 0, bytesDown })
  return fromWire(link, () => {
    const { answer, verdict } = claim === undefined ? { answer: reply } : splitVerdict(reply)
    return { entries: decodeAnswer(manifest, count, answer, proofs), verdict }
  })
}

/**
 * Verifies one server's entries, all of them. A forged one condemns the hint durably at once, whatever the other server
 * does: else one could lie again and again while the other is kept silent.
 */
async function verify(
  { hint, links, journal }: Exchange,
  both: BothAnswers,
  s: 0 | 1,
  entries: Uint8Array,
): Promise<void> {
  const { name } = links[s].server
  let genuine = false
  try {
    genuine = inCore(hint.core, () => hint.client.verify(hint.roles[s], entries))
  } finally {
    both.over ||= !genuine
  }
  if (genuine) return
  await journal.condemn(name)
  throw new TamperedError(name, 'its answer is not from the database both servers agreed on; call reset()')
}
