// One schedule, by its seed.

import { report as reportOf, Violation } from '../simulation.js'
import type { FaultProfile } from './faults.js'
import { type Mutant, UNCHANGED } from './mutants.js'
import { World } from './world.js'

export interface Outcome {
  readonly seed: number
  /** undefined: nothing was wrong */
  readonly violation: string | undefined
  /** before the calm at the end */
  readonly faultySteps: number
  /** what happened how often */
  readonly counts: ReadonlyMap<string, number>
  /** what happened, one line each */
  readonly trace: readonly string[]
}

/** The same seed, mutant and faults: the same schedule. */
export async function simulate(seed: number, mutant: Mutant = UNCHANGED, faults?: FaultProfile): Promise<Outcome> {
  const world = new World(seed, mutant, faults)
  const violation = await world.run().then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof Violation) return error.message
      throw error
    },
  )
  const { faultySteps, counts, trace } = world
  return { seed, violation, faultySteps, counts, trace }
}

/** What was wrong, and what led to it. */
export function report(outcome: Outcome): string {
  return reportOf(outcome, `npm run soak -- --seed ${outcome.seed} shows all of it`)
}
