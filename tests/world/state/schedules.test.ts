// The client against the model, on schedules drawn from seeds: rules (a) to (g) of model.ts hold, whatever crashes, freezes, fails
// or lies, and whenever. `npm run soak` runs more schedules.

import { expect, test } from 'vitest'
import { THOROUGH } from '../../support/thorough.js'
import { type FaultProfile, noFaults } from './faults.js'
import { UNCHANGED } from './mutants.js'
import { report, simulate } from './simulate.js'

const SCHEDULES = THOROUGH ? 60 : 12

/** Further seeds that meet rare events. */
const RARE = [283, 671, 1062, 1900, 3676, 10771]
const MOST = 6000

/** Tabs that are killed while others have stored, and while servers publish: seldom met by chance. */
function* directed(): Generator<readonly [seed: number, FaultProfile]> {
  const { left } = noFaults({})
  const turns = { tabs: 2, locks: false, left: { ...left, calls: 3 } }
  for (let step = 130; step < 170; step++) yield [3, noFaults({ ...turns, ordained: { step, what: 'kill' } })]
  const published = { tabs: 3, misfortunes: 0.1, left: { ...left, calls: 12, kills: 20, publications: 3 } }
  for (let seed = 1; seed <= 40; seed++) yield [seed, noFaults(published)]
}

/** The events that the schedules of `npm run test:all` must meet; without them they prove nothing. */
const MET = [
  ...['begin', 'putPartial', 'complete', 'putPending', 'commit', 'condemn', 'putCheckpoint', 'read', 'readPartial'],
  ...['readHint', 'readEntries'],
].flatMap(method => [`store: ${method}`, `killed before: ${method} begins`, `killed before: ${method} is done`])

MET.push(
  ...[
    'query reaches',
    'answer of',
    'claim reaches',
    'verdict of',
    'info reaches',
    'manifest of an epoch reaches',
  ].flatMap(what => ['A', 'B'].map(server => `killed before: ${what} ${server}`)),
  ...['putPending', 'commit', 'begin', 'putPartial'].map(method => `refused: ${method}`),
  ...['resumed download false', 'resumed hint true', 'resumed hint false', 'condemned', 'storage memory failed'].map(
    event => `event: ${event}`,
  ),
  ...['unreadable', 'manifest'].map(reason => `event: discarded ${reason}`),
  ...['the disk is put back', 'refused by the fence', 'condemned for its past', 'condemned by a slander'],
  ...['refused by itself', 'refused behind an answer'],
  ...['finished for another tab that the fence refuses', 'opened with a lookup that could not be finished'],
  ...['sent again', 'sent again by another tab', 'locks taken away', 'power losses that undid something'],
)

test(`${SCHEDULES} schedules: the client does what the model allows`, async () => {
  const met = new Map<string, number>()
  const unmet = () => MET.filter(what => !met.has(what))
  const run = async (seed: number, faults?: FaultProfile) => {
    const outcome = await simulate(seed, UNCHANGED, faults)
    if (outcome.violation !== undefined) expect.fail(report(outcome))
    for (const [what, count] of outcome.counts) met.set(what, (met.get(what) ?? 0) + count)
  }
  for (let seed = 1; seed <= SCHEDULES; seed++) await run(seed)
  if (!THOROUGH) return
  for (const seed of RARE) await run(seed)
  for (const [seed, faults] of directed()) await run(seed, faults)
  for (let seed = SCHEDULES + 1; seed <= MOST && unmet().length > 0; seed++) await run(seed)
  expect(unmet()).toEqual([])
})
