// One server that takes as long as it may, or holds a reply back until something has happened: it costs a call two seconds once, and no map
// its state.

import { describe, expect, test } from 'vitest'
import type { MapEvent, OpenOptions } from '../src/index.js'
import { Harness, keyed, NAMES } from './support/harness.js'
import { edit, livingKeyless } from './support/living.js'
import { A, B, blobs, drip, epochUnknown, late, on } from './support/network.js'
import { World } from './support/world.js'

describe.each([A, B])('%s', slow => {
  test('gives partitions just within their deadline: a download that goes on is not shared out in turns', async () => {
    const world = new World()
    await world.halfDownloaded(2)
    world.blobMs = 0
    const before = blobs(world.network).length
    world.network.misbehave[slow] = late(world.clock, '/v1/blobs/', 9_000)
    const start = world.clock.now()
    const { map } = await world.opened()
    const asked = blobs(world.network).slice(before)
    expect(asked.filter(({ server }) => server === slow).length).toBeLessThanOrEqual(2)
    expect(world.clock.now() - start).toBeLessThan(3_000)
    await world.checkValues(map)
  })

  test('gives update lists just within their deadline: it is waited for once', async () => {
    const living = livingKeyless()
    const { network } = living
    const harness = new Harness(network)
    const map = await harness.open({ mode: 'local' })
    const before = blobs(network).length
    network.misbehave[slow] = late(harness.clock, '/v1/blobs/', 9_000)
    for (let i = 0; i < 20; i++) living.publish([edit(i % 15, `n ${`${i}`.padEnd(3)}`)])
    const start = harness.clock.now()
    await harness.drive(map.sync())
    expect(map.epoch).toBe(21)
    expect(harness.clock.now() - start).toBeLessThan(3_000)
    const asked = blobs(network).slice(before)
    expect(asked.filter(({ server }) => server === slow)).toHaveLength(2) // of the first four
  })

  test.each<Partial<OpenOptions>>([{ mode: 'full' }, { mode: 'local' }])(
    'says that it has forgotten epochs, and says so only once there is a newer one: no state is downloaded again (%j)',
    async options => {
      const living = livingKeyless()
      const { network } = living
      const harness = new Harness(network)
      const events: MapEvent[] = []
      const map = await harness.open({ ...options, onEvent: event => void events.push(event) })
      living.publish([edit(1, 'n 1  ')])
      living.publish([edit(2, 'n 2  ')])
      const { newest } = living
      let held = 0
      network.misbehave[slow] = on('/v1/manifests', async () => {
        if (held++ === 0) living.publish([edit(2, 'n 3  ')])
        await harness.clock.wait(9_000)
        return epochUnknown(newest.manifest)
      })
      for (let times = 0; times < 2; times++) {
        const start = harness.clock.now()
        await harness.drive(map.sync())
        expect(harness.clock.now() - start).toBeLessThan(3_000)
        living.publish([edit(1, 'n 4  ')])
        living.publish([edit(2, 'n 5  ')])
      }
      await harness.drive(map.sync())
      if (slow === A) expect(held).toBeGreaterThan(0) // the first is asked first
      expect(events.map(({ type }) => type)).not.toContain('outdated')
      expect(map.epoch).toBe(living.newest.manifest.epoch)
    },
  )

  test.each<Partial<OpenOptions>>([{ mode: 'instant' }, { mode: 'full' }])(
    'drips what it shows: open() waits for it no longer than if it kept silent (%j)',
    async options => {
      const { network } = keyed()
      const harness = new Harness(network)
      network.misbehave[slow] = drip(harness.clock, '/v1/info', 1_000)
      const error = await harness.failure(harness.open({ ...options, timeoutMs: 15_000 }))
      expect(error).toMatchObject({ code: 'network', server: slow })
      expect(harness.clock.now()).toBeLessThan(11_000)
      network.misbehave[slow] = undefined
      expect((await harness.open(options)).size).toBe(NAMES.length)
    },
  )

  test.each<Partial<OpenOptions>>([{ mode: 'instant' }, { mode: 'full' }])(
    'drips its manifest: the other server’s is used after two seconds (%j)',
    async options => {
      for (let seed = 1; seed <= 4; seed++) {
        const { network } = keyed()
        const harness = new Harness(network, seed)
        network.misbehave[slow] = drip(harness.clock, '/v1/manifest', 1_000)
        expect((await harness.open({ ...options, timeoutMs: 15_000 })).size).toBe(NAMES.length)
        expect(harness.clock.now()).toBeLessThanOrEqual(2_000)
      }
    },
  )
})
