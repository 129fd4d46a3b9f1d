// One epoch costs an open page four requests to two servers at most, lookups aside: W12 of the findings.

import { afterAll, expect, test } from 'vitest'
import { everyMode, leaveGrounds, named, Stage } from './stage.js'

afterAll(leaveGrounds)

const CASES = everyMode(2).flatMap(plan =>
  [{}, { publisherKey: undefined }].map(key => [named({ ...plan, ...key }), { ...plan, ...key }] as const),
)

test.each(CASES)('%s: at most four requests an epoch', async (_name, plan) => {
  await Stage.play({}, async stage => {
    const tab = await stage.open(plan)
    await stage.get(tab)
    await stage.pass(20_000)
    for (let i = 0; i < 3; i++) {
      const before = stage.world.seen.length
      await stage.publish()
      await stage.pass(10_000)
      expect(tab.map!.epoch).toBe(stage.server(0).epoch)
      const asked = stage.world.seen.slice(before).filter(({ path }) => !/answer|instant|events/.test(path))
      expect(asked.map(({ path, server }) => `${server.letter} ${path}`).length).toBeLessThanOrEqual(4)
    }
  })
})
