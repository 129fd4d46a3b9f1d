// Following a database that changes: whatever comes between whatever, lookups are right, nothing else is downloaded than
// what changed, and servers see the vectors they have seen before, extended.

import { decodeQuery, toHex } from '@pirouette/protocol'
import { describe, expect, test } from 'vitest'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { nextEpoch, type Operation } from './support/epochs.js'
import { core, Harness, keyed, NAMES, sameOnBoth } from './support/harness.js'
import { A, B, type Network, ok, on, problem } from './support/network.js'

const bytes = (text: string) => new TextEncoder().encode(text)

/** A keyless database of 15 values of 5 bytes in partitions of 4. */
function fifteen() {
  const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
  const network = sameOnBoth(first)
  return { network, living: new Living(network, first) }
}

/** Publishes epochs, to both servers or one after the other. */
class Living {
  constructor(
    readonly network: Network,
    public newest: Database,
  ) {}

  publish(operations: readonly Operation[], servers: readonly string[] = [A, B]): Database {
    this.newest = nextEpoch(core, this.newest, operations)
    for (const server of servers) this.network.publish(server, this.newest)
    return this.newest
  }
}

const edit = (index: number, value: string): Operation => ({ op: 'edit', index, value: bytes(value) })
const add = (value: string): Operation => ({ op: 'add', value: bytes(value) })

async function checkAll(harness: Harness, map: Awaited<ReturnType<Harness['open']>>, database: Database) {
  expect(map.epoch).toBe(database.manifest.epoch)
  expect(map.size).toBe(database.manifest.records)
  for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
}

const blobs = (network: Network) => network.seen.filter(({ path }) => path.startsWith('/v1/blobs/'))

describe('sync()', () => {
  test('with nothing new: two requests, and no change', async () => {
    const { network } = fifteen()
    const harness = new Harness(network)
    const map = await harness.open()
    const before = network.seen.length
    await harness.drive(map.sync())
    expect(network.seen.slice(before).map(({ path }) => path)).toEqual(Array(2).fill('/v1/manifests?since=1'))
    expect(map.epoch).toBe(1)
  })

  test('edits: only the list is downloaded, and every record is right', async () => {
    const { network, living } = fifteen()
    const harness = new Harness(network)
    const map = await harness.open()
    const before = blobs(network).length
    const epoch = living.publish([edit(3, 'three'), edit(14, 'last.')])
    await harness.drive(map.sync())
    expect(blobs(network).slice(before)).toHaveLength(1)
    await checkAll(harness, map, epoch)
  })

  test('many epochs, with appends that open several partitions at once, and lookups in between', async () => {
    const { network, living } = fifteen()
    const harness = new Harness(network)
    const map = await harness.open()
    for (let round = 0; round < 6; round++) {
      const adds = Array.from({ length: [1, 13, 0, 2, 4, 9][round]! }, (_, i) => add(`${round}.${`${i}`.padStart(3)}`))
      living.publish([edit(round, `e${round}...`), ...adds])
      if (round % 2 === 0) await harness.drive(map.sync())
    }
    await harness.drive(map.sync())
    await checkAll(harness, map, living.newest)
  })

  test('of a keyed database: adds, edits and deletes, and the directory is that of a fresh client', async () => {
    const { network, database } = keyed()
    const living = new Living(network, database)
    const harness = new Harness(network)
    const map = await harness.open()
    living.publish([
      { op: 'delete', key: NAMES[4]! },
      { op: 'edit', key: NAMES[5]!, value: bytes('edited') },
      { op: 'add', key: 'new.example', value: bytes('added') },
    ])
    living.publish(
      [
        { op: 'add', key: 'newer.example', value: bytes('in the slot of a deleted one') }, // too long is refused
      ].map(operation => ({ ...operation, op: 'add' as const, value: bytes('slot') })),
    )
    await harness.drive(map.sync())
    const get = (key: string) => harness.drive(map.get(key))
    expect(await get(NAMES[4]!)).toBeUndefined()
    expect(await get(NAMES[5]!)).toEqual(bytes('edited'))
    expect(await get('new.example')).toEqual(bytes('added'))
    expect(await get('newer.example')).toEqual(bytes('slot'))
    expect(await get('absent.example')).toBeUndefined()
    expect(await get(NAMES[19]!)).toEqual(database.contents.values[19])
  })
})

describe('a server that has turned', () => {
  test('both at the next epoch: a client behind is answered at its own', async () => {
    const { network, living } = fifteen()
    const harness = new Harness(network)
    const map = await harness.open()
    const old = living.newest
    living.publish([edit(3, 'three')])
    expect(await harness.drive(map.at(3))).toEqual(old.byIndex[3])
    expect(map.epoch).toBe(1)
  })

  test.each([[A], [B]])('only %s at the next: nobody notices, and sync() stays', async server => {
    const { network, living } = fifteen()
    const harness = new Harness(network)
    const map = await harness.open()
    const old = living.newest
    living.publish([edit(3, 'three')], [server])
    await harness.drive(map.sync())
    expect(await harness.drive(map.at(3))).toEqual(old.byIndex[3])
    expect(map.epoch).toBe(1)
  })

  test('both two epochs on: the same vectors go out again, extended, at the newest', async () => {
    const { network, living } = fifteen()
    const harness = new Harness(network)
    const map = await harness.open()
    living.publish([edit(3, 'three')])
    living.publish([edit(7, 'seven'), ...Array.from({ length: 9 }, (_, i) => add(`new ${i}`))])
    const before = network.queries().length
    expect(await harness.drive(map.at(3))).toEqual(bytes('three'))
    const sent = network.queries(before).map(({ server, body }) => ({ server, ...decodeQuery(body) }))
    expect(sent.map(({ server, epoch }) => [server, epoch])).toEqual([
      [A, 1],
      [B, 1],
      [A, 3],
      [B, 3],
    ])
    for (const server of [A, B]) {
      const [first, second] = sent.filter(query => query.server === server)
      expect(toHex(second!.vectors.subarray(0, 8))).toBe(toHex(first!.vectors))
      expect(second!.vectors).toHaveLength(2 * living.newest.manifest.partitions)
    }
    await checkAll(harness, map, living.newest)
  })

  test('a batch: extended through its own swaps', async () => {
    const { network, living } = fifteen()
    const { database } = keyed()
    const both = new Network2(database)
    const harness = new Harness(both.network)
    const map = await harness.open()
    both.living.publish([{ op: 'edit', key: NAMES[1]!, value: bytes('one') }])
    both.living.publish(
      Array.from({ length: 30 }, (_, i) => ({ op: 'add' as const, key: `k${i}`, value: bytes(`${i}`) })),
    )
    const keys = [NAMES[1]!, NAMES[2]!, NAMES[1]!, 'k3', 'absent']
    expect(await harness.drive(map.getMany(keys))).toEqual([
      bytes('one'),
      database.contents.values[2],
      bytes('one'),
      bytes('3'), // from the list
      undefined,
    ])
    for (let i = 0; i < 30; i++) expect(await harness.drive(map.get(`k${i}`))).toEqual(bytes(`${i}`))
    living.publish([edit(1, 'x....')])
    network.seen.length = 0
  })
})

class Network2 {
  readonly network: Network
  readonly living: Living
  constructor(database: Database) {
    this.network = sameOnBoth(database)
    this.living = new Living(this.network, database)
  }
}

void ok
void on
void problem
