// S7: condemned is durable, in every tab and after every restart, until another hint is begun in its place.

import { equalBytes } from '@keyhush/protocol'
import { CondemnedError } from '../base/errors.js'
import { isOf, readHead } from './head.js'
import type { Hint } from './hint.js'
import type { Machine } from './machine.js'

/** Whoever condemns first names the culprit, here as in the store. Never throws. */
export async function condemn(machine: Machine, hintId: Uint8Array, culprit: string | undefined): Promise<void> {
  const { phase } = machine
  if (phase.is === 'condemned' && equalBytes(phase.hintId, hintId)) return
  machine.condemn(hintId, culprit, false)
  await store(machine)
}

/** The local state is at fault: nothing of it is used again. */
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
    // This tab keeps to it all the same, and the next call tries again. Until then the batch stays pending, so that
    // a later life of the page repeats it, byte for byte.
  }
}

/** Throws CondemnedError unless somebody has begun anew. */
export async function assertNotCondemned(machine: Machine): Promise<void> {
  const { phase } = machine
  if (phase.is !== 'condemned') return
  if (!phase.stored) await store(machine)
  const head = await readHead(machine, false).catch(() => undefined)
  if (head === undefined || isOf(head, phase.hintId)) throw new CondemnedError(phase.culprit)
  machine.pardon()
}
