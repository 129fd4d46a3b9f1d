// @keyhush/client/environment: for tests alone. With a predictable `random`, or a store that forgets, lookups are not private.

import { localCore } from '@keyhush/wasm/script-local'
import * as filter from './filter/sessions.js'
import type { KeyhushMap } from './map.js'
import type { Options } from './options.js'
import type { Environment } from './platform/environment.js'
import type { Scheme } from './scheme/scheme.js'
import { type Choose, type Pays, SCHEMES } from './scheme/table.js'
import { keeping } from './session/keeping.js'
import * as oneServer from './session/one-server.js'
import { openBy } from './sharing.js'
import * as watching from './watching/watcher.js'

/**
 * The same as `open()`, with time, network, randomness, storage and core as arguments. `schemes`, `pays` and `choose` replace the SDK's
 * own. It loads no code on the way, so that the test controls the order of events.
 */
export function openWith(
  environment: Environment,
  options: Options,
  schemes: ReadonlyMap<string, Scheme> = SCHEMES,
  pays?: Pays,
  choose?: Choose,
): Promise<KeyhushMap> {
  return openBy(environment, options, {
    ...{ known: schemes, loadWatching: async () => watching, loadKeeping: async () => keeping(schemes, pays, choose) },
    loadLocalCore: async () => localCore,
    loadOneServer: async () => oneServer,
    loadFilter: async () => filter,
  })
}

export { discardStateWith } from './open.js'
export type { OpenWithOptions } from './options.js'
export { awakeClock, type Clock } from './platform/clock.js'
export type { Connection } from './platform/connection.js'
export type { Environment, Fetch } from './platform/environment.js'
export type { Locks } from './platform/locks.js'
export { noTabs, type Tabs } from './platform/tabs.js'
export { platformEnvironment } from './platform/whole.js'
export { MemoryStore } from './store/memory.js'
export type { Identity, OpenedStore, OpenStore, StoragePreference } from './store/storage.js'
export {
  type Advance,
  type DurableStore,
  type HintRecord,
  type PartialUpdate,
  type StateHead,
  StateMovedError,
  type StateStore,
  StateUnreadableError,
  type StoredCheckpoint,
  type StoredHint,
  type StoredPartial,
  StoreFullError,
  StoreUnavailableError,
} from './store/store.js'
