// @pirouette/client/node: state in files, for Node.

export { openFileStore } from './store/folder.js'
export type { DurableStore, StateStore } from './store/store.js'
