// Replicas that are killed under load while epochs are made: half a minute.

import { expect, test } from 'vitest'
import { simulate } from './killed-replicas.js'

test('three replicas and a writer that are killed give no wrong record, lose no lookup, and keep the fence', async () => {
  const outcome = await simulate(1, 10)
  expect(outcome.epochs).toBeGreaterThanOrEqual(10)
  expect(Math.min(outcome.kills, outcome.lookups, outcome.raced)).toBeGreaterThan(0)
})
