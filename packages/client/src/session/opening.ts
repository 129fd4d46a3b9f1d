// Opening a session: the core, then whatever the mode needs.

import { UnsupportedError } from '../base/errors.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import { StatsKeeper } from '../servers/stats.js'
import type { Parts } from '../state/machine.js'
import type { Session } from './session.js'
import { StatefulSession } from './stateful.js'
import { StatelessSession } from './stateless.js'

export type SessionParts = Omit<Parts, 'core' | 'stats'> & { readonly push: boolean }

/** Loads the core, and takes up the stored state or prepares anew. A condemned state opens, too. */
export async function openSession(
  { push, ...context }: SessionParts,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<Session> {
  const core = await context.environment.loadCore().catch((cause: unknown) => {
    const message =
      'the WebAssembly core could not be loaded; it needs WebAssembly with SIMD, and a content security policy that allows it (wasm-unsafe-eval)'
    throw new UnsupportedError(message, { cause })
  })
  signal.throwIfAborted()
  const parts: Parts = { ...context, core, stats: new StatsKeeper(context.servers) }
  const scheme = context.schemes.get(context.mode)
  const session =
    scheme?.kind === 'stateless' ? new StatelessSession(parts, scheme) : await StatefulSession.withStore(parts)
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
