// A new hint in place of the stored one: for reset(), or because no update leads on.

import { equalBytes, type Manifest } from '@keyhush/protocol'
import { REPLACED_A_CALL, ROUNDS } from '../base/constants.js'
import { StorageError } from '../base/errors.js'
import { readManifest } from '../servers/manifests.js'
import { OutdatedError } from '../servers/path.js'
import { isMoved } from '../store/storage.js'
import { type StateHead, StateMovedError } from '../store/store.js'
import { assertNotCondemned } from './condemnation.js'
import { type Draft, newDraft } from './draft.js'
import { isOf, readHead } from './head.js'
import type { Hint } from './hint.js'
import { type Caller, type Machine, replacedTooOften } from './machine.js'
import { current } from './restoring.js'
import { useRows } from './sweeping.js'

/** Puts a new hint in place of any other. If it fails, everything is as it was. */
export async function replace(machine: Machine, caller: Caller): Promise<void> {
  await machine.settling
  await machine.fallBackIfFailing()
  await install(machine, await prepare(machine, caller), caller)
}

/** Downloads a new hint beside the stored one. The caller installs or frees it. */
export async function prepare(machine: Machine, caller: Caller): Promise<Draft> {
  for (let round = 0; ; round++) {
    const draft = await newDraft(machine, caller, await useRows(machine, caller.signal))
    try {
      await draft.fetch(caller, false)
      return draft
    } catch (error) {
      draft.free()
      if (!(error instanceof OutdatedError)) throw error
      if (round === REPLACED_A_CALL) throw replacedTooOften()
    }
  }
}

/** The new hint is made beside one in use, which is `replaces`, or any if that is undefined. */
export interface Beside {
  readonly replaces: Uint8Array | undefined
}

/**
 * Puts a prepared hint in place of any other, even a condemned one. With `beside` it does not replace a condemned hint,
 * which only reset() may (S7), nor one as new that another tab has put there meanwhile: that one is used then. The hint of
 * `beside` is replaced however new it is. Throws CondemnedError.
 */
export async function install(machine: Machine, draft: Draft, caller: Caller, beside?: Beside): Promise<void> {
  try {
    await machine.settling
    if (beside !== undefined) await assertNotCondemned(machine)
    caller.progress.phase('ready') // from here on it cannot be called off
    caller.signal.throwIfAborted()
    const hint = await installed(machine, draft, caller.signal, beside)
    machine.retire()
    machine.pardon()
    machine.movedTo(hint.manifest)
    machine.adopt(hint, 0)
    machine.tellTabs()
  } catch (error) {
    draft.free()
    machine.noteFailure(error)
    // Another tab has begun anew meanwhile: its hint is as new as ours would have been.
    if (!isMoved(error)) throw error
    await current(machine, caller)
  }
}

async function installed(
  machine: Machine,
  draft: Draft,
  signal: AbortSignal,
  beside: Beside | undefined,
): Promise<Hint> {
  try {
    let before: Uint8Array | undefined
    for (let round = 1; ; round++) {
      // From here on a durable store has to be asked before the old hint is used again.
      if (machine.durable) machine.doubt()
      const head = await readHead(machine, false)
      // Refused, although no other hint was put there.
      if (round > 1 && beside === undefined && (before === undefined ? head === undefined : isOf(head, before))) {
        throw new StorageError('expected the prepared state, but it was removed as left over; call reset() again')
      }
      before = head?.record.hintId
      if (beside !== undefined && head?.condemned !== undefined)
        throw new StateMovedError('another tab has condemned it')
      if (beside !== undefined && isAsNew(head, draft.manifest, beside))
        throw new StateMovedError('another tab has begun anew')
      try {
        await draft.begin(head?.record.hintId, signal)
        return await draft.complete()
      } catch (error) {
        if (draft.finished || !isMoved(error) || round === ROUNDS) throw error
      }
    }
  } finally {
    draft.free()
  }
}

/** Drops the hint in memory, from which no update leads on, and begins anew unless another tab already has. */
export async function startOver(machine: Machine, reason: OutdatedError['reason'], caller: Caller): Promise<void> {
  await machine.settling
  const record = machine.known?.record
  machine.retire()
  machine.outdated = record && { record, reason }
  await current(machine, caller)
}

/** Whether the store has another usable hint of the same database, and no older one. */
function isAsNew(head: StateHead | undefined, { databaseId, epoch }: Manifest, { replaces }: Beside): boolean {
  if (head?.stage !== 'whole' || head.condemned !== undefined) return false
  if (replaces !== undefined && isOf(head, replaces)) return false
  const stored = readManifest(head.record.manifest)
  return stored !== undefined && equalBytes(stored.databaseId, databaseId) && stored.epoch >= epoch
}
