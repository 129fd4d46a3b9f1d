// Everything the client takes from outside: time, network, chance, storage, locks and the WebAssembly core. Passed in,
// so that tests can control every await; nothing else in this package reaches for a global that does any of it.

import type { Build, Cores } from '@keyhush/wasm/client'
import { UnsupportedError } from '../base/errors.js'
import type { OpenStore } from '../store/storage.js'
import { type Locks, platformLocks } from './locks.js'
import { platformTabs, type Tabs } from './tabs.js'

export interface Clock {
  /** milliseconds; only differences are used */
  now(): number
  /** milliseconds since 1970 */
  date(): number
  setTimeout(callback: () => void, ms: number): unknown
  clearTimeout(timer: unknown): void
}

/** The one transport seam. The platform's `fetch` fits. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

export interface Environment {
  readonly clock: Clock
  readonly fetch: Fetch
  /** that many bytes nobody can predict */
  readonly random: (bytes: number) => Uint8Array
  /** the state of one identity */
  readonly openStore: OpenStore
  /** one tab at a time */
  readonly locks: Locks
  /** one tab for all */
  readonly tabs: Tabs
  /** the build of that name, or one that can do more */
  readonly loadCore: <B extends Build>(build: B) => Promise<Cores[B]>
  /**
   * Gives the thread back, so that the page can paint and react, and resolves soon after; never rejects. `behind`: whatever is
   * due by then goes first, replies included, for what nobody waits for.
   */
  readonly pause: (behind?: 'behind') => Promise<void>
}

/** The platform's own, with what differs between entries of this package. */
export function environmentWith(
  parts: Pick<Environment, 'openStore' | 'loadCore'>,
  fetch: Fetch = platformFetch,
): Environment {
  return { ...parts, clock: platformClock, fetch, random, locks: platformLocks, tabs: platformTabs(), pause }
}

const platformClock: Clock = {
  now: () => performance.now(),
  date: () => Date.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: timer => clearTimeout(timer as ReturnType<typeof setTimeout>),
}

// Looked up at each call, in this page whatever becomes of its window (page.ts): whoever replaces it later is heard.
function platformFetch(url: string, init: RequestInit): Promise<Response> {
  if (typeof fetch !== 'function') throw new UnsupportedError('platform', 'this platform has no fetch()')
  return fetch(url, init)
}

function random(bytes: number): Uint8Array {
  if (typeof crypto !== 'object' || typeof crypto.getRandomValues !== 'function') {
    const message = 'this platform has no crypto.getRandomValues(), and nothing else is unpredictable'
    throw new UnsupportedError('platform', message)
  }
  return crypto.getRandomValues(new Uint8Array(bytes))
}

/**
 * What newer or other platforms have to give a thread back with. Not setTimeout: browsers clamp it to 4 ms. After `yield()` a
 * page goes on before anything else that is due.
 */
declare const scheduler: { readonly yield?: () => Promise<void> } | undefined
declare const setImmediate: ((callback: () => void) => unknown) | undefined

export async function pause(behind?: 'behind'): Promise<void> {
  if (behind === undefined && typeof scheduler === 'object' && typeof scheduler.yield === 'function') {
    try {
      return await scheduler.yield()
    } catch {
      // Called in a task of scheduler.postTask() that the app has aborted, as is all that follows from there. It is not the app's
      // to call off (P5), and others wait for it.
    }
  }
  if (typeof setImmediate === 'function') return await new Promise(resolve => setImmediate(() => resolve()))
  await new Promise<void>(resolve => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(undefined)
  })
}
