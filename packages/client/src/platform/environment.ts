// Everything the client takes from outside: time, network, randomness, storage, locks and the WebAssembly core. It is passed
// in, so that tests can control every await. Nothing else in this package uses a global for any of it.

import { type Build, type Cores, loadCore } from '@keyhush/wasm/client'
import { UnsupportedError } from '../base/errors.js'
import type { OpenDurableStore, OpenStore } from '../store/storage.js'
import { type Locks, platformLocks } from './locks.js'
import { loadPart } from './parts.js'
import { platformTabs, type Tabs } from './tabs.js'

export interface Clock {
  /** milliseconds; only differences are used */
  now(): number
  /** milliseconds since 1970 */
  date(): number
  setTimeout(callback: () => void, ms: number): unknown
  clearTimeout(timer: unknown): void
}

/** How requests are sent. The platform's `fetch` fits. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

export interface Environment {
  readonly clock: Clock
  readonly fetch: Fetch
  /** so many unpredictable bytes */
  readonly random: (bytes: number) => Uint8Array
  /** checks signatures; undefined: JavaScript does */
  readonly subtle?: SubtleCrypto | undefined
  /** opens the state of one identity */
  readonly openStore: OpenStore
  /** one tab at a time */
  readonly locks: Locks
  /** one tab listens for all */
  readonly tabs: Tabs
  /** loads the build of that name, or one that can do more */
  readonly loadCore: <B extends Build>(build: B) => Promise<Cores[B]>
  /**
   * Gives the thread back, so that the page can paint and react, and resolves soon after. Never rejects. `behind`: for work
   * that no call waits for; all other tasks that are due, such as replies, go first.
   */
  readonly pause: (behind?: 'behind') => Promise<void>
}

/** The platform's own, in browsers, workers and Node. `fetch` replaces the network, `store` the storage. */
export function platformEnvironment(fetch: Fetch = platformFetch, store?: OpenDurableStore): Environment {
  const openStore = store === undefined ? platformStore : appStore(store)
  return {
    clock: platformClock,
    fetch,
    random,
    subtle: typeof crypto === 'object' ? crypto.subtle : undefined,
    openStore,
    locks: platformLocks,
    tabs: platformTabs(),
    loadCore,
    pause,
  }
}

const platformClock: Clock = {
  now: () => performance.now(),
  date: () => Date.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: timer => clearTimeout(timer as ReturnType<typeof setTimeout>),
}

// Looked up at each call, so that a later replacement of the global counts; bare, for the reason in page.ts.
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

const platformStore: OpenStore = async (...wanted) => {
  const { openPlatformStore } = await loadStores()
  return await openPlatformStore(pause, ...wanted)
}

/** Loaded when needed: maps that keep nothing do without. */
function loadStores() {
  return loadPart(() => import('./stores.js'))
}

const appStores = new WeakMap<OpenDurableStore, OpenStore>()

/** An app's own storage. The same function gives the same result, so that two maps of one identity can share a session. */
function appStore(open: OpenDurableStore): OpenStore {
  const known = appStores.get(open)
  if (known !== undefined) return known
  const openStore: OpenStore = async (...wanted) => {
    const { openAppStore } = await loadStores()
    return await openAppStore(open, ...wanted)
  }
  appStores.set(open, openStore)
  return openStore
}

/**
 * How newer or other platforms give the thread back. Not setTimeout: browsers clamp it to 4 ms. After `yield()` a page goes
 * on before other tasks that are due.
 */
declare const scheduler: { readonly yield?: () => Promise<void> } | undefined
declare const setImmediate: ((callback: () => void) => unknown) | undefined

async function pause(behind?: 'behind'): Promise<void> {
  if (behind === undefined && typeof scheduler === 'object' && typeof scheduler.yield === 'function') {
    try {
      return await scheduler.yield()
    } catch {
      // The app has called us in a task of scheduler.postTask(), and has aborted that. The app must not stop this (P5): others
      // wait for it.
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
