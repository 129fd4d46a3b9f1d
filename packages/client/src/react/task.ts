// A component's work: it begins with the component, and is called off when the component is gone.

import { useState, useSyncExternalStore } from 'react'
import { KeyhushError, UsageError } from '../base/errors.js'

/** One task a component, of what it was given last. Rendering starts nothing: a render may be thrown away. */
export function useTask<P, S>(parts: P, isSame: (a: P, b: P) => boolean, begin: (parts: P) => Task<S>): S {
  const [held, hold] = useState(() => ({ parts, task: begin(parts) }))
  let now = held
  if (!isSame(held.parts, parts)) {
    now = { parts, task: begin(parts) }
    hold(now)
  }
  const { subscribe, snapshot } = now.task
  return useSyncExternalStore(subscribe, snapshot, snapshot)
}

export interface TaskWork<S> {
  /** Resolves to the state that it leads to. */
  run(signal: AbortSignal): Promise<S>
  /** The state if `run` rejects. */
  failed(error: KeyhushError): S
  /** Called when there are subscribers; what it returns, when there are none any more. */
  watch?(): () => void
  /** Gets a state that no subscriber needs any more. If it returns a state, the next subscriber begins the work anew from that. */
  leave?(state: S): S | undefined
}

/** Work that begins with its first subscriber, and is called off when the last one has left. */
export class Task<S> {
  #state: S
  #done = false
  #underWay: AbortController | undefined
  #unwatch: (() => void) | undefined
  readonly #work: TaskWork<S>
  readonly #listeners = new Set<() => void>()

  constructor(first: S, work: TaskWork<S>) {
    this.#state = first
    this.#work = work
  }

  readonly snapshot = (): S => this.#state

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    if (!this.#done) this.#start()
    this.#unwatch ??= this.#work.watch?.()
    return () => {
      this.#listeners.delete(listener)
      // Later: StrictMode, in development, subscribes again at once.
      queueMicrotask(() => this.#endIfUnused())
    }
  }

  /** Does the work anew, from this state, if there is a subscriber. */
  again(state: S): void {
    if (this.#listeners.size === 0) return
    this.#callOff()
    this.#done = false
    this.show(state)
    this.#start()
  }

  show(state: S): void {
    this.#state = state
    for (const listener of this.#listeners) listener()
  }

  #start(): void {
    if (this.#underWay !== undefined) return
    const controller = new AbortController()
    this.#underWay = controller
    const settle = (state: S) => {
      if (controller.signal.aborted) {
        this.#work.leave?.(state) // it came too late
        return
      }
      this.#underWay = undefined
      this.#done = true
      this.show(state)
    }
    this.#work.run(controller.signal).then(settle, error => settle(this.#work.failed(ofSdk(error))))
  }

  #callOff(): void {
    this.#underWay?.abort()
    this.#underWay = undefined
  }

  #endIfUnused(): void {
    if (this.#listeners.size > 0) return
    this.#callOff()
    this.#unwatch?.()
    this.#unwatch = undefined
    const left = this.#work.leave?.(this.#state)
    if (left === undefined) return
    this.#state = left
    this.#done = false
  }
}

/** An error as it is, or what a function of the app has thrown as the cause of one. */
function ofSdk(error: unknown): KeyhushError {
  if (error instanceof KeyhushError) return error
  return new UsageError(`expected no error from a function of the app, got ${error}; see cause`, { cause: error })
}
