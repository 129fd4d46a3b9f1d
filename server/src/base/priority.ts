// The priority of threads that compute beside the main thread, which everybody waits for. Linux has priorities by thread; other systems
// have one for the process.

import { getPriority, setPriority } from 'node:os'

/** A third of what others get who want the same processor: enough for them to come first, and to get on beside them. */
const NICENESS = 5

/** Gives this thread a lower priority than the main thread. */
export function lowerPriority(): void {
  if (process.platform === 'linux' && getPriority() < NICENESS) setPriority(NICENESS)
}
