// Schedules until one shows something wrong. Loaded anew for every planted bug (plants.ts).

import { temporaryFolder } from '../support/servers.js'
import { layFoundations } from './databases.js'
import { simulate } from './simulate.js'

/** The first seed that shows it, and what it shows. */
export async function hunt(schedules: number): Promise<{ seed: number; violation: string } | undefined> {
  const folder = await temporaryFolder()
  const foundations = await layFoundations(folder.path)
  try {
    for (let seed = 1; seed <= schedules; seed++) {
      const { violation } = await simulate(seed, { foundations, folder: folder.path })
      if (violation !== undefined) return { seed, violation }
    }
    return undefined
  } finally {
    for (const { dataset } of foundations) dataset.close()
    await folder.remove()
  }
}
