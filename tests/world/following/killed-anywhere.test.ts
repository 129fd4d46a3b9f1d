// The publisher is killed at its effects, in a run that begins a generation too, and runs again. Maps in all modes go on
// answering, and follow. `npm test` kills it at fewer.

import { afterAll, expect, test } from 'vitest'
import { THOROUGH } from '../../support/thorough.js'
import { everyMode, leaveGrounds, Stage } from './stage.js'

afterAll(leaveGrounds)

const STEP = THOROUGH ? 5 : 37

test.each([1, 2, 3] as const)('%i servers: killed at any effect, nobody is left behind', async servers => {
  const batch = (stage: Stage) => stage.growth()
  const effects = await Stage.play(
    { servers },
    async stage => {
      await stage.publish(batch(stage))
      return stage.world.publisher.effects
    },
    ['signed-answered'],
  )
  for (let killAt = 1; killAt <= effects; killAt += STEP) {
    await Stage.play({ servers, seed: killAt }, async stage => {
      const tabs = []
      for (const plan of everyMode(servers)) tabs.push(await stage.open(plan))
      const operations = batch(stage)
      await stage.run({ operations, killAt, lateMs: [undefined, 300, 5_000][killAt % 3] })
      for (const tab of tabs) await stage.get(tab)
      for (const plan of everyMode(servers)) await stage.done((await stage.open(plan)).close())
      await stage.publish(operations)
      await stage.pass(10_000)
      for (const tab of tabs) {
        expect([killAt, tab.map!.epoch]).toEqual([killAt, stage.newest])
        await stage.get(tab)
      }
    })
  }
})
