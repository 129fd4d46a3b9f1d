// The conformance suite as vitest tests.

import { describe, test } from 'vitest'
import { conformance, type Setup } from '../../src/testing/store.js'
import { runSchedules } from './schedules.js'

export function testConformance(name: string, setup: Setup, runs = 250): void {
  describe(`${name} store`, () => {
    test.each(conformance)('$name', async ({ run }) => {
      const bench = await setup()
      try {
        await run(bench)
      } finally {
        await bench.remove()
      }
    })

    test(`${runs} random schedules agree with the model`, async () => {
      await runSchedules(setup, { runs, seed: 20_261_120 })
    })
  })
}
