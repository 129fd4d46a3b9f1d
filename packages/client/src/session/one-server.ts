// Instant lookups with one server, which are an experiment: what they demand of an app's options, and their sessions. Only maps that
// make such lookups load this file.

import { UsageError } from '../base/errors.js'
import { startInstant } from '../platform/starting.js'
import { startOneServer } from '../scheme/on-demand.js'
import type { Greeting } from '../servers/info.js'
import type { EpochId } from '../servers/signatures.js'
import { Shown } from './shown.js'
import { type StatelessParts, StatelessSession } from './stateless.js'

export { startOneServer }

/** The options that such lookups depend on. */
interface Demanding {
  readonly servers: readonly unknown[]
  readonly publisherKey?: unknown
  readonly integrity?: unknown
  readonly collusion?: unknown
  readonly mode?: string | undefined
  readonly experimental?: unknown
}

/** Throws UsageError for lookups with one server that must not be made so. */
export function checkExperimental(options: Demanding): void {
  const { servers, publisherKey, integrity, collusion, mode = 'auto', experimental } = options
  const several = servers.length > 1 || collusion !== undefined
  if (experimental !== true) {
    const what = "mode: expected experimental: true for 'instant' with one server, got none"
    const why = 'its cryptography is new and unreviewed (docs/review-one-server.md)'
    throw new UsageError(`${what}: ${why}. Pass it with a publisherKey, use mode 'single', or name two servers`)
  }
  if (several || (mode !== 'auto' && mode !== 'instant')) {
    const came = several ? 'several' : `mode '${mode}'`
    throw new UsageError(
      `experimental: expected one server in mode 'instant' or 'auto', got ${came}; leave the option out`,
    )
  }
  const why = 'a server that makes its own hints learns a bit of its choice with each lookup'
  if (integrity !== undefined) {
    const what = "integrity: expected none with experimental, got 'server'"
    throw new UsageError(`${what}: ${why}; leave it out, and pass a publisherKey`)
  }
  if (publisherKey !== undefined) return
  throw new UsageError(`publisherKey: expected one with experimental, got none: ${why}; pass the publisher's key`)
}

/**
 * A session that keeps nothing but the newest epoch that it has shown, where there is storage: a server must not go back to an older
 * one, by which it could tell its clients apart. `greeting`: the server's first replies, which are asked for already.
 */
export async function oneServerSession(
  parts: Omit<StatelessParts, 'core'>,
  greeting: Greeting,
): Promise<StatelessSession> {
  const { announce, environment } = parts
  const opening = Shown.open(parts)
  try {
    const [core, scheme] = await Promise.all([startInstant(environment, announce), startOneServer(environment)])
    const shown = await opening
    const shared = {
      onShown: (at: EpochId) => shown?.note(at),
      remembered: shown?.at,
      onClosed: async () => await shown?.close(),
    }
    return new StatelessSession({ ...parts, core }, scheme, shared, greeting)
  } catch (error) {
    await (await opening)?.close()
    throw error
  }
}
