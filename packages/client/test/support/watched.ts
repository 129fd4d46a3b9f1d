// A directory of keys that changes, what it held at each epoch, and maps that watch keys of it.

import type { Manifest } from '@keyhush/protocol'
import type { Change, MapEvent, Watch, WatchOptions } from '../../src/index.js'
import type { Environment, OpenWithOptions } from '../../src/testing.js'
import { rest, until } from './clock.js'
import { buildDatabase, type Database } from './database.js'
import { nextEpoch, type Operation } from './epochs.js'
import { core, Harness, sameOnBoth } from './harness.js'
import { utf8 } from './living.js'
import { A, B, type Network, type Seen } from './network.js'
import { publisherKey, signatureOf } from './signed.js'

export const MODES: readonly [string, Partial<OpenWithOptions>][] = [
  ['instant', { mode: 'instant' }],
  ['full', { mode: 'full' }],
  ['local', { mode: 'local' }],
  ['single', { mode: 'single', servers: [A], lookups: 60 }],
  ['auto', { mode: 'auto' }],
]

export const KEYS = Array.from({ length: 24 }, (_, i) => `key-${i}.example`)
/** that are there from the start */
const FIRST = KEYS.slice(0, 20)

const shape = { variable: true, partitions: 4 } as const

/** A directory on two servers, signed. */
export class Directory {
  readonly network: Network
  newest: Database
  /** what it held, by epoch */
  readonly history = new Map<number, ReadonlyMap<string, string>>()
  readonly signs: boolean

  readonly #marked: boolean

  /** `longest`: bytes of a value; `marked`: it has slot marks */
  constructor(signs = true, manifest: Partial<Manifest> = {}, longest = 12, marked = false) {
    this.#marked = marked
    this.signs = signs
    const held = new Map(FIRST.map((key, i) => [key, `v${i}`.padEnd(longest, '.')]))
    this.newest = this.#built(held, manifest)
    this.network = sameOnBoth(this.newest)
    this.history.set(1, held)
    this.#sign()
  }

  get held(): ReadonlyMap<string, string> {
    return this.history.get(this.newest.manifest.epoch)!
  }

  /** The next epoch; `changes`: undefined: the key goes. */
  publish(
    changes: Readonly<Record<string, string | undefined>>,
    servers = [A, B],
    change: Partial<Manifest> = {},
  ): Database {
    const held = new Map(this.held)
    const operations: Operation[] = []
    for (const [key, value] of Object.entries(changes)) {
      const op = value === undefined ? 'delete' : held.has(key) ? 'edit' : 'add'
      operations.push({ op, key, ...(value !== undefined && { value: utf8(value) }) })
      if (value === undefined) held.delete(key)
      else held.set(key, value)
    }
    this.#move(nextEpoch(core, this.newest, operations, change), held, servers)
    return this.newest
  }

  /** The next generation, with the same keys unless others are given. */
  layOutAnew(held: ReadonlyMap<string, string> = this.held, servers = [A, B]): Database {
    const { databaseId, generation, epoch } = this.newest.manifest
    const next = { databaseId, generation: generation + 1, epoch: epoch + 1 }
    const previousManifest = core.blake3(this.newest.manifestBytes)
    this.#move(this.#built(held, { ...next, previousManifest }), held, servers)
    return this.newest
  }

  /** Servers forget the epochs before the newest. */
  forget(): void {
    this.network.replaceOnBoth(this.newest)
  }

  #built(held: ReadonlyMap<string, string>, manifest: Partial<Manifest>): Database {
    const values = [...held.values()].map(utf8)
    return buildDatabase(core, { ...shape, keys: [...held.keys()], values, manifest, marked: this.#marked })
  }

  #move(database: Database, held: ReadonlyMap<string, string>, servers: readonly string[]): void {
    this.newest = database
    this.history.set(database.manifest.epoch, held)
    this.#sign()
    for (const server of servers) this.network.publish(server, database)
  }

  #sign(): void {
    if (this.signs) this.network.signatures.push(signatureOf(this.newest))
  }
}

export const textOf = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)

/** `before → value at epoch, how` */
export const told = ({ value, before, epoch, how }: Change) =>
  `${textOf(before)} → ${textOf(value)} at ${epoch}, ${how}`

let lives = 0

/** A map of a directory, what it tells, and the marks that it gave last, by key. */
export async function watching(
  directory: Directory,
  options: Partial<OpenWithOptions> = {},
  environment: Partial<Environment> = {},
  seed = ++lives, // no hint of one is another's
) {
  const harness = new Harness(directory.network, seed, environment)
  const events: MapEvent[] = []
  const signed = directory.signs
    ? { publisherKey }
    : options.servers?.length === 1
      ? { integrity: 'server' as const }
      : {}
  const onEvent = (event: MapEvent) => void events.push(event)
  const map = await harness.open({ storage: 'memory', push: false, onEvent, ...signed, ...options })
  const heard: string[] = []
  const marks: Record<string, string> = {}
  const watch = (key: string, how: WatchOptions = {}): Promise<Watch> => {
    const save = (mark: string) => {
      marks[key] = mark
    }
    return harness.drive(map.watch(key, change => void heard.push(told(change)), { save, ...how }))
  }
  const sync = async () => {
    await harness.drive(map.sync())
    await rest()
  }
  return { directory, harness, map, events, heard, marks, watch, sync, drive: harness.drive, clock: harness.clock }
}

/** All that a server could see of a request, but for what is random. */
export function sight(now: number, { server, method, path, body }: Seen): string {
  return `${now} ms: ${server} ${method} ${path} ${body.length} ${Buffer.from(body.subarray(0, 40)).toString('hex')}`
}

/** Lets time go by, and all that happens in it. */
export async function pass({ clock }: Harness, ms: number): Promise<void> {
  let isOver = false
  clock.setTimeout(() => {
    isOver = true
  }, ms)
  await until(clock, () => isOver)
}
