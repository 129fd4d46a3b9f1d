// `useLookup()` and `useLookups()`: what a map says about a key, or about several, for as long as a component shows it.

import { checkNames, checkOptions, oneOf } from '../base/boundary.js'
import type { KeyhushError } from '../base/errors.js'
import type { MapEvent } from '../base/events.js'
import type { Key } from '../lookup/keys.js'
import type { Value } from '../lookup/question.js'
import type { KeyhushMap, ManyOptions } from '../map.js'
import { copyOf, isSameKey } from './keys.js'
import { Task, useTask } from './task.js'

/** What `useLookup()` and `useLookups()` both return. */
export interface AnyLookup {
  /** Looks up the same again. It does nothing while the status is `loading` or `idle`. */
  readonly refetch: () => void
  /** Whether the map has moved to another version of the database since the lookup began: the answer may be another by now. */
  readonly outdated: boolean
  /** The servers that the lookup has waited for for two seconds. */
  readonly slow?: readonly string[] | undefined
}

/**
 * What `useLookup()` returns. `idle`: there is no key. `loading`: also while there is a key and no map; so show an error of
 * `usePrivateMap()` first. `absent`: the key is proved absent.
 */
export type Lookup<T = Value> = AnyLookup &
  (
    | { readonly status: 'idle' | 'loading'; readonly value: undefined; readonly error: undefined }
    | { readonly status: 'found'; readonly value: T; readonly error: undefined }
    | { readonly status: 'absent'; readonly value: undefined; readonly error: undefined }
    | { readonly status: 'error'; readonly value: undefined; readonly error: KeyhushError }
  )

/** What `useLookups()` returns, as `Lookup`. `values` are in the order of the keys; undefined: that key is proved absent. */
export type Lookups<T = Value> = AnyLookup &
  (
    | { readonly status: 'idle' | 'loading'; readonly values: undefined; readonly error: undefined }
    | { readonly status: 'answered'; readonly values: readonly (T | undefined)[]; readonly error: undefined }
    | { readonly status: 'error'; readonly values: undefined; readonly error: KeyhushError }
  )

/** The types of values: of the map's `get()`, `getText()` and `getJson()`. The SDK does not check the contents of JSON. */
export interface ReadAs {
  readonly bytes: Value
  readonly text: string
  readonly json: unknown
}

/** Options of `useLookup()`. */
export interface LookupOptions {
  /**
   * `true`: looks up again each time that the map moves to another version of the database. The answer stays until the next one is there,
   * and is `outdated` meanwhile. Servers then see a lookup after each change, for as long as the component is mounted, except in mode
   * `local`. In mode `single` each uses a hint up. Default: `false`.
   */
  readonly follow?: boolean | undefined
}

/** Options of `useLookups()`. */
export interface LookupsOptions extends LookupOptions, Pick<ManyOptions, 'padTo'> {}

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
  options: LookupOptions = {},
): Lookup<ReadAs[As]> {
  const wanted: Wanted<Key> = { map, key: key ? copyOf(key) : undefined, as, options }
  return useTask(wanted, isSameWanted, begun) as Lookup<ReadAs[As]>
}

/**
 * Looks up several keys together, as `getMany()` does: servers see their number, unless you pass `padTo`. Otherwise it is as
 * `useLookup()`. The list may be a new one in each render: only other keys are looked up. `undefined` is no list.
 * @example
 * const answer = useLookups(map, domains, 'text', { padTo: 8 })
 * if (answer.status === 'answered') return domains.map((domain, i) => <p key={domain}>{answer.values[i] ?? 'not listed'}</p>)
 */
export function useLookups<As extends keyof ReadAs = 'bytes'>(
  map: KeyhushMap | undefined,
  keys: readonly Key[] | undefined,
  as: As = 'bytes' as As,
  options: LookupsOptions = {},
): Lookups<ReadAs[As]> {
  // What is no list is refused by the map.
  const wanted: Wanted<readonly Key[]> = { map, key: Array.isArray(keys) ? keys.map(copyOf) : keys, as, options }
  return useTask(wanted, isSameWanted, severalBegun) as Lookups<ReadAs[As]>
}

interface Wanted<K> {
  readonly map: KeyhushMap | undefined
  readonly key: K | undefined
  readonly as: keyof ReadAs
  readonly options: LookupsOptions
}

function isSameWanted(a: Wanted<unknown>, b: Wanted<unknown>): boolean {
  const isSameOption = (name: keyof LookupsOptions) => a.options?.[name] === b.options?.[name]
  return a.map === b.map && a.as === b.as && isSameOption('padTo') && isSameOption('follow') && isSameKey(a.key, b.key)
}

const ONE = { bytes: 'get', text: 'getText', json: 'getJson' } as const
const SEVERAL = { bytes: 'getMany', text: 'getManyText', json: 'getManyJson' } as const

function begun(wanted: Wanted<Key>): Task<LookupState> {
  return asking(wanted, { value: undefined }, async (map, key, signal): Promise<LookedUp> => {
    check('useLookup', wanted, ['follow'])
    const value = await map[ONE[wanted.as]](key, { signal })
    return { status: value === undefined ? 'absent' : 'found', value }
  })
}

function severalBegun(wanted: Wanted<readonly Key[]>): Task<LookupState> {
  return asking(wanted, { values: undefined }, async (map, keys, signal): Promise<LookedUp> => {
    check('useLookups', wanted, ['follow', 'padTo'])
    const { padTo } = wanted.options
    return { status: 'answered', values: await map[SEVERAL[wanted.as]](keys, { signal, padTo }) }
  })
}

/** Throws UsageError. A misspelt `padTo` would leave the number of keys unhidden. */
function check(call: string, { as, options }: Wanted<unknown>, names: readonly (keyof LookupsOptions)[]): void {
  oneOf(`${call}: as`, Object.keys(ONE), as)
  checkOptions(call, options, [], ['follow'])
  checkNames(call, options, names)
}

interface LookedUp {
  readonly status: (Lookup | Lookups)['status']
  readonly value?: unknown
  readonly values?: unknown
}
type LookupState = AnyLookup & LookedUp & { readonly error: KeyhushError | undefined }

/** `none`: what there is instead of an answer. */
function asking<K>(
  { map, key, options }: Wanted<K>,
  none: Omit<LookedUp, 'status'>,
  ask: (map: KeyhushMap, key: K, signal: AbortSignal) => Promise<LookedUp>,
): Task<LookupState> {
  const follow = options?.follow === true
  let epoch = 0
  // A condemned map has no epoch.
  const hasMoved = () => map !== undefined && map.epoch > 0 && map.epoch !== epoch
  const refetch = () => {
    if (key !== undefined && task.snapshot().status !== 'loading') task.again(first)
  }
  const rest = { error: undefined, outdated: false, refetch }
  const first: LookupState = { ...rest, ...none, status: key === undefined ? 'idle' : 'loading' }
  const task = new Task<LookupState>(first, {
    async run(signal) {
      if (map === undefined || key === undefined) return first
      const off = listen(map, 'slow', ({ servers }) => {
        if (!signal.aborted) task.show({ ...task.snapshot(), slow: servers })
      })
      try {
        for (;;) {
          epoch = map.epoch
          const state = { ...rest, ...(await ask(map, key, signal)), outdated: hasMoved() }
          if (!follow || !state.outdated || signal.aborted) return state
          task.show(state)
        }
      } finally {
        off()
      }
    },
    failed: error => ({ ...rest, ...none, status: 'error', error }),
    watch() {
      const look = () => {
        const now = task.snapshot()
        if (now.outdated || ['idle', 'loading', 'error'].includes(now.status) || !hasMoved()) return
        const outdated = { ...now, outdated: true }
        if (follow) task.again(outdated)
        else task.show(outdated)
      }
      look()
      return listen(map, 'updated', look)
    },
  })
  return task
}

/** Returns what ends it. A closed map has no events. */
function listen<T extends MapEvent['type']>(
  map: KeyhushMap | undefined,
  type: T,
  listener: (event: Extract<MapEvent, { type: T }>) => void,
): () => void {
  try {
    return map!.on(type, listener)
  } catch {
    return () => {}
  }
}
