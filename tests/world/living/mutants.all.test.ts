// The model notices every mutant, in a known schedule. When client or servers change, schedules change; then the test looks for
// another one and prints its seed.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { Compiler, MUTANTS } from './mutants.js'

/** Schedules to try when the known one does not find it any more. */
const SCHEDULES = 40

let compiler: Compiler
beforeAll(async () => {
  compiler = await Compiler.start()
})
afterAll(() => compiler.close())

test.each(MUTANTS)('a schedule finds the mutant: $name', async mutant => {
  const found = await compiler.huntDown(mutant, SCHEDULES)
  expect(found?.violation).toMatch(mutant.shows)
  if (found!.seed !== mutant.seed) {
    console.log(`${mutant.name}: no longer found by seed ${mutant.seed}, but by ${found!.seed}`)
  }
})
