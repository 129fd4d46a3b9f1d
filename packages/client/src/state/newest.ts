// Asks the servers for what they have now. Changes no state.

import { type Agreed, agree } from '../servers/manifests.js'
import { type Step, stepsAfter as stepsOf } from '../servers/update-lists.js'
import type { Machine, Watch } from './machine.js'

/** The manifest both servers show now, signed if a publisher's key was given. */
export async function newest(machine: Machine, { signal }: Watch): Promise<Agreed> {
  const { publisher, atLeast } = machine.parts
  const shown = await agree(machine.downloads, signal, atLeast)
  const agreed = (await publisher?.check(shown, machine.downloads, signal)) ?? shown
  if (machine.manifest !== undefined) publisher?.checkSuccession(machine.manifest, agreed.manifest)
  machine.show(agreed)
  return agreed
}

/** The epochs after `base` that both servers have; if a publisher's key was given, up to the newest signed one. */
export async function stepsAfter(machine: Machine, base: Agreed, signal: AbortSignal): Promise<Step[]> {
  const { core, publisher, stats, atLeast } = machine.parts
  const steps = await stepsOf(base, { core, links: machine.downloads, atLeast, publisher, stats }, signal)
  if (steps.length === 0 && publisher !== undefined && !machine.isShown(base)) {
    // A server that claims to be behind shows no signature. A map that has all records does with the stored one.
    const held = machine.known?.state.kind === 'held'
    if (held && (await machine.hasVouchedFor(base))) publisher.checkExpiry(base.manifest)
    else await publisher.check(base, machine.downloads, signal)
  }
  machine.show(steps.at(-1) ?? base)
  return steps
}
