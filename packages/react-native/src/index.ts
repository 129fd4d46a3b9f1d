// @keyhush/react-native: `open()` for apps with Expo or React Native. Lookups are instant: nothing is downloaded, and nothing is kept.

import {
  ClosedError,
  checkInstantOptions,
  type Environment,
  type Fetch,
  type InstantWithOptions,
  type KeyhushMap,
  openInstantWith,
} from '@keyhush/client/instant-with'
import { scriptCore } from '@keyhush/wasm/script'
import { AppState } from 'react-native'
import { adapted, type Crypto, pause, plain, randomOf } from './platform.js'

export interface Options extends InstantWithOptions {
  /** Secure randomness: `import * as crypto from 'expo-crypto'`. Default: the global `crypto`. */
  readonly crypto?: Crypto | undefined
}

/** Hermes has no WebAssembly. */
const loadCore = (async () => scriptCore) as Environment['loadCore']

/**
 * Opens a map. It downloads nothing and keeps nothing. For each lookup all servers read their whole database. When the app comes to the
 * front, the map asks the servers for a newer version.
 * @throws {UsageError} for wrong options, before any traffic
 * @throws {UnsupportedError} without secure randomness; the message says what to install
 * @throws {KeyhushError} by class or `code`
 * @example
 * import * as crypto from 'expo-crypto'
 * const map = await open({ servers: ['https://a.example', 'https://b.example'], crypto })
 * await map.getText('otter')
 */
export async function open(options: Options): Promise<KeyhushMap> {
  checkInstantOptions('native', options, ['crypto'])
  const { crypto = globalThis.crypto as Crypto | undefined, fetch = globalThis.fetch as Fetch, ...others } = options
  const servers = Array.isArray(options.servers) ? plain(options.servers) : options.servers
  const platform = { loadCore, pause, random: randomOf(crypto) }
  const map = await openInstantWith(platform, { ...others, servers, fetch: adapted(fetch), push: false })
  followApp(map)
  return map
}

/** Listens no longer than until the app comes to the front after the map was closed. */
function followApp(map: KeyhushMap): void {
  const app = AppState.addEventListener('change', state => {
    if (state !== 'active') return
    map.sync().catch(error => {
      if (error instanceof ClosedError) app.remove()
    })
  })
}

export * from '@keyhush/client/common'
export type { Crypto } from './platform.js'
