// What the tabs of one origin spare each other. Browsers open few connections to a server at a time, six over HTTP/1.1,
// so that a stream for each tab would soon leave none for lookups: one tab listens, and tells the others. Nothing that is
// told is believed; it only says that the store is worth a look.

import { OVER, onAbort } from '../base/abort.js'
import { pageShown, whileShown } from './page.js'

export interface Tabs {
  /**
   * Runs `task` once no other tab runs one of this name, or until then is called off. A page that is left calls it off, and
   * stands again when it is back.
   */
  elect(name: string, task: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void>
  /** Calls `listener` when another tab calls `tell`. Returns how to end that. */
  subscribe(name: string, listener: () => void): () => void
  notify(name: string): void
  /** This tab uses what has this name, until it calls what this resolves to, or is gone. A page that is left may count as gone. */
  use(name: string): Promise<() => void>
  /** Runs `task` if it is known that no tab uses what has this name; whoever is about to waits until it is over. */
  whereUnused(name: string, task: () => Promise<void>): Promise<void>
}

/** Nobody is there to be told, as in Node. */
export const noTabs: Tabs = {
  elect: (_name, task, signal) => task(signal),
  subscribe: () => () => {},
  notify() {},
  use: async () => () => {},
  whereUnused: async () => {},
}

const browserTabs: Tabs = {
  async elect(name, task, signal) {
    await whileShown(async signal => {
      try {
        await navigator.locks.request(name, { signal }, () => task(signal))
      } catch (error) {
        // Called off; or not to be had at all, as in a sandboxed frame.
        if (!signal.aborted && error instanceof DOMException) await task(signal)
        else if (!signal.aborted) throw error
      }
    }, signal)
  },
  subscribe(name, listener) {
    const ended = new AbortController()
    const hear = async (signal: AbortSignal) => {
      const channel = new BroadcastChannel(name)
      channel.onmessage = listener
      await new Promise<void>(resolve => void onAbort(signal, resolve))
      channel.close()
    }
    let away = false
    whileShown(async signal => {
      if (away) listener() // much may have been told meanwhile
      away = true
      await hear(signal)
    }, ended.signal).catch(() => {})
    return () => ended.abort()
  },
  notify(name) {
    const channel = new BroadcastChannel(name)
    channel.postMessage(undefined)
    channel.close()
  },
  async use(name) {
    const ended = new AbortController()
    await new Promise<void>(begun => {
      const hold = async (signal: AbortSignal) => {
        const over = new Promise<void>(resolve => void onAbort(signal, resolve))
        const held = () => {
          begun()
          return over
        }
        await navigator.locks.request(name, { mode: 'shared', signal }, held).catch(() => {}) // or not to be had at all
        begun()
      }
      whileShown(hold, ended.signal).catch(() => {})
    })
    return () => ended.abort(OVER)
  },
  async whereUnused(name, task) {
    await pageShown()
    await navigator.locks.request(name, { ifAvailable: true }, async lock => {
      if (lock !== null) await task()
    })
  },
}

/** The platform's, if it has tabs that can share state: those with locks and IndexedDB. */
export function platformTabs(): Tabs {
  const able =
    typeof navigator === 'object' &&
    navigator.locks !== undefined &&
    typeof BroadcastChannel === 'function' &&
    typeof indexedDB === 'object'
  return able ? browserTabs : noTabs
}
