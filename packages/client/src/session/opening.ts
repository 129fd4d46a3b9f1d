// Opening a session: the core, then whatever the mode needs.

import type { Build } from '@pirouette/wasm/client'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import { startCore } from '../platform/starting.js'
import { firstScheme, type Pays } from '../scheme/table.js'
import type { Apart } from '../servers/pair.js'
import { StatsKeeper } from '../servers/stats.js'
import type { Parts } from '../state/machine.js'
import { ChoosingSession } from './choosing.js'
import type { Session } from './session.js'
import { StatefulSession } from './stateful.js'
import { StatelessSession } from './stateless.js'

async function sessionOf(parts: Parts, pays: Pays): Promise<ChoosingSession | StatefulSession | StatelessSession> {
  const { mode, schemes } = parts
  const scheme = mode === 'auto' ? firstScheme(schemes) : schemes.get(mode)
  if (scheme?.kind !== 'stateless') return await StatefulSession.withStore(parts)
  return mode === 'auto' ? await ChoosingSession.withStore(parts, scheme, pays) : new StatelessSession(parts, scheme)
}

/** The WebAssembly module that maps load where so many parties stand apart. */
export function buildFor(apart: Apart): Build {
  return apart === 1 ? 'single' : 'client'
}

export type SessionParts = Omit<Parts, 'core' | 'stats'> & { readonly push: boolean; readonly pays: Pays }

/** Loads the core, and takes up the stored state or prepares anew. A condemned state opens, too. */
export async function openSession(
  { push, pays, ...context }: SessionParts,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<Session> {
  const core = await startCore(context.environment, buildFor(context.apart))
  signal.throwIfAborted()
  const parts: Parts = { ...context, core, stats: new StatsKeeper(context.servers) }
  const session = await sessionOf(parts, pays)
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
