// Brings a hint to the next epoch (Fig. 6, UpdateHint), in memory and in the store. State, directory, manifest and pending
// lookup change in one transaction, with the journal entry that other tabs replay.

import { ROUNDS } from '../base/constants.js'
import { ProtocolError } from '../base/errors.js'
import type { Step } from '../servers/update-lists.js'
import { isMoved } from '../store/storage.js'
import { applied } from './applying.js'
import type { Hint } from './hint.js'
import { type Caller, type Machine, tooManyRestarts } from './machine.js'
import { current } from './restoring.js'
import { keepVerifier } from './verifier.js'

/** Applies those of `steps` that the hint has not applied yet. */
export async function apply(machine: Machine, steps: readonly Step[], caller: Caller): Promise<void> {
  for (let round = 1; round <= ROUNDS; round++) {
    const hint = machine.live ?? (await current(machine, caller))
    const next = steps.find(({ manifest }) => manifest.epoch > hint.manifest.epoch)
    if (next === undefined) return await keepVerifier(machine.store, hint)
    try {
      for (const step of steps.slice(steps.indexOf(next))) {
        if (step.manifest.epoch !== hint.manifest.epoch + 1) return
        await advance(machine, hint, step)
      }
    } catch (error) {
      if (!isMoved(error)) throw error
    }
  }
  throw tooManyRestarts()
}

/** Applies one step, in memory and in the store. After a ProtocolError nothing has changed. */
export async function advance(machine: Machine, hint: Hint, step: Step): Promise<void> {
  await machine.settling
  try {
    const { core, record, state, version } = hint
    const { bytes, signature } = step
    const foreseen = state.foresee?.(step)
    if (foreseen !== undefined) await foreseen
    const [entry, directory] = applied(core, hint, step, after => state.update(step, after))
    hint.moveTo(step, directory)
    const pending = state.kind === 'asked' && state.pending > 0 ? state.pendingBytes() : undefined
    const kept = machine.durable ? entry : new Uint8Array()
    const update = { entry: kept, manifest: bytes, signature, pending }
    const { journalBytes } = await machine.store.advance(record.hintId, version, update)
    machine.checkpoints.note(journalBytes)
  } catch (error) {
    if (error instanceof ProtocolError) throw error
    machine.noteFailure(error)
    machine.lose(hint)
    throw error
  }
  machine.movedTo(hint.manifest)
  machine.tellTabs()
}
