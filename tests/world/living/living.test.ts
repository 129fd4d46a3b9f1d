// Client and servers against a plain map, on schedules drawn from seeds: lookups, batches, epochs that reach one server first, and
// tabs, servers and machines that die at any moment (world.ts). `npm run soak -- living` runs more schedules.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { THOROUGH } from '../../support/thorough.js'
import { Chance } from '../chance.js'
import { type Foundations, layFoundations } from './databases.js'
import { anyFaults, type FaultProfile } from './faults.js'
import { report, simulate } from './simulate.js'

/** Seeds of `npm test`. `npm run test:all` goes on until all rare events were met. */
const SEEDS = THOROUGH ? [17, 37, 61, 67] : [61]
const MOST = 60
const LOCAL_SEEDS = THOROUGH ? [16, 29, 30] : [29]
const SINGLE_SEEDS = THOROUGH ? [3, 16, 17] : [17]

/** The events that the schedules of `npm run test:all` must meet; without them they prove nothing. */
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
  ...['pending lookups extended', 'queries sent again', 'queries sent again, at another epoch', 'requests lost'],
  ...['store: updatePartial', 'store: advance', 'store: putCheckpoint', 'store: readEntries', 'refused: advance'],
  ...['tabs killed while they write', 'tabs killed while they look up', 'power losses that undid something'],
  ...['resumed', 'updated', 'condemned', 'outdated history', 'outdated generation', 'discarded history'].map(
    event => `event: ${event}`,
  ),
]

let laid: Foundations
beforeAll(async () => {
  laid = await layFoundations()
})
afterAll(() => laid.remove())

/** The events that schedules in mode local must meet. */
const MET_LOCALLY = [
  ...['lookups: done', 'sync: done', 'epochs', 'checks', 'publish twice', 'publish to one', 'new generation'],
  ...['kill a tab', 'lose power', 'restore a backup', 'store: updatePartial', 'store: advance', 'store: putCheckpoint'],
  ...['resumed', 'updated', 'outdated generation'].map(event => `event: ${event}`),
]

/** The events that schedules with one server must meet. */
const MET_ALONE = [
  ...['lookups: done', 'sync: done', 'reset: done', 'epochs', 'checks', 'new generation', 'restore a backup'],
  ...['kill a tab', 'lose power', 'freeze a tab', 'publish under way', 'queries sent again'],
  ...['queries sent again, at another epoch', 'pending lookups extended', 'store: advance', 'store: putCheckpoint'],
  ...['resumed', 'updated', 'outdated spent', 'outdated generation', 'condemned'].map(event => `event: ${event}`),
]

/** Runs those seeds, and with `npm run test:all` others until `met` is; how many steps that took. */
async function schedules(
  seeds: readonly number[],
  wanted: readonly string[],
  faultsOf: (seed: number) => FaultProfile | undefined,
): Promise<{ readonly steps: number; readonly met: ReadonlyMap<string, number> }> {
  const met = new Map<string, number>()
  const unmet = () => wanted.filter(what => !met.has(what))
  let steps = 0
  const run = async (seed: number) => {
    const faults = faultsOf(seed)
    const outcome = await simulate(seed, { ...laid, ...(faults && { faults }) })
    if (outcome.violation !== undefined) expect.fail(report(outcome))
    steps += outcome.steps
    for (const [what, times] of outcome.counts) met.set(what, (met.get(what) ?? 0) + times)
  }
  for (const seed of seeds) await run(seed)
  if (THOROUGH) {
    for (let seed = 1; seed <= MOST && unmet().length > 0; seed++) if (!seeds.includes(seed)) await run(seed)
    expect(unmet()).toEqual([])
  }
  return { steps, met }
}

test(`${SEEDS.length} schedules: every lookup says what the plain map says`, async () => {
  const { steps } = await schedules(SEEDS, MET, () => undefined)
  expect(steps).toBeGreaterThan(100 * SEEDS.length)
})

test(`${LOCAL_SEEDS.length} schedules, mode local: nothing leaves for a lookup, and nothing is condemned`, async () => {
  const { met } = await schedules(LOCAL_SEEDS, MET_LOCALLY, seed => ({ ...anyFaults(new Chance(seed)), mode: 'local' }))
  expect([...met.keys()].filter(what => /queries|condemned/.test(what))).toEqual([])
})

test(`${SINGLE_SEEDS.length} schedules, mode single: two servers that may be one party, and hints that run out`, async () => {
  await schedules(SINGLE_SEEDS, MET_ALONE, seed => ({
    ...anyFaults(new Chance(seed)),
    ...{ mode: 'single', rows: seed % 2 === 1 },
  }))
})
