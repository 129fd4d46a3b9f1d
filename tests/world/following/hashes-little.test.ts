// A made-up chain of manifests is not hashed whole: C5 of the findings.

import { afterAll, expect, test } from 'vitest'
import { leaveGrounds, Stage } from './stage.js'

afterAll(leaveGrounds)

test.each(['local', 'instant', 'single'] as const)(
  'mode %s: sixty invented epochs cost no more hashes than one',
  async mode => {
    await Stage.play({ servers: 3 }, async stage => {
      const tab = await stage.open({ mode, atLeast: 2, push: false })
      await stage.publish()
      const honest = await hashesOfSync()
      await stage.server(2).turn({ is: 'invents', manifests: 60 })
      await stage.publish()
      expect(await hashesOfSync()).toBeLessThan(honest + 8)

      async function hashesOfSync(): Promise<number> {
        const before = tab.hashed.calls
        await stage.done(tab.sync())
        expect(tab.map!.epoch).toBe(stage.newest)
        return tab.hashed.calls - before
      }
    })
  },
)
