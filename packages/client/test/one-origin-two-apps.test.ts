// Two apps of one origin with the same servers. For one they are two parties, for the other they may be one: each keeps a state.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { open } from '../src/index.js'
import { fileStore } from '../src/node.js'
import { isRival } from '../src/store/identity.js'
import { discardStateWith } from '../src/testing.js'
import { keyless } from './support/harness.js'
import { A, B, blobs } from './support/network.js'
import { origin, World } from './support/world.js'

const full = { mode: 'full' } as const
const single = { mode: 'single', collusion: 'tolerated', lookups: 60 } as const

test('with full and single in live maps: each keeps its state, lookup by lookup and in its next life', async () => {
  const world = new World({ audited: false })
  const { stores, openStore } = origin()
  const wishes = [full, single]
  for (let visit = 0; visit < 2; visit++) {
    const lives = wishes.map(() => world.life({ openStore }))
    const maps = [await lives[0]!.open(full), await lives[1]!.open(single)]
    for (const index of [0, 6, 999]) for (const map of maps) await world.checkValues(map, [index])
    for (const map of maps) await world.drive(map.close())
    for (const { events } of lives) expect(events.map(({ type }) => type)).toEqual(visit === 0 ? [] : ['resumed'])
  }
  expect(stores.size).toBe(2)
  expect(blobs(world.network)).toHaveLength(2 * 16)
})

test('in files: both are open at once, and neither discards the other’s', async () => {
  const { network, database } = keyless(60)
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-'))
  const common = { servers: [A, B], fetch: network.fetch, store: fileStore(folder), storage: 'required' } as const
  try {
    for (let visit = 0; visit < 2; visit++) {
      const maps = [await open({ ...common, ...full }), await open({ ...common, ...single })]
      for (const map of maps) {
        expect(await map.at(7)).toEqual(database.byIndex[7])
        await map.close()
      }
    }
    const each = new Set(blobs(network).map(({ path }) => path))
    expect(blobs(network)).toHaveLength(2 * each.size)
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('discardState() removes the states of both', async () => {
  const world = new World()
  const { stores, openStore } = origin()
  for (const wish of [full, single]) {
    const life = world.life({ openStore })
    await world.drive((await life.open(wish)).close())
  }
  await discardStateWith({ openStore }, { servers: [A, B] })
  for (const store of stores.values()) expect(await store.read()).toBeUndefined()
})

describe('identities', () => {
  test.each<[string, string[], string[], boolean]>([
    ['the same servers', ['a', 'b'], ['b', 'a'], false],
    ['the same servers as one party', ['a', 'b'], ['a', 'b', 'tolerated'], false],
    ['one of them alone', ['a', 'b'], ['a'], true],
    ['one of them as one party with another', ['a', 'b'], ['a', 'c', 'tolerated'], true],
    ['others as one party', ['a', 'b', 'tolerated'], ['c', 'd', 'tolerated'], false],
    ['others', ['a', 'b'], ['c', 'd'], false],
  ])('%s', (_what, one, other, rival) => {
    expect([isRival(one, other), isRival(other, one)]).toEqual([rival, rival])
  })
})
