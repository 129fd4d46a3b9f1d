// Mode `auto` with a publisher's key keeps database and epoch from instant lookups to a state, from a half-made state to instant
// lookups, and from one life to the next. Otherwise two servers that lie together could switch a map to another database of its
// publisher, or take it back to an older signed epoch.

import { toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import type { StateStore } from '../src/testing.js'
import { rest } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { core } from './support/harness.js'
import { A, B, hang } from './support/network.js'
import { epochsOf, publisherKey, publishSigned, signedOnBoth } from './support/signed.js'
import { type Life, World } from './support/world.js'

const epochs = epochsOf(5)
const first = epochs[0]!

const opening = (life: Life, pays = false) =>
  life.openIdle({ mode: 'auto', push: false, publisherKey }, { pays: () => pays })
const opened = async (life: Life, pays = false): Promise<KeyhushMap> => {
  const map = await life.world.drive(opening(life, pays))
  if (pays) await life.world.drive(map.at(0)) // the first state waits for a lookup
  await rest()
  return map
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
  network.both(hang('/v1/blobs/'))
  const life = w.life()
  const map = await opened(life, halfMade)
  expect((await w.head())?.stage).toBe(halfMade ? 'partial' : undefined)
  life.interfere = interfere
  network.both(undefined)
  network.both(halfMade ? hangAtPartitions : undefined)
  publishSigned(network, ...epochs.slice(1, 4))
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

describe.each([false, true])('after instant lookups at epoch 4 (half-made state of epoch 1: %s)', halfMade => {
  test.each([1, 3])('both servers show epoch %i, signed: refused', async epoch => {
    const before = await shown(halfMade)
    const back = new World({ network: signedOnBoth(...epochs.slice(0, epoch)), database: first, before })
    for (const pays of [false, true]) expect(await outcomeOf(back.life(), pays)).toBe('signature')
  })

  test('both servers show epoch 1, and offer no lookups without a state: refused, also the next time', async () => {
    const before = await shown(halfMade)
    const back = new World({ network: signedOnBoth(first), database: first, before })
    back.network.instant = false
    for (let life = 0; life < 2; life++) expect(await outcomeOf(back.life())).toBe('signature')
    const later = new World({ network: signedOnBoth(...epochs), database: first, before: back })
    expect(await outcomeOf(later.life())).toBe(5)
  })

  test.each([4, 5])('servers at epoch %i: answered', async epoch => {
    const before = await shown(halfMade)
    const later = new World({ network: signedOnBoth(...epochs.slice(0, epoch)), database: first, before })
    expect(await outcomeOf(later.life())).toBe(epoch)
  })
})

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
    const silent = { durable: true, read: () => never, close: async () => {} } as unknown as StateStore
    for (const store of [never, Promise.resolve({ store: silent, storage: 'best-effort' } as const)]) {
      const life = w.life({
        openStore: (identity, preference) => (identity.length === 1 ? store : openStore(identity, preference)),
      })
      const map = await opened(life)
      expect(await w.drive(map.at(3))).toEqual(first.byIndex[3])
      await w.drive(map.close())
    }
  })
})

test('a map stays at its database when a state takes over, although both servers show another of its publisher', async () => {
  const id = core.databaseId(new TextEncoder().encode('another'))
  const values = someValues(15, 5).map(value => value.map(byte => byte ^ 0x55))
  const another = buildDatabase(core, { values, partitions: 4, manifest: { databaseId: id } })
  const network = signedOnBoth(first)
  const theirs = signedOnBoth(another)
  network.signatures.push(...theirs.signatures)
  const w = new World({ network, database: first })
  // Once the map is open, both servers show the other database, signed by the same key.
  const open = new Set<string>()
  for (const server of [A, B]) {
    network.misbehave[server] = (seen, genuine) => {
      if (seen.path !== '/v1/info') return genuine
      if (!open.has(server)) {
        open.add(server)
        return genuine
      }
      network.replace(server, another)
      return Response.json(network.info(server))
    }
  }
  const map = await opened(w.life())
  await w.drive(map.prepare().catch(() => {}))
  const value = await w.drive(map.at(3)).catch((error: Error) => error.name)
  await w.drive(map.close())
  // The value in its own database, or an error; never a value of the other.
  expect(network.info(A).database).toBe(toHex(id))
  expect(value).not.toEqual(another.byIndex[3])
})

test('lookups before a state is whole do not go back behind the epoch of the half-made state', async () => {
  const before = new World({ network: signedOnBoth(...epochs.slice(0, 3)), database: first })
  before.network.both(hang('/v1/blobs/'))
  // Mode full stores the half-made state, which has been at epoch 3.
  const full = before.life()
  full.openIdle({ mode: 'full', push: false, publisherKey }).catch(() => {})
  await rest()
  expect((await before.head())?.stage).toBe('partial')
  full.kill()

  // Genuine, signed, and two epochs older.
  const back = new World({ network: signedOnBoth(first), database: first, before })
  expect(await outcomeOf(back.life())).toBe('signature')
})
