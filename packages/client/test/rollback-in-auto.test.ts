// Mode `auto` with a publisher's key: what lookups without a state have shown is not forgotten by the map's next life, so that two
// servers that lie together cannot take it back to an older signed epoch.

import { describe, expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import { SCHEMES } from '../src/scheme/table.js'
import { openWith, type StateStore } from '../src/testing.js'
import { rest } from './support/clock.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core } from './support/harness.js'
import { A, B, hang, type Network, on } from './support/network.js'
import { publisherKey, signatureOf, signedOnBoth } from './support/signed.js'
import { type Life, World } from './support/world.js'

const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
const epochs = [first]
for (let i = 1; i < 5; i++) {
  epochs.push(nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: i, value: new TextEncoder().encode(`ep. ${i}`) }]))
}

const opening = (life: Life, pays = false, options = {}) => {
  const given = { servers: [A, B], mode: 'auto', push: false, publisherKey, ...options } as never
  return openWith(life.environment, given, SCHEMES, () => pays)
}
const opened = async (life: Life, pays = false, options = {}): Promise<KeyhushMap> => {
  const map = await life.world.drive(opening(life, pays, options))
  await rest()
  return map
}
const publish = (network: Network, database: Database) => {
  network.signatures.push(signatureOf(database))
  for (const server of [A, B]) network.publish(server, database)
}
const outcomeOf = (life: Life, pays = false) =>
  life.world.drive(
    opening(life, pays).then(
      async map => {
        const { epoch } = map
        await map.close()
        return epoch
      },
      (error: { code: string }) => error.code,
    ),
  )

/** A world in which a map has answered from epoch 4, with nothing stored, or a state that was half-made at epoch 1. */
async function shown(halfMade: boolean, interfere: Life['interfere'] = () => {}): Promise<World> {
  const network = signedOnBoth(first)
  const w = new World({ network, database: first })
  for (const server of [A, B]) network.misbehave[server] = hang('/v1/blobs/')
  const life = w.life()
  const map = await opened(life, halfMade)
  expect((await w.head())?.stage).toBe(halfMade ? 'partial' : undefined)
  life.interfere = interfere
  for (const server of [A, B]) network.misbehave[server] = undefined
  for (const server of [A, B]) network.misbehave[server] = halfMade ? hangAtPartitions : undefined
  for (const database of epochs.slice(1, 4)) publish(network, database)
  await w.drive(map.sync())
  expect([map.mode, map.epoch]).toEqual(['instant', 4])
  expect(await w.drive(map.at(3))).toEqual(epochs[3]!.byIndex[3])
  await w.drive(map.close())
  return w
}
/** Lists of changes are blobs, too. */
const partitions = new Set(first.blobs.keys())
const hangAtPartitions = (...[seen, genuine]: Parameters<ReturnType<typeof hang>>) =>
  partitions.has(seen.path.slice('/v1/blobs/'.length)) ? hang('/v1/blobs/')(seen, genuine) : undefined

const withoutInstant = (network: Network) => {
  for (const server of [A, B]) {
    network.misbehave[server] = on('/v1/info', () => {
      const info = network.info(server)
      return Response.json({ ...info, offers: { ...info.offers, instant: false } })
    })
  }
}

describe.each([false, true])(
  'after instant lookups at epoch 4 (a half-made state of epoch 1 is stored: %s)',
  halfMade => {
    test.each([1, 3])('both servers show epoch %i, signed: refused', async epoch => {
      const before = await shown(halfMade)
      const back = new World({ network: signedOnBoth(...epochs.slice(0, epoch)), database: first, before })
      for (const pays of [false, true]) expect(await outcomeOf(back.life(), pays)).toBe('signature')
    })

    test('both servers show epoch 1, and offer no lookups without a state: refused, also the next time', async () => {
      const before = await shown(halfMade)
      const back = new World({ network: signedOnBoth(first), database: first, before })
      withoutInstant(back.network)
      for (let life = 0; life < 2; life++) expect(await outcomeOf(back.life())).toBe('signature')
      const later = new World({ network: signedOnBoth(...epochs), database: first, before: back })
      expect(await outcomeOf(later.life())).toBe(5)
    })

    test.each([4, 5])('servers at epoch %i: answered', async epoch => {
      const before = await shown(halfMade)
      const later = new World({ network: signedOnBoth(...epochs.slice(0, epoch)), database: first, before })
      expect(await outcomeOf(later.life())).toBe(epoch)
    })
  },
)

describe('a store that', () => {
  test.each<[string, Life['interfere']]>([
    ['never writes', (_method, when) => (when === 'before' ? new Promise(() => {}) : undefined)],
    ['fails', () => Promise.reject(new Error('the disk is gone'))],
  ])('%s keeps no lookup, no sync() and no close() waiting', async (_what, interfere) => {
    await shown(false, interfere)
  })

  test('never opens, or never answers: the map opens, and answers', async () => {
    const w = new World({ network: signedOnBoth(first), database: first })
    const never = new Promise<never>(() => {})
    const { openStore } = w.life().environment
    const stores: Partial<StateStore>[] = [{ durable: true, read: () => never, close: async () => {} }]
    for (const store of [
      never,
      ...stores.map(async store => ({ store: store as StateStore, storage: 'best-effort' as const })),
    ]) {
      const life = w.life({
        openStore: (identity, preference) => (identity.length === 1 ? store : openStore(identity, preference)),
      })
      const map = await opened(life)
      expect(await w.drive(map.at(3))).toEqual(first.byIndex[3])
      await w.drive(map.close())
    }
  })
})
