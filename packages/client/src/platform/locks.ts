// One tab at a time. Locks only save work: what keeps tabs from contradicting each other is the store's version check
// (store/store.ts). So a lock may be missing, and may be taken from a tab that the browser has frozen, without harm.
//
// Whoever asks for a lock takes its bell first, from whoever asked before: a second lock, which is always given and always
// taken away. So a holder that still has the bell knows that nobody waits, and one that loses it is told at once, whenever
// that is, and by whatever tab: it may keep the lock between two pieces of work until then. Where two ask at once, the holder may
// have taken the bell after the other, who therefore rings again once it has waited.

import { pageShown } from './page.js'

/** Whoever has waited so long rings again: it is in line by now, behind whoever has the lock and took the bell before that. */
const RING_AGAIN_MS = 500

export interface Locks {
  /**
   * Runs `task` while holding the lock `name`, and settles as it does. Whoever has waited `patienceMs` takes the lock
   * from its holder; the holder's task goes on, and finds out by the store. `wanted` aborts when somebody else asks for the
   * lock, or the page must not keep it; without it that is not known, and nothing may be kept.
   */
  hold<T>(name: string, patienceMs: number, task: (wanted?: AbortSignal) => Promise<T>): Promise<T>
}

/** The platform's, shared by all tabs and workers of an origin. Where there are none, tasks just run. A page that was left waits. */
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
      const run = async () => {
        begun = true
        clearTimeout(timer)
        clearTimeout(again)
        const left = frozen(want, ended.signal)
        const work = (async () => await task(wanted.signal))()
        work.then(resolve, reject)
        await Promise.race([work.catch(() => {}), left])
        ended.abort()
      }
      const patience = new AbortController()
      const timer = setTimeout(() => patience.abort(), patienceMs)
      const again = setTimeout(() => ring().catch(() => {}), RING_AGAIN_MS)
      locks
        .request(name, { signal: patience.signal }, run)
        .catch(async () => {
          if (begun) want()
          else await locks.request(name, { steal: true }, run)
        })
        .catch(async () => {
          // Not to be had at all, as in a sandboxed frame. (If begun: it was stolen from us, and the task goes on.)
          if (!begun) await run()
        })
        .catch(reject)
    })
  },
}

/**
 * Resolves when the page is about to be frozen, or kept for the back button: it must not hold a lock meanwhile. `want` is
 * called then, too, and when it is merely hidden: some browsers freeze a hidden page without a word.
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
