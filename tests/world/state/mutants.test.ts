// The model notices every mutant, in a known schedule. When the client changes, schedules change; then the test looks for another
// one and prints its seed.

import { expect, test } from 'vitest'
import { MUTANTS } from './mutants.js'
import { simulate } from './simulate.js'

/** Schedules to try when the known one does not find it any more. */
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
