// Running `publish` again: a renewal renews, a batch that was published before is not published again without a word, and a batch beyond
// a generation's room is published: O3, O6 and P3 of the findings.

import { decodeManifest } from '@keyhush/protocol'
import { afterAll, expect, test } from 'vitest'
import { leaveGrounds, Stage } from './stage.js'
import { linesOf } from './truth.js'

afterAll(leaveGrounds)

test('the same file with a later expiry makes a later expiry, or fails', async () => {
  await Stage.play({}, async stage => {
    const batch = stage.edit()
    const until = (seconds: number) => Math.floor(stage.world.date / 1000) + seconds
    await stage.publish(batch, { expires: until(100) })
    await stage.pass(50_000)
    const later = until(100)
    const outcome = await stage.run({ operations: batch, expires: later })
    if (outcome.is === 'done') expect(decodeManifest(stage.server(0).newestManifest).expires).toBe(later)
    else expect(outcome).toMatchObject({ is: 'failed' })
  })
})

test('batch one, batch two, batch one again: old values do not come back without a word', async () => {
  await Stage.play({}, async stage => {
    const [one, two] = [stage.edit(), stage.edit()]
    await stage.publish(one)
    await stage.publish(two)
    const before = stage.server(0).epoch
    const outcome = await stage.run({ operations: one })
    expect([outcome.is, stage.server(0).epoch]).toEqual(['failed', before])
  })
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
