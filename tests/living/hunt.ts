// Schedules until one shows something wrong. Loaded anew for every mutant (mutants.ts).

import { join } from 'node:path'
import { temporaryFolder } from '../support/servers.js'
import { layFoundations } from './databases.js'
import { simulate } from './simulate.js'

/** The first seed that shows it, and what it shows. */
export async function hunt(seeds: readonly number[]): Promise<{ seed: number; violation: string } | undefined> {
  const folder = await temporaryFolder()
  const foundations = await layFoundations(folder.path)
  try {
    for (const [i, seed] of seeds.entries()) {
      const { violation } = await simulate(seed, { foundations, folder: join(folder.path, `${i}`) })
      if (violation !== undefined) return { seed, violation }
    }
    return undefined
  } finally {
    for (const { dataset } of foundations) dataset.close()
    await folder.remove()
  }
}
