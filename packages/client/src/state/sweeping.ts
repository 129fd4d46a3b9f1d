// Rows of hints that have not begun yet, and may never begin. When a hint begins, the rows of all others are removed. But if
// the tab that prepared one was killed, no hint may begin for a long time, so other tabs remove them too.

import { LOCK_PATIENCE_MS } from '../base/constants.js'
import { inTime } from '../servers/ask.js'
import type { Machine } from './machine.js'

/**
 * Protects rows that this tab prepares for a hint that has not begun, until the resolved function is called. A tab that is
 * removing rows is waited for, but no longer than for a lock: if it froze and goes on later, the hint finds its rows
 * missing when it begins.
 */
export async function useRows({ preparers, parts }: Machine, signal: AbortSignal): Promise<() => void> {
  const joined = preparers?.join()
  const leave = () => void joined?.then(leave => leave()).catch(() => {})
  const { environment, stats } = parts
  stats.waitingForTab++
  try {
    await inTime(environment.clock, LOCK_PATIENCE_MS, joined, signal)
    signal.throwIfAborted()
  } catch (error) {
    leave()
    throw error
  } finally {
    stats.waitingForTab--
  }
  return leave
}

/** Removes the rows of hints that no tab prepares any more. */
export async function sweepRows({ preparers, store }: Machine): Promise<void> {
  await preparers?.whileNone(() => store.sweepRows())
}
