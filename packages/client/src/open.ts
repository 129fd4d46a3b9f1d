// Opening maps, and sharing them: two maps of one identity, the same set of servers in the same environment with the
// same preference, have one session, one hint and one queue.

import { type ModuleSource, useModule } from '@pirouette/wasm/client'
import { abortable } from './base/abort.js'
import { AppFailure, checkOptions, toApp } from './base/boundary.js'
import { StorageError, UsageError } from './base/errors.js'
import type { MapEvent, OnEvent } from './base/events.js'
import type { OnProgress, Progress } from './base/progress.js'
import type { Normalize } from './lookup/keys.js'
import { PirouetteMap } from './map.js'
import { type Environment, type Fetch, platformEnvironment } from './platform/environment.js'
import type { ProofsPreference, Scheme } from './scheme/scheme.js'
import { type Choice, type Choose, chooseScheme, type Pays, paysAfter, SCHEMES, schemesFor } from './scheme/table.js'
import type { RollbackPreference } from './servers/fence.js'
import {
  type Allowances,
  type Apart,
  apartOf,
  assertParties,
  identityOf,
  parseServers,
  type Servers,
} from './servers/pair.js'
import { Publisher, parsePublisherKey } from './servers/signatures.js'
import { buildFor, openSession } from './session/opening.js'
import type { Session } from './session/session.js'
import type { OpenDurableStore, StoragePreference } from './store/storage.js'

export interface OpenWithOptions extends Allowances {
  /**
   * Base URLs of two servers, on different hosts, run by operators who do not collude. Order is immaterial. Or of one server,
   * which learns nothing from lookups whatever it does: they are answered in mode `local` or `single`. What is in its
   * database it could make up as it likes, so that a publisherKey is needed.
   */
  readonly servers: readonly [string | URL] | readonly [string | URL, string | URL]
  /**
   * `server`: one server's word for what is in its database suffices. It, and whoever breaks into it, can show each map what it
   * likes, and another database to each; what is looked up stays hidden all the same.
   */
  readonly integrity?: 'server' | undefined
  /**
   * `tolerated`: two servers may be one party. Lookups are answered as with one server, by either of them; what is in the
   * database, both have to agree on.
   */
  readonly collusion?: 'tolerated' | undefined
  /**
   * In mode `single`: how many lookups new hints are good for, before the database has to be downloaded again; if not given,
   * 16 384, or as many as fit 16 MiB: each takes twice a record's bytes of memory.
   */
  readonly lookups?: number | undefined
  /**
   * Takes two servers that are on one host, on two ports. Whoever runs that host sees both queries of each lookup, and so
   * the key. Two ports of this very machine (localhost, 127.0.0.1, [::1]) need no option.
   */
  readonly allowSameHost?: boolean | undefined
  /**
   * Takes servers on other machines over plain http. Whoever is on the way to both sees both queries of each lookup, and so
   * the key.
   */
  readonly allowPlainHttp?: boolean | undefined
  readonly onProgress?: OnProgress | undefined
  /** Calls the opening off. Free at any time: nothing that depends on a lookup is sent before the first. */
  readonly signal?: AbortSignal | undefined
  /** Applied to text keys before they are looked up. Without it keys are taken exactly as they are. */
  readonly normalize?: Normalize | undefined
  /** Whether state is to outlive the page; `preferred` if not given. */
  readonly storage?: StoragePreference | undefined
  /**
   * The publisher's Ed25519 key (32 bytes, or the 64 hex digits that `pirouette keygen` prints), known out of band. With
   * it, the database must be signed, else SignatureError: even two servers that lie together cannot make up a record, nor
   * take a map back to where it has been before. Without it, comparing the servers has to do. Not with mode `light`, whose
   * hints servers make: what they agree to make up there has no signature over it.
   */
  readonly publisherKey?: string | Uint8Array | undefined
  /**
   * How copies of the state (a restored backup, a cloned profile) are found out, with the help of the refresh server's
   * rollback fence; `confirm` if not given. A copy that is opened is found out before it shows anything; one that was
   * copied while it was open shows one lookup at most, and with `strict` none. `strict` costs a round trip more in each
   * lookup, in which one server alone is asked (it relaxes P2), and refuses servers without a fence with
   * UnsupportedError. See docs/threat-model.md, Old state put back.
   */
  readonly rollback?: RollbackPreference | undefined
  /**
   * How lookups are answered. `local`: the whole database is kept here, verified and followed by updates, and nothing ever
   * leaves for a lookup. `full`: it is downloaded once and folded into a hint; two servers answer. `light`: as `full`, but
   * one server makes the hint and the other sends what it is checked with, a small part of the database together; the two
   * could then work out every lookup if they pooled what they know. If that fails, it is as `full` until `reset()`.
   * `instant`: nothing is downloaded and nothing kept; two servers answer, with far more work, in two round trips for a key.
   * `single`: the database is downloaded once and folded into hints, of which each lookup uses one up; one server answers, and
   * learns nothing of it. With one server, or `collusion: 'tolerated'`, there are only `single` and `local`.
   * `auto`, if not given: what is stored here already; else `instant` from the first moment on, and behind it `local` is
   * prepared for databases of at most 16 MiB, `full` for larger ones once so many lookups were made that it would have been
   * cheaper from the beginning; then `map.mode` changes, with an event. `light` only with `allowLight`. With one server: `local`
   * for databases of at most 16 MiB, else `single`.
   */
  readonly mode?: 'auto' | 'local' | 'full' | 'light' | 'instant' | 'single' | undefined
  /**
   * Lets mode `auto` make a light hint where both servers offer it and it is the cheapest: a small part of the download, after
   * far fewer lookups. It assumes more than `instant` and `full` do: what one server was shown when the hint was made,
   * 32 bytes, opens all of its lookups to whoever also has the queries that the other server gets, whenever these two meet
   * (docs/threat-model.md, Light hints). Not with `publisherKey`.
   */
  readonly allowLight?: boolean | undefined
  /**
   * What proves that answers are genuine, in modes `full` and `light`. `merkle`: proofs that the servers send. `tags`: nothing
   * on the wire; the map keeps 8 bytes for each record instead, and a lookup is about a tenth as large. `pointproofs`, in mode
   * `full`, where servers offer it: one proof of 48 bytes an answer; a lookup is as small as with tags, the map keeps little, and
   * verifying takes about a tenth of a second. `auto`, if not given:
   * tags, unless the map would then take more than 64 MB of memory, or the making of a light hint, in which both servers tag
   * every record, more than 16 MiB of replies; else `pointproofs`, where that can be, else `merkle`. The servers see which;
   * see docs/threat-model.md.
   */
  readonly proofs?: ProofsPreference | undefined
  /**
   * Takes `pointproofs` under the key of a ceremony for development, which says nothing of who might forge. For trying
   * things out.
   */
  readonly allowDevelopmentCeremony?: boolean | undefined
  /**
   * Whether the map keeps a stream to each server open, to learn of new versions of the database within a second. If not
   * given, it does in browsers; elsewhere a stream would keep the process from ending.
   */
  readonly push?: boolean | undefined
  /** Told, after the fact, what becomes of the state. From before `open()` resolves until the map is closed. */
  readonly onEvent?: OnEvent | undefined
}

export interface OpenOptions extends OpenWithOptions {
  /** Replaces the platform's fetch: every request of the map goes through it. */
  readonly fetch?: Fetch | undefined
  /**
   * Replaces the platform's durable storage; for Node, which has none:
   * `fileStore('a/folder')`, from `@pirouette/client/node`. Maps share their state if it is the same function.
   */
  readonly store?: OpenDurableStore | undefined
  /**
   * Where the WebAssembly module is, for apps that stream it or keep it: `() => fetch(url)` of the file
   * `@pirouette/wasm/client_bg.wasm` (with one server, or `collusion: 'tolerated'`, `@pirouette/wasm/single_bg.wasm`), its
   * bytes, or what was compiled of them. If not given, it is loaded as JavaScript when it
   * is needed. A page has one module of each: the first one counts.
   */
  readonly wasm?: ModuleSource | (() => ModuleSource) | undefined
}

/**
 * Opens a map: takes up the state of an earlier visit, or begins.
 * @throws {UsageError} for options that cannot be, before any traffic
 * @throws {PirouetteError} by class or `code`: docs/common-errors.md has each with its way out
 * @example
 * const map = await open({ servers: ['https://a.example', 'https://b.example'] })
 * await map.getText('otter')
 */
export async function open(options: OpenOptions): Promise<PirouetteMap> {
  checkOptions('open', options, ['fetch', 'store'])
  checkNames(options)
  const { fetch, store, wasm, ...others } = options
  if (wasm !== undefined) useModule(wasm, buildFor(apartOf(options.servers, options.collusion)))
  return await openWith(platformEnvironment(fetch, store), others)
}

const OPTIONS: Record<keyof OpenOptions, true> = {
  servers: true,
  integrity: true,
  collusion: true,
  lookups: true,
  allowSameHost: true,
  allowPlainHttp: true,
  onProgress: true,
  signal: true,
  normalize: true,
  storage: true,
  publisherKey: true,
  rollback: true,
  mode: true,
  allowLight: true,
  proofs: true,
  allowDevelopmentCeremony: true,
  push: true,
  onEvent: true,
  fetch: true,
  store: true,
  wasm: true,
}

/**
 * Throws UsageError for an option that there is not: one that is misspelt must not be taken for one that was not given. An
 * object of the app's may have methods besides.
 */
function checkNames(options: OpenOptions): void {
  const names = Object.keys(OPTIONS)
  const given = Object.entries(options).filter(([, value]) => typeof value !== 'function')
  const unknown = given.map(([name]) => name).find(name => !Object.hasOwn(OPTIONS, name))
  if (unknown === undefined) return
  const meant = names.find(name => name.toLowerCase() === unknown.toLowerCase())
  const instead = meant === undefined ? `expected some of ${names.join(', ')}` : `expected ${meant}`
  throw new UsageError(`open: there is no option ${JSON.stringify(unknown.slice(0, 40))}; ${instead}`)
}

/** As `open`, with time, network, chance, storage and core passed in, and perhaps schemes and rules of their own. For tests. */
export async function openWith(
  environment: Environment,
  options: Omit<OpenWithOptions, 'mode'> & { readonly mode?: string | undefined },
  schemes: ReadonlyMap<string, Scheme> = SCHEMES,
  pays: Pays = paysAfter,
  choose: Choose = chooseScheme,
): Promise<PirouetteMap> {
  checkOptions('open', options, ['onProgress', 'onEvent', 'normalize'])
  const { signal, onProgress, onEvent, normalize, storage = 'preferred' } = options
  if (!PREFERENCES.has(storage)) throw new UsageError("storage: expected 'required', 'preferred' or 'memory'")
  const servers = parseServers(options.servers)
  const apart = apartOf(options.servers, options.collusion)
  assertParties(servers, apart, options)
  const publisherKey = options.publisherKey === undefined ? undefined : parsePublisherKey(options.publisherKey)
  checkIntegrity(servers, publisherKey, options)
  const { rollback = 'confirm', push = typeof addEventListener === 'function' } = options
  const { proofs = 'auto', mode = 'auto', allowDevelopmentCeremony = false } = options
  const allowLight = options.allowLight === true
  const usable = schemesFor(schemes, apart)
  if (mode !== 'auto' && !usable.has(mode)) {
    const modes = ['auto', ...usable.keys()].map(name => `'${name}'`).join(', ')
    throw new UsageError(`mode: expected ${modes}, with ${apart === 1 ? 'one server' : 'two servers'}`)
  }
  const scheme = usable.get(mode)
  const { lookups } = options
  if (
    lookups !== undefined &&
    (apart !== 1 || !(Number.isInteger(lookups) && lookups > 0 && lookups <= MOST_LOOKUPS))
  ) {
    throw new UsageError(
      `lookups: expected a whole number up to ${MOST_LOOKUPS}, and one server or collusion tolerated`,
    )
  }
  if (publisherKey !== undefined && scheme?.kind === 'stateful' && !scheme.hashed) {
    throw new UsageError(
      `mode: '${mode}' cannot go with publisherKey, whose signature covers nothing of what servers make`,
    )
  }
  if (apart === 1 && allowLight) throw new UsageError('allowLight: expected two servers that do not collude')
  if (publisherKey !== undefined && allowLight) {
    throw new UsageError('allowLight: cannot go with publisherKey, whose signature covers nothing of what servers make')
  }
  if (!PROOFS.has(proofs)) throw new UsageError("proofs: expected 'auto', 'tags', 'merkle' or 'pointproofs'")
  if (!ROLLBACK.has(rollback)) throw new UsageError("rollback: expected 'confirm' or 'strict'")
  signal?.throwIfAborted()

  const answers = { mode, allowLight, proofs, allowDevelopmentCeremony, lookups }
  const wishes = { storage, publisherKey, rollback, ...answers, push, apart }
  const shared = join(environment, servers, { schemes: usable, choice: { pays, choose } }, wishes)
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
    return new PirouetteMap({ session, random: environment.random, normalize, subscribe, leave: go })
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
 * begin anew at their next lookup. Throws StorageError.
 */
export async function discardState({ servers, store }: DiscardOptions): Promise<void> {
  await discardStateWith(platformEnvironment(undefined, store), { servers })
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
    throw new StorageError('what is stored could not be removed; close maps that use it, and see `cause`', { cause })
  }
}

export type DiscardOptions = Pick<OpenOptions, 'servers' | 'store'>

/** As the core bounds them. */
const MOST_LOOKUPS = 2 ** 20

/** Throws UsageError if nobody vouches for what one server has, and the app has not said that nobody need. */
function checkIntegrity(
  { length }: Servers,
  publisherKey: string | undefined,
  { integrity }: Pick<OpenWithOptions, 'integrity'>,
): void {
  if (integrity !== undefined && integrity !== 'server') throw new UsageError("integrity: expected 'server'")
  if (length > 1 || publisherKey !== undefined || integrity === 'server') return
  const why = 'nobody would notice if it made up what is in its database'
  throw new UsageError(`servers: of one server, ${why}. Pass its publisherKey, or integrity: 'server' if it may`)
}

const PREFERENCES = new Set<unknown>(['required', 'preferred', 'memory'])
const PROOFS = new Set<unknown>(['auto', 'tags', 'merkle', 'pointproofs'])
const ROLLBACK = new Set<unknown>(['confirm', 'strict'])

/** What maps must have in common to share a session. */
interface Wishes {
  readonly storage: StoragePreference
  readonly publisherKey: string | undefined
  readonly rollback: RollbackPreference
  readonly proofs: ProofsPreference
  readonly allowDevelopmentCeremony: boolean
  readonly lookups: number | undefined
  readonly mode: string
  readonly allowLight: boolean
  readonly push: boolean
  readonly apart: Apart
}

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
function join(
  environment: Environment,
  servers: Servers,
  known: { readonly schemes: ReadonlyMap<string, Scheme>; readonly choice: Choice },
  wishes: Wishes,
): Shared {
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
  const { storage: preference, publisherKey, proofs, allowDevelopmentCeremony, lookups, ...rest } = wishes
  const publisher = publisherKey === undefined ? undefined : new Publisher(publisherKey, environment.clock)
  const parts = {
    ...known,
    environment,
    servers,
    preference,
    publisher,
    announce,
    options: { proofs, allowDevelopmentCeremony, lookups },
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
  const wishes = [...common, 'allowLight', 'proofs', 'allowDevelopmentCeremony'] as const
  return wishes.every(wish => a[wish] === b[wish])
}

function isSameEnvironment(a: Environment, b: Environment): boolean {
  const outside = ['clock', 'fetch', 'random', 'openStore', 'locks', 'tabs', 'pause'] as const
  const parts = [...outside, 'loadCore', 'loadPointproofs'] as const
  return parts.every(part => a[part] === b[part])
}
