// Whether the device is online, as far as it knows.

export interface Connection {
  /** how often it has gone offline in this life of the page */
  readonly losses: number
  readonly isOffline: boolean
  /** Calls `listener` once it is online again. Returns how to end that. */
  whenOnline(listener: () => void): () => void
}

let losses: number | undefined

/** Platforms that do not know, as Node, are online. */
export const platformConnection: Connection = {
  get losses() {
    if (losses === undefined) {
      losses = 0
      if (typeof addEventListener === 'function') addEventListener('offline', () => losses!++)
    }
    return losses
  },
  get isOffline() {
    return typeof navigator === 'object' && navigator.onLine === false
  },
  whenOnline(listener) {
    const ended = new AbortController()
    if (typeof addEventListener === 'function') {
      addEventListener('online', listener, { once: true, signal: ended.signal })
    }
    return () => ended.abort()
  },
}
