// Mode `local`: a stored copy needs no server. What one of them says must not keep it from opening (docs/threat-model.md).

import { describe, expect, test } from 'vitest'
import type { OpenWithOptions } from '../src/testing.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core } from './support/harness.js'
import { A, B, bytesOf, type Misbehave, ok, on } from './support/network.js'
import { publisherKey, signatureOf, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

const DAY = 24 * 60 * 60
const NOW = Date.UTC(2026, 10, 20) / 1000
const value = (text: string) => new TextEncoder().encode(text)

/** A device with a copy at epoch 2, of servers that have gone on to epoch 5. */
async function stored(wish: Partial<OpenWithOptions>, expires = 0) {
  const epochs: Database[] = [buildDatabase(core, { values: someValues(15, 5), partitions: 4, manifest: { expires } })]
  const next = () =>
    epochs.push(nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: 3, value: value(`no. ${epochs.length}`) }]))
  next()
  const network = signedOnBoth(...epochs)
  const there = new World({ network, database: epochs[1]! })
  await there.drive((await there.life().open({ mode: 'local', ...wish })).close())
  for (let i = 0; i < 3; i++) {
    next()
    for (const server of [A, B]) network.publish(server, epochs.at(-1)!)
  }
  // As servers do: they hand on the newest epoch's alone.
  network.signatures.splice(0, Number.POSITIVE_INFINITY, signatureOf(epochs.at(-1)!))
  return there
}

const lies: [string, Misbehave, string[]][] = [
  [
    'shows another manifest of its epoch',
    on('/v1/manifests', async genuine => {
      const bytes = await bytesOf(genuine)
      bytes[56]! ^= 1 // expiry
      return ok(bytes)
    }),
    ['servers_disagree', 'servers_disagree'],
  ],
  [
    'claims to be behind it, and shows no signature',
    on('/v1/', (genuine, { path }) => {
      const behind = { code: 'epoch_unknown', message: '', generation: 1, epoch: 1 }
      return path.startsWith('/v1/manifests') ? Response.json(behind, { status: 404 }) : genuine
    }),
    [],
  ],
]

describe.each([A, B])('%s', liar => {
  describe.each(lies)('%s: the copy opens and answers', (_what, lie, incidents) => {
    test.each<[string, Partial<OpenWithOptions>]>([
      ['mode local', { mode: 'local' }],
      ['mode auto', { mode: 'auto' }],
      ['mode local, signed', { mode: 'local', publisherKey }],
      ['mode auto, signed', { mode: 'auto', publisherKey }],
    ])('%s', async (_mode, wish) => {
      const key = 'publisherKey' in wish ? { publisherKey } : {}
      const there = await stored(key)
      there.network.misbehave[liar] = lie
      const life = there.life()
      const map = await life.open(wish)
      await there.checkValues(map, [0, 3, 14])
      expect(map.epoch).toBe(2)
      expect(map.stats.incidents.map(({ code }) => code)).toEqual(incidents)
      expect(life.events.map(({ type }) => type)).toEqual(['resumed'])

      there.network.misbehave[liar] = undefined
      await there.drive(map.sync())
      expect(map.epoch).toBe(5)
    })
  })

  test.each([{}, { publisherKey }])('drips its manifests: the copy opens meanwhile (%j)', async key => {
    const there = await stored(key)
    let dripping = 0
    there.network.misbehave[liar] = on('/v1/manifests', (_genuine, { init }) => {
      const body = new ReadableStream<Uint8Array>({
        async start(controller) {
          dripping++
          init.signal?.addEventListener('abort', () => {
            if (dripping > 0) controller.error(init.signal?.reason)
            dripping = 0
          })
          while (dripping > 0) {
            controller.enqueue(new Uint8Array(1))
            await new Promise<void>(resolve => void there.clock.setTimeout(resolve, 5_000))
          }
        },
      })
      return new Response(body)
    })
    const life = there.life()
    const map = await life.open({ mode: 'local', ...key })
    expect(dripping).toBe(1)
    await there.checkValues(map, [0, 3, 14])
    await there.drive(map.close())
    expect(dripping).toBe(0)
  })

  test('but one that has expired answers nothing', async () => {
    const there = await stored({ publisherKey }, NOW + DAY)
    there.clock.setTimeout(() => {}, 1000 * DAY)
    while (there.clock.waiting > 0) there.clock.advance()
    there.network.misbehave[liar] = lies[0]![1]
    const life = there.life()
    const map = await life.open({ mode: 'local', publisherKey })
    expect(await life.failure(map.at(3))).toMatchObject({
      code: 'signature',
      message: expect.stringContaining('expired'),
    })
  })

  test('nor does one whose signature was never seen open beside a contradiction', async () => {
    const there = await stored({})
    there.network.misbehave[liar] = lies[0]![1]
    const life = there.life()
    expect((await life.failure(life.openIdle({ mode: 'local', publisherKey }))).code).toBe('servers_disagree')
  })
})
