// Schemes that only some maps load, whose WebAssembly is a module of its own.

import type { Environment } from '../platform/environment.js'
import { loadPart } from '../platform/parts.js'
import type { StatelessScheme } from './scheme.js'

/** Lookups with one server, without a state. Throws UnsupportedError. */
export async function loadOneServer(environment: Pick<Environment, 'pause'>): Promise<StatelessScheme> {
  const { startOneServer } = await loadPart(() => import('./one-server/one-server.js'))
  return await startOneServer(environment)
}
