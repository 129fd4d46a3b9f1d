// The traffic of one lookup. All requests leave in one tick, each reply is judged as it comes, and no error is raised before
// all replies are in or have timed out (P2, P6). The scheme makes the bytes, the same each time. Callers decide what may be
// sent, and what becomes of the answers.

import {
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  type FenceClaim,
  type FenceVerdict,
  type Manifest,
  splitVerdict,
  withClaim,
} from '@keyhush/protocol'
import { CondemnedError, ServerError, TamperedError, VersionError } from '../base/errors.js'
import type { Ask, Requests, Verdict } from '../scheme/scheme.js'
import { joined } from '../servers/failures.js'
import { fromWire } from '../servers/manifests.js'
import type { StatsKeeper } from '../servers/stats.js'
import { type Link, post } from '../servers/transport.js'
import { onTheWire } from '../servers/wire.js'

export interface Sending {
  readonly manifest: Manifest
  readonly requests: Requests
  /** the ways to the lookup's parties, in their order */
  readonly links: readonly Link[]
  readonly stats: StatsKeeper
  /** what goes out behind one party's request, for its fence to judge in the same round trip (S8) */
  readonly fence?: { readonly party: number; readonly claim: FenceClaim } | undefined
  /** how often a request is sent; missing: ATTEMPTS */
  readonly attempts?: number | undefined
  /** what several ways to one party share: the first good answer is taken, and what comes later is thrown away */
  readonly first?: { taken: boolean } | undefined
  /** A party has replied, whatever it is; or has failed, with this error. */
  readonly onSettled?: (party: number, failure?: unknown) => void
  /** A party's answer was forged. Called at once, whatever the others do. */
  readonly onForged: (party: number) => Promise<void>
  /** The fence has judged the claim. Throws if the hint must not move on. */
  readonly onVerdict?: ((verdict: FenceVerdict) => Promise<void>) | undefined
}

/** Sends, and has every reply judged. Resolves when all replies are genuine. */
export async function sendAll(sending: Sending): Promise<void> {
  const state: Ended = { over: false }
  const order = sending.requests.asks.map((_, party) => party)
  // One tick (P2), in the order of the servers' names: the order must not show which role a server has.
  order.sort((a, b) => (sending.links[a]!.server.name < sending.links[b]!.server.name ? -1 : 1))
  const outcomes = await Promise.allSettled(order.map(party => ask(sending, state, party)))
  const errors: unknown[] = outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [outcome.reason] : []))
  if (errors.length === 0) return
  // Reported first: a lie, then a refusal of the fence, then other failures. That a server has moved on comes last: only
  // then are the queries sent again at the next epoch.
  const first = (kind: typeof TamperedError | typeof CondemnedError) => errors.find(error => error instanceof kind)
  const isOther = (error: unknown) => !isAhead(error, sending.manifest)
  const error = first(TamperedError) ?? first(CondemnedError) ?? errors.find(isOther) ?? errors[0]
  const other = errors.find(each => each !== error)
  throw error instanceof ServerError && other instanceof ServerError ? joined(error, other) : error
}

/** Of the longest request and its reply. All parties get the time of this one: who has it shows in no timing. */
export function bytesOf({ asks }: Requests): number {
  return Math.max(...asks.map(({ body, replyBytes }) => body.length + replyBytes))
}

/** Whether a server has refused queries at this manifest's epoch because it is further on, or has another database. */
export function isAhead(error: unknown, manifest: Manifest): boolean {
  if (error instanceof ServerError && error.refusal === 'wrong_database') return true
  return error instanceof VersionError && error.newest !== undefined && error.newest.epoch > manifest.epoch
}

/** What the requests of a lookup know of each other. */
interface Ended {
  /** one answer was forged, or the core has crashed: no party is asked again */
  over: boolean
}

/** Asks one party until an answer of the right shape has come, and has it judged, and the fence's verdict taken. */
async function ask(sending: Sending, state: Ended, party: number): Promise<void> {
  const { meter } = sending.links[party]!
  const verdict = await meter
    .asking(() => askWithRetry(sending, state, party))
    .catch(error => {
      sending.onSettled?.(party, error)
      throw error
    })
  if (verdict !== undefined) await sending.onVerdict?.(verdict)
}

async function askWithRetry(sending: Sending, state: Ended, party: number): Promise<FenceVerdict | undefined> {
  const { links, manifest, stats, attempts, requests } = sending
  const link = links[party]!
  const send = async (until: number) => {
    if (state.over) return undefined
    try {
      const { answer, verdict } = await answerOf(sending, party, until)
      sending.onSettled?.(party)
      if (sending.first?.taken) return undefined
      if (!state.over) await judge(sending, state, party, answer)
      return verdict
    } catch (error) {
      if (error instanceof ServerError) stats.incident(link.server.name, error.code)
      throw error
    }
  }
  const isFinal = (error: unknown) => state.over || isAhead(error, manifest)
  const { unreadyMs } = requests
  return await onTheWire(link, bytesOf(requests), send, { attempts, isFinal, unreadyMs })
}

interface Answer {
  readonly answer: Uint8Array
  /** behind it, if there was a claim */
  readonly verdict: FenceVerdict | undefined
}

async function answerOf({ requests, links, stats, fence }: Sending, party: number, until: number): Promise<Answer> {
  const link = links[party]!
  const { path, body, replyBytes }: Ask = requests.asks[party]!
  if (fence?.party !== party) {
    return { answer: await post(link, path, body, replyBytes, until), verdict: undefined }
  }
  stats.fenced(link.server.name, { bytesUp: FENCE_REQUEST_BYTES, bytesDown: 0 })
  const reply = await post(link, path, withClaim(body, fence.claim), replyBytes + FENCE_REPLY_BYTES, until)
  stats.fenced(link.server.name, { bytesUp: 0, bytesDown: FENCE_REPLY_BYTES })
  return fromWire(link, () => splitVerdict(reply))
}

/** A forged reply is reported at once: else a server could lie again and again while the other one keeps silent. */
async function judge(sending: Sending, state: Ended, party: number, answer: Uint8Array): Promise<void> {
  const { requests, links, onForged, first } = sending
  const link = links[party]!
  let verdict: Verdict | undefined
  let malformed = false
  try {
    const weighed = fromWire(link, () => requests.weigh?.(party, answer))
    if (weighed !== undefined) await weighed
    if (weighed !== undefined && state.over) return // another's was forged meanwhile
    verdict = fromWire(link, () => requests.accept(party, answer))
    if (first !== undefined) first.taken = true
  } catch (error) {
    malformed = error instanceof ServerError // treated as missing: it is asked for again
    throw error
  } finally {
    state.over ||= !malformed && (verdict === undefined || verdict === 'forged')
  }
  if (verdict !== 'forged') return
  await onForged(party)
  const message = 'expected an answer from the agreed database, got a forged one; call reset()'
  throw new TamperedError(link.server.name, message)
}
