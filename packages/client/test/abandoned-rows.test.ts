// Rows prepared for hints that never begin, because a server withholds the end of every download, or another tab swept them up. They
// do not fill the disk, and reset() fails rather than report a new hint that is not there.

import { toHex } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { FileStore } from '../src/store/file.js'
import { MemoryStore } from '../src/testing.js'
import { SimulatedDisk } from './store/power.js'
import { settle } from './support/clock.js'
import { core } from './support/harness.js'
import { A, on, problem } from './support/network.js'
import { records, World } from './support/world.js'

const inRows: typeof core = {
  ...core,
  newSingleBuilder: (layout, hashes, entropy, lookups) => core.newSingleBuilder(layout, hashes, entropy, lookups, true),
}
const loadCore = async () => inRows
const options = { servers: [A], integrity: 'server', mode: 'single', lookups: 8, storage: 'required' } as const
const last = toHex(records.manifest.contentHashes.slice(-32))
const withholdsTheLast = on(`/v1/blobs/${last}`, () => problem(503, 'not_ready'))
/** of a hint over these records */
const ROWS = 64

test('a server that withholds the end of every download does not fill the disk', async () => {
  const world = new World({ audited: false })
  const disk = new SimulatedDisk()
  const openStore = async () => ({ store: await FileStore.open(disk), storage: 'persistent' }) as const
  const life = world.life({ loadCore, openStore })
  const map = await life.open(options)
  const rows = async () => (await disk.list()).filter(name => name.includes('.row.')).length
  expect(await rows()).toBe(ROWS)
  world.network.misbehave[A] = withholdsTheLast
  let most = 0
  const attempt = async (work: Promise<unknown>) => {
    await world.drive(work.catch(() => {}))
    most = Math.max(most, await rows())
  }
  for (let i = 0; i < 12; i++) await attempt(map.at(i))
  for (let i = 0; i < 6; i++) await attempt(map.reset())
  expect(most).toBeLessThan(2 * ROWS)
  await settle()
  expect(await rows()).toBe(ROWS)
  world.network.misbehave[A] = undefined
  await world.checkValues(map, [0, 500])
  expect(await rows()).toBe(ROWS)
})

test('reset() fails if its prepared rows were swept up, and the next reset() succeeds', async () => {
  const disk = new MemoryStore({ durable: true })
  const world = new World({ disk })
  const life = world.life({ loadCore })
  const map = await life.open(options)
  const hint = async () => toHex((await world.head())!.record.hintId)
  const before = await hint()
  let rows = 0
  life.interfere = async (method, when) => {
    if (method === 'putRow' && when === 'after' && ++rows === 10) await disk.sweepRows()
  }
  expect((await life.failure(map.reset())).code).toBe('storage')
  expect(await hint()).toBe(before)
  await world.checkValues(map, [4])
  await world.drive(map.reset())
  expect(await hint()).not.toBe(before)
  await world.checkValues(map, [4, 999])
})
