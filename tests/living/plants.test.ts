// The model finds what it is there to find: every planted bug, within as many schedules as the product passes
// (living.test.ts).

import { expect, test } from 'vitest'
import { huntDown, PLANTS } from './plants.js'
import { SCHEDULES } from './schedules.js'

test.each(PLANTS)(`$name: found within ${SCHEDULES} schedules`, { timeout: 240_000 }, async plant => {
  const found = await huntDown(plant, SCHEDULES)
  if (process.env['SHOW']) console.log(plant.name, found?.seed, found?.violation.slice(0, 300))
  expect(found?.violation).toMatch(plant.shows)
})
