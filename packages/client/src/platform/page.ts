// Whether the page is there. A page that is left, or frozen, may come back. One that is gone may still run: WebKit lets
// promises of a reloaded page settle, while its timers, ports and requests never do. Such code must take no lock, and
// listen to nothing.
//
// Names of the platform are written bare, never as members of globalThis: that one leads to the page that is now in the window.

import { abortable, scoped } from '../base/abort.js'

/** Aborts when the page is left. */
let leaving: AbortController | undefined
/** resolves when it is there */
let back: Promise<void> = Promise.resolve()
let comeBack = () => {}

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

/** A page that goes into the browser's cache is hidden and then frozen, and comes back in the other order. */
function follow(): AbortController {
  if (typeof document === 'object') {
    const show = () => comeBack()
    addEventListener('pagehide', leave)
    addEventListener('pageshow', show)
    document.addEventListener('freeze', leave)
    document.addEventListener('resume', show)
  }
  return new AbortController()
}

function leave(): void {
  if (leaving === undefined || leaving.signal.aborted) return
  leaving.abort()
  back = new Promise(resolve => {
    comeBack = () => {
      comeBack = () => {}
      leaving = new AbortController()
      resolve()
    }
  })
}
