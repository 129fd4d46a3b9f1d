// Asks the servers for what they have now. Changes no state.

import { equalBytes } from '@keyhush/protocol'
import { ATTEMPTS } from '../base/constants.js'
import { ServerError } from '../base/errors.js'
import type { StatefulScheme } from '../scheme/scheme.js'
import { lookAt } from '../servers/folder.js'
import { greet } from '../servers/info.js'
import { type Agreed, isSame } from '../servers/manifests.js'
import { type Base, OutdatedError, pathTo } from '../servers/path.js'
import { assertNoFork, type Looking, type Target } from '../servers/target.js'
import { type Step, withLists } from '../servers/update-lists.js'
import type { Caller, Machine } from './machine.js'

/** How the servers are asked. */
export type How = Pick<Looking, 'heard' | 'patient'>

/** The epoch for a new state, signed if a publisher's key was given. */
export async function newest(machine: Machine, { signal }: Caller): Promise<Agreed> {
  const { mode, signing, atLeast } = machine.parts
  const needed = neededBy(machine, machine.known?.scheme ?? machine.schemeOf(mode))
  const greeting = greet(machine.downloads, machine.parts.environment, signal)
  let { at } = await look(machine, undefined, { needed, ...greeting }, signal)
  const asks = at !== undefined && machine.schemeFor(at.manifest).parties.length > 0
  if (asks && needed < atLeast) ({ at } = await look(machine, undefined, { needed: atLeast }, signal))
  if (at === undefined) throw machine.following.lag.error
  if (machine.manifest !== undefined) signing?.checkSuccession(machine.manifest, at.manifest)
  machine.show(at)
  return at
}

/** What leads on from an epoch. */
interface Steps {
  /** the epochs that updates lead to; none if the map stays where it is */
  readonly steps: readonly Step[]
  /** whether they end where the map should be; else ask again from the last */
  readonly isAll: boolean
}

/** Throws OutdatedError, ServersDisagreeError, SignatureError and the errors of single servers. */
export async function stepsAfter(
  machine: Machine,
  scheme: StatefulScheme,
  base: Base,
  signal: AbortSignal,
  asked: How = {},
): Promise<Steps> {
  const { following } = machine
  for (let attempt = 1; ; attempt++) {
    const { at, holders } = await look(machine, base, { needed: neededBy(machine, scheme), ...asked }, signal)
    machine.assertOffered(scheme, base)
    if (at === undefined) {
      if (machine.parts.signing && !(await machine.hasVouchedFor(base))) throw following.lag.error
      return { steps: [], isAll: true }
    }
    if (machine.parts.signing && (await machine.hasVouchedFor(base))) assertNoFork(following, base, at)
    if (await isAhead(machine, scheme, base, at)) {
      machine.show(base)
      return { steps: [], isAll: true }
    }
    try {
      const { path, next } = await pathTo(base, at, holders, following, signal)
      machine.vouchFor(base)
      // A copy that went on before its download would be stored without a signature, and not answer offline.
      const stays = path.length === 0 || (machine.parts.signing !== undefined && asksNobody(scheme))
      if (next === 'generation' && stays) throw new OutdatedError('generation')
      const steps = await withLists(path, holders, following, machine.parts.lists, signal)
      machine.show(steps.at(-1)!)
      return { steps, isAll: next === 'target' }
    } catch (error) {
      // No server has a list any more: they may have moved on meanwhile, and say so when they are asked again.
      const forgotten = error instanceof ServerError && error.refusal === 'not_found'
      // A folder has it later. A copy answers until then, but neither one that has expired nor a download that has not ended.
      const answers = machine.known !== undefined && isSame(machine.known.base, base)
      const waits = machine.hasFolder && answers && (await machine.needsNoServer())
      if (!forgotten || waits) throw error
      if (attempt === ATTEMPTS) throw new OutdatedError('history')
    }
  }
}

/** Whether a map at `base` is there already, or further. Throws SignatureError if it must not, and servers show only older epochs. */
async function isAhead(machine: Machine, scheme: StatefulScheme, base: Agreed, at: Agreed): Promise<boolean> {
  if (isSame(at, base)) return true
  const { signing } = machine.parts
  const isOlder = at.manifest.epoch < base.manifest.epoch
  if (!isOlder || !equalBytes(at.manifest.databaseId, base.manifest.databaseId)) return false
  // A map that has all records does with the signature that is stored.
  if (signing && asksNobody(scheme) && (await machine.hasVouchedFor(base))) signing.checkExpiry(base.manifest)
  else signing?.checkSuccession(base.manifest, at.manifest)
  return true
}

async function look(
  machine: Machine,
  base: Agreed | undefined,
  looking: Looking,
  signal: AbortSignal,
): Promise<Target> {
  return await lookAt(machine.following, base, { ...looking, notBefore: machine.manifest?.epoch }, signal)
}

/**
 * How many servers have to show the epoch of a state. Queries need agreement always: else publisher and one server could make answers fail
 * by key. A map that has all records asks nobody, so one server's is enough that the publisher has signed.
 */
function neededBy({ parts: { signing, atLeast } }: Machine, scheme: StatefulScheme | undefined): number {
  return signing !== undefined && scheme !== undefined && asksNobody(scheme) ? 1 : atLeast
}

function asksNobody({ parties }: StatefulScheme): boolean {
  return parties.length === 0
}
