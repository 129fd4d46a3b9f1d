// Key and row commitments lie in the store beside the hint: the next life of a page has them without asking, whatever has happened to
// the database meanwhile, and whatever has happened to them it is as if they had not been there.

import * as pointproofs from '@keyhush/pointproofs'
import { toHex } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { settle } from '../../client/test/support/clock.js'
import { someValues } from '../../client/test/support/database.js'
import { core, sameOnBoth } from '../../client/test/support/harness.js'
import { A, B } from '../../client/test/support/network.js'
import { type Life, World } from '../../client/test/support/world.js'
import { buildProved, nextProved } from './support/database.js'

await pointproofs.loadPointproofs()
const proved = { proofs: 'pointproofs', pointproofs: async () => pointproofs } as const

const keys = Array.from({ length: 11 }, (_, i) => `key ${i}`)
const first = buildProved(core, { keys, values: someValues(11, 5), partitions: 3, partitionRecords: 4 })
const value = (text: string) => new TextEncoder().encode(text)
const second = nextProved(core, first, [{ op: 'edit', key: 'key 3', value: value('third') }])
const third = nextProved(core, second, [
  { op: 'delete', key: 'key 5' },
  { op: 'add', key: 'new', value: value('fresh') },
  { op: 'add', key: 'newer', value: value('other') }, // in a partition of its own
])
const KEY = `/v1/blobs/${toHex(first.manifest.pointproofs!.keyHash)}`
const ROWS = [first, second, third].map(({ manifest }) => `/v1/blobs/${toHex(manifest.pointproofs!.rowsHash)}`)

const begun = () => new World({ network: sameOnBoth(first), database: first })
const opened = (world: World, life: Life = world.life()) => world.drive(life.openIdle(proved))
const publish = ({ network }: World, epoch: typeof first) => {
  for (const server of [A, B]) network.publish(server, epoch)
}
const kept = async ({ disk }: World) => await disk.readVerifier((await disk.read())!.record.hintId)
const put = async ({ disk }: World, bytes: Uint8Array) =>
  await disk.putVerifier((await disk.read())!.record.hintId, bytes)
/** What was fetched to verify with since the `from`th request. */
const fetched = ({ network }: World, from = 0) =>
  network.seen
    .slice(from)
    .map(({ path }) => path)
    .filter(path => path === KEY || ROWS.includes(path))

test('a life that finds them asks for neither, follows the database, and leaves the next one those of its epoch', async () => {
  const world = begun()
  await world.drive((await opened(world)).close())
  expect(fetched(world)).toEqual([ROWS[0], KEY])
  publish(world, second)
  const map = await opened(world)
  expect(await world.drive(map.get('key 3'))).toEqual(value('third'))
  publish(world, third)
  await world.drive(map.sync())
  await world.drive(map.close()) // no lookup since
  const last = await opened(world)
  expect(await world.drive(last.get('newer'))).toEqual(value('other'))
  expect(await world.drive(last.get('key 5'))).toBeUndefined()
  expect(fetched(world)).toEqual([ROWS[0], KEY])
})

test('two tabs: what one has followed to, the other finds', async () => {
  const world = begun()
  const [one, two] = [await opened(world), await opened(world)]
  publish(world, second)
  await world.drive(one.sync())
  expect(await world.drive(two.get('key 3'))).toEqual(value('third'))
  publish(world, third)
  expect(await world.drive(two.get('new'))).toBeUndefined() // of the epoch it is at
  await world.drive(two.sync())
  expect(await world.drive(one.get('new'))).toEqual(value('fresh'))
  expect(fetched(world)).toEqual([ROWS[0], KEY])
})

const flippedAt = (at: number) => (bytes: Uint8Array) => bytes.with(at < 0 ? bytes.length + at : at, bytes.at(at)! ^ 1)
const damages: [string, (bytes: Uint8Array) => Uint8Array, string[]][] = [
  ['nothing', () => new Uint8Array(), [ROWS[0]!, KEY]],
  ["the key's first bit", flippedAt(0), [ROWS[0]!, KEY]],
  ["the rows' last byte", flippedAt(-1), [ROWS[0]!, KEY]],
  ['cut off within the key', bytes => bytes.slice(0, 100), [ROWS[0]!, KEY]],
  ['a byte too many', bytes => Buffer.concat([bytes, Buffer.alloc(1)]), [ROWS[0]!, KEY]],
  ['as it was', bytes => bytes, []],
]
test.each(damages.filter((_, i) => THOROUGH || i % 2 === 0))(
  'kept damaged (%s): fetched again, and put right, whatever is looked up',
  async (_, damage, expected) => {
    const world = begun()
    await world.drive((await opened(world)).close())
    const right = (await kept(world))!
    for (const index of THOROUGH ? [0, 3, 7, 10] : [7]) {
      await put(world, damage(right))
      const from = world.network.seen.length
      const map = await opened(world)
      expect(await world.drive(map.at(index))).toEqual(first.byIndex[index])
      expect(fetched(world, from)).toEqual(expected)
      expect(await kept(world)).toEqual(right)
      await world.drive(map.close())
    }
  },
)

test('killed between an update and its rows: they are fetched, and nothing is lost', async () => {
  const world = begun()
  await world.drive((await opened(world)).close())
  const before = await kept(world)
  publish(world, second)
  const life = world.life()
  life.interfere = (method, when) => {
    if (method === 'putVerifier' && when === 'before') life.kill()
  }
  void opened(world, life).then(
    map => map.sync(),
    () => {},
  )
  await settle()
  expect(life.killed).toBe(true)
  expect(await kept(world)).toEqual(before)
  const from = world.network.seen.length
  const map = await opened(world)
  expect(map.epoch).toBe(2)
  expect(await world.drive(map.get('key 3'))).toEqual(value('third'))
  expect(fetched(world, from)).toContain(ROWS[1])
  expect(await kept(world)).not.toEqual(before)
})

test('a store that keeps nothing of it, or reads nothing, costs no lookup', async () => {
  const world = begun()
  const life = world.life()
  life.interfere = method => {
    if (method === 'putVerifier' || method === 'readVerifier') throw new Error('a disk that has enough')
  }
  const map = await opened(world, life)
  publish(world, second)
  await world.drive(map.sync())
  expect(await world.drive(map.get('key 3'))).toEqual(value('third'))
  expect([await kept(world), fetched(world)]).toEqual([undefined, [ROWS[0], KEY]])
})
