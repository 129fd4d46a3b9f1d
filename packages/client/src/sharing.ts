// Shares sessions: maps with the same servers, environment and wishes have one session, one hint and one queue.

import { abortable } from './base/abort.js'
import { AppFailure, toApp } from './base/boundary.js'
import type { MapEvent, OnEvent } from './base/events.js'
import type { OnProgress, Progress } from './base/progress.js'
import { type KeyhushMap, OpenedMap } from './map.js'
import { isSameWish, type Options, readOptions, type Wishes } from './options.js'
import type { Environment } from './platform/environment.js'
import { identityOf, type Servers } from './servers/pair.js'
import { Publisher } from './servers/signatures.js'
import { openSession, type SessionParts } from './session/opening.js'
import type { Session } from './session/session.js'

/** As `open`, with the environment and the schemes passed in. */
export async function openBy(
  environment: Environment,
  options: Options,
  { known, loadKeeping }: Schemes,
): Promise<KeyhushMap> {
  const { servers, usable, wishes } = readOptions(options, known)
  const { signal, onProgress, onEvent, normalize } = options
  signal?.throwIfAborted()

  const shared = join(environment, servers, { known: usable, loadKeeping }, wishes)
  // A listener that throws fails its own open(), and no other that shares the session.
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
    const notify = (event: MapEvent) => listener(event) // a new function: an app may give one listener twice
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
    go().catch(() => {}) // the caller does not wait for this
    throw error
  } finally {
    shared.listeners.delete(listener)
  }
}

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
  /** open maps, and pending calls of open() */
  holders: number
}

/** Open sessions by their environment's clock, which maps that share have in common. Entries end with their environment. */
const everyShared = new WeakMap<Environment['clock'], Set<Shared>>()

/** The session that a map with these wishes shares, or a new one. Counts one holder more. */
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
    // In a microtask each: the platform reports what a listener throws.
    for (const notify of subscribers) {
      queueMicrotask(() => {
        if (subscribers.has(notify)) notify(event)
      })
    }
  }
  const { storage: preference, publisherKey, proofs, development, pointproofs, lookups, ...rest } = wishes
  const publisher = publisherKey === undefined ? undefined : new Publisher(publisherKey, environment)
  const parts = {
    ...schemes,
    environment,
    servers,
    preference,
    publisher,
    announce,
    options: { proofs, development, pointproofs, lookups },
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

/** Counts one holder fewer. The last one aborts the opening, or closes the session. */
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

function isSameEnvironment(a: Environment, b: Environment): boolean {
  return (Object.keys(a) as (keyof Environment)[]).every(part => a[part] === b[part])
}
