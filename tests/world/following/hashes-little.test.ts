// A made-up chain of manifests is not hashed whole: C5 of the findings.

import { afterAll, expect, test } from 'vitest'
import type { Mood } from './servers.js'
import { leaveGrounds, Stage } from './stage.js'

afterAll(leaveGrounds)

const EPOCHS = 12

test.each(['local', 'single'] as const)('mode %s: sixty invented epochs are not hashed', async mode => {
  const honest = await hashesOfSync()
  expect(await hashesOfSync({ is: 'invents', manifests: 60 })).toBeLessThan(honest + 4)

  async function hashesOfSync(mood?: Mood): Promise<number> {
    return await Stage.play({ servers: 3 }, async stage => {
      const tab = await stage.open({ mode, atLeast: 2, push: false })
      for (let i = 0; i < EPOCHS; i++) await stage.publish()
      if (mood !== undefined) for (const number of [0, 1]) await stage.server(number).become(mood)
      const before = tab.hashed.calls
      await stage.done(tab.sync())
      expect(tab.map!.epoch).toBe(stage.newest)
      return tab.hashed.calls - before
    })
  }
})
