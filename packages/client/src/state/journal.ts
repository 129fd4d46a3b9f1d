// From memory to the store, around a lookup: its queries before anything is sent (S1), its effect in one step (S2).

import { StorageError } from '../base/errors.js'
import { StoreFailure } from '../store/storage.js'
import { StateMovedError, StateUnreadableError } from '../store/store.js'
import type { Hint } from './hint.js'
import type { Machine } from './machine.js'
import { rowsOf } from './rows.js'

/**
 * Has the pending lookup read the rows that judge its replies, before it is stored: a failure here causes no traffic.
 * Undefined: it needs none. Throws StateMovedError if another tab has written a checkpoint: the state has to be read anew.
 * `own`: the lookup was made just now, and is dropped on failure.
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
 * Stores the pending lookup of a hint. It is durable when this resolves; if this throws, nothing must be sent. `own`: the
 * lookup was made just now and has never been stored. Throws StateMovedError if the store refuses it, and drops it then.
 */
export async function intend(machine: Machine, hint: Hint, own: boolean): Promise<void> {
  const { state, record, version } = hint
  if (state.kind !== 'asked') return
  await machine.answering
  try {
    await machine.store.putPending(record.hintId, version, state.pendingBytes())
  } catch (error) {
    if (!machine.noteFailure(error)) {
      // Refused: it was not stored, and is not sent. A lookup that was stored before may be finished by now.
      if (own) state.withdraw()
      machine.doubt()
      throw error instanceof StateMovedError ? error : new StateMovedError('the state has to be read anew')
    }
    // It may be stored or not: the store is read anew. A store in memory is offered the same lookup again.
    if (machine.durable) machine.retire()
    throw error
  }
}

/**
 * Stores the effect of verified answers. The caller does not wait for it: its records are right in any case. Until the
 * effect is stored, the lookup is pending, and a tab that finds it sends the same bytes. The next lookup names the next
 * version, so the store refuses it unless the effect was stored before.
 */
export async function note(machine: Machine, hint: Hint, version: number, effect: Uint8Array): Promise<void> {
  const store = () => storeEffect(machine, hint, version, effect)
  if (!machine.durable) return await store()
  machine.answering = machine.parts.environment.pause()
  machine.settling = machine.answering.then(store)
}

async function storeEffect(machine: Machine, hint: Hint, version: number, effect: Uint8Array): Promise<void> {
  // Meanwhile another hint may take this one's place, and memory the store's.
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
