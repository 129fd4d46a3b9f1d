// Replicas that are killed under load while epochs turn. `npm test` leaves it to `npm run soak -- tests`: it takes half a minute.

import { expect, test } from 'vitest'
import { THOROUGH } from '../support/thorough.js'
import { simulate } from './simulate.js'

test.runIf(THOROUGH)(
  'of three replicas and a writer that are killed nobody gives a wrong record, loses a lookup or passes the fence',
  { timeout: 300_000 },
  async () => {
    const outcome = await simulate(1, 10)
    expect(outcome.epochs).toBeGreaterThanOrEqual(10)
    expect(Math.min(outcome.kills, outcome.lookups, outcome.raced)).toBeGreaterThan(0)
  },
)
