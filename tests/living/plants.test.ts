// The model finds what it is there to find: every planted bug, within some dozens of schedules.

import { expect, test } from 'vitest'
import { huntDown, PLANTS } from './plants.js'

/** The rarest is met in the 29th. */
const SCHEDULES = 40

test.each(PLANTS)(`$name: found within ${SCHEDULES} schedules`, { timeout: 240_000 }, async plant => {
  const found = await huntDown(plant, SCHEDULES)
  if (process.env['SHOW']) console.log(plant.name, found?.seed, found?.violation.slice(0, 300))
  expect(found?.violation).toMatch(plant.shows)
})
