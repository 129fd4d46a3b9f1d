// @keyhush/client/react: hooks for a map and its lookups. They need React 18 or newer, which is the app's own.

import { equalBytes } from '@keyhush/protocol'
import { useState, useSyncExternalStore } from 'react'
import { KeyhushError, UsageError } from './base/errors.js'
import type { OnEvent } from './base/events.js'
import type { Key } from './lookup/keys.js'
import type { Value } from './lookup/question.js'
import type { KeyhushMap } from './map.js'
import { open } from './open.js'
import type { OpenOptions } from './options.js'

/**
 * What `usePrivateMap()` returns. `slow`: the servers that opening has waited for for two seconds. `retry` opens the map again after an
 * error.
 */
export type PrivateMap = { readonly slow?: readonly string[] | undefined } & (
  | { readonly status: 'opening'; readonly map: undefined; readonly error: undefined }
  | { readonly status: 'open'; readonly map: KeyhushMap; readonly error: undefined }
  | { readonly status: 'error'; readonly map: undefined; readonly error: KeyhushError; readonly retry: () => void }
)

/**
 * What `useLookup()` returns. `idle`: there is no key. `loading`: also while there is a key and no map; so show an error of
 * `usePrivateMap()` first. `slow`: the servers that the lookup has waited for for two seconds. `absent`: the key is proved absent.
 * `refetch` looks up the same key again. It does nothing while a lookup is loading or there is no key.
 */
export type Lookup<T = Value> = { readonly refetch: () => void; readonly slow?: readonly string[] | undefined } & (
  | { readonly status: 'idle' | 'loading'; readonly value: undefined; readonly error: undefined }
  | { readonly status: 'found'; readonly value: T; readonly error: undefined }
  | { readonly status: 'absent'; readonly value: undefined; readonly error: undefined }
  | { readonly status: 'error'; readonly value: undefined; readonly error: KeyhushError }
)

/** The types of values: of the map's `get()`, `getText()` and `getJson()`. The SDK does not check the contents of JSON. */
export interface ReadAs {
  readonly bytes: Value
  readonly text: string
  readonly json: unknown
}

/** The options of `open()`, without `signal`, which the hook sets. */
export type PrivateMapOptions = Omit<OpenOptions, 'signal'>

/** `open()`, or a function in its place: `open()` of `@keyhush/client/instant`, or one that resolves to a `fakeMap()`. */
export type OpenMap<O> = (options: O & { readonly signal: AbortSignal }) => Promise<KeyhushMap>

/**
 * Opens a map when the component mounts, and closes it when the component unmounts. Call it once for the page, and pass the map on. You
 * may write the options anew in each render: the hook opens the map again only when an option has another value. Of functions the first
 * one counts. In server-side rendering it opens nothing.
 *
 * `openMap` is called in the place of `open()`, in a component test say, and gets the options.
 * @example
 * const opened = usePrivateMap({ servers, publisherKey })
 * if (opened.status === 'error') return <button onClick={opened.retry}>{opened.error.message}. Try again</button>
 * @example
 * const { map } = usePrivateMap({ normalize }, async ({ normalize }) => fakeMap({ otter: 'river' }, { normalize }))
 */
export function usePrivateMap(options: PrivateMapOptions): PrivateMap
export function usePrivateMap<O extends object>(options: NoInfer<O>, openMap: OpenMap<O>): PrivateMap
export function usePrivateMap(options: object, openMap: OpenMap<never> = open): PrivateMap {
  return useTask<object, PrivateMap>(options, isSameOptions, options => opening(options, openMap as OpenMap<object>))
}

/**
 * Looks up a key when the component mounts, and when `map` or `key` changes. `undefined` and `''` are no key. Rendering again, also by
 * StrictMode, makes no lookup. When the key changes or the component unmounts, the hook aborts the lookup. As with an AbortSignal, a
 * lookup that has begun runs to its end, so that no server can tell.
 *
 * Servers can count lookups. Pass what was submitted, not what is being typed. The same key submitted again makes no lookup: an observer
 * of both the submission and the traffic learns that it was a repetition. Where that matters, call `refetch()` on each submission, and
 * accept no submission while a lookup is loading. The hook remembers one key only: a key that comes back is looked up again.
 * @example
 * const answer = useLookup(map, submitted, 'text')
 * if (answer.status === 'found') return <p>{answer.value}</p>
 */
export function useLookup<As extends keyof ReadAs = 'bytes'>(
  map: KeyhushMap | undefined,
  key: Key | undefined,
  as: As = 'bytes' as As,
): Lookup<ReadAs[As]> {
  // A copy: the app may go on to change its array.
  const wanted: Wanted = { map, key: isBytes(key) ? key.slice() : key || undefined, as }
  return useTask(wanted, isSameWanted, asking) as Lookup<ReadAs[As]>
}

interface Wanted {
  readonly map: KeyhushMap | undefined
  readonly key: Key | undefined
  readonly as: keyof ReadAs
}

function isSameWanted(a: Wanted, b: Wanted): boolean {
  const isSameKey = isBytes(a.key) && isBytes(b.key) ? equalBytes(a.key, b.key) : a.key === b.key
  return isSameKey && a.map === b.map && a.as === b.as
}

/** Of another realm, too. */
function isBytes(key: Key | undefined): key is Uint8Array {
  return ArrayBuffer.isView(key)
}

function isSameOptions(a: object, b: object): boolean {
  const names = Object.keys({ ...a, ...b }) as never[]
  return names.every(name => isSameOption(a[name], b[name]))
}

/** Functions do not count. Lists of URLs, bytes of keys and names are compared as text. */
function isSameOption(a: unknown, b: unknown): boolean {
  if (a === b || typeof a === 'function' || typeof b === 'function') return true
  return a !== undefined && b !== undefined && `${a}` === `${b}`
}

/** One task a component, of what it was given last. Rendering starts nothing: a render may be thrown away. */
function useTask<P, S>(parts: P, isSame: (a: P, b: P) => boolean, begin: (parts: P) => Task<S>): S {
  const [held, hold] = useState(() => ({ parts, task: begin(parts) }))
  let now = held
  if (!isSame(held.parts, parts)) {
    now = { parts, task: begin(parts) }
    hold(now)
  }
  const { subscribe, snapshot } = now.task
  return useSyncExternalStore(subscribe, snapshot, snapshot)
}

/** Work that begins with its first subscriber, and is called off when the last one has left. */
class Task<S> {
  #state: S
  #done = false
  #underWay: AbortController | undefined
  readonly #run: (signal: AbortSignal) => Promise<S>
  readonly #leave: (state: S) => S | undefined
  readonly #listeners = new Set<() => void>()

  /** `leave` gets a state that no subscriber needs any more. If it returns a state, the next subscriber begins the work anew from that. */
  constructor(
    first: S,
    run: (signal: AbortSignal) => Promise<S>,
    leave: (state: S) => S | undefined = () => undefined,
  ) {
    this.#state = first
    this.#run = run
    this.#leave = leave
  }

  readonly snapshot = (): S => this.#state

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    if (!this.#done) this.#start()
    return () => {
      this.#listeners.delete(listener)
      // Later: StrictMode, in development, subscribes again at once.
      queueMicrotask(() => this.#endIfUnused())
    }
  }

  /** Does the work again, if it is done and there is a subscriber. */
  again(state: S): void {
    if (!this.#done || this.#listeners.size === 0) return
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
        this.#leave(state) // it came too late
        return
      }
      this.#underWay = undefined
      this.#done = true
      this.show(state)
    }
    this.#run(controller.signal).then(settle, () => {}) // it never rejects
  }

  #endIfUnused(): void {
    if (this.#listeners.size > 0) return
    this.#underWay?.abort()
    this.#underWay = undefined
    const left = this.#leave(this.#state)
    if (left === undefined) return
    this.#state = left
    this.#done = false
  }
}

const OPENING: PrivateMap = { status: 'opening', map: undefined, error: undefined }

function opening<O extends { readonly onEvent?: OnEvent }>(options: O, open: OpenMap<O>): Task<PrivateMap> {
  const retry = () => task.again(OPENING)
  const run = async (signal: AbortSignal): Promise<PrivateMap> => {
    const onEvent: OnEvent = event => {
      const isOpening = !signal.aborted && task.snapshot().status === 'opening'
      if (event.type === 'slow' && isOpening) task.show({ ...OPENING, slow: event.servers })
      options.onEvent?.(event)
    }
    try {
      return { status: 'open', map: await open({ ...options, signal, onEvent }), error: undefined }
    } catch (error) {
      return { status: 'error', map: undefined, error: ofSdk(error), retry }
    }
  }
  const leave = ({ map }: PrivateMap) => {
    map?.close().catch(() => {}) // nobody is there to be told
    return OPENING
  }
  const task = new Task(OPENING, run, leave)
  return task
}

const CALLS = { bytes: 'get', text: 'getText', json: 'getJson' } as const

function asking({ map, key, as }: Wanted): Task<Lookup<unknown>> {
  const refetch = () => {
    if (key !== undefined) task.again(first)
  }
  const status = key === undefined ? 'idle' : 'loading'
  const first: Lookup<unknown> = { status, value: undefined, error: undefined, refetch }
  const run = async (signal: AbortSignal): Promise<Lookup<unknown>> => {
    if (map === undefined || key === undefined) return first
    let off = () => {}
    try {
      off = map.on('slow', ({ servers }) => {
        if (!signal.aborted) task.show({ ...first, slow: servers })
      })
      const value = await map[CALLS[as]](key, { signal })
      const status = value === undefined ? 'absent' : 'found'
      return { status, value, error: undefined, refetch } as Lookup<unknown>
    } catch (error) {
      return { status: 'error', value: undefined, error: ofSdk(error), refetch }
    } finally {
      off()
    }
  }
  const task = new Task(first, run)
  return task
}

/** An error as it is, or what a function of the app has thrown as the cause of one. */
function ofSdk(error: unknown): KeyhushError {
  if (error instanceof KeyhushError) return error
  return new UsageError(`expected no error from a function of the app, got ${error}; see cause`, { cause: error })
}
