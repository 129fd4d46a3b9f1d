// A server that announces what is not there, and drips, does not hold up what the others announce.

import { afterAll, expect, test } from 'vitest'
import { leaveGrounds, Stage } from './stage.js'

afterAll(leaveGrounds)

test.each(['local', 'instant', 'full'] as const)(
  'mode %s: an epoch is followed in five seconds beside it',
  async mode => {
    await Stage.play({}, async stage => {
      const tab = await stage.open({ mode })
      for (let i = 0; i < 2; i++) {
        await stage.publish()
        await stage.server(0).become({ is: 'announces', ahead: 97, ...(mode === 'local' && { everyMs: 2_000 }) })
        await stage.pass(5_000)
        if (mode !== 'local') await stage.server(0).calm()
        expect(tab.map!.epoch).toBe(stage.newest)
      }
    })
  },
)

test.each(['local', 'instant', 'full'] as const)(
  'mode %s: it is not listened to, and others are asked nothing',
  async mode => {
    await Stage.play({}, async stage => {
      await stage.open({ mode })
      await stage.pass(10_000)
      const before = stage.world.seen.length
      await stage.server(0).become({ is: 'announces', ahead: 97 })
      await stage.pass(60_000)
      const asked = stage.world.seen.slice(before).filter(({ path }) => path !== '/v1/events')
      expect(asked.map(({ server, path }) => `${server.letter} ${path}`)).toEqual(['A /v1/info'])
    })
  },
)
