// A server that deviates at will, in every mode, and as many of several as may deviate (support/deviating.ts).

import { describe } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { deviate, plain } from './support/deviating.js'

deviate(['instant', 'full', 'auto', 'auto full', 'single tolerated'], THOROUGH ? 20 : 1)

describe.each([
  [3, 3],
  [3, 2],
  [5, 3],
  [5, 4],
  [8, 5],
])('of %i servers at least %i', (servers, atLeast) => {
  const timeoutMs = Number.POSITIVE_INFINITY // until requests give up
  deviate(['instant'], THOROUGH ? 30 : 3, { epochs: plain, servers, atLeast, timeoutMs })
})
