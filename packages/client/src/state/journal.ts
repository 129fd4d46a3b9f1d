// From memory to the store, around a lookup: its intent before anything leaves (S1), its effect in one step (S2).

import { StorageError } from '../base/errors.js'
import { StoreFailure } from '../store/storage.js'
import { StateMovedError, StateUnreadableError } from '../store/store.js'
import type { Hint } from './hint.js'
import type { Machine } from './machine.js'
import { rowsOf } from './rows.js'

/**
 * Has the pending batch read what judging its replies takes, before it is stored or anything of it leaves: whatever fails here
 * fails without traffic. Undefined: nothing is to be read. Throws StateMovedError where another tab has written a checkpoint:
 * the state is to be read anew. `own`: the batch was made just now, and is forgotten.
 */
export function provide(machine: Machine, hint: Hint, own: boolean): Promise<void> | undefined {
  const { state } = hint
  if (state.kind !== 'asked') return undefined
  return state.provide?.(rowsOf(machine.store, hint))?.catch((error: unknown) => {
    if (own) state.withdraw()
    if (error instanceof StateMovedError) machine.retire()
    else machine.noteFailure(error)
    if (!(error instanceof StateUnreadableError)) throw error
    throw new StorageError(
      'a stored row of tags is lost or damaged; call reset(), or discardState() where open() fails',
      { cause: error },
    )
  })
}

/**
 * Stores the pending batch of a hint. Durable when it resolves; if it throws, nothing is to be sent. `own`: it was made
 * just now, and has never been stored. Throws StateMovedError if the store refuses it: then it is forgotten here.
 */
export async function intend(machine: Machine, hint: Hint, own: boolean): Promise<void> {
  const { state, record, version } = hint
  if (state.kind !== 'asked') return
  await machine.answering
  try {
    await machine.store.putPending(record.hintId, version, state.pendingBytes())
  } catch (error) {
    if (!machine.noteFailure(error)) {
      // Refused: it was not stored, and will not be sent. A batch that was stored before may be finished by now.
      if (own) state.withdraw()
      machine.doubt()
      throw error instanceof StateMovedError ? error : new StateMovedError('the state has to be read anew')
    }
    // Stored or not: the store decides, when it can be asked. A batch in memory alone is offered to it again.
    if (machine.durable) machine.retire()
    throw error
  }
}

/**
 * The answers are verified, so this call's records are right, whatever becomes of the effect; the caller does not
 * wait for it, and has the thread first. Until it is stored, the batch is pending in the store, and whoever finds it sends the
 * same bytes. An intent that follows at once is refused unless the effect was stored before it: its version tells.
 */
export async function note(machine: Machine, hint: Hint, version: number, effect: Uint8Array): Promise<void> {
  const store = () => storeEffect(machine, hint, version, effect)
  if (!machine.durable) return await store()
  machine.answering = machine.parts.environment.pause()
  machine.settling = machine.answering.then(store)
}

async function storeEffect(machine: Machine, hint: Hint, version: number, effect: Uint8Array): Promise<void> {
  // By the time it is done, another hint may have taken this one's place, and memory the store's.
  const { store } = machine
  try {
    const { journalBytes } = await store.commit(hint.record.hintId, version, effect)
    if (machine.store !== store) return
    machine.checkpoints.note(journalBytes)
    machine.noteSuccess()
  } catch (error) {
    if (machine.store === store) machine.noteFailure(error)
    if (machine.known === hint) machine.lose(hint)
    if (!store.durable && error instanceof StoreFailure) throw error
  }
}
