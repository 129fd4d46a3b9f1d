// Rows of hints that have not begun yet, and may never: whose they are, and when they go. A hint that begins sweeps up those of
// all others; but none may begin for a long time where a tab was killed that prepared one.

import { scoped } from '../base/abort.js'
import { LOCK_PATIENCE_MS } from '../base/constants.js'
import { sleep } from '../servers/retry.js'
import type { Machine } from './machine.js'

/**
 * Until what this resolves to is called, rows that this tab prepares for a hint that has not begun are its own. Whoever finds that
 * there is no such tab sweeps them up; one that stands still in it is not waited for any longer than for a lock, and if it goes
 * on after all, what it has swept up is found missing when the hint begins.
 */
export async function useRows({ preparers, parts }: Machine, signal: AbortSignal): Promise<() => void> {
  const joined = preparers?.join()
  const leave = () => void joined?.then(leave => leave()).catch(() => {})
  try {
    await scoped([signal], over => Promise.race([joined, sleep(parts.environment.clock, LOCK_PATIENCE_MS, over)]))
    signal.throwIfAborted()
  } catch (error) {
    leave()
    throw error
  }
  return leave
}

/** Rows that were prepared for hints by tabs that are gone, or have given them up, go. */
export async function sweepRows({ preparers, store }: Machine): Promise<void> {
  await preparers?.whileNone(() => store.sweepRows())
}
