// With fewer silent servers than may be missing, calls succeed, and soon once it is known who is silent.

import { afterAll, expect, test } from 'vitest'
import { sampled } from '../../support/thorough.js'
import { everyMode, leaveGrounds, named, Stage } from './stage.js'
import { Profile } from './tab.js'

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
    await stage.server(0).become(mood)
    const tab = stage.tab(plan)
    expect(await stage.done(tab.open())).toBeLessThan(SOON_MS)
  })
})

test.each(sampled(CASES))('%s: lookups after the first take no longer than else', async (_name, plan, mood) => {
  await Stage.play({ servers: 3 }, async stage => {
    const tab = await stage.open(plan)
    for (const number of stage.all) {
      await stage.server(number).become(mood)
      expect(await stage.get(tab)).toBeLessThan(2 * SOON_MS)
      for (let i = 0; i < 4; i++) expect(await stage.get(tab)).toBeLessThan(1_000)
      await stage.server(number).calm()
    }
  })
})

test.each(sampled(CASES))('%s: a stored map opens and answers in three seconds', async (_name, plan, mood) => {
  await Stage.play({ servers: 3 }, async stage => {
    const profile = new Profile()
    const stored = { ...plan, storage: 'preferred' } as const
    const tab = await stage.open(stored, profile)
    await stage.get(tab)
    await stage.done(tab.close())
    await stage.server(0).become(mood)
    const again = stage.tab(stored, profile)
    expect(await stage.done(again.open())).toBeLessThan(SOON_MS)
    expect(await stage.get(again)).toBeLessThan(SOON_MS)
  })
})

test.each(sampled(CASES))('%s: an epoch is followed within three seconds', async (_name, plan, mood) => {
  await Stage.play({ servers: 3 }, async stage => {
    const tab = await stage.open(plan)
    // Clients see that server so; the publisher reaches it.
    for (let i = 0; i < 3; i++) {
      await stage.publish()
      await stage.server(1).become(mood)
      await stage.pass(SOON_MS)
      expect(tab.map!.epoch).toBe(stage.newest)
      await stage.server(1).calm()
    }
  })
})

test.each(sampled(CASES))('%s: a watched key is told of within three seconds', async (_name, plan, mood) => {
  await Stage.play({ servers: 3 }, async stage => {
    const tabs = [await stage.open(plan), await stage.open({ ...plan, push: false })]
    for (const tab of tabs) await stage.done(tab.watch('key 1'))
    for (const number of stage.all) {
      await stage.publish(stage.edit('key 1'))
      await stage.server(number).become(mood)
      tabs[1]!.sync()
      await stage.pass(SOON_MS)
      for (const { watched } of tabs) expect(watched!.changes.at(-1)?.epoch).toBe(stage.newest)
      await stage.server(number).calm()
    }
  })
})

test.each(sampled(CASES))(
  '%s: a lookup whose epoch is over follows within three seconds',
  async (_name, plan, mood) => {
    await Stage.play({ servers: 3 }, async stage => {
      const tab = await stage.open({ ...plan, push: false })
      await stage.get(tab)
      for (const number of stage.all) {
        for (let i = 0; i < 3; i++) await stage.publish()
        await stage.server(number).become(mood)
        expect(await stage.get(tab)).toBeLessThan(2 * SOON_MS)
        await stage.server(number).calm()
      }
    })
  },
)
