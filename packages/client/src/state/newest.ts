// What the servers have now, asked without touching any state.

import { type Agreed, agree } from '../servers/manifests.js'
import { type Step, stepsAfter as stepsOf } from '../servers/update-lists.js'
import type { Machine, Watch } from './machine.js'

/** What both servers agree on, now, and the publisher vouches for, if that is asked. */
export async function newest(machine: Machine, { signal }: Watch): Promise<Agreed> {
  const { publisher } = machine.parts
  const shown = await agree(machine.downloads, signal)
  const agreed = (await publisher?.check(shown, machine.downloads, signal)) ?? shown
  if (machine.manifest !== undefined) publisher?.checkSuccession(machine.manifest, agreed.manifest)
  machine.show(agreed)
  return agreed
}

/** The epochs after `base` that both servers have, as far as they are signed, if that is asked. */
export async function stepsAfter(machine: Machine, base: Agreed, signal: AbortSignal): Promise<Step[]> {
  const { core, publisher, stats } = machine.parts
  const steps = await stepsOf(base, { core, links: machine.downloads, publisher, stats }, signal)
  if (steps.length === 0 && !machine.isShown(base)) await publisher?.check(base, machine.downloads, signal)
  machine.show(steps.at(-1) ?? base)
  return steps
}
