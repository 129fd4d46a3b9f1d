// What `npm run test:all` takes out of the sources is there. Here, since whoever moves a line runs `npm test`.

import { expect, test } from 'vitest'
import { MUTANTS as FOLLOWING } from './following/mutants.js'
import { MUTANTS as LIVING, mutated } from './living/mutants.js'

test.each([...LIVING, ...FOLLOWING])('$name: its place is in the sources', async mutant => {
  expect(await mutated(mutant)).toContain(mutant.replace)
})
