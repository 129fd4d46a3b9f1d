// @pirouette/client/environment: the door for tests. Whoever passes in a predictable `random`, or a store that forgets,
// gives up the privacy this package is for.

export { discardStateWith, openWith } from './open.js'
export type { OpenWithOptions } from './options.js'
export { type Clock, type Environment, type Fetch, platformEnvironment } from './platform/environment.js'
export type { Locks } from './platform/locks.js'
export { noTabs, type Tabs } from './platform/tabs.js'
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
