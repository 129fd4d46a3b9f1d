// The kinds of storage that `--store` can name, a row each. A row has the name of its file, which is loaded when it is used.

import { DatasetError } from '../base/errors.js'
import type { Role } from './postgres.js'
import type { Storage } from './storage.js'

interface StorageKind {
  /** for people */
  readonly name: string
  /** how `--store` names one; DIR stands for a directory */
  readonly form: string
  /** whether several processes may have one at a time (`Storage.engine`) */
  readonly isShared: boolean
  isNamedBy(store: string): boolean
  /** Throws DatasetError, and InUseError if another process has it. */
  open(store: string, role: Role): Promise<Storage>
}

/** The first kind that a store's name fits is taken. */
export const STORAGE_KINDS: Readonly<Record<string, StorageKind>> = {
  postgres: {
    name: 'PostgreSQL',
    form: 'postgres://…',
    isShared: true,
    isNamedBy: isConnection,
    open: async (store, role) => (await import('./postgres.js')).openPostgres(store, { role }),
  },
  lmdb: {
    name: 'LMDB',
    form: 'DIR',
    isShared: false,
    isNamedBy: () => true,
    async open(store) {
      // There the package that locks it would end the process.
      if ('Deno' in globalThis)
        throw new DatasetError(store, 'expected Node, which can lock a store, got Deno; run it in Node')
      return (await import('./lmdb.js')).openLmdb(store)
    },
  },
}

/** A URL of any scheme, or libpq's other form: one of its usual words with a value, or several of any. */
const CONNECTION =
  /^\s*(?:[a-z][a-z0-9+.-]+:)+\/\/|^\s*postgres(?:ql)?:|^\s*(?:host|hostaddr|port|dbname|user|service|pass\w*|ssl\w*)\s*=|^\s*\w+\s*=.*\s\w+\s*=/is

/** Whether a text is meant as a connection. What PostgreSQL does not take is refused in words: as a folder's name it would show a password. */
export function isConnection(store: string): boolean {
  return CONNECTION.test(store)
}

export function storageKind(store: string): StorageKind {
  return Object.values(STORAGE_KINDS).find(kind => kind.isNamedBy(store))!
}

/**
 * Opens the store that `keyhush serve --store` would open, or makes one.
 * @throws {DatasetError} saying what to do
 * @example
 * const storage = await openStorage('store')
 */
export function openStorage(store: string, role: Role = 'writer'): Promise<Storage> {
  return storageKind(store).open(store, role)
}
