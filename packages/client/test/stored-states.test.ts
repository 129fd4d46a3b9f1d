// Whatever is stored, and whatever has become of the servers since: open(), or a call that is documented beside it
// (reset(), discardState()), leads to a map that answers rightly; and nothing but a KeyhushError leaves the API.

import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { CondemnedError, KeyhushError, type KeyhushMap } from '../src/index.js'
import { discardStateWith, type MemoryStore, type OpenWithOptions, type StateStore } from '../src/testing.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core, sameOnBoth } from './support/harness.js'
import { A, B, busy, type Network } from './support/network.js'
import { drawing } from './support/random.js'
import { type Life, World } from './support/world.js'

const SEEDS = THOROUGH ? 60 : 20
const first = buildDatabase(core, { values: someValues(1000, 8), partitions: 16 })
const second = nextEpoch(core, first, [{ op: 'edit', index: 6, value: new Uint8Array(8).fill(9) }])
const third = nextEpoch(core, second, [{ op: 'add', value: new Uint8Array(8).fill(3) }])
const compacted = buildDatabase(core, {
  values: someValues(500, 8),
  partitions: 16,
  manifest: {
    databaseId: first.manifest.databaseId,
    generation: 2,
    epoch: 4,
    previousManifest: core.blake3(third.manifestBytes),
  },
})
const another = buildDatabase(core, {
  values: someValues(900, 8),
  partitions: 16,
  manifest: { databaseId: core.databaseId(Uint8Array.of(7)) },
})

/** A disk, as some life or other has left it. */
async function left(roll: (sides: number) => number, seed: number, how: How): Promise<World> {
  const world = new World({ network: sameOnBoth(first), database: first, seed })
  const options = how(roll)
  const life = world.life()
  if (roll(4) === 0) {
    await life.killAfter(roll(120), life.openIdle(options))
    return world
  }
  const map = await life.open(options)
  for (let lookups = roll(4); lookups > 0; lookups--) await world.drive(map.at(roll(200)))
  if (roll(2) === 0) {
    const away = roll(2) === 0 ? A : B
    for (const server of options.mode === 'single' ? [A, B] : [away]) world.network.misbehave[server] = busy
    await life.failure(map.at(roll(200)))
    world.network.both(undefined)
  }
  const { hintId } = (await world.head())!.record
  if (roll(6) === 0) await world.disk.condemn(hintId, roll(2) === 0 ? A : undefined)
  await life.killAfter(roll(60), map.at(roll(200)))
  return world
}

/** What may have become of the servers. Returns the database that they have. */
function serversLater(network: Network, roll: (sides: number) => number): Database {
  const published = (...databases: Database[]) => {
    for (const database of databases) network.publishOnBoth(database)
    return databases.at(-1)!
  }
  const replaced = (database: Database) => {
    network.replaceOnBoth(database)
    return database
  }
  if (roll(8) === 0) network.hints.clear() // set up anew, and the fence has forgotten everything
  return [
    () => first,
    () => published(second),
    () => published(second, third),
    () => published(second, third, compacted),
    () => replaced(third), // with no history
    () => replaced(compacted),
    () => replaced(another),
  ][roll(7)]!()
}

/** One value that is read is other than what was written, until something new is written in its place. */
function rot(disk: MemoryStore, roll: (sides: number) => number): void {
  const spoil = (bytes: Uint8Array) => {
    const spoiled = bytes.slice(0, roll(3) === 0 ? roll(256) : bytes.length)
    if (spoiled.length > 0) spoiled[roll(256) % spoiled.length]! ^= 1 << roll(8)
    return spoiled
  }
  type Spoil = { [M in 'read' | 'readHint' | 'readPartial']: (value: Awaited<ReturnType<StateStore[M]>>) => unknown }
  const spoils: Spoil[] = [
    {
      read: head => head?.pending && { ...head, pending: spoil(head.pending) },
      readHint: hint => ({ ...hint, checkpoint: spoil(hint.checkpoint) }),
      readPartial: partial => ({ ...partial, partial: spoil(partial.partial) }),
    },
    {
      read: head => head && { ...head, record: { ...head.record, manifest: spoil(head.record.manifest) } },
      readHint: hint => ({ ...hint, entries: hint.entries.slice(1) }),
      readPartial: partial => ({ ...partial, directory: Uint8Array.of(1) }),
    },
    {
      read: head => head && { ...head, version: head.version + 1 },
      readHint: hint => ({ ...hint, manifest: spoil(hint.manifest) }),
      readPartial: partial => ({ ...partial, version: partial.version + 1 }),
    },
  ]
  const spoiling = spoils[roll(3)]!
  const method = (['read', 'readHint', 'readPartial'] as const)[roll(3)]!
  const read = disk[method].bind(disk) as (hintId: Uint8Array) => Promise<never>
  Object.assign(disk, {
    [method]: async (hintId: Uint8Array) => {
      const value = await read(hintId)
      return spoiling[method](value) ?? value
    },
  })
  const heal = () => {
    for (const name of [method, 'begin', 'discard', 'erase'] as const) Reflect.deleteProperty(disk, name)
  }
  for (const name of ['begin', 'discard', 'erase'] as const) {
    const write = disk[name].bind(disk) as (...parameters: never[]) => Promise<void>
    Object.assign(disk, {
      [name]: async (...parameters: never[]) => {
        await write(...parameters)
        heal()
      },
    })
  }
}

/** What a call comes to. Whatever it throws has to be of this package. */
async function outcome<T>(life: Life, call: Promise<T>): Promise<T | undefined> {
  try {
    return await life.world.drive(call)
  } catch (error) {
    expect(error).toBeInstanceOf(KeyhushError)
    return undefined
  }
}

async function answers(life: Life, map: KeyhushMap, { byIndex }: Database): Promise<boolean> {
  for (const index of [6, 0, byIndex.length - 1]) {
    const value = await outcome(life, map.at(index))
    if (value === undefined) return false
    expect(value).toEqual(byIndex[index])
  }
  return true
}

/** What a map is opened with. */
type How = (roll: (sides: number) => number) => Partial<OpenWithOptions>

const rollback = (roll: (sides: number) => number) => (roll(2) === 0 ? 'strict' : 'confirm')
const single = { mode: 'single', proofs: 'auto', lookups: 12 } as const
const ways: Record<string, How> = {
  'of a hint for two servers': roll => ({ rollback: rollback(roll), proofs: roll(2) === 0 ? 'tags' : 'merkle' }),
  'of hints for one server': roll => ({ ...single, servers: [A], integrity: 'server', rollback: rollback(roll) }),
  'of hints for two that may be one': roll => ({ ...single, collusion: 'tolerated', rollback: rollback(roll) }),
}

describe.each(Object.entries(ways))('from every stored state %s', (_, how) => {
  test.each(Array.from({ length: SEEDS }, (_, i) => i + 1))('a working map is in reach (seed %i)', async seed => {
    const roll = drawing(seed)
    const world = await left(roll, seed, how)
    if (roll(2) === 0) rot(world.disk, roll)
    const newest = serversLater(world.network, roll)
    const life = world.life()
    const options = how(roll)
    const opened = await outcome(life, life.openIdle(options))
    if (opened !== undefined) {
      // The old generation may answer for a while.
      await outcome(life, opened.sync())
      if (await answers(life, opened, newest)) return
      await outcome(life, opened.reset())
      expect(await answers(life, opened, newest)).toBe(true)
      return
    }
    await world.drive(discardStateWith(life.environment, { servers: options.servers ?? [A, B] }))
    const fresh = await life.open(options)
    expect(await answers(life, fresh, newest)).toBe(true)
  })
})

describe('discardState()', () => {
  test('ends a condemnation, as reset() does, and what a map open in another tab has is used no more', async () => {
    const world = new World()
    const [life, other] = [world.life(), world.life()]
    const map = await life.open()
    await world.drive(map.at(1))
    const { record } = (await world.head())!
    await world.disk.condemn(record.hintId, A)
    await expect(world.drive((await other.open()).at(1))).rejects.toBeInstanceOf(CondemnedError)
    await world.drive(discardStateWith(life.environment, { servers: [B, A] }))
    expect(await world.head()).toBeUndefined()
    await world.checkValues(map)
    expect((await world.head())!.record.hintId).not.toEqual(record.hintId)
  })
})
