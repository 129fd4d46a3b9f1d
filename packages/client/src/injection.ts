// @pirouette/client/environment: the door for tests. Whoever passes in a predictable `random`, or a store that forgets,
// gives up the privacy this package is for.

export { type Clock, type Environment, type Fetch, platformEnvironment } from './environment.js'
export { type OpenWithOptions, openWith } from './open.js'
export { MemoryStore } from './store/memory.js'
export type { HintRecord, StateStore } from './store/store.js'
