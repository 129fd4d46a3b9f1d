// The head of what is stored, and making room for another state.

import { equalBytes } from '@keyhush/protocol'
import { type StateHead, StateMovedError, StateUnreadableError } from '../store/store.js'
import type { Caller, Machine } from './machine.js'
import { newest } from './newest.js'

/** Whether a head is of this hint. */
export function isOf(head: StateHead | undefined, hintId: Uint8Array): boolean {
  return head !== undefined && equalBytes(head.record.hintId, hintId)
}

/** Why stored state is not used. */
export type Discarding = 'unreadable' | 'servers' | 'mode' | 'history' | 'generation' | 'manifest' | 'spent' | 'offer'

/** The head; undefined if there is none or it is unreadable. `discarding`: an unreadable state is removed. */
export async function readHead(machine: Machine, discarding: boolean): Promise<StateHead | undefined> {
  try {
    return await machine.store.read()
  } catch (error) {
    if (!(error instanceof StateUnreadableError)) throw error
    if (discarding) {
      await machine.store.discard(undefined)
      machine.parts.announce({ type: 'discarded', reason: 'unreadable' })
      machine.retire()
    }
    return undefined
  }
}

/** Throws StateMovedError if another tab has moved the state on since `head` was read. */
export async function assertUnmoved(machine: Machine, { record, version, stage }: StateHead): Promise<void> {
  const head = await readHead(machine, false)
  const same = isOf(head, record.hintId) && head?.version === version && head.stage === stage
  if (!same) throw new StateMovedError('another tab has moved the state on')
}

/** Makes room for a new hint, which is to replace the result. */
export async function discard(
  machine: Machine,
  head: StateHead,
  reason: Discarding,
  caller: Caller,
): Promise<Uint8Array | undefined> {
  const { hintId } = head.record
  // With a publisher's key, what this map has seen must not be forgotten because servers show an older database or
  // another one. First they have to show a signed manifest that may follow.
  if (machine.parts.signing !== undefined && machine.manifest !== undefined) await newest(machine, caller)
  // Such a state, and a condemned one, stay until another is begun in their place: if the servers break off, the epoch it
  // had seen, or its condemnation, must not be forgotten.
  const stays = head.condemned !== undefined || machine.parts.signing !== undefined
  if (!stays) await machine.store.discard(hintId)
  machine.parts.announce({ type: 'discarded', reason })
  return stays ? hintId : undefined
}
