// A lookup of a map in mode local sends nothing (docs/threat-model.md).

import { describe, expect, test } from 'vitest'
import type { OpenWithOptions } from '../src/testing.js'
import { settle } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core } from './support/harness.js'
import { A, B, hang, problem } from './support/network.js'
import { publisherKey, signatureOf, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

const options = { publisherKey, mode: 'local' } as const
const DAY = 24 * 60 * 60
const NOW = Date.UTC(2026, 10, 20) / 1000

function world(expires: number) {
  const database = buildDatabase(core, { values: someValues(15, 5), partitions: 4, manifest: { expires } })
  return new World({ network: signedOnBoth(database), database })
}

test('nor when the newest epoch has expired, because a server withholds the next', async () => {
  const there = world(NOW + DAY)
  const life = there.life()
  const map = await life.open(options)
  there.clock.setTimeout(() => {}, 1000 * DAY)
  while (there.clock.waiting > 0) there.clock.advance()
  const before = there.network.seen.length
  for (let i = 0; i < 3; i++) expect((await life.failure(map.at(i))).code).toBe('signature')
  expect(there.network.seen.slice(before).map(({ server, path }) => server + path)).toEqual([])
})

describe('also when the servers were away at open()', () => {
  const isAway = (there: World) => {
    for (const server of [A, B]) there.network.misbehave[server] = () => problem(503, 'not_ready')
  }
  /** A lookup's value or error, after a check that it sent nothing. */
  const outcome = async (there: World, wish: Partial<OpenWithOptions> = options) => {
    const life = there.life()
    const map = await life.open(wish)
    const before = there.network.seen.length
    const values = []
    for (const index of [3, 3]) {
      values.push(await there.drive(map.at(index).catch((error: { code: string }) => error.code)))
    }
    expect(there.network.seen.slice(before).map(({ server, path }) => server + path)).toEqual([])
    await there.drive(map.close())
    expect(values[1]).toEqual(values[0])
    return values[0]
  }

  test('a stored copy with a valid signature answers', async () => {
    const there = world(0)
    await there.drive((await there.life().open(options)).close())
    isAway(there)
    expect(await outcome(there)).toEqual(there.database.byIndex[3])
    expect(await outcome(there, { publisherKey, mode: 'auto' })).toEqual(there.database.byIndex[3])
  })

  test('so does a copy that followed epochs, or that ended an interrupted download', async () => {
    const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
    const next = nextEpoch(core, first, [{ op: 'edit', index: 3, value: new TextEncoder().encode('three') }])
    for (const interrupted of [false, true]) {
      const there = new World({ network: signedOnBoth(first), database: first })
      const life = there.life()
      if (interrupted) {
        for (const server of [A, B]) there.network.misbehave[server] = hang('/v1/blobs/')
        life.openIdle(options).catch(() => {})
        while ((await there.head()) === undefined) await settle()
        life.kill()
        for (const server of [A, B]) there.network.misbehave[server] = undefined
      }
      const map = interrupted ? undefined : await life.open(options)
      for (const server of [A, B]) there.network.publish(server, next)
      there.network.signatures.push(signatureOf(next))
      const followed = map ?? (await there.life().open(options))
      await there.drive(followed.sync())
      expect(followed.epoch).toBe(2)
      await there.drive(followed.close())
      isAway(there)
      expect(await outcome(there)).toEqual(next.byIndex[3])
    }
  })

  test.each<[string, (there: World) => Promise<void>]>([
    [
      'that was stored without the key',
      async there => void (await there.drive((await there.life().open({ mode: 'local' })).close())),
    ],
    [
      'that a tab without the key has taken to an epoch nobody has signed',
      async there => {
        await there.drive((await there.life().open(options)).close())
        const other = await there.life().open({ mode: 'local' })
        const next = nextEpoch(core, there.database, [{ op: 'edit', index: 3, value: new Uint8Array(5) }])
        for (const server of [A, B]) there.network.publish(server, next)
        await there.drive(other.sync())
        expect(other.epoch).toBe(2)
        await there.drive(other.close())
      },
    ],
    [
      'whose signature has rotted on the disk',
      async there => {
        await there.drive((await there.life().open(options)).close())
        const read = there.disk.read.bind(there.disk)
        there.disk.read = async () => {
          const { record, ...head } = (await read())!
          const signature = record.signature!.map((byte, i) => (i === 9 ? byte ^ 1 : byte))
          return { ...head, record: { ...record, signature } }
        }
      },
    ],
    [
      'whose epoch has expired',
      async there => {
        await there.drive((await there.life().open(options)).close())
        there.clock.setTimeout(() => {}, 1000 * DAY)
        while (there.clock.waiting > 0) there.clock.advance()
      },
    ],
  ])('a state %s answers nothing', async (_what, arrange) => {
    const there = world(NOW + DAY)
    await arrange(there)
    isAway(there)
    expect(await outcome(there)).toBe('signature')
  })
})
