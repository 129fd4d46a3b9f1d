// Shares sessions: maps with the same servers, environment and wishes have one session, one hint and one queue.

import { abortable } from './base/abort.js'
import { AppFailure, toApp } from './base/boundary.js'
import { TIMEOUT_MS } from './base/constants.js'
import type { MapEvent, OnEvent } from './base/events.js'
import type { OnProgress, Progress } from './base/progress.js'
import { type KeyhushMap, OpenedMap, type Watching } from './map.js'
import { isSameWish, type Options, readOptions, type Wishes } from './options.js'
import type { Environment } from './platform/environment.js'
import { assertPlatform } from './platform/minimum.js'
import { loadPart } from './platform/parts.js'
import { isOwn, ownController } from './platform/request.js'
import { type Budget, within } from './servers/budget.js'
import { namesOf, type Servers } from './servers/parties.js'
import { RecentLists } from './servers/recent-lists.js'
import { Signing } from './servers/signatures.js'
import { StatsKeeper } from './servers/stats.js'
import { openSession, type SessionParts } from './session/opening.js'
import type { Session } from './session/session.js'
import type { KeyWatcher } from './watching/watcher.js'

/** As `open`, with the environment and the schemes passed in. */
export async function openBy(environment: Environment, options: Options, schemes: Schemes): Promise<KeyhushMap> {
  assertPlatform(environment)
  const { servers, usable, wishes } = readOptions(options, schemes.known)
  const { signal, onProgress, onEvent, normalize, timeoutMs = TIMEOUT_MS } = options
  signal?.throwIfAborted()

  const { publisherKey, witnesses } = wishes
  let signing = publisherKey === undefined ? undefined : new Signing(publisherKey, environment)
  if (signing && witnesses !== undefined) signing = await Signing.witnessed(signing.key, witnesses, environment)
  const shared = join(environment, servers, { ...schemes, known: usable }, wishes, signing)
  // A listener that throws fails its own open(), and no other that shares the session. Later the platform reports it.
  const broken = new AbortController()
  let open = false
  const listener = (progress: Progress) => {
    try {
      onProgress?.(progress)
    } catch (error) {
      if (!open) broken.abort(new AppFailure(error))
      else
        queueMicrotask(() => {
          throw error
        })
    }
  }
  shared.listeners.add(listener)
  const own = new Set<OnEvent>()
  shared.subscribers.add(own)
  const subscribe = (listener: OnEvent) => {
    const notify = (event: MapEvent) => listener(event) // a new function: an app may give one listener twice
    own.add(notify)
    return () => void own.delete(notify)
  }
  if (onEvent !== undefined) subscribe(onEvent)
  const go = () => {
    own.clear()
    shared.subscribers.delete(own)
    shared.listeners.delete(listener)
    return leave(shared)
  }
  const slow = (servers: readonly string[]) => announce(own, { type: 'slow', servers })
  const { clock, connection } = environment
  const budget: Budget = { clock, connection, awaited: shared.stats, timeoutMs, slow }
  try {
    const opening = within(budget, late => abortable(abortable(shared.opening, broken.signal), late))
    const session = await toApp(abortable(opening, signal), signal)
    open = true
    const { watching } = shared
    return new OpenedMap({ session, random: environment.random, normalize, subscribe, budget, watching, leave: go })
  } catch (error) {
    go().catch(() => {}) // the caller does not wait for this
    throw error
  }
}

interface Schemes
  extends Pick<SessionParts, 'known' | 'loadKeeping' | 'loadLocalCore' | 'loadOneServer' | 'loadFilter'> {
  /** loads what watches keys */
  readonly loadWatching: () => Promise<typeof import('./watching/watcher.js')>
}

interface SharedSession {
  readonly environment: Environment
  readonly servers: Servers
  readonly wishes: Wishes
  readonly listeners: Set<OnProgress>
  /** a set of listeners for each map */
  readonly subscribers: Set<ReadonlySet<OnEvent>>
  readonly stats: StatsKeeper
  readonly controller: AbortController
  readonly opening: Promise<Session>
  session: Session | undefined
  readonly watching: SessionWatching
  /** open maps, and pending calls of open() */
  holders: number
}

/** Makes what watches a session's keys when it is wanted first. */
function watchingOf(make: () => Promise<KeyWatcher>): SessionWatching {
  let made: Promise<KeyWatcher> | undefined
  const watching = {
    watcher: undefined as KeyWatcher | undefined,
    async load() {
      made ??= make()
      made.catch(() => {
        made = undefined
      })
      watching.watcher = await made
      return watching.watcher
    },
    close: async () => await (await made?.catch(() => undefined))?.close(),
  }
  return watching
}

interface SessionWatching extends Watching {
  close(): Promise<void>
}

/** Open sessions by their environment's clock, which maps that share have in common. Entries end with their environment. */
const everyShared = new WeakMap<Environment['clock'], Set<SharedSession>>()

/** The session that a map with these wishes shares, or a new one. Counts one holder more. */
function join(
  environment: Environment,
  servers: Servers,
  schemes: Schemes,
  wishes: Wishes,
  signing: Signing | undefined,
): SharedSession {
  const others = everyShared.get(environment.clock) ?? new Set()
  everyShared.set(environment.clock, others)
  for (const shared of others) {
    if (!isOwn(shared.controller.signal)) {
      others.delete(shared) // another request may never close it
      continue
    }
    const same = isOfSame(shared.servers, servers) && isSameEnvironment(shared.environment, environment)
    if (same && isSameWish(shared.wishes, wishes) && shared.session?.dead !== true) {
      shared.holders++
      return shared
    }
  }
  const controller = ownController()
  const listeners = new Set<OnProgress>()
  const tellAll = (progress: Progress) => {
    for (const listener of listeners) listener(progress)
  }
  const subscribers: SharedSession['subscribers'] = new Set()
  const stats = new StatsKeeper(servers)
  const { storage: preference, proofs, development, packages, lookups, ...rest } = wishes
  const parts = {
    ...schemes,
    environment,
    servers,
    preference,
    signing,
    stats,
    lists: new RecentLists(),
    announce: (event: MapEvent) => {
      for (const each of subscribers) announce(each, event)
    },
    onProgress: tellAll,
    options: { proofs, development, lookups, ...packages },
    ...rest,
  }
  const opening = openSession(parts, controller.signal)
  const shared: SharedSession = {
    environment,
    servers,
    wishes,
    listeners,
    subscribers,
    stats,
    controller,
    opening,
    session: undefined,
    watching: watchingOf(async () => {
      const { KeyWatcher } = await loadPart(schemes.loadWatching)
      const watcher = new KeyWatcher(parts, await opening)
      const moved = ({ type }: MapEvent) => type === 'updated' && watcher.moved()
      subscribers.add(new Set([moved]))
      return watcher
    }),
    holders: 1,
  }
  others.add(shared)
  opening.then(
    session => {
      shared.session = session
    },
    () => {
      others.delete(shared) // the next open() tries again
    },
  )
  return shared
}

/** In a microtask for each listener: the platform reports what it throws. */
function announce(listeners: ReadonlySet<OnEvent>, event: MapEvent): void {
  for (const notify of listeners) {
    queueMicrotask(() => {
      if (listeners.has(notify)) notify(event)
    })
  }
}

/** Counts one holder fewer. The last one aborts the opening, or closes the session. */
async function leave(shared: SharedSession): Promise<void> {
  if (--shared.holders > 0) return
  everyShared.get(shared.environment.clock)?.delete(shared)
  shared.controller.abort()
  await shared.watching.close()
  const session = await shared.opening.catch(() => undefined)
  await session?.close()
}

function isOfSame(a: Servers, b: Servers): boolean {
  return namesOf(a) === namesOf(b)
}

function isSameEnvironment(a: Environment, b: Environment): boolean {
  return (Object.keys(a) as (keyof Environment)[]).every(part => a[part] === b[part])
}
