// The platform's own environment, with every build of the core and every store. Apart from environment.ts: what names a part that
// is loaded on demand has bundlers write it.

import { loadCore } from '@keyhush/wasm/client'
import type { OpenDurableStore, OpenStore } from '../store/storage.js'
import { type Environment, environmentWith, type Fetch, pause } from './environment.js'
import { loadPart } from './parts.js'

/** In browsers, workers and Node. `fetch` replaces the network, `store` the storage. */
export function platformEnvironment(fetch?: Fetch, store?: OpenDurableStore): Environment {
  return environmentWith({ openStore: store === undefined ? platformStore : appStore(store), loadCore }, fetch)
}

const platformStore: OpenStore = async (...wanted) => {
  const { openPlatformStore } = await loadStores()
  return await openPlatformStore(pause, ...wanted)
}

/** Maps that keep nothing do without. */
function loadStores() {
  return loadPart(() => import('./stores.js'))
}

const appStores = new WeakMap<OpenDurableStore, OpenStore>()

/** An app's own storage. The same for the same function, so that two maps of one identity can share a session. */
function appStore(open: OpenDurableStore): OpenStore {
  const known = appStores.get(open)
  if (known !== undefined) return known
  const openStore: OpenStore = async (...wanted) => {
    const { openAppStore } = await loadStores()
    return await openAppStore(open, ...wanted)
  }
  appStores.set(open, openStore)
  return openStore
}
