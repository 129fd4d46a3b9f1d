// Opening a session: loads the core and what the mode needs.

import type { Build, Core } from '@keyhush/wasm/client'
import { ProgressMeter } from '../base/progress.js'
import type { Environment } from '../platform/environment.js'
import { loadPart } from '../platform/parts.js'
import { startCore, startEither, startInstant } from '../platform/starting.js'
import { FILTER, LOCAL } from '../scheme/facts.js'
import { firstScheme } from '../scheme/known.js'
import type { KnownScheme, StatelessScheme } from '../scheme/scheme.js'
import { type Greeting, greet } from '../servers/info.js'
import type { Apart } from '../servers/parties.js'
import { linksOf } from '../servers/transport.js'
import type { Consent, Download, Network } from './consent.js'
import type { Session } from './session.js'
import { type StatelessParts, StatelessSession } from './stateless.js'

/** Options of a filter. None has a default. */
export interface FilterOptions {
  /**
   * Which share of the calls about absent keys asks all the same, from 0 to 1. With 0, a request shows that a key is listed, for all but one
   * of 254. The larger the share, the less a request shows, and the more it costs. Or a schedule, in mode `instant`: requests show nothing.
   */
  readonly cover: number | Schedule
  /** What a call does while the filter does not answer: `ask` the servers, or `wait` until it does, else throw TimeoutError. */
  readonly meanwhile: 'ask' | 'wait'
}

/** Lookups at times that depend on no call. */
export interface Schedule {
  /** Milliseconds from one lookup to the next, from 1 000 to a day. The first comes within as long, at a drawn time. */
  readonly everyMs: number
  /** How many queries each lookup has, and how many keys a call may have. */
  readonly queries: number
}

/** A session that is still to begin. */
export interface UnbegunSession extends Session {
  /** in mode `auto` */
  readonly choosing?: Choosing
  begin(progress: ProgressMeter, signal: AbortSignal): Promise<void>
  /** listens for new epochs from now on */
  listen(): void
}

/** What a filter before lookups in mode `auto` depends on. */
export interface Choosing {
  /** whether one is to answer: not beside a state, nor where a copy may begin by itself after the next lookup */
  readonly wantsFilter: boolean
  /** asked before a filter is downloaded */
  readonly filterConsent: Consent
  /** counts a call that waits as a lookup, whatever its keys are */
  waits(): void
}

/** Makes a session that keeps a state, or may later. */
export type Keeping = (parts: KeepingParts) => Promise<UnbegunSession>

export interface KeepingParts extends StatelessParts {
  /** what a map in mode `auto` may download by itself */
  readonly download: Download
  /** on which lines */
  readonly network: Network
  /** whether one server answers without a state */
  readonly experimental: boolean
  /** loads what does that; missing: nobody may ask for it */
  readonly loadOneServer?: (() => Promise<OneServer>) | undefined
}

export interface SessionParts extends Omit<KeepingParts, 'core'> {
  /** the schemes that may be used, by name */
  readonly known: ReadonlyMap<string, KnownScheme>
  readonly push: boolean
  readonly filter: FilterOptions | undefined
  /** loads what makes sessions that keep a state */
  readonly loadKeeping: () => Promise<Keeping>
  /** loads filters; missing: there are none */
  readonly loadFilter?: (() => Promise<Filters>) | undefined
  /** loads the core in JavaScript that can copy databases; missing: there is none */
  readonly loadLocalCore?: (() => Promise<Core>) | undefined
}

/** Instant lookups with one server. */
export interface OneServer {
  oneServerSession(parts: Omit<KeepingParts, 'core'>, greeting: Greeting): Promise<UnbegunSession>
  startOneServer(environment: Pick<Environment, 'pause'>): Promise<StatelessScheme>
}

/** What filtered lookups need. */
export type FilteredParts = Omit<KeepingParts, 'core'>

/** Makes the session behind a filter. */
export type Behind = (own: Pick<FilteredParts, 'announce' | 'directoryAt'>) => Promise<UnbegunSession>

/** Sessions with a filter: of mode `filter`, and of modes `instant` and `auto` behind one. */
export interface Filters {
  filteredSession(parts: FilteredParts, wishes: FilterOptions, behind: Behind): Promise<UnbegunSession>
  filterSession(parts: Omit<KeepingParts, 'core'>, signal: AbortSignal): Promise<UnbegunSession>
}

/** The WebAssembly module that a map in this mode needs in the end. */
export function buildFor(mode: string, apart: Apart, known: ReadonlyMap<string, KnownScheme>): Build {
  if (mode === FILTER || known.get(mode)?.kind === 'stateless') return 'instant'
  return apart === 2 ? 'client' : 'single'
}

/** Loads the core, and resumes the stored state or prepares a new one. A map with a condemned state opens too. */
export async function openSession(parts: SessionParts, signal: AbortSignal): Promise<Session> {
  const session = await sessionOf(parts, signal)
  const progress = new ProgressMeter(parts.onProgress)
  try {
    await session.begin(progress, signal)
    progress.phase('ready')
    if (parts.push) session.listen()
    return session
  } catch (error) {
    await session.close()
    throw error
  }
}

async function sessionOf(parts: SessionParts, signal: AbortSignal): Promise<UnbegunSession> {
  const { environment, mode, filter, loadFilter } = parts
  await environment.pause() // whoever calls open() may be a script that the page has just loaded, which is a long task by itself
  signal.throwIfAborted()
  if (filter === undefined && mode !== FILTER) return await plainSession(parts, signal)
  const { filterSession, filteredSession } = await loadPart(loadFilter!)
  if (filter === undefined) return await filterSession(parts, signal)
  return await filteredSession(parts, filter, own => plainSession({ ...parts, ...own }, signal))
}

async function plainSession(
  { push, known, loadKeeping, loadLocalCore, loadFilter, filter, ...given }: SessionParts,
  signal: AbortSignal,
): Promise<UnbegunSession> {
  const { announce, environment, mode, apart, servers, stats } = given
  const scheme = known.get(mode)
  const complete = (core: KeepingParts['core']) => ({ ...given, core })
  if (scheme?.kind === 'stateless') {
    const greeting = greet(linksOf(servers, environment, stats.standing, stats.offline), environment, signal) // while the core is loaded
    if (apart === 1) return await (await loadPart(given.loadOneServer!)).oneServerSession(given, greeting)
    const core = await startInstant(environment, announce)
    signal.throwIfAborted()
    return new StatelessSession(complete(core), scheme, {}, greeting)
  }
  const answersFirst = mode === 'auto' && firstScheme(known) !== undefined
  const build = buildFor(mode, apart, known)
  const start = () => {
    if (answersFirst) return startInstant(environment, announce)
    const script = mode === LOCAL.name ? loadLocalCore : undefined
    return script === undefined ? startCore(environment, build) : startEither(environment, build, script, announce)
  }
  const [core, keep] = await Promise.all([start(), loadPart(loadKeeping)])
  signal.throwIfAborted()
  return await keep(complete(core))
}
