// Opening maps, and sharing them: two maps of one identity, the same set of servers in the same environment with the
// same preference, have one session, one hint and one queue.

import { useModule } from '@keyhush/wasm/client'
import { abortable } from './base/abort.js'
import { AppFailure, checkNames, checkOptions, toApp } from './base/boundary.js'
import { StorageError, UsageError } from './base/errors.js'
import type { MapEvent, OnEvent } from './base/events.js'
import type { OnProgress, Progress } from './base/progress.js'
import { type KeyhushMap, OpenedMap } from './map.js'
import { checkOpenOptions, type OpenOptions, type Options, readOptions, type Wishes } from './options.js'
import { type Environment, platformEnvironment } from './platform/environment.js'
import { KNOWN } from './scheme/known.js'
import { apartOf, identityOf, parseServers, type Servers } from './servers/pair.js'
import { Publisher } from './servers/signatures.js'
import { buildFor, openSession, type SessionParts } from './session/opening.js'
import type { Session } from './session/session.js'

/**
 * Opens a map: takes up the state of an earlier visit, or begins.
 * @throws {UsageError} for options that cannot be, before any traffic
 * @throws {KeyhushError} by class or `code`: docs/common-errors.md has each with its way out
 * @example
 * const map = await open({ servers: ['https://a.example', 'https://b.example'] })
 * await map.getText('otter')
 */
export async function open(options: OpenOptions): Promise<KeyhushMap> {
  checkOpenOptions(options)
  const { fetch, store, wasm, ...others } = options
  const { mode = 'auto', servers, collusion } = options
  if (wasm !== undefined) useModule(wasm, buildFor(mode, apartOf(servers, collusion), KNOWN))
  return await openBy(platformEnvironment(fetch, store), others, { known: KNOWN, loadKeeping })
}

async function loadKeeping() {
  return (await import('./session/keeping.js')).keeping()
}

/** As `open`, with everything outside passed in, and what schemes there are. */
export async function openBy(
  environment: Environment,
  options: Options,
  { known, loadKeeping }: Schemes,
): Promise<KeyhushMap> {
  const { servers, usable, wishes } = readOptions(options, known)
  const { signal, onProgress, onEvent, normalize } = options
  signal?.throwIfAborted()

  const shared = join(environment, servers, { known: usable, loadKeeping }, wishes)
  // A listener that throws fails its own open(), and nobody else's.
  const broken = new AbortController()
  const listener = (progress: Progress) => {
    try {
      onProgress?.(progress)
    } catch (error) {
      broken.abort(new AppFailure(error))
    }
  }
  shared.listeners.add(listener)
  const subscribed = new Set<() => void>()
  const subscribe = (listener: OnEvent) => {
    const notify = (event: MapEvent) => listener(event) // of its own: the same listener may be given twice
    const unsubscribe = () => {
      shared.subscribers.delete(notify)
      subscribed.delete(unsubscribe)
    }
    shared.subscribers.add(notify)
    subscribed.add(unsubscribe)
    return unsubscribe
  }
  if (onEvent !== undefined) subscribe(onEvent)
  const go = () => {
    for (const unsubscribe of subscribed) unsubscribe()
    return leave(shared)
  }
  try {
    const session = await toApp(abortable(abortable(shared.opening, broken.signal), signal), signal)
    return new OpenedMap({ session, random: environment.random, normalize, subscribe, leave: go })
  } catch (error) {
    go().catch(() => {}) // the caller does not wait for what is left to be cleared away
    throw error
  } finally {
    shared.listeners.delete(listener)
  }
}

/**
 * Removes what is stored for these servers, whatever it is: readable or not, half-made, with a lookup pending, condemned.
 * The next `open()` begins anew, as after `reset()`. For an app whose `open()` keeps failing on what is stored: a state that
 * contradicts what the servers have now, say, or a database that its publisher has replaced. Tabs that have such a map open
 * begin anew at their next lookup.
 * @throws {StorageError} if it could not be removed
 * @throws {UsageError} where nothing is kept, as in Node without a `store`
 * @example
 * await discardState({ servers: ['https://a.example', 'https://b.example'] })
 */
export async function discardState(options: DiscardOptions): Promise<void> {
  checkOptions('discardState', options, ['store'])
  checkNames('discardState', options, ['servers', 'store'])
  const { servers, store } = options
  try {
    await discardStateWith(platformEnvironment(undefined, store), { servers })
  } catch (error) {
    const nowhere = store === undefined && error instanceof StorageError && !isIndexedDbHere()
    if (!nowhere) throw error
    const message =
      'discardState: nothing is kept here, unless open() was given a store; pass the same: { servers, store }'
    throw new UsageError(message)
  }
}

function isIndexedDbHere(): boolean {
  try {
    return globalThis.indexedDB !== undefined
  } catch {
    return true // a page may be refused it, which throws
  }
}

/** As `discardState`, with storage passed in. For tests. */
export async function discardStateWith(
  { openStore }: Pick<Environment, 'openStore'>,
  { servers }: Pick<OpenOptions, 'servers'>,
): Promise<void> {
  const identity = identityOf(parseServers(servers))
  try {
    const { store } = await openStore(identity, 'required')
    try {
      await store.erase()
    } finally {
      await store.close()
    }
  } catch (cause) {
    const why = cause instanceof Error ? `: ${cause.message}` : '; see `cause`'
    throw new StorageError(`what is stored could not be removed; close maps that use it${why}`, { cause })
  }
}

export type DiscardOptions = Pick<OpenOptions, 'servers' | 'store'>

type Schemes = Pick<SessionParts, 'known' | 'loadKeeping'>

interface Shared {
  readonly environment: Environment
  readonly servers: Servers
  readonly wishes: Wishes
  readonly listeners: Set<OnProgress>
  readonly subscribers: Set<OnEvent>
  readonly controller: AbortController
  readonly opening: Promise<Session>
  session: Session | undefined
  /** maps, and calls of open() that may become maps */
  holders: number
}

/** By the clock, which maps have in common that may share: the sessions of an environment go with it. */
const everyShared = new WeakMap<Environment['clock'], Set<Shared>>()

/** The session of this identity, one more holder counted; begun if there is none. */
function join(environment: Environment, servers: Servers, schemes: Schemes, wishes: Wishes): Shared {
  const others = everyShared.get(environment.clock) ?? new Set()
  everyShared.set(environment.clock, others)
  for (const shared of others) {
    const same = isOfSame(shared.servers, servers) && isSameEnvironment(shared.environment, environment)
    if (same && isSameWish(shared.wishes, wishes) && shared.session?.dead !== true) {
      shared.holders++
      return shared
    }
  }
  const controller = new AbortController()
  const listeners = new Set<OnProgress>()
  const tellAll = (progress: Progress) => {
    for (const listener of listeners) listener(progress)
  }
  const subscribers = new Set<OnEvent>()
  const announce = (event: MapEvent) => {
    // In a microtask of its own: a listener that throws is the platform's to report, and disturbs nothing here.
    for (const notify of subscribers) {
      queueMicrotask(() => {
        if (subscribers.has(notify)) notify(event)
      })
    }
  }
  const { storage: preference, publisherKey, proofs, allowDevelopmentCeremony, pointproofs, lookups, ...rest } = wishes
  const publisher = publisherKey === undefined ? undefined : new Publisher(publisherKey, environment.clock)
  const parts = {
    ...schemes,
    environment,
    servers,
    preference,
    publisher,
    announce,
    options: { proofs, allowDevelopmentCeremony, pointproofs, lookups },
    ...rest,
  }
  const opening = openSession(parts, tellAll, controller.signal)
  const shared: Shared = {
    environment,
    servers,
    wishes,
    listeners,
    subscribers,
    controller,
    opening,
    session: undefined,
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

/** One holder fewer. The last one out calls the opening off, or closes the session. */
async function leave(shared: Shared): Promise<void> {
  if (--shared.holders > 0) return
  everyShared.get(shared.environment.clock)?.delete(shared)
  shared.controller.abort()
  const session = await shared.opening.catch(() => undefined)
  await session?.close()
}

function isOfSame(a: Servers, b: Servers): boolean {
  return identityOf(a).join(' ') === identityOf(b).join(' ')
}

function isSameWish(a: Wishes, b: Wishes): boolean {
  const common = ['storage', 'publisherKey', 'rollback', 'lookups', 'mode', 'push', 'apart'] as const
  const wishes = [...common, 'proofs', 'allowDevelopmentCeremony'] as const
  // An app may write the import() anew each time: what it loads is the same.
  const isSamePackage = (a.pointproofs === undefined) === (b.pointproofs === undefined)
  return isSamePackage && wishes.every(wish => a[wish] === b[wish])
}

function isSameEnvironment(a: Environment, b: Environment): boolean {
  const outside = ['clock', 'fetch', 'random', 'openStore', 'locks', 'tabs', 'pause'] as const
  return [...outside, 'loadCore' as const].every(part => a[part] === b[part])
}
