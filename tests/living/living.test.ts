// The product against the model, on schedules drawn from seeds: lookups, batches, epochs that come to one server first,
// tabs, servers and machines that die at any moment, and always what a plain map says (world.ts). `npm run soak -- living`
// runs more of them.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { temporaryFolder } from '../support/servers.js'
import { type Foundation, layFoundations } from './databases.js'
import { SCHEDULES } from './schedules.js'
import { report, simulate } from './simulate.js'

/** What the schedules must have come across, lest they prove nothing. */
const MET = [
  ...['lookups: done', 'sync: done', 'reset: done', 'epochs', 'checks'],
  ...['publish', 'publish twice', 'publish under way', 'publish to one', 'publish slowly', 'publish what cannot be'],
  ...[
    'publish again',
    'publish a lot',
    'new generation',
    'kill a tab',
    'lose power',
    'freeze a tab',
    'hold back',
    'close a tab',
  ],
  ...['give up', 'restore a backup', 'kill a server', 'kill a server while it publishes', 'refuse'],
  ...['pending batches extended', 'queries sent again', 'queries sent again, at another epoch', 'requests lost'],
  ...['store: updatePartial', 'store: advance', 'store: putCheckpoint', 'store: readEntries', 'refused: advance'],
  ...['tabs killed while they write', 'tabs killed while they look up', 'power losses that undid something'],
  ...['resumed', 'updated', 'condemned', 'outdated history', 'outdated generation', 'discarded history'].map(
    event => `event: ${event}`,
  ),
]

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
    for (const [what, times] of outcome.counts) met.set(what, (met.get(what) ?? 0) + times)
  }
  if (process.env['SHOW']) console.log(Object.fromEntries([...met].sort()))
  expect(steps).toBeGreaterThan(100 * SCHEDULES)
  expect(MET.filter(what => !met.has(what))).toEqual([])
})
