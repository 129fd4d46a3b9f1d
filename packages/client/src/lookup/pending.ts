// A lookup (Fig. 5), in the only order that is safe:
//   1. What judging the answers takes is read.
//   2. The lookup is stored.
//   3. The fence lets it leave.
//   4. All requests leave in one tick, one of them with the claim for the fence.
//   5. Each answer is verified as it comes, and the fence's verdict is read.
//   6. All answers are verified and the fence agrees: records are recovered, the effect is stored, the lookup is gone.
//
// Once a lookup is stored, only its bytes are ever sent for it, to the same servers, until all answers are applied. Fresh
// randomness for the same index, or another index on the same permutations, would show a server the partition. So nothing
// here can be called off. A failure leaves the lookup pending, and the next operation finishes it first, in any tab and any
// life of the page.

import { ROUNDS } from '../base/constants.js'
import { ServerError, StorageError, TamperedError } from '../base/errors.js'
import { goSteps } from '../scheme/download.js'
import type { AskedState, Requests } from '../scheme/scheme.js'
import { firstOf, Pace } from '../servers/ask.js'
import type { Link, Links } from '../servers/transport.js'
import { advance } from '../state/advancing.js'
import { condemn } from '../state/condemnation.js'
import { type Hint, waysOf } from '../state/hint.js'
import { intend, note, provide } from '../state/journal.js'
import type { Machine } from '../state/machine.js'
import { stepsAfter } from '../state/newest.js'
import { keepVerifier } from '../state/verifier.js'
import type { Admission } from './admission.js'
import { bytesOf, isAhead, sendAll } from './sending.js'

/** What the answers to a lookup said. */
export interface Finished {
  /** count·ℓ bytes in query order */
  readonly records: Uint8Array
  /** queries that no hint could serve; their records are not among these */
  readonly missed: number
  /** the update lists between the query's epoch and the answers' */
  readonly lists: readonly Uint8Array[]
}

/**
 * Sends, verifies and applies the hint's pending lookup, at the next epoch if the servers have moved on. `own`: the lookup
 * was made just now and has never been stored. Throws StateMovedError if another tab was faster: nothing was sent, and the
 * state has to be read anew. Throws OutdatedError if the servers no longer answer this hint. Follows ROUNDS times at most:
 * a server that alone decides what is newest could announce an epoch for every query.
 */
export async function finishPending(
  machine: Machine,
  admission: Admission,
  hint: Hint,
  own = false,
): Promise<Finished> {
  const { announce } = machine.parts
  const lists: Uint8Array[] = []
  for (let round = 1; ; round++) {
    const equipped = equip(machine, hint, new AbortController().signal, lists) // never called off
    if (equipped !== undefined) await equipped
    try {
      return { ...(await attempt(machine, admission, hint, own && lists.length === 0)), lists }
    } catch (error) {
      // Not before all answers are in or have timed out (P6).
      if (error instanceof TamperedError) announce({ type: 'condemned', server: error.server })
      if (!isAhead(error, hint.manifest) || round === ROUNDS) throw error
      // Never called off: when a server moves on does not depend on what is asked, and nor may this.
      await advanceOr(error, machine, hint, new AbortController().signal, lists)
    }
  }
}

/**
 * Fetches what is missing to judge answers, before anything of a lookup is sent. Undefined: nothing is missing. If the
 * servers have moved on and no longer have it, the hint follows them first, and `lists` get the updates on the way. Throws
 * OutdatedError if the database was replaced.
 */
export function equip(
  machine: Machine,
  hint: Hint,
  signal: AbortSignal,
  lists: Uint8Array[] = [],
): Promise<void> | undefined {
  const { downloads: servers, parts } = machine
  const sources = { servers, stats: parts.stats, received: () => {} }
  const ask = () => askedOf(hint).equip?.(hint.manifest, sources, signal)
  const equipped = ask()
  return (
    equipped && untilEquipped(machine, hint, signal, lists, ask, equipped).then(() => keepVerifier(machine.store, hint))
  )
}

async function untilEquipped(
  machine: Machine,
  hint: Hint,
  signal: AbortSignal,
  lists: Uint8Array[],
  ask: () => Promise<void> | undefined,
  first: Promise<void>,
): Promise<void> {
  let equipped: Promise<void> | undefined = first
  for (let round = 1; ; round++) {
    try {
      return await equipped
    } catch (error) {
      // No server had it, perhaps because the servers are at another epoch now.
      if (!(error instanceof ServerError) || signal.aborted || round === ROUNDS) throw error
      await advanceOr(error, machine, hint, signal, lists)
      equipped = ask()
    }
  }
}

/** Brings the hint to the servers' newest epoch, and adds the lists on the way to `lists`. Throws `error` if it is there. */
async function advanceOr(
  error: unknown,
  machine: Machine,
  hint: Hint,
  signal: AbortSignal,
  lists: Uint8Array[],
): Promise<void> {
  const { steps } = await stepsAfter(machine, hint.scheme, hint.base, signal)
  if (steps.length === 0) throw error
  for (const step of steps) {
    await advance(machine, hint, step)
    lists.push(step.list)
  }
}

async function attempt(
  machine: Machine,
  admission: Admission,
  hint: Hint,
  own: boolean,
): Promise<Omit<Finished, 'lists'>> {
  const { record, version, manifest } = hint
  const { hintId } = record
  const state = askedOf(hint)
  const provided = provide(machine, hint, own)
  if (provided !== undefined) await provided
  // Stored before anything is sent (S1), every time: the first attempt may have failed, or another tab may have finished it.
  const intended = intend(machine, hint, own)
  intended.catch(() => {}) // awaited below
  const requests = state.requests(manifest) // while the disk writes
  await intended
  await goSteps(machine.context, state) // work that an update has left, and that verifying needs
  const ways = waysOf(hint.scheme, record, machine.lookups)
  const first = ways.length > 1 ? { taken: false } : undefined
  const send = async (links: Links, way: number) => {
    const fence = await admission.admit(hint, way)
    await sendAll({
      first,
      manifest,
      requests,
      links,
      stats: machine.parts.stats,
      fence,
      onForged: party => condemn(machine, hintId, links[party]!.server.name),
      onVerdict: fence && (verdict => admission.heard(hint, way, fence.claim, verdict)),
    })
  }
  await byWays(ways, hint, requests, send)
  // Parities and permutations change together, in the core's memory and then in the store.
  const finished = applied(machine, hint, state)
  if (finished === undefined) {
    await condemn(machine, hintId, undefined)
    throw new TamperedError(
      undefined,
      'expected answers from the database that both servers agreed on, got a forged one; call reset()',
    )
  }
  await note(machine, hint, version, finished.effect)
  return { records: finished.records, missed: finished.missed ?? 0 }
}

/**
 * Sends the same bytes the next way, too, if the first fails or is late; but not after a lie, a refusal of its fence, or a newer epoch.
 * Servers that were late, and those whose fence does not know the hint, come last.
 */
async function byWays(
  ways: readonly Links[],
  { manifest, record, scheme }: Hint,
  requests: Requests,
  send: (links: Links, way: number) => Promise<void>,
): Promise<void> {
  if (ways.length === 1) return await send(ways[0]!, 0)
  const isFenced = ({ server }: Link) => scheme.fencedBy === undefined || record.fenced.includes(server.name)
  const { standing } = ways[0]![0]!
  const order = standing.order(ways.map(([link]) => link!))
  const left = [...order.filter(isFenced), ...order.filter(link => !isFenced(link))]
  const next = () => {
    const link = left.shift()
    if (link === undefined) return undefined
    const work = send(
      [link],
      ways.findIndex(([own]) => own === link),
    )
    return { work, pace: new Pace(link, bytesOf(requests)), late: () => standing.note(link, 'late') }
  }
  const isPassing = (error: ServerError) => !(error instanceof TamperedError || isAhead(error, manifest))
  await firstOf(order[0]!, next, isPassing)
}

function applied(machine: Machine, hint: Hint, state: AskedState): ReturnType<AskedState['finish']> {
  try {
    return state.finish()
  } catch (error) {
    machine.lose(hint)
    throw error
  }
}

/** The state of a hint that asks its parties. */
export function askedOf({ state }: Hint): AskedState {
  if (state.kind === 'asked') return state
  throw new StorageError('expected a stored state that asks servers, got another; call reset()')
}
