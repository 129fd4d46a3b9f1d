import { afterAll, beforeAll, expect, test } from 'vitest'
import { temporaryFolder } from '../support/servers.js'
import { type Foundation, layFoundations } from './databases.js'
import { SCHEDULES } from './schedules.js'
import { report, simulate } from './simulate.js'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let foundations: readonly Foundation[]
beforeAll(async () => {
  folder = await temporaryFolder()
  foundations = await layFoundations(folder.path)
})
afterAll(async () => {
  for (const { dataset } of foundations) dataset.close()
  await folder.remove()
})

test(`${SCHEDULES} schedules`, { timeout: 300_000 }, async () => {
  const met = new Map<string, number>()
  let steps = 0
  for (let seed = 1; seed <= SCHEDULES; seed++) {
    const outcome = await simulate(seed, { foundations, folder: folder.path })
    if (outcome.violation !== undefined) expect.fail(report(outcome))
    steps += outcome.steps
    for (const [what, count] of outcome.counts) met.set(what, (met.get(what) ?? 0) + count)
  }
  console.log(steps, Object.fromEntries([...met].sort()))
})
