// Whether the page is there. One that is left may come back from the browser's page cache, and one that is gone may go on
// running all the same: WebKit lets promises of a page that was reloaded settle, with timers, ports and requests that never
// do again. Such code must take no lock, and hear of nothing.
//
// Names of the platform are written bare, never as members of globalThis: that one leads to whatever page is in the window.

import { abortable, scoped } from '../base/abort.js'

/** Aborts when the page is left. */
let leaving: AbortController | undefined
/** resolves when it is there */
let back: Promise<void> = Promise.resolve()

/** Resolves when the page is there; at once, unless it was left. */
export function pageShown(): Promise<void> {
  watch()
  return back
}

/** Runs `work` until it is over. When the page is left it is called off, and begun again when the page is back. */
export async function whileShown(work: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
  for (;;) {
    await abortable(pageShown(), signal).catch(() => {})
    if (signal.aborted) return
    const left = watch().signal
    try {
      await scoped([signal, left], work)
      if (!left.aborted) return
    } catch (error) {
      if (!left.aborted) throw error
    }
  }
}

function watch(): AbortController {
  leaving ??= follow()
  return leaving
}

function follow(): AbortController {
  if (typeof document === 'object') {
    addEventListener('pagehide', () => {
      leaving?.abort()
      back = new Promise(resolve => {
        const show = () => {
          leaving = new AbortController()
          resolve()
        }
        addEventListener('pageshow', show, { once: true })
      })
    })
  }
  return new AbortController()
}
