// `useWatch()`: a watched key, for as long as a component shows it.

import { abortable } from '../base/abort.js'
import { checkNames, checkOptions, oneOf } from '../base/boundary.js'
import { KeyhushError } from '../base/errors.js'
import type { Change, Watch } from '../common.js'
import type { Key } from '../lookup/keys.js'
import type { Found, Value } from '../lookup/question.js'
import { type KeyhushMap, READ, type WatchOptions } from '../map.js'
import { copyOf, isSameKey } from './keys.js'
import type { ReadAs } from './lookup.js'
import { Task, useTask } from './task.js'

/** What `useWatch()` returns in every status. */
export interface AnyWatch {
  /** What has changed since the component mounted, and since `since`. The oldest is the first. Their values are bytes. */
  readonly changes: readonly Change[]
  /** Until when silence means that nothing has changed. Undefined: it means nothing yet. */
  readonly checked: Date | undefined
  /** After an error: watches again. Otherwise it does nothing. */
  readonly retry: () => void
}

/**
 * What `useWatch()` returns. `idle`: there is no key. `loading`: also while there is a key and no map. `absent`: the database does not have
 * the key. `error`: it could not be watched, or its value now cannot be read `as` you asked.
 */
export type WatchedKey<T = Value> = AnyWatch & Now<T>

type Now<T> =
  | { readonly status: 'idle' | 'loading'; readonly value: undefined; readonly error: undefined }
  | { readonly status: 'found'; readonly value: T; readonly error: undefined }
  | { readonly status: 'absent'; readonly value: undefined; readonly error: undefined }
  | { readonly status: 'error'; readonly value: undefined; readonly error: KeyhushError }

/** Options of `useWatch()`: those that it has when it begins to watch count. */
export type UseWatchOptions = Pick<WatchOptions, 'since' | 'save'>

/**
 * Watches a key, as `map.watch()` does, from when the component mounts until it unmounts, and anew when `map` or `key` changes. It looks
 * the key up once, also under StrictMode. `undefined` and `''` are no key.
 *
 * Mount it for as long as the map is open. When it has unmounted, changes are not told, and `save` goes on.
 *
 * **Show a change, and fetch nothing because of one**: no image, no report, no lookup, no reload. Whoever publishes the database can change
 * one key alone, and see who reacts.
 * @example
 * const own = useWatch(map, 'alice@example.org', 'text', { since: localStorage.alice, save: mark => (localStorage.alice = mark) })
 * if (own.changes.length > 0) return <p>Your key was replaced. If that was not you, tell your friends.</p>
 */
export function useWatch<As extends keyof ReadAs = 'bytes'>(
  map: KeyhushMap | undefined,
  key: Key | undefined,
  as: As = 'bytes' as As,
  options: UseWatchOptions = {},
): WatchedKey<ReadAs[As]> {
  const asked: ToWatch = { map, key: key ? copyOf(key) : undefined, as, options }
  return useTask(asked, isSame, begun) as WatchedKey<ReadAs[As]>
}

interface ToWatch {
  readonly map: KeyhushMap | undefined
  readonly key: Key | undefined
  readonly as: keyof ReadAs
  readonly options: UseWatchOptions
}

function isSame(a: ToWatch, b: ToWatch): boolean {
  return a.map === b.map && a.as === b.as && isSameKey(a.key, b.key)
}

/** `checked` moves without a change: servers repeat every 15 seconds what their newest epoch is. */
const SHOW_MS = 15_000

function begun({ map, key, as, options }: ToWatch): Task<WatchedKey<unknown>> {
  const retry = () => {
    if (task.snapshot().status === 'error') task.again(first)
  }
  const none = { value: undefined, error: undefined, changes: [], checked: undefined, retry }
  const first: WatchedKey<unknown> = { ...none, status: key === undefined ? 'idle' : 'loading' }
  const task = new Task<WatchedKey<unknown>>(first, {
    async run(signal) {
      if (map === undefined || key === undefined) return first
      oneOf('useWatch: as', Object.keys(READ), as)
      checkOptions('useWatch', options)
      checkNames('useWatch', options, ['since', 'save'])
      const changes: Change[] = []
      let watch: Watch | undefined
      const show = () => {
        if (watch === undefined) return
        task.show({ ...nowAs(as, watch.value), changes: [...changes], checked: watch.checked, retry })
      }
      const onChange = (change: Change) => {
        changes.push(change)
        show()
      }
      watch = await map.watch(key, onChange, { ...options, signal })
      show()
      const timer = setInterval(show, SHOW_MS)
      try {
        return await abortable(new Promise<never>(() => {}), signal) // until the component is gone
      } finally {
        clearInterval(timer)
      }
    },
    failed: error => ({ ...none, status: 'error', error }),
  })
  return task
}

function nowAs(as: keyof ReadAs, value: Found): Now<unknown> {
  if (value === undefined) return { status: 'absent', value, error: undefined }
  try {
    return { status: 'found', value: READ[as](value, 'useWatch'), error: undefined }
  } catch (error) {
    if (error instanceof KeyhushError) return { status: 'error', value: undefined, error }
    throw error
  }
}
