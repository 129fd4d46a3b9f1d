// The layout of the IndexedDB database: one an origin, shared by its tabs.
//
//   heads    identity                        → the head's row (head.ts)
//   values   [identity, hint, kind, version] → bytes: checkpoint, manifest and directory, at the checkpoint's version;
//                                              of a half-made hint partial and directory, at version 0;
//                                              of a whole one what verifies its answers, if anything, at version 0.
//                                              A value longer than a row goes on at [‥, version, 1], …
//                                              Rows of the state itself: kind `row` and its name, at version 0
//   journal  [identity, hint, version]       → the effect or update that leads from `version` to the next: bytes
//   keys     identity                        → the sealing key, a CryptoKey that cannot be exported
//
// The identity is the servers' names. Every row of a hint carries its id, so that none is read as another hint's.

import type { DBSchema, IDBPDatabase, IDBPTransaction } from 'idb'

export const DATABASE = 'keyhush'

/**
 * From 2 on, so that an empty database of our name, which `indexedDB.open(name)` makes as version 1, is given its stores. 3: rows of
 * 512 KiB, of 2 MiB before.
 */
export const SCHEMA_VERSION = 3

/** Bytes of each row of a value but its last, which is shorter. Handing one over, or back, takes some milliseconds. */
export const ROW_BYTES = 512 << 10

export type ValueKind = 'partial' | 'checkpoint' | 'manifest' | 'directory' | 'verifier' | `${typeof ROW}${string}`

/** Before the name of a row of the state. */
export const ROW = 'row '
export const AFTER_ROWS = 'row!'

export type ValueKey = [identity: string, hint: string, kind: ValueKind, version: number]

// Values are unknown: what is stored is checked before it is used.
export interface Schema extends DBSchema {
  heads: { key: string; value: unknown }
  values: { key: ValueKey | [...ValueKey, row: number]; value: unknown }
  journal: { key: [identity: string, hint: string, version: number]; value: unknown }
  keys: { key: string; value: unknown }
}

export type Database = IDBPDatabase<Schema>
export const STORES = ['heads', 'values', 'journal', 'keys'] as const
export type Reading = IDBPTransaction<Schema, typeof STORES, 'readonly'>
export type Writing = IDBPTransaction<Schema, typeof STORES, 'readwrite'>
export type WritingHead = IDBPTransaction<Schema, ['heads'], 'readwrite'>

/** The key of a value's row: the first has the value's own. */
export function rowKey(key: ValueKey, row: number): Schema['values']['key'] {
  return row === 0 ? key : [...key, row]
}

/** All rows of a value but its first. */
export function rowsAfter(key: ValueKey): IDBKeyRange {
  return IDBKeyRange.bound([...key, 1], [...key, []])
}

/** What begins with these; an array sorts after every number and string. */
export function startingWith(key: readonly string[]): IDBKeyRange {
  return IDBKeyRange.bound(key, [...key, []])
}
