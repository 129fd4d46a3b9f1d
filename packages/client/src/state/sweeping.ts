// Rows of hints that have not begun yet, and may never: whose they are, and when they go. A hint that begins sweeps up those of
// all others; but none may begin for a long time where a tab was killed that prepared one.

import { identityOf, type Servers } from '../servers/pair.js'
import type { Machine } from './machine.js'

/**
 * Until what this resolves to is called, rows that this tab prepares for a hint that has not begun are its own. Whoever finds that
 * there is no such tab sweeps them up.
 */
export async function useRows({ durable, parts }: Machine): Promise<() => void> {
  return durable ? await parts.environment.tabs.use(rowsName(parts.servers)) : () => {}
}

/** Rows that were prepared for hints by tabs that are gone, or have given them up, go. */
export async function sweepRows({ durable, parts, store }: Machine): Promise<void> {
  if (durable) await parts.environment.tabs.whereUnused(rowsName(parts.servers), () => store.sweepRows())
}

function rowsName(servers: Servers): string {
  return `pirouette rows ${identityOf(servers).join(' ')}`
}
