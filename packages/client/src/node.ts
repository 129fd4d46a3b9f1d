// @keyhush/client/node: state in files, for Node.

import { resolve } from 'node:path'
import { expected } from './base/boundary.js'
import { UsageError } from './base/errors.js'
import { openFileStore } from './store/folder.js'
import type { OpenDurableStore } from './store/storage.js'

export type { DurableStore, StateStore } from './store/store.js'
export { openFileStore }

const stores = new Map<string, OpenDurableStore>()

/**
 * Files below `folder`, for `open({ store })`. The same folder gives the same function, so that maps of it share their state.
 * @throws {UsageError} if that is no path
 * @example
 * await open({ servers, store: fileStore('/var/lib/app/keyhush') })
 */
export function fileStore(folder: string): OpenDurableStore {
  if (typeof folder !== 'string') throw new UsageError(`fileStore: ${expected("a folder's path", folder)}`)
  const path = resolve(folder)
  const store = stores.get(path) ?? (servers => openFileStore(path, servers))
  stores.set(path, store)
  return store
}
