// A new hint in place of whatever there is: asked for by reset(), or needed because no update leads on.

import { equalBytes, type Manifest } from '@keyhush/protocol'
import { ROUNDS } from '../base/constants.js'
import { StorageError } from '../base/errors.js'
import { readManifest } from '../servers/manifests.js'
import { OutdatedError } from '../servers/updates.js'
import { isMoved } from '../store/storage.js'
import { type StateHead, StateMovedError } from '../store/store.js'
import { assertNotCondemned } from './condemnation.js'
import { type Draft, newDraft } from './draft.js'
import { isOf, readHead } from './head.js'
import type { Hint } from './hint.js'
import type { Machine, Watch } from './machine.js'
import { current } from './restoring.js'
import { useRows } from './sweeping.js'

/** A new hint in place of whatever there is; if it fails, everything is as it was. */
export async function replace(machine: Machine, watch: Watch): Promise<void> {
  await machine.settling
  await machine.fallBackIfFailing()
  await install(machine, await prepare(machine, watch), watch)
}

/** Fetches a new hint, and leaves everything as it is. It is to be installed, or freed. */
export async function prepare(machine: Machine, watch: Watch): Promise<Draft> {
  for (;;) {
    const draft = await newDraft(machine, watch, await useRows(machine, watch.signal))
    try {
      await draft.fetch(watch, false)
      return draft
    } catch (error) {
      draft.free()
      if (!(error instanceof OutdatedError)) throw error
    }
  }
}

/** Which hint a new one is made beside: undefined, whichever there is. */
export interface Beside {
  readonly replaces: Uint8Array | undefined
}

/**
 * Puts a hint that was prepared in place of whatever there is, a condemned one, too. `beside`: but not of that, which only its
 * owner ends (S7), nor of one as new, which another tab has put there meanwhile; then that one is used. However new, that of
 * `beside` makes way. Throws CondemnedError.
 */
export async function install(machine: Machine, draft: Draft, watch: Watch, beside?: Beside): Promise<void> {
  try {
    await machine.settling
    if (beside !== undefined) await assertNotCondemned(machine)
    watch.progress.phase('ready') // all that can be called off is done
    watch.signal.throwIfAborted()
    const hint = await installed(machine, draft, watch.signal, beside)
    machine.retire()
    machine.pardon()
    machine.movedTo(hint.manifest)
    machine.adopt(hint, 0)
    machine.tellTabs()
  } catch (error) {
    draft.free()
    machine.noteFailure(error)
    // Another tab has begun anew even later: its hint is as new as ours would have been.
    if (!isMoved(error)) throw error
    await current(machine, watch)
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
      // Whatever happens from here on, the store is asked before the old hint is used again; in memory it has nothing to say.
      if (machine.durable) machine.doubt()
      const head = await readHead(machine, false)
      // Refused, although nothing else was put there.
      if (round > 1 && beside === undefined && (before === undefined ? head === undefined : isOf(head, before))) {
        throw new StorageError('what was prepared has been swept up, as of a page that is gone; call reset() again')
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

/** Discards the hint in memory, which no update leads on from, and begins anew, unless another tab has already. */
export async function startOver(machine: Machine, reason: OutdatedError['reason'], watch: Watch): Promise<void> {
  await machine.settling
  const record = machine.known?.record
  machine.retire()
  machine.outdated = record && { record, reason }
  await current(machine, watch)
}

/** Whether what is stored is another hint that can be used, of this very database, and no older than that. */
function isAsNew(head: StateHead | undefined, { databaseId, epoch }: Manifest, { replaces }: Beside): boolean {
  if (head?.stage !== 'whole' || head.condemned !== undefined) return false
  if (replaces !== undefined && isOf(head, replaces)) return false
  const stored = readManifest(head.record.manifest)
  return stored !== undefined && equalBytes(stored.databaseId, databaseId) && stored.epoch >= epoch
}
