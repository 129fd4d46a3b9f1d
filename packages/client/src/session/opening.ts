// Opening a session: the core, then whatever the mode needs.

import type { Manifest } from '@pirouette/protocol'
import type { Build } from '@pirouette/wasm/client'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import { startCore } from '../platform/starting.js'
import { type Choice, firstScheme } from '../scheme/table.js'
import type { Apart } from '../servers/pair.js'
import { StatsKeeper } from '../servers/stats.js'
import type { Parts } from '../state/machine.js'
import { ChoosingSession } from './choosing.js'
import type { Session } from './session.js'
import { StatefulSession } from './stateful.js'
import { StatelessSession } from './stateless.js'

async function sessionOf({
  choice,
  allowLight,
  ...given
}: Omit<SessionParts, 'push'> & Omit<Parts, 'choose'>): Promise<ChoosingSession | StatefulSession | StatelessSession> {
  const { mode, schemes, core, apart } = given
  const first = mode === 'auto' ? firstScheme(schemes) : undefined
  if (first !== undefined) return await ChoosingSession.withStore(given, first, choice, allowLight)
  const scheme = schemes.get(mode)
  const choose = (manifest: Manifest) => choice.choose(core, manifest, { lookups: 0, light: allowLight, apart })
  const parts = { ...given, choose }
  return scheme?.kind === 'stateless' ? new StatelessSession(parts, scheme) : await StatefulSession.withStore(parts)
}

/** The WebAssembly module that maps load where so many parties stand apart. */
export function buildFor(apart: Apart): Build {
  return apart === 1 ? 'single' : 'client'
}

export interface SessionParts extends Omit<Parts, 'core' | 'stats' | 'choose'> {
  readonly push: boolean
  readonly choice: Choice
  /** mode `auto` may make a light hint */
  readonly allowLight: boolean
}

/** Loads the core, and takes up the stored state or prepares anew. A condemned state opens, too. */
export async function openSession(
  { push, ...context }: SessionParts,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<Session> {
  const core = await startCore(context.environment, buildFor(context.apart))
  signal.throwIfAborted()
  const session = await sessionOf({ ...context, core, stats: new StatsKeeper(context.servers) })
  const progress = new ProgressMeter(onProgress)
  try {
    await session.begin(progress, signal)
    progress.phase('ready')
    if (push) session.listen()
    return session
  } catch (error) {
    await session.close()
    throw error
  }
}
