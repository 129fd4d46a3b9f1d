// Where state is kept: in IndexedDB, which Node does not have; in a store that the app passes in; or in memory.

import { openIndexedDbStore } from '../store/indexeddb.js'
import { MemoryStore } from '../store/memory.js'
import {
  confirmed,
  type Identity,
  type OpenDurableStore,
  type OpenedStore,
  type StoragePreference,
} from '../store/storage.js'

export async function openPlatformStore(
  pause: () => Promise<void>,
  identity: Identity,
  preference: StoragePreference,
): Promise<OpenedStore> {
  if (preference === 'memory') return openInMemory()
  const { store, discardOthers } = await confirmed(await openIndexedDbStore(identity, pause))
  const manager = typeof navigator === 'object' ? (navigator.storage as Partial<StorageManager> | undefined) : undefined
  const persistent = await manager?.persisted?.().catch(() => false)
  const persist = async () => (await manager?.persist?.()) === true
  const storage = persistent ? 'persistent' : 'best-effort'
  return { store, storage, discardOthers, persist, preparers: 'platform' }
}

/** An app's own. */
export async function openAppStore(
  open: OpenDurableStore,
  identity: Identity,
  preference: StoragePreference,
): Promise<OpenedStore> {
  if (preference === 'memory') return openInMemory()
  const { store, discardOthers } = await confirmed(await open(identity))
  return { store, storage: 'persistent', discardOthers }
}

function openInMemory(): OpenedStore {
  return { store: new MemoryStore(), storage: 'memory' }
}
