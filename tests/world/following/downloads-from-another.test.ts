// A download that a server drips or breaks off is done by another one.

import { afterAll, expect, test } from 'vitest'
import { leaveGrounds, Stage } from './stage.js'

afterAll(leaveGrounds)

const MOODS = [
  { is: 'silent' },
  { is: 'drips', everyMs: 2_000, endless: false },
  { is: 'drips', everyMs: 400, endless: true },
  { is: 'breaks', after: 5 },
] as const

test.each(MOODS)(
  'mode local: a server that $is as the download begins delays it by three seconds at most',
  async mood => {
    await Stage.play(
      {},
      async stage => {
        const tab = stage.tab()
        const call = tab.open()
        // The pieces are being asked for.
        await stage.world.time.until(() => stage.world.seen.filter(({ path }) => path.includes('/blobs/')).length > 4)
        await stage.server(0).become(mood)
        expect(await stage.done(call)).toBeLessThan(6_500)
      },
      ['answered-soon'],
    )
  },
)

test.each(MOODS)('mode local: a new generation beside a server that $is', async mood => {
  await Stage.play({}, async stage => {
    const tab = await stage.open()
    await stage.publish(stage.growth())
    await stage.server(0).become(mood)
    await stage.pass(10_000)
    expect(tab.map!.epoch).toBe(stage.newest)
  })
})
