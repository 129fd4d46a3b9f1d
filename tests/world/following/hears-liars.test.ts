// A server that announces what is not there, and drips, does not hold up what the others announce: C6 of the findings.

import { afterAll, expect, test } from 'vitest'
import { leaveGrounds, Stage } from './stage.js'

afterAll(leaveGrounds)

test.each(['local', 'instant', 'full'] as const)(
  'mode %s: an epoch is followed in five seconds beside it',
  async mode => {
    await Stage.play({}, async stage => {
      const tab = await stage.open({ mode })
      await stage.server(0).turn({ is: 'announces', ahead: 97 })
      await stage.pass(1_000)
      if (mode === 'local') await stage.server(0).turn({ is: 'drips', everyMs: 2_000, endless: true })
      await stage.pass(5_000)
      await stage.server(0).calm()
      await stage.publish()
      if (mode === 'local') await stage.server(0).turn({ is: 'drips', everyMs: 2_000, endless: true })
      await stage.pass(5_000)
      expect(tab.map!.epoch).toBe(stage.newest)
    })
  },
)
