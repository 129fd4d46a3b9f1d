// Two servers whose database changes, and what a test says to change it.

import { type Manifest, toHex } from '@keyhush/protocol'
import { expect } from 'vitest'
import type { KeyhushMap, MapEvent } from '../../src/index.js'
import type { OpenWithOptions } from '../../src/testing.js'
import { buildDatabase, type Database, someValues } from './database.js'
import { nextEpoch, type Operation } from './epochs.js'
import { core, Harness, keyed, NAMES, sameOnBoth } from './harness.js'
import { A, B, blobs, epochUnknown, type Network, on, problem, type Seen } from './network.js'
import { records, World } from './world.js'

export const utf8 = (text: string) => new TextEncoder().encode(text)

/** Publishes epochs, to both servers or to one after the other. */
export class Living {
  constructor(
    readonly network: Network,
    public newest: Database,
  ) {}

  /** update lists so far, by their hash in hex: servers keep them, other than partitions and directories */
  readonly lists = new Set<string>()

  /** `change`: fields of the manifest that are to be other than usual. */
  publish(operations: readonly Operation[], servers: readonly string[] = [A, B], change: Partial<Manifest> = {}) {
    this.newest = nextEpoch(core, this.newest, operations, change)
    this.lists.add(toHex(this.newest.manifest.updateListHash))
    for (const server of servers) this.network.publish(server, this.newest)
    return this.newest
  }
}

/** What a server says that has only the newest partitions and directory. */
export function newestAlone(living: Living, genuine: Response, { path }: Seen): Response {
  const hash = path.slice('/v1/blobs/'.length)
  return living.newest.blobs.has(hash) || living.lists.has(hash) ? genuine : problem(404, 'not_found')
}

/** A keyless database of 15 values of 5 bytes in partitions of 4. */
export function livingKeyless(): Living {
  const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
  return new Living(sameOnBoth(first), first)
}

/** The database of `keyed()`. */
export function livingKeyed(): Living {
  const { network, database } = keyed()
  return new Living(network, database)
}

/** A map in memory on a database that changes, and the events that it hears. */
export async function openedLiving(living: Living, options: Partial<OpenWithOptions> = {}) {
  const harness = new Harness(living.network)
  const events: MapEvent[] = []
  const onEvent = (event: MapEvent) => void events.push(event)
  const map = await harness.open({ storage: 'memory', onEvent, ...options })
  const { network, newest: database } = living
  return { living, database, harness, map, events, network, drive: harness.drive }
}

/** At this epoch, with all its records. */
export async function checkAll(drive: Harness['drive'], map: KeyhushMap, { manifest, byIndex }: Database, step = 1) {
  expect([map.epoch, map.size]).toEqual([manifest.epoch, manifest.records])
  for (let i = 0; i < map.size; i += step) expect(await drive(map.at(i))).toEqual(byIndex[i])
}

/** A world whose database changes: 1000 values of 8 bytes. */
export function livingWorld(): { living: Living; world: World } {
  const living = new Living(sameOnBoth(records), records)
  return { living, world: new World({ living }) }
}

/** A batch on that database that opens partitions, round after round. */
export const someEdits = (round: number): Operation[] => [
  edit(round, `round ${round}.`.slice(0, 8)),
  ...Array.from({ length: round * 40 }, (_, i) => append(`${round}.${i}`.padEnd(8))),
]

/** Both servers have forgotten epoch 1: no history leads on from it. */
export function forgetFirst({ network, newest }: Living): void {
  network.both(on('/v1/manifests?since=1', () => epochUnknown(newest.manifest)))
}

export const edit = (index: number, value: string): Operation => ({ op: 'edit', index, value: utf8(value) })
export const append = (value: string): Operation => ({ op: 'add', value: utf8(value) })
export const add = (key: string, value: string): Operation => ({ op: 'add', key, value: utf8(value) })
export const change = (key: string, value: string): Operation => ({ op: 'edit', key, value: utf8(value) })
export const remove = (key: string): Operation => ({ op: 'delete', key })

interface Opened {
  readonly harness: Harness
  readonly map: KeyhushMap
  readonly events: readonly MapEvent[]
}

/** `sync()` brings a map of `livingKeyless()` through epochs that append, one or two at a time; it downloads their lists alone. */
export async function expectGrown(living: Living, { harness, map, events }: Opened): Promise<void> {
  const before = blobs(living.network).length
  const sizes = [1, 13, 0, 2, 4, 9]
  for (const [round, size] of sizes.entries()) {
    const appended = Array.from({ length: size }, (_, i) => append(`${round}.${`${i}`.padStart(3)}`))
    living.publish([edit(round, `e${round}...`), ...appended])
    if (round === 2) continue
    await harness.drive(map.sync())
    await checkAll(harness.drive, map, living.newest)
  }
  expect(events).toEqual(sizes.map((_, i) => ({ type: 'updated', generation: 1, epoch: i + 2 })))
  expect(blobs(living.network)).toHaveLength(before + sizes.length)
}

/** `sync()` brings a map of the database of `keyed()` to the next epochs, and it finds what goes, changes, comes and stays. */
export async function expectFollowed(living: Living, { harness, map, events }: Opened): Promise<void> {
  const stays = living.newest.contents.values[19]
  living.publish([remove(NAMES[4]!), change(NAMES[5]!, 'edited'), add('new.example', 'added')])
  await harness.drive(map.sync())
  living.publish([add('newer.example', 'slot')]) // used again
  await harness.drive(map.sync())
  expect(events).toEqual([2, 3].map(epoch => ({ type: 'updated', generation: 1, epoch })))
  const keys = [NAMES[4]!, NAMES[5]!, 'new.example', 'newer.example', 'absent.example', NAMES[19]!]
  const found = [undefined, utf8('edited'), utf8('added'), utf8('slot'), undefined, stays]
  expect(await harness.drive(map.getMany(keys))).toEqual(found)
}
