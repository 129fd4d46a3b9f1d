// Everything the client takes from outside: time, network, randomness, storage, locks and the WebAssembly core. It is passed
// in, so that tests can control every await. Nothing else in this package uses a global for any of it.

import type { Build, Cores } from '@keyhush/wasm/client'
import type { OpenStore } from '../store/storage.js'
import { type Clock, platformClock } from './clock.js'
import { type Connection, platformConnection } from './connection.js'
import { type Locks, platformLocks } from './locks.js'
import { onReturn } from './page.js'
import { platformTabs, type Tabs } from './tabs.js'

/** Sends a request. The platform's `fetch` fits. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** The platform's cryptography, as far as it checks signatures. */
export interface Subtle {
  importKey(
    format: 'raw',
    key: Uint8Array<ArrayBuffer>,
    algorithm: 'Ed25519',
    extractable: false,
    usages: ['verify'],
  ): Promise<unknown>
  verify(
    algorithm: 'Ed25519',
    key: unknown,
    signature: Uint8Array<ArrayBuffer>,
    data: Uint8Array<ArrayBuffer>,
  ): Promise<boolean>
}

export interface Environment {
  readonly clock: Clock
  readonly fetch: Fetch
  /** undefined: it is not known whether the device is online */
  readonly connection?: Connection | undefined
  /** so many unpredictable bytes */
  readonly random: (bytes: number) => Uint8Array
  /** checks signatures; undefined: JavaScript does */
  readonly subtle?: Subtle | undefined
  /** opens the state of one identity */
  readonly openStore: OpenStore
  /** one tab at a time */
  readonly locks: Locks
  /** one tab listens for all */
  readonly tabs: Tabs
  /** loads the build of that name, or one that can do more */
  readonly loadCore: <B extends Build>(build: B) => Promise<Cores[B]>
  /**
   * Gives the thread back, so that the page can paint and react, and resolves soon after. Never rejects. `background`: for work
   * that no call waits for; all other tasks that are due, such as replies, go first.
   */
  readonly pause: (when?: 'background') => Promise<void>
}

/** The platform's own, with what differs between entries of this package. */
export function environmentWith(
  parts: Pick<Environment, 'openStore' | 'loadCore'> & Partial<Pick<Environment, 'random' | 'pause'>>,
  fetch: Fetch = platformFetch,
): Environment {
  return {
    clock: platformClock,
    fetch,
    connection: platformConnection,
    random: platformRandom,
    subtle: typeof crypto === 'object' ? crypto.subtle : undefined,
    locks: platformLocks,
    tabs: platformTabs(),
    pause,
    ...parts,
  }
}

// Looked up at each call, so that a later replacement of the global counts; bare, for the reason in page.ts.
export function platformFetch(url: string, init: RequestInit): Promise<Response> {
  return fetch(url, init)
}

export function platformRandom(bytes: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(bytes))
}

/**
 * How newer or other platforms give the thread back. Not setTimeout: browsers clamp it to 4 ms. After `yield()` a page goes
 * on before other tasks that are due.
 */
declare const scheduler: { readonly yield?: () => Promise<void> } | undefined
declare const setImmediate: ((callback: () => void) => unknown) | undefined

export async function pause(when?: 'background'): Promise<void> {
  if (when === undefined && typeof scheduler === 'object' && typeof scheduler.yield === 'function') {
    try {
      return await scheduler.yield()
    } catch {
      // The app has called us in a task of scheduler.postTask(), and has aborted that. The app must not stop this (P5): others
      // wait for it.
    }
  }
  if (typeof setImmediate === 'function') return await new Promise(resolve => setImmediate(() => resolve()))
  // Edge runtimes and test environments may have neither.
  if (typeof MessageChannel !== 'function') return await new Promise(resolve => void setTimeout(resolve))
  await new Promise<void>(resolve => {
    const { port1, port2 } = new MessageChannel()
    const goOn = () => {
      withdraw()
      port1.close()
      resolve()
    }
    const withdraw = onReturn(goOn) // WebKit loses a message that is under way when a page goes into its cache
    port1.onmessage = goOn
    port2.postMessage(undefined)
  })
}
