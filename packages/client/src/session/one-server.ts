// A session in mode `instant` with one server. It keeps no state, but the newest epoch that it has shown, where there is storage: a
// server must not go back to an older one, by which it could tell its clients apart.

import { startCore } from '../platform/starting.js'
import { loadOneServer } from '../scheme/on-demand.js'
import type { Greeting } from '../servers/greeting.js'
import type { Place } from '../servers/signatures.js'
import { Shown } from './shown.js'
import { type StatelessParts, StatelessSession } from './stateless.js'

/** `greeting`: the server's first replies, which are asked for already. */
export async function oneServerSession(
  parts: Omit<StatelessParts, 'core'>,
  greeting: Greeting,
): Promise<StatelessSession> {
  const { environment } = parts
  const opening = Shown.open(parts)
  try {
    const [core, scheme] = await Promise.all([startCore(environment, 'instant'), loadOneServer(environment)])
    const shown = await opening
    const shared = {
      onShown: (at: Place) => shown?.note(at),
      remembered: shown?.place,
      onClosed: async () => await shown?.close(),
    }
    return new StatelessSession({ ...parts, core }, scheme, shared, greeting)
  } catch (error) {
    await (await opening)?.close()
    throw error
  }
}
