// One tab at a time. Locks only save work: the store's version check (store/store.ts) keeps tabs from contradicting each
// other. So a lock may be missing, or be taken from a tab that the browser has frozen, without harm.
//
// A holder may keep its lock between two pieces of work while nobody waits for it. It knows by the bell, a second lock:
//   1. A tab that asks for the lock first steals the bell from the tab that has it.
//   2. A holder that loses the bell knows at once that another tab waits.
//   3. If two ask at once, the holder may have taken the bell after the other. So a tab that still waits rings again.

import { scoped } from '../base/abort.js'
import { pageShown, whileShown } from './page.js'

/** How long a tab waits before it rings again. */
const RING_AGAIN_MS = 500

export interface Locks {
  /**
   * Runs `task` while holding the lock `name`, and settles as it does. A tab that has waited `patienceMs` takes the lock
   * from its holder; the holder's task goes on, and the store refuses its writes. `wanted` aborts when another tab asks for
   * the lock, or when this page must not keep it. Without `wanted` nobody knows, and the lock must not be kept.
   */
  hold<T>(name: string, patienceMs: number, task: (wanted?: AbortSignal) => Promise<T>): Promise<T>
}

/**
 * The platform's, shared by all tabs and workers of an origin. Without them, tasks just run. A page that is left or
 * frozen does not wait in line: it would be given a lock that it cannot use.
 */
export const platformLocks: Locks = {
  async hold(name, patienceMs, task) {
    const locks = typeof navigator === 'object' ? navigator.locks : undefined
    if (locks === undefined) return await task()
    await pageShown()
    return await new Promise((resolve, reject) => {
      const [wanted, ended] = [new AbortController(), new AbortController()]
      const want = () => wanted.abort()
      const over = new Promise<void>(resolve => ended.signal.addEventListener('abort', () => resolve()))
      const ring = (until?: Promise<void>) => locks.request(`${name} bell`, { steal: true }, () => until)
      ring(over).then(want, want)
      let begun = false
      let stopTimers = () => {}
      const run = async () => {
        begun = true
        stopTimers()
        const left = frozen(want, ended.signal)
        const work = (async () => await task(wanted.signal))()
        work.then(resolve, reject)
        await Promise.race([work.catch(() => {}), left])
        ended.abort()
      }
      const wait = async (shown: AbortSignal) => {
        if (begun) return
        const patience = new AbortController()
        const timer = setTimeout(() => patience.abort(), patienceMs)
        const again = setTimeout(() => ring().catch(() => {}), RING_AGAIN_MS)
        stopTimers = () => {
          clearTimeout(timer)
          clearTimeout(again)
        }
        const request = (signal: AbortSignal) => locks.request(name, { signal }, run)
        await scoped([patience.signal, shown], request).finally(stopTimers)
      }
      whileShown(wait, ended.signal)
        .catch(async () => {
          if (begun) want()
          else await locks.request(name, { steal: true }, run)
        })
        .catch(async () => {
          // Refused, as in a sandboxed frame. (If begun: it was stolen from us, and the task goes on.)
          if (!begun) await run()
        })
        .catch(reject)
    })
  },
}

/**
 * Resolves when the page is about to be frozen, or kept for the back button: it must not hold a lock meanwhile. `want` is
 * called then, and when the page is hidden: some browsers freeze a hidden page without an event.
 */
export function frozen(want: () => void, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (typeof document !== 'object') return // a worker, or Node
    const release = () => {
      want()
      resolve()
    }
    const hide = () => {
      if (document.visibilityState === 'hidden') want()
    }
    hide()
    addEventListener('pagehide', release, { signal })
    document.addEventListener('freeze', release, { signal })
    document.addEventListener('visibilitychange', hide, { signal })
  })
}
