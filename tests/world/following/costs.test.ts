// What an epoch costs: four requests of an open page to two servers at most, lookups aside. And a made-up chain of
// manifests is not hashed whole (C5).

import { afterAll, expect, test } from 'vitest'
import type { Mood } from './servers.js'
import { everyMode, leaveGrounds, named, Stage } from './stage.js'

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
      // A server whose line comes while another's look asks it is asked twice for what it shows: by one seed in five.
      expect(new Set(asked.map(({ path, server }) => `${server.letter} ${path}`)).size).toBeLessThanOrEqual(4)
    }
  })
})
