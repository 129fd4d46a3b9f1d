// Runs schedules until one breaks a rule. Loaded anew for every mutant (mutants.ts).

import { join } from 'node:path'
import { Chance } from '../chance.js'
import { layFoundations } from './databases.js'
import { anyFaults, type FaultProfile } from './faults.js'
import { simulate } from './simulate.js'

/** The first seed that shows it, and what it shows. */
export async function hunt(
  seeds: readonly number[],
  mode?: FaultProfile['mode'],
  rows = false,
): Promise<{ seed: number; violation: string } | undefined> {
  const { foundations, folder, remove } = await layFoundations()
  try {
    for (const [i, seed] of seeds.entries()) {
      const faults = mode && { ...anyFaults(new Chance(seed)), mode, rows }
      const setting = { foundations, folder: join(folder, `${i}`), ...(faults && { faults }) }
      const { violation } = await simulate(seed, setting)
      if (violation !== undefined) return { seed, violation }
    }
    return undefined
  } finally {
    await remove()
  }
}
