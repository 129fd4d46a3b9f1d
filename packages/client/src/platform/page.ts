// Whether the page is there, and whether it is visible. A page that is left, or frozen, may come back. One that is gone may
// still run: WebKit lets promises of a reloaded page settle, while its timers, ports and requests never do. Such code must
// take no lock, and listen to nothing.
//
// Names of the platform are written bare, never as members of globalThis: that one leads to the page that is now in the window.

import { abortable, scoped } from '../base/abort.js'

/** What holds of a page at some times. */
class Condition {
  /** aborts when it holds no more; nothing of the platform is touched before it is needed */
  #controller: AbortController | undefined
  #holds: Promise<void> = Promise.resolve()
  #begin = () => {}

  get #ending(): AbortController {
    this.#controller ??= new AbortController()
    return this.#controller
  }

  /** Resolves when it holds. */
  get holds(): Promise<void> {
    return this.#holds
  }

  set(holds: boolean): void {
    if (holds) this.#begin()
    else if (!this.#ending.signal.aborted) this.#end()
  }

  #end(): void {
    this.#ending.abort()
    this.#holds = new Promise(resolve => {
      this.#begin = () => {
        this.#begin = () => {}
        this.#controller = undefined
        resolve()
      }
    })
  }

  /** Runs `work` until it is over. When this holds no more, `work` is called off; it begins again when this holds again. */
  async during(work: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    for (;;) {
      await abortable(this.#holds, signal).catch(() => {})
      if (signal.aborted) return
      const ending = this.#ending.signal
      try {
        await scoped([signal, ending], work)
        if (!ending.aborted) return
      } catch (error) {
        if (!ending.aborted) throw error
      }
    }
  }
}

const there = new Condition()
const visible = new Condition()
const waiting = new Set<() => void>()

/** Resolves when the page is there; at once, unless it was left. */
export function pageShown(): Promise<void> {
  watch()
  return there.holds
}

/** Calls `call` if the page comes back after it was left. Returns what withdraws that. */
export function onReturn(call: () => void): () => void {
  watch()
  waiting.add(call)
  return () => void waiting.delete(call)
}

/** Runs `work` until it is over. When the page is left it is called off, and begun again when the page is back. */
export function whileShown(work: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
  watch()
  return there.during(work, signal)
}

/** The same, and only while the page is visible. */
export function whileVisible(work: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
  watch()
  return visible.during(work, signal)
}

let watched = false

/** A page that goes into the browser's cache is hidden and then frozen, and comes back in the other order. */
function watch(): void {
  if (watched || typeof document !== 'object') return
  watched = true
  let isThere = true
  const update = () => {
    there.set(isThere)
    visible.set(isThere && document.visibilityState !== 'hidden')
  }
  const now = (is: boolean) => () => {
    isThere = is
    update()
    if (is) for (const call of waiting) call()
  }
  update()
  addEventListener('pagehide', now(false))
  addEventListener('pageshow', now(true))
  document.addEventListener('freeze', now(false))
  document.addEventListener('resume', now(true))
  document.addEventListener('visibilitychange', update)
}
