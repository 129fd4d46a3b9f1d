// Pointproofs of a database that changes: the rows behind an update list spare a client fetching all of them, and rows that do not
// lead where the manifest says cost it that, and nothing else.

import * as pointproofs from '@keyhush/pointproofs'
import { toHex } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { someValues } from '../../client/test/support/database.js'
import { core, Harness, sameOnBoth } from '../../client/test/support/harness.js'
import { A, B, bytesOf, ok, on, problem } from '../../client/test/support/network.js'
import { World } from '../../client/test/support/world.js'
import { buildProved, nextProved } from './support/database.js'

await pointproofs.loadPointproofs()
const proved = { proofs: 'pointproofs', pointproofs: async () => pointproofs } as const

const keys = Array.from({ length: 11 }, (_, i) => `key ${i}`)
const first = buildProved(core, { keys, values: someValues(11, 5), partitions: 3, partitionRecords: 4 })
const value = (text: string) => new TextEncoder().encode(text)
const edits = [{ op: 'edit', key: 'key 3', value: value('third') }] as const
const second = nextProved(core, first, edits)
const third = nextProved(core, second, [
  { op: 'delete', key: 'key 5' },
  { op: 'add', key: 'new', value: value('fresh') },
  { op: 'add', key: 'newer', value: value('other') }, // in a partition of its own
])
const rowsOf = ({ manifest }: typeof first) => `/v1/blobs/${toHex(manifest.pointproofs!.rowsHash)}`
const keyPath = `/v1/blobs/${toHex(first.manifest.pointproofs!.keyHash)}`

async function opened(...later: (typeof first)[]) {
  const network = sameOnBoth(first)
  const harness = new Harness(network, 3)
  const map = await harness.open(proved)
  expect(await harness.drive(map.get('key 3'))).toEqual(first.contents.values[3])
  for (const epoch of later) for (const server of [A, B]) network.publish(server, epoch)
  const fetched = (path: string) => network.seen.filter(seen => seen.path === path).length
  return { network, harness, map, fetched }
}

test('a map follows, a new partition included, and fetches neither rows nor key again', async () => {
  const { harness, map, fetched } = await opened(second, third)
  expect(third.manifest.partitions).toBe(4)
  await harness.drive(map.sync())
  expect(map.epoch).toBe(3)
  const read = async (key: string) => harness.drive(map.get(key))
  expect(await read('key 3')).toEqual(value('third'))
  expect(await read('key 5')).toBeUndefined()
  expect(await read('new')).toEqual(value('fresh'))
  expect(await read('newer')).toEqual(value('other'))
  expect([first, second, third].map(rowsOf).map(fetched)).toEqual([1, 0, 0])
  expect(fetched(keyPath)).toBe(1)
})

test.each([
  ['others', (rows: Uint8Array) => rows.map((byte, i) => (i === 47 ? byte ^ 1 : byte))],
  ['none', () => new Uint8Array()],
  ['too many', (rows: Uint8Array) => Buffer.concat([rows, rows])],
])(
  'rows behind the list that do not lead to those of the manifest (%s): all are fetched, and nothing is lost',
  async (_, lie) => {
    const lying = nextProved(core, first, edits, lie)
    const { harness, map, fetched } = await opened(lying)
    await harness.drive(map.sync())
    expect(await harness.drive(map.get('key 3'))).toEqual(value('third'))
    expect([fetched(rowsOf(lying)), map.condemned]).toEqual([1, undefined])
  },
)

test.each([A, B])('%s answers at the epoch before as if it were the newest: caught, named, condemned', async server => {
  const { network, harness, map } = await opened(second)
  await harness.drive(map.sync())
  network.misbehave[server] = on('/v1/answer', async (genuine, { body }) => {
    const bytes = (await bytesOf(genuine)).slice()
    bytes.set(first.answer(body.slice(40, 40 + 2 * 3), 'pointproofs'), 40)
    return ok(bytes)
  })
  expect(await harness.failure(map.get('key 3'))).toMatchObject({ name: 'TamperedError', server })
  expect(await harness.failure(map.get('key 3'))).toMatchObject({ code: 'condemned' })
})

test('a lookup pending at an epoch whose rows are gone is finished at one whose rows are there', async () => {
  const network = sameOnBoth(first)
  const world = new World({ network, database: first })
  const map = await world.drive(world.life().openIdle(proved))
  await world.disk.putVerifier((await world.head())!.record.hintId, new Uint8Array()) // nothing is kept
  network.misbehave[A] = network.misbehave[B] = on('/v1/answer', () => problem(503, 'not_ready'))
  expect(await world.drive(map.get('key 3').catch(error => error))).toMatchObject({ code: 'network' })
  for (const server of [A, B]) {
    network.publish(server, second)
    network.misbehave[server] = on(rowsOf(first), () => problem(404, 'not_found'))
  }
  const next = await world.drive(world.life().openIdle(proved))
  expect(await world.drive(next.get('key 3'))).toEqual(value('third'))
  expect(next.epoch).toBe(2)
})
