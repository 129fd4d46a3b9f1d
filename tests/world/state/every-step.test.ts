// A fault at each third step of opening a map and three lookups: the tab is killed, or frozen beside another, the power fails,
// or an older disk is restored. The next tab is in order, or the fence refuses it before it shows a column twice.

import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../support/thorough.js'
import { type FaultProfile, noFaults } from './faults.js'
import { UNCHANGED } from './mutants.js'
import { report, simulate } from './simulate.js'

/** Odd, so that steps of all kinds come by. */
const EVERY = THOROUGH ? 3 : 47

describe.each<[string, Partial<FaultProfile>]>([
  ['one tab', { tabs: 1 }],
  ['two tabs that take turns', { tabs: 2 }],
  ['two tabs without locks', { tabs: 2, locks: false }],
  ['one tab that waits for the fence', { tabs: 1, rollback: 'strict' }],
])('%s', (_, situation) => {
  test.each(['kill', 'freeze', 'power loss', 'rollback'] as const)('%s', async what => {
    const steps = (await simulate(1, UNCHANGED, noFaults(situation))).faultySteps
    expect(steps).toBeGreaterThan(50)
    for (let step = 2; step <= steps; step += EVERY) {
      const outcome = await simulate(1, UNCHANGED, noFaults({ ...situation, ordained: { step, what } }))
      if (outcome.violation !== undefined) expect.fail(`at step ${step}: ${report(outcome)}`)
    }
  })
})
