// @keyhush/client/react/instant: the hooks of @keyhush/client/react for mode `instant` alone. The app ships what @keyhush/client/instant has.

import { type InstantOptions, open } from './instant.js'
import { privateMapOf } from './react/private-map.js'

/** The options of `open()` of `@keyhush/client/instant`, without `signal`, which the hook sets. */
export type InstantMapOptions = Omit<InstantOptions, 'signal'>

/**
 * As `usePrivateMap()` of `@keyhush/client/react`, with `open()` of `@keyhush/client/instant`.
 * @example
 * const opened = usePrivateMap({ servers, publisherKey })
 */
export const usePrivateMap = privateMapOf<InstantMapOptions>(open)

export * from './react/lookup.js'
export type { OpenMap, PrivateMap, UsePrivateMap } from './react/private-map.js'
export * from './react/watch.js'
