// Running `publish` again: a renewal renews, a batch that was published before is not published again without a word, and a batch beyond
// a generation's room is published.

import { decodeManifest } from '@keyhush/protocol'
import { afterAll, expect, test } from 'vitest'
import { KEY, leaveGrounds, Stage } from './stage.js'
import { linesOf } from './truth.js'

afterAll(leaveGrounds)

test('renewing makes a later expiry each time, and the same file does not look like that', async () => {
  await Stage.play({}, async stage => {
    const batch = stage.edit()
    const until = (seconds: number) => Math.floor(stage.world.date / 1000) + seconds
    await stage.publish(batch, { expires: until(100) })
    await stage.pass(50_000)
    const again = await stage.run({ operations: batch, expires: until(100) })
    expect(again).toMatchObject({ is: 'done', summary: { epoch: 2, repeated: true } })
    for (let i = 0; i < 3; i++) {
      const later = until(100)
      await stage.publish(linesOf([{ op: 'renew' }]), { expires: later })
      expect(decodeManifest(stage.server(0).newestManifest).expires).toBe(later)
      await stage.pass(50_000)
    }
    await stage.pass(60_000)
    expect(await stage.run({ operations: batch, expires: until(100) })).toMatchObject({
      is: 'failed',
      error: { exit: 5 },
    })
    await stage.publish(linesOf([{ op: 'renew' }]), { expires: until(100) })
    await stage.done((await stage.open({ mode: 'instant' })).sync())
  })
})

test('batch one, batch two, batch one again: old values do not come back without a word', async () => {
  await Stage.play({}, async stage => {
    const [one, two] = [stage.edit(), stage.edit()]
    await stage.publish(one)
    await stage.publish(two)
    const before = stage.server(0).epoch
    const outcome = await stage.run({ operations: one })
    expect(outcome).toMatchObject({ is: 'failed', error: { exit: 5 } })
    expect(stage.server(0).epoch).toBe(before)
    await stage.publish(one, { again: true })
    expect(stage.server(0).epoch).toBe(before + 1)
    // A rerun after a kill publishes it once, whether or not it is asked for again.
    const killAt = /^POST .v1.signatures . leaves/
    await stage.run({ operations: two, again: true, killAt })
    await stage.publish(two, { again: true })
    expect(stage.server(0).epoch).toBe(before + 2)
  })
})

test('a server that was put back is signed before it gets the next batch', async () => {
  for (const changes of [1, 2, 3, 4]) {
    await Stage.play({}, async stage => {
      for (let i = 0; i < 3; i++) await stage.publish()
      await stage.server(1).become({ is: 'back', changes })
      await stage.server(1).calm()
      await stage.publish() // and rules.ts looks at each change
      expect(stage.server(1).signedUnder(KEY)).toEqual([4, 5])
    })
  }
})

test('a batch beyond the room of a generation is published, or says how', async () => {
  await Stage.play({}, async stage => {
    const value = new Uint8Array(2).fill(0x67)
    const many = linesOf(Array.from({ length: 2_000 }, (_, i) => ({ op: 'add', key: `many ${i}`, value })))
    const outcome = await stage.run({ operations: many })
    if (outcome.is === 'failed') expect(outcome.error.message).toContain('{"op":"generation"')
    else expect(outcome.is).toBe('done')
  })
})
