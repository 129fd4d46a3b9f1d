// One server that is killed under load, and its publisher: a minute.

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { simulate } from './killed-server.js'

test('a server and a publisher that are killed give no wrong value, and lose no lookup and no epoch', async () => {
  const seed = randomInt(2 ** 31)
  console.log(`seed ${seed}`)
  const { epochs, killed, lookups } = await simulate(seed, 10, 300)
  expect(epochs).toBeGreaterThanOrEqual(10)
  expect(killed.server).toBeGreaterThan(1) // the publisher may have come to its end just before
  expect(Math.min(...Object.values(lookups))).toBeGreaterThan(0)
})
