// A server that says to come again in a second is asked again then, within the time that a call has.

import { afterAll, expect, test } from 'vitest'
import { get } from '../questions.js'
import { everyMode, leaveGrounds, named, Stage } from './stage.js'

afterAll(leaveGrounds)

test.each(everyMode(2).map(plan => [named(plan), plan] as const))(
  '%s: calls wait for a busy server',
  async (_name, plan) => {
    await Stage.play(
      {},
      async stage => {
        const tab = await stage.open(plan)
        for (const call of [() => tab.ask(get('key 1')), () => tab.sync(), () => stage.tab(plan).open()]) {
          for (const number of stage.all) await stage.server(number).become({ is: 'busy', seconds: 1 })
          stage.world.time.after(4_000, () => {
            for (const number of stage.all) void stage.server(number).calm()
          })
          expect(await stage.done(call())).toBeLessThan(8_000)
          await stage.pass(5_000)
        }
      },
      ['answered-soon'],
    )
  },
)
