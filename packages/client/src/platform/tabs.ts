// What the tabs of one origin spare each other. Browsers open few connections to a server, six over HTTP/1.1, so that a
// stream of events for each tab would soon leave none for lookups. One tab listens, and notifies the others. A notice is
// not trusted: it only says that the store, or a server, is worth a look.

import { onAbort } from '../base/abort.js'
import { whileShown, whileVisible } from './page.js'

export interface Tabs {
  /**
   * Runs `task` once no other tab runs one of this name. `signal` calls it off. A page that is hidden, left or frozen calls
   * it off too, and stands for election again when it is visible.
   */
  elect(name: string, task: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void>
  /**
   * Calls `listener` with what another tab gives to `notify`, and without a message when the page was away and may have missed
   * some. Returns how to end that.
   */
  subscribe(name: string, listener: (message?: unknown) => void): () => void
  notify(name: string, message?: unknown): void
}

/** Tabs that do not know of each other; or there are none, as in Node. */
export const noTabs: Tabs = {
  elect: (_name, task, signal) => whileVisible(task, signal),
  subscribe: () => () => {},
  notify() {},
}

const browserTabs: Tabs = {
  async elect(name, task, signal) {
    await whileVisible(async signal => {
      const over = new Promise<void>(resolve => void onAbort(signal, resolve))
      let running: Promise<void> | undefined
      const lead = () => {
        running = task(signal)
        return Promise.race([running, over]) // a frozen page must not lead, whatever its task still does
      }
      try {
        await navigator.locks.request(name, { signal }, lead)
        await running
      } catch (error) {
        // Called off, or refused, as in a sandboxed frame.
        if (!signal.aborted && error instanceof DOMException) await task(signal)
        else if (!signal.aborted) throw error
      }
    }, signal)
  },
  subscribe(name, listener) {
    const ended = new AbortController()
    const hear = async (signal: AbortSignal) => {
      const channel = new BroadcastChannel(name)
      channel.onmessage = ({ data }) => listener(data)
      await new Promise<void>(resolve => void onAbort(signal, resolve))
      channel.close()
    }
    let away = false
    whileShown(async signal => {
      if (away) listener() // other tabs may have notified meanwhile
      away = true
      await hear(signal)
    }, ended.signal).catch(() => {})
    return () => ended.abort()
  },
  notify(name, message) {
    try {
      const channel = new BroadcastChannel(name)
      channel.postMessage(message)
      channel.close()
    } catch {} // refused, as where cookies are: locks are too, so that each tab listens for itself
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
