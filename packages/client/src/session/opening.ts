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
import type { Download, Network } from '../session/consent.js'
import type { Parts } from '../state/machine.js'
import type { Session } from './session.js'
import { StatelessSession } from './stateless.js'

/** A session that is still to begin. */
interface UnbegunSession extends Session {
  begin(progress: ProgressMeter, signal: AbortSignal): Promise<void>
  /** listens for new epochs from now on */
  listen(): void
}

/** Makes a session that keeps a state, or may later. */
export type Keeping = (parts: KeepingParts) => Promise<UnbegunSession>

interface KeepingParts extends Omit<Parts, 'choose' | 'schemes' | 'mayDownload'> {
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

/** Sessions of mode `filter`. */
export interface Filters {
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

async function sessionOf(
  { push, known, loadKeeping, loadLocalCore, loadFilter, ...given }: SessionParts,
  signal: AbortSignal,
): Promise<UnbegunSession> {
  const { announce, environment, mode, apart, servers, stats } = given
  const scheme = known.get(mode)
  await environment.pause() // whoever calls open() may be a script that the page has just loaded, which is a long task by itself
  signal.throwIfAborted()
  const complete = (core: KeepingParts['core']) => ({ ...given, core })
  if (scheme?.kind === 'stateless') {
    const greeting = greet(linksOf(servers, environment, stats.standing, stats.offline), environment, signal) // while the core is loaded
    if (apart === 1) return await (await loadPart(given.loadOneServer!)).oneServerSession(given, greeting)
    const core = await startInstant(environment, announce)
    signal.throwIfAborted()
    return new StatelessSession(complete(core), scheme, {}, greeting)
  }
  if (mode === FILTER) return await (await loadPart(loadFilter!)).filterSession(given, signal)
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
