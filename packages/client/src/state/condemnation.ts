// S7: a hint stays condemned, in every tab and after every restart, until another hint is begun in its place.

import { equalBytes } from '@keyhush/protocol'
import { CondemnedError } from '../base/errors.js'
import { isOf, readHead } from './head.js'
import type { Hint } from './hint.js'
import type { Machine } from './machine.js'

/** Condemns a hint, in memory and in the store. The first culprit named stays. Never throws. */
export async function condemn(machine: Machine, hintId: Uint8Array, culprit: string | undefined): Promise<void> {
  const { phase } = machine
  if (phase.is === 'condemned' && equalBytes(phase.hintId, hintId)) return
  machine.condemn(hintId, culprit, false)
  await store(machine)
}

/** Condemns a hint because the local state is at fault. */
export async function condemnForItself(machine: Machine, { record }: Hint): Promise<void> {
  await condemn(machine, record.hintId, undefined)
  machine.parts.announce({ type: 'condemned', server: undefined })
}

async function store(machine: Machine): Promise<void> {
  const { phase } = machine
  if (phase.is !== 'condemned') return
  const { hintId, culprit } = phase
  try {
    await machine.store.condemn(hintId, culprit)
    if (machine.phase === phase) machine.condemn(hintId, culprit, true)
  } catch {
    // This tab stays condemned, and the next call tries again. Until then the lookup stays pending in the store, so a later
    // life of the page sends the same bytes.
  }
}

/** Throws CondemnedError unless another hint was begun in its place. */
export async function assertNotCondemned(machine: Machine): Promise<void> {
  const { phase } = machine
  if (phase.is !== 'condemned') return
  if (!phase.stored) await store(machine)
  const head = await readHead(machine, false).catch(() => undefined)
  if (head === undefined || isOf(head, phase.hintId)) throw new CondemnedError(phase.culprit)
  machine.pardon()
}
