// A map follows through generations, however they began and whatever was signed in between.

import { afterAll, expect, test } from 'vitest'
import { sampled } from '../../support/thorough.js'
import { hexKey, KEYS } from './keys.js'
import { everyMode, leaveGrounds, named, Stage } from './stage.js'
import { type Plan, Profile } from './tab.js'
import { linesOf } from './truth.js'

afterAll(leaveGrounds)

const GENERATION = linesOf([{ op: 'generation', headroom: 8 }])

const CASES = ([1, 2, 3] as const).flatMap(servers =>
  everyMode(servers).map(plan => [`${named(plan)}, ${servers} servers`, servers, plan] as const),
)

/** At the newest signed epoch, and right. */
async function expectFollowed(stage: Stage, plan: Partial<Plan>, tab: Awaited<ReturnType<Stage['open']>>) {
  await stage.pass(10_000)
  expect(tab.map!.epoch).toBe(stage.newest)
  await stage.get(tab)
  const fresh = await stage.open(plan)
  expect(fresh.map!.epoch).toBe(stage.newest)
}

test.each(sampled(CASES))('%s: a batch that makes a generation begin by itself', async (_name, servers, plan) => {
  await Stage.play({ servers }, async stage => {
    const tab = await stage.open(plan)
    await stage.publish(stage.growth())
    expect(stage.server(0).generation).toBe(2)
    await expectFollowed(stage, plan, tab)
  })
})

test.each(sampled(CASES))('%s: a stored map that was closed meanwhile', async (_name, servers, plan) => {
  await Stage.play({ servers }, async stage => {
    const profile = new Profile()
    const stored = { ...plan, storage: 'preferred' } as const
    const tab = await stage.open(stored, profile)
    await stage.get(tab)
    await stage.done(tab.close())
    await stage.publish(stage.growth())
    const again = await stage.open(stored, profile)
    await expectFollowed(stage, plan, again)
  })
})

test.each(sampled(CASES))(
  '%s: without push, after sync(), through a batch and two generations',
  async (_name, servers, plan) => {
    await Stage.play({ servers }, async stage => {
      const tab = await stage.open({ ...plan, push: false })
      await stage.publish()
      await stage.publish(GENERATION)
      await stage.publish(GENERATION)
      await stage.done(tab.sync())
      expect(tab.map!.epoch).toBe(stage.newest)
      const reasons = tab.events.flatMap(event => (event.type === 'outdated' ? [event.reason] : []))
      expect(new Set(['generation', ...reasons])).toEqual(new Set(['generation']))
      await stage.get(tab)
    })
  },
)

test.each(['local', 'full'] as const)('mode %s: updates lead on where the servers have one epoch more', async mode => {
  await Stage.play({}, async stage => {
    const tab = await stage.open({ mode, push: false })
    for (let i = 0; i < 2; i++) await stage.publish()
    await stage.run({ operations: stage.edit(), killAt: /^POST .v1.signatures . leaves/ })
    await stage.done(tab.sync())
    expect(tab.map!.epoch).toBe(stage.newest)
    expect(tab.events.filter(({ type }) => type === 'outdated')).toEqual([])
  })
})

test('a publisher that is killed before it signs, and then a generation by hand', async () => {
  await Stage.play({}, async stage => {
    const tabs = [await stage.open({ mode: 'local' }), await stage.open({ mode: 'instant' })]
    const batch = stage.edit()
    await stage.run({ operations: batch, killAt: /^POST .v1.signatures . leaves/ })
    expect([stage.server(0).epoch, stage.newest]).toEqual([2, 1])
    await stage.run({ operations: GENERATION })
    await stage.publish()
    await stage.pass(10_000)
    for (const tab of tabs) expect(tab.map!.epoch).toBe(stage.newest)
  })
})

const ROTATING = ['local', 'full', 'instant'] as const

test.each(ROTATING)('mode %s: a run with two keys, maps of either follow through a generation', async mode => {
  await Stage.play({}, async stage => {
    const [key, keys] = [KEYS, KEYS.map(hexKey)]
    const old = await stage.open({ mode })
    await stage.publish(stage.edit(), { key })
    const tabs = [old, await stage.open({ mode, publisherKey: keys[1] })]
    await stage.publish(stage.growth(), { key })
    for (const tab of tabs) await expectFollowed(stage, tab.plan, tab)
    // A run of both that dies between the signatures leaves each key with an epoch that is answered.
    await stage.run({ operations: stage.growth(), key, killAt: /^the reply to POST .v1.signatures/ })
    for (const tab of tabs) await stage.done((await stage.open(tab.plan)).close())
    await stage.publish(undefined, { key })
    for (const tab of tabs) await expectFollowed(stage, tab.plan, tab)
  })
})
