// One tab at a time. Locks only save work: what keeps tabs from contradicting each other is the store's version check
// (store/store.ts). So a lock may be missing, and may be taken from a tab that the browser has frozen, without harm.

import { pageShown } from './page.js'

export interface Locks {
  /**
   * Runs `task` while holding the lock `name`, and settles as it does. Whoever has waited `patienceMs` takes the lock
   * from its holder; the holder's task goes on, and finds out by the store.
   */
  hold<T>(name: string, patienceMs: number, task: () => Promise<T>): Promise<T>
}

/** The platform's, shared by all tabs and workers of an origin. Where there are none, tasks just run. A page that was left waits. */
export const platformLocks: Locks = {
  async hold(name, patienceMs, task) {
    const locks = typeof navigator === 'object' ? navigator.locks : undefined
    if (locks === undefined) return await task()
    await pageShown()
    return await new Promise((resolve, reject) => {
      let begun = false
      const run = async () => {
        begun = true
        clearTimeout(timer)
        const ended = new AbortController()
        const work = (async () => await task())()
        work.then(resolve, reject)
        await Promise.race([work.catch(() => {}), frozen(ended.signal)])
        ended.abort()
      }
      const patience = new AbortController()
      const timer = setTimeout(() => patience.abort(), patienceMs)
      locks
        .request(name, { signal: patience.signal }, run)
        .catch(async () => {
          if (!begun) await locks.request(name, { steal: true }, run)
        })
        .catch(async () => {
          // Not to be had at all, as in a sandboxed frame. (If begun: it was stolen from us, and the task goes on.)
          if (!begun) await run()
        })
        .catch(reject)
    })
  },
}

/** Resolves when the page is about to be frozen, or kept for the back button: it must not hold a lock meanwhile. */
function frozen(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const release = () => resolve()
    if (typeof document !== 'object') return // a worker, or Node
    addEventListener('pagehide', release, { signal })
    document.addEventListener('freeze', release, { signal })
  })
}
