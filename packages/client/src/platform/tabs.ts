// What the tabs of one origin spare each other. Browsers open few connections to a server at a time, six over HTTP/1.1,
// so that a stream for each tab would soon leave none for lookups: one tab listens, and tells the others. Nothing that is
// told is believed; it only says that the store is worth a look.

export interface Tabs {
  /** Runs `task` once no other tab runs one of this name, or until then is called off. */
  elect(name: string, task: () => Promise<void>, signal: AbortSignal): Promise<void>
  /** Calls `listener` when another tab calls `tell`. Returns how to end that. */
  subscribe(name: string, listener: () => void): () => void
  notify(name: string): void
}

/** Nobody is there to be told, as in Node. */
export const noTabs: Tabs = {
  elect: (_name, task) => task(),
  subscribe: () => () => {},
  notify() {},
}

const browserTabs: Tabs = {
  async elect(name, task, signal) {
    try {
      await navigator.locks.request(name, { signal }, task)
    } catch (error) {
      // Called off; or not to be had at all, as in a sandboxed frame.
      if (!signal.aborted && error instanceof DOMException) await task()
      else if (!signal.aborted) throw error
    }
  },
  subscribe(name, listener) {
    const channel = new BroadcastChannel(name)
    channel.onmessage = listener
    return () => channel.close()
  },
  notify(name) {
    const channel = new BroadcastChannel(name)
    channel.postMessage(undefined)
    channel.close()
  },
}

/** The platform's, if it has tabs that can share state: those with locks and IndexedDB. */
export function platformTabs(): Tabs {
  const { navigator, BroadcastChannel, indexedDB } = globalThis
  const able = navigator?.locks !== undefined && BroadcastChannel !== undefined && indexedDB !== undefined
  return able ? browserTabs : noTabs
}
