// Mode `auto` with the publisher's key keeps database and epoch from instant lookups to a state, and from a half-made state to instant
// lookups. Otherwise two servers that lie together could switch a map to another database of its publisher, or to an older epoch.

import { expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import { rest } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core } from './support/harness.js'
import { A, B, hang } from './support/network.js'
import { publisherKey, signedOnBoth } from './support/signed.js'
import { type Life, World } from './support/world.js'

const text = (value: string) => new TextEncoder().encode(value)

const opened = async (life: Life): Promise<KeyhushMap> => {
  const map = await life.open({ mode: 'auto', push: false, publisherKey } as never)
  await rest()
  return map
}

const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
const epochs = [first]
for (let i = 1; i <= 2; i++)
  epochs.push(nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: i, value: text(`ep. ${i}`) }]))

test('a map stays at its database when a state takes over, although both servers show another of its publisher', async () => {
  const id = core.databaseId(text('another'))
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
      if (seen.path !== '/v1/manifest') return genuine
      if (!open.has(server)) {
        open.add(server)
        return genuine
      }
      network.replace(server, another)
      return new Response(another.manifestBytes as Uint8Array<ArrayBuffer>)
    }
  }
  const map = await opened(w.life())
  const value = await w.drive(map.at(3)).catch((error: Error) => error.name)
  await w.drive(map.close())
  // The value in its own database, or an error; never a value of the other.
  expect(value).not.toEqual(another.byIndex[3])
})

test('lookups before a state is whole do not go back behind the epoch of the half-made state', async () => {
  const before = new World({ network: signedOnBoth(...epochs), database: first })
  for (const server of [A, B]) before.network.misbehave[server] = hang('/v1/blobs/')
  // Mode full stores the half-made state, which has been at epoch 3.
  const full = before.life()
  const opening = full.openIdle({ mode: 'full', push: false, publisherKey }).catch(() => {})
  await rest()
  expect((await before.head())?.stage).toBe('partial')
  full.kill()
  void opening

  // Genuine, signed, and two epochs older.
  const back = new World({ network: signedOnBoth(first), database: first, before })
  const life = back.life()
  // epoch-outlives-failed-download.test.ts holds the same in the other modes.
  const control = await back
    .copy()
    .life()
    .failure(back.copy().life().openIdle({ mode: 'full', publisherKey }))
  expect(control.code).toBe('signature')
  const outcome = await back.drive(
    life.openIdle({ mode: 'auto', push: false, publisherKey } as never).then(
      map => map.epoch,
      (error: { code: string }) => error.code,
    ),
  )
  expect(outcome).toBe('signature')
})

test('nor behind the epoch of a state that was half-made in mode auto', async () => {
  const before = new World({ network: signedOnBoth(...epochs), database: first })
  for (const server of [A, B]) before.network.misbehave[server] = hang('/v1/blobs/')
  const map = await opened(before.life())
  expect([map.mode, map.epoch, (await before.head())?.stage]).toEqual(['instant', 3, 'partial'])
  await before.drive(map.close())
  const back = new World({ network: signedOnBoth(first), database: first, before })
  const outcome = await back.drive(
    back
      .life()
      .openIdle({ mode: 'auto', push: false, publisherKey } as never)
      .then(
        map => map.epoch,
        (error: { code: string }) => error.code,
      ),
  )
  expect(outcome).toBe('signature')
})
