// Filters through random epochs. `npm run soak -- following --epochs 10000` follows more of them.

import { afterAll, expect, test } from 'vitest'
import { THOROUGH } from '../../support/thorough.js'
import { throughEpochs } from './filters.js'
import { leaveGrounds } from './stage.js'

afterAll(leaveGrounds)

const EPOCHS = THOROUGH ? 300 : 30

test.each([1, 2])(`no listed key is excluded, through ${EPOCHS} random epochs: seed %i`, async seed => {
  const { epochs, generations, kills } = await throughEpochs(seed, EPOCHS)
  expect(epochs).toBeGreaterThanOrEqual(EPOCHS)
  expect([generations, kills].every(count => count > 0)).toBe(true)
})
