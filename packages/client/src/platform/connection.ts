// Whether the device is online, and whether its line is metered, as far as it knows.

export interface Connection {
  /** how often it has gone offline in this life of the page */
  readonly losses: number
  readonly isOffline: boolean
  /** Calls `listener` once it is online again. Returns how to end that. */
  whenOnline(listener: () => void): () => void
  /** whether what is downloaded costs the user money, or the user saves data */
  readonly isMetered: boolean
  /** Calls `listener` when the line is another, metered or not. Returns how to end that. */
  whenChanged(listener: () => void): () => void
}

/** Chromium's `navigator.connection`. */
interface Line extends EventTarget {
  readonly saveData: boolean
  readonly type: string
}

declare const navigator: { readonly onLine?: boolean; readonly connection?: Partial<Line> } | undefined

let losses: number | undefined

/** Platforms that do not know, as Node, are online, and their line is not metered. */
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
  get isMetered() {
    const { saveData, type } = lineOf()
    return saveData === true || type === 'cellular'
  },
  whenChanged(listener) {
    const line = lineOf()
    line.addEventListener?.('change', listener)
    return () => line.removeEventListener?.('change', listener)
  },
}

function lineOf(): Partial<Line> {
  return (typeof navigator === 'object' && navigator.connection) || {}
}
