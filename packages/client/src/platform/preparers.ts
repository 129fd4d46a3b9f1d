// Whether tabs prepare hints beside the stored one. Each of them holds a shared lock; a tab that takes that lock exclusively
// knows that there are none.

import { OVER, onAbort } from '../base/abort.js'
import type { Identity, Preparers } from '../store/storage.js'
import { frozen } from './locks.js'
import { pageShown, whileShown } from './page.js'

/** Undefined: the platform has no locks, so it is not known. */
export function preparersOf(identity: Identity): Preparers | undefined {
  const locks = typeof navigator === 'object' ? navigator.locks : undefined
  if (locks === undefined) return undefined
  const name = `keyhush preparing ${identity.join(' ')}`
  return {
    async join() {
      const ended = new AbortController()
      await new Promise<void>(begun => {
        const hold = async (signal: AbortSignal) => {
          const over = new Promise<void>(resolve => void onAbort(signal, resolve))
          const held = () => {
            begun()
            return over
          }
          await locks.request(name, { mode: 'shared', signal }, held).catch(() => {}) // refused, or called off
          begun()
        }
        whileShown(hold, ended.signal).catch(() => {})
      })
      return () => ended.abort(OVER)
    },
    async whileNone(task) {
      await pageShown()
      const over = new AbortController()
      const alone = async (lock: Lock | null) => {
        // A page about to be frozen must not keep others waiting. A row that its task removes later is found missing.
        if (lock !== null) await Promise.race([task(), frozen(() => {}, over.signal)])
      }
      await locks.request(name, { ifAvailable: true }, alone).finally(() => over.abort(OVER))
    },
  }
}
