// @pirouette/client/environment: the door for tests. Whoever passes in a predictable `random`, or a store that forgets,
// gives up the privacy this package is for.

export { type Clock, type Environment, type Fetch, platformEnvironment } from './environment.js'
export type { Locks } from './locks.js'
export { type OpenWithOptions, openWith } from './open.js'
export type { Identity, OpenedStore, OpenStore, StoragePreference } from './storage.js'
export { MemoryStore } from './store/memory.js'
export {
  type Advance,
  type HintRecord,
  type PartialUpdate,
  type StateHead,
  StateMovedError,
  type StateStore,
  StateUnreadableError,
  type StoredCheckpoint,
  type StoredHint,
  type StoredPartial,
} from './store/store.js'
export { noTabs, type Tabs } from './tabs.js'
