// Opening maps, and sharing them: two maps of one identity, the same set of servers in the same environment, have one
// session, one hint and one queue.

import { abortable } from './abort.js'
import { type Environment, type Fetch, platformEnvironment } from './environment.js'
import type { Normalize } from './keys.js'
import { PirouetteMap } from './map.js'
import type { OnProgress, Progress } from './progress.js'
import { parseServers, type ServerPair } from './servers.js'
import { Session } from './session.js'

export interface OpenWithOptions {
  /** Base URLs of exactly two servers, of different origins, run by operators who do not collude. Order is immaterial. */
  readonly servers: readonly [string | URL, string | URL]
  readonly onProgress?: OnProgress | undefined
  /** Calls the opening off. Free at any time: nothing secret is sent before the first lookup. */
  readonly signal?: AbortSignal | undefined
  /** Applied to text keys before they are looked up. Without it keys are taken exactly as they are. */
  readonly normalize?: Normalize | undefined
}

export interface OpenOptions extends OpenWithOptions {
  /** Replaces the platform's fetch: every request of the map goes through it. */
  readonly fetch?: Fetch | undefined
}

/** Downloads a hint and opens a map on it. */
export async function open({ fetch, ...options }: OpenOptions): Promise<PirouetteMap> {
  return await openWith(platformEnvironment(fetch), options)
}

/** As `open`, with time, network, chance, storage and core passed in. For tests. */
export async function openWith(environment: Environment, options: OpenWithOptions): Promise<PirouetteMap> {
  const { signal, onProgress, normalize } = options
  const servers = parseServers(options.servers)
  signal?.throwIfAborted()

  const shared = join(environment, servers)
  // A listener that throws fails its own open(), and nobody else's.
  const broken = new AbortController()
  const listener = (progress: Progress) => {
    try {
      onProgress?.(progress)
    } catch (error) {
      broken.abort(error)
    }
  }
  shared.listeners.add(listener)
  try {
    const session = await abortable(abortable(shared.opening, broken.signal), signal)
    return new PirouetteMap(session, environment.random, normalize, () => leave(shared))
  } catch (error) {
    leave(shared).catch(() => {}) // the caller does not wait for what is left to be cleared away
    throw error
  } finally {
    shared.listeners.delete(listener)
  }
}

interface Shared {
  readonly environment: Environment
  readonly servers: ServerPair
  readonly listeners: Set<OnProgress>
  readonly controller: AbortController
  readonly opening: Promise<Session>
  session: Session | undefined
  /** maps, and calls of open() that may become maps */
  holders: number
}

const everyShared = new Set<Shared>()

/** The session of this identity, one more holder counted; begun if there is none. */
function join(environment: Environment, servers: ServerPair): Shared {
  for (const shared of everyShared) {
    const same = isSamePair(shared.servers, servers) && isSameEnvironment(shared.environment, environment)
    if (same && shared.session?.dead !== true) {
      shared.holders++
      return shared
    }
  }
  const controller = new AbortController()
  const listeners = new Set<OnProgress>()
  const tellAll = (progress: Progress) => {
    for (const listener of listeners) listener(progress)
  }
  const opening = Session.open(environment, servers, tellAll, controller.signal)
  const shared: Shared = { environment, servers, listeners, controller, opening, session: undefined, holders: 1 }
  everyShared.add(shared)
  opening.then(
    session => {
      shared.session = session
    },
    () => {
      everyShared.delete(shared) // the next open() tries again
    },
  )
  return shared
}

/** One holder fewer. The last one out calls the opening off, or closes the session. */
async function leave(shared: Shared): Promise<void> {
  if (--shared.holders > 0) return
  everyShared.delete(shared)
  shared.controller.abort()
  const session = await shared.opening.catch(() => undefined)
  await session?.close()
}

function isSamePair(a: ServerPair, b: ServerPair): boolean {
  return a[0].name === b[0].name && a[1].name === b[1].name
}

function isSameEnvironment(a: Environment, b: Environment): boolean {
  const parts = ['clock', 'fetch', 'random', 'openStore', 'loadCore', 'pause'] as const
  return parts.every(part => a[part] === b[part])
}
