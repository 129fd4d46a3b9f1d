// `usePrivateMap()`: a map for as long as a component is mounted. Each entry for React has it with its own `open()`.

import { checkOptions, WITH_SERVERS } from '../base/boundary.js'
import type { KeyhushError } from '../base/errors.js'
import type { OnEvent } from '../base/events.js'
import type { KeyhushMap } from '../map.js'
import { Task, useTask } from './task.js'

/**
 * What `usePrivateMap()` returns. `slow`: the servers that opening has waited for for two seconds. `retry` opens the map again after an
 * error.
 */
export type PrivateMap = { readonly slow?: readonly string[] | undefined } & (
  | { readonly status: 'opening'; readonly map: undefined; readonly error: undefined }
  | { readonly status: 'open'; readonly map: KeyhushMap; readonly error: undefined }
  | { readonly status: 'error'; readonly map: undefined; readonly error: KeyhushError; readonly retry: () => void }
)

/** `open()`, or a function in its place, such as one that resolves to a `fakeMap()`. */
export type OpenMap<O> = (options: O & { readonly signal: AbortSignal }) => Promise<KeyhushMap>

/** `usePrivateMap()`. `openMap` is called in the place of `open()`, in a component test say, and gets the options. */
export interface UsePrivateMap<Options> {
  (options: Options): PrivateMap
  <O extends object>(options: NoInfer<O>, openMap: OpenMap<O> | undefined): PrivateMap
}

/** The hook that opens maps with this `open()`. */
export function privateMapOf<Options extends object>(open: OpenMap<Options>): UsePrivateMap<Options> {
  return function usePrivateMap(options: object, openMap: OpenMap<never> = open): PrivateMap {
    return useTask(options, isSameOptions, options => opening(options, openMap as OpenMap<object>))
  }
}

function isSameOptions(a: object, b: object): boolean {
  const names = Object.keys({ ...a, ...b }) as never[]
  return names.every(name => isSameOption(a?.[name], b?.[name]))
}

/** Functions do not count. Lists of URLs, bytes of keys and names are compared as text; the options of a filter each. */
function isSameOption(a: unknown, b: unknown): boolean {
  if (a === b || typeof a === 'function' || typeof b === 'function') return true
  if (a === undefined || b === undefined || `${a}` !== `${b}`) return false
  return `${a}` !== '[object Object]' || isSameOptions(a as object, b as object)
}

const OPENING: PrivateMap = { status: 'opening', map: undefined, error: undefined }

function opening<O extends { readonly onEvent?: OnEvent }>(options: O, open: OpenMap<O>): Task<PrivateMap> {
  const retry = () => {
    if (task.snapshot().status === 'error') task.again(OPENING)
  }
  const task = new Task<PrivateMap>(OPENING, {
    async run(signal) {
      checkOptions('usePrivateMap', options, ['onEvent'], [], WITH_SERVERS)
      const onEvent: OnEvent = event => {
        const isOpening = !signal.aborted && task.snapshot().status === 'opening'
        if (event.type === 'slow' && isOpening) task.show({ ...OPENING, slow: event.servers })
        options.onEvent?.(event)
      }
      return { status: 'open', map: await open({ ...options, signal, onEvent }), error: undefined }
    },
    failed: error => ({ status: 'error', map: undefined, error, retry }),
    leave({ map }) {
      map?.close().catch(() => {}) // nobody is there to be told
      return OPENING
    },
  })
  return task
}
