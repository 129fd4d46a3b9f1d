// One server that is killed under load, and its publisher: half a minute.

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { simulate } from './killed-server.js'

test('a server and a publisher that are killed give no wrong value, and lose no lookup and no epoch', async () => {
  const seed = randomInt(2 ** 31)
  console.log(`seed ${seed}`)
  const { epochs, killed, lookups } = await simulate(seed, 5, 150)
  expect(epochs).toBeGreaterThanOrEqual(5)
  expect(killed.server).toBeGreaterThan(0) // the publisher may have come to its end just before
  expect(Math.min(...Object.values(lookups))).toBeGreaterThan(0)
})
