// The storages that `serve --store` takes.

import type { Role } from './postgres.js'
import type { Storage } from './storage.js'

interface StorageKind {
  /** what the help says that a location is */
  readonly says: string
  /** whether several processes may serve from it */
  readonly isShared: boolean
  readonly has: (location: string) => boolean
  readonly open: (location: string, as: { role: Role }) => Promise<Storage>
}

const STORAGES: readonly StorageKind[] = [
  {
    says: 'directory (LMDB)',
    isShared: false,
    has: location => !/^\w+:/.test(location),
    open: async location => (await import('./lmdb.js')).openLmdb(location),
  },
  {
    says: 'postgres:// URL',
    isShared: true,
    has: location => /^postgres(ql)?:/i.test(location),
    open: async (location, as) => await (await import('./postgres.js')).openPostgres(location, as),
  },
]

export const LOCATIONS = STORAGES.map(({ says }) => says).join(' or ')

export function storageAt(location: string): StorageKind | undefined {
  return STORAGES.find(({ has }) => has(location))
}
