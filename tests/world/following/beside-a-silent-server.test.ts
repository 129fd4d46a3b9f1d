// With fewer silent servers than may be missing, calls succeed, and soon once it is known who is silent: C1 and C2 of the findings.

import { afterAll, expect, test } from 'vitest'
import { everyMode, leaveGrounds, named, Stage, sampled } from './stage.js'

afterAll(leaveGrounds)

const SOON_MS = 3_500
const SILENT = [{ is: 'silent' }, { is: 'drips', everyMs: 2_000, endless: true }, { is: 'breaks', after: 40 }] as const
const CASES = everyMode(3).flatMap(plan =>
  [{}, { publisherKey: undefined }].flatMap(key =>
    SILENT.map(mood => [`${named({ ...plan, ...key })}, one server ${mood.is}`, { ...plan, ...key }, mood] as const),
  ),
)

test.each(sampled(CASES))('%s: open() takes three seconds at most', async (_name, plan, mood) => {
  await Stage.play({ servers: 3 }, async stage => {
    await stage.server(0).turn(mood)
    const tab = stage.tab(plan)
    expect(await stage.done(tab.open())).toBeLessThan(SOON_MS)
  })
})

test.each(sampled(CASES))('%s: lookups after the first take three seconds at most', async (_name, plan, mood) => {
  await Stage.play({ servers: 3 }, async stage => {
    const tab = await stage.open(plan)
    for (const number of stage.all) {
      await stage.server(number).turn(mood)
      expect(await stage.get(tab)).toBeLessThan(2 * SOON_MS)
      for (let i = 0; i < 4; i++) expect(await stage.get(tab)).toBeLessThan(SOON_MS)
      await stage.server(number).calm()
    }
  })
})

test.each(sampled(CASES))('%s: an epoch is followed within three seconds', async (_name, plan, mood) => {
  await Stage.play({ servers: 3 }, async stage => {
    const tab = await stage.open(plan)
    // Clients see that server so; the publisher reaches it.
    for (let i = 0; i < 3; i++) {
      await stage.publish()
      await stage.server(1).turn(mood)
      await stage.pass(SOON_MS)
      expect(tab.map!.epoch).toBe(stage.newest)
      await stage.server(1).calm()
    }
  })
})
