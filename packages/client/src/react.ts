// @keyhush/client/react: hooks for a map and its lookups. They need React 18 or newer, which is the app's own.

import { open } from './open.js'
import type { OpenOptions } from './options.js'
import { privateMapOf } from './react/private-map.js'

/** The options of `open()`, without `signal`, which the hook sets. */
export type PrivateMapOptions = Omit<OpenOptions, 'signal'>

/**
 * Opens a map when the component mounts, and closes it when the component unmounts. Call it once for the page, and pass the map on. You
 * may write the options anew in each render: the hook opens the map again only when an option has another value. Of functions the first
 * one counts. In server-side rendering it opens nothing.
 *
 * A second argument is called in the place of `open()`, in a component test say, and gets the options.
 * @example
 * const opened = usePrivateMap({ servers, publisherKey })
 * if (opened.status === 'error') return <button onClick={opened.retry}>The list did not open. Try again</button>
 * @example
 * const { map } = usePrivateMap({ normalize }, async ({ normalize }) => fakeMap({ otter: 'river' }, { normalize }))
 */
export const usePrivateMap = privateMapOf<PrivateMapOptions>(open)

export * from './react/lookup.js'
export type { OpenMap, PrivateMap, UsePrivateMap } from './react/private-map.js'
export * from './react/watch.js'
