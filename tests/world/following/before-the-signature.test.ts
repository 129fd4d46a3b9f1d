// Between a batch and its signature, and if the publisher dies there, nothing fails.

import { afterAll, expect, test } from 'vitest'
import { sampled, THOROUGH } from '../../support/thorough.js'
import { get } from '../questions.js'
import { KEYS } from './keys.js'
import { everyMode, leaveGrounds, named, Stage } from './stage.js'
import { linesOf } from './truth.js'

afterAll(leaveGrounds)

const generation = (headroom: number) => linesOf([{ op: 'generation', headroom }])

const STEP_MS = THOROUGH ? 50 : 280
const BEFORE_THE_NEXT = /^POST .v1.epochs . leaves/
const BEFORE_SIGNING = /^POST .v1.signatures . leaves/
const CASES = ([1, 2, 3] as const).flatMap(servers =>
  everyMode(servers).map(plan => [`${named(plan)}, ${servers} servers`, servers, plan] as const),
)

test.each(sampled(CASES))('%s: open() and lookups succeed, and follow the signature', async (_name, servers, plan) => {
  await Stage.play({ servers }, async stage => {
    const before = await stage.open(plan)
    const batch = stage.edit()
    await stage.run({ operations: batch, killAt: BEFORE_SIGNING })
    for (const number of stage.all) expect([stage.server(number).epoch, stage.newest]).toEqual([2, 1])
    await stage.pass(1_000)
    const during = await stage.open(plan)
    await stage.get(before)
    await stage.get(during)
    await stage.done(before.sync())
    await stage.pass(300_000) // all that while it is not signed
    await stage.get(before)
    await stage.publish(batch)
    await stage.pass(10_000)
    for (const tab of [before, during]) expect(tab.map!.epoch).toBe(stage.newest)
  })
})

test.each(sampled(everyMode(2).map(plan => [named(plan), plan] as const)))(
  '%s, no key: servers tell of an epoch with its signature, and sync() finds it before',
  async (_name, plan) => {
    await Stage.play({}, async stage => {
      const tabs = [await stage.open({ ...plan, publisherKey: undefined })]
      tabs.push(await stage.open({ ...plan, publisherKey: undefined, push: false }))
      const batch = stage.edit()
      await stage.run({ operations: batch, killAt: BEFORE_SIGNING })
      await stage.pass(60_000)
      await stage.done(tabs[1]!.sync())
      expect(tabs.map(({ map }) => map!.epoch)).toEqual([1, 2])
      await stage.publish(batch)
      await stage.pass(1_000)
      expect(tabs.map(({ map }) => map!.epoch)).toEqual([2, 2])
    })
  },
)

test.each(sampled(CASES))(
  '%s: a generation that was not signed for minutes, and one after it, are followed at once',
  async (_name, servers, plan) => {
    await Stage.play({ servers }, async stage => {
      const tab = await stage.open(plan)
      await stage.run({ operations: generation(8), killAt: BEFORE_SIGNING })
      await stage.pass(300_000)
      await stage.publish(generation(8))
      await stage.pass(1_000)
      await stage.publish(generation(9))
      await stage.pass(8_000)
      expect(stage.server(0).generation).toBe(3)
      expect(tab.map!.epoch).toBe(stage.newest)
    })
  },
)

test.each(sampled(CASES))(
  '%s: a signature that comes minutes late, when its epoch has expired, delays none that follows',
  async (_name, servers, plan) => {
    await Stage.play({ servers }, async stage => {
      const expires = Math.floor(stage.world.date / 1000) + 200
      await stage.publish(stage.edit(), { expires })
      const tab = await stage.open(plan)
      await stage.run({ operations: stage.edit(), expires, killAt: BEFORE_SIGNING })
      await stage.pass(300_000)
      await stage.run({ operations: generation(8), killAt: BEFORE_THE_NEXT })
      await stage.pass(12_000)
      await stage.publish(generation(8))
      await stage.pass(10_000)
      expect(tab.map!.epoch).toBe(stage.newest)
    })
  },
)

test.each(sampled(CASES))('%s: open() at any moment of a publish succeeds', async (_name, servers, plan) => {
  for (let ms = 0; ms < 420; ms += STEP_MS) {
    await Stage.play({ servers, seed: 1 + ms }, async stage => {
      const run = stage.world.publisher.run({ operations: stage.growth(), key: KEYS[0] })
      await stage.pass(ms)
      const tab = stage.tab(plan)
      await stage.done(tab.open())
      await stage.world.time.finish(run)
      await stage.pass(10_000)
      expect(tab.map!.epoch).toBe(stage.newest)
      await stage.done(tab.ask(get('key 3')))
    })
  }
})
