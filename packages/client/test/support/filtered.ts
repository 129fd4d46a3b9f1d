// Maps with a filter, of a list with slot marks.

import { INSTANT_PATH } from '@keyhush/protocol'
import type { MapEvent } from '../../src/index.js'
import { type Environment, MemoryStore, type OpenWithOptions } from '../../src/testing.js'
import { rest } from './clock.js'
import { Harness, type Planner } from './harness.js'
import type { Misbehave, Network } from './network.js'
import { publisherKey } from './signed.js'
import { Directory } from './watched.js'

export const marked = (signs = true, manifest = {}) => new Directory(signs, manifest, 12, true)
/** Absent, and excluded by every filter of the usual list. */
export const ABSENT = 'absent-1.example'
export const lookups = ({ seen }: Pick<Network, 'seen'>) => seen.filter(({ path }) => path === INSTANT_PATH)
export const blobs = ({ seen }: Pick<Network, 'seen'>) => seen.filter(({ path }) => path.startsWith('/v1/blobs/'))
export const withheld: Misbehave = ({ path }) =>
  path.startsWith('/v1/blobs/') ? new Response('', { status: 503 }) : undefined

/** Durable storage that stays, by identity. */
export function disk() {
  const stores = new Map<string, MemoryStore>()
  const openStore: Environment['openStore'] = async identity => {
    const name = identity.join(' ')
    const store = stores.get(name) ?? new MemoryStore({ durable: true })
    stores.set(name, store)
    return { store, storage: 'persistent' }
  }
  return { stores, openStore }
}

let lives = 0

/** A map in mode `instant`, unless the options say otherwise. */
export async function opened(
  directory: Pick<Directory, 'network' | 'signs'>,
  options: Partial<OpenWithOptions> = {},
  environment: Partial<Environment> = {},
  { seed = ++lives, ...planner }: Planner & { readonly seed?: number } = {},
) {
  const harness = new Harness(directory.network, seed, environment)
  const events: MapEvent[] = []
  const signed = directory.signs ? { publisherKey } : {}
  const onEvent = (event: MapEvent) => void events.push(event)
  const given = { mode: 'instant', storage: 'memory', push: false, onEvent, ...signed, ...options } as const
  const map = await harness.open(given, planner)
  await rest()
  const { clock, drive } = harness
  return { directory, harness, map, events, drive, clock, network: directory.network, sync: () => drive(map.sync()) }
}
