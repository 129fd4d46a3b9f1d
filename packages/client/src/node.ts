// @keyhush/client/node: stores a map's state in files, for Node.

import { resolve } from 'node:path'
import { expected } from './base/boundary.js'
import { UsageError } from './base/errors.js'
import { openFileStore } from './store/folder.js'
import type { OpenDurableStore } from './store/storage.js'

export type { DurableStore, StateStore } from './store/store.js'
export { openFileStore }

const stores = new Map<string, OpenDurableStore>()

/**
 * Keeps the state in files below `folder`. Pass the result to `open({ store })`. The same folder gives the same function, so that its maps
 * share their state. The files are not encrypted.
 *
 * One process at a time may use a folder: a second one gets a StorageError, or without `storage: 'required'` a map in memory. Install
 * `fs-native-extensions`, which locks the folder until the process ends, across containers too. On Windows Node does not confirm that
 * writes have reached the disk, so the map does not use the store there.
 * @throws {UsageError} if `folder` is no string
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
