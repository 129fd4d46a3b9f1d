// The harness finds what it is there to find: every mutant, in the schedule that is known to. When the client changes, so
// do schedules: then another has to find it, and the test says which.

import { expect, test } from 'vitest'
import { MUTANTS } from './mutants.js'
import { simulate } from './simulate.js'

/** Those tried when the known one does not find it any more. */
const SCHEDULES = 500

test.each(MUTANTS)('a schedule finds the mutant: $name', async mutant => {
  const seeds = [mutant.seed, ...Array.from({ length: SCHEDULES }, (_, i) => i + 1)]
  for (const seed of seeds) {
    const { violation } = await simulate(seed, mutant)
    if (violation === undefined) continue
    expect(violation).toMatch(mutant.shows)
    if (seed !== mutant.seed) console.log(`${mutant.name}: no longer found by seed ${mutant.seed}, but by ${seed}`)
    return
  }
  expect.fail(`not found by seeds 1 to ${SCHEDULES}`)
})
