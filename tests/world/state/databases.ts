// The servers' databases: the same keys in every epoch, with other values. Small, so that thousands of schedules are quick; large
// enough that two fresh vectors are hardly ever equal (15 offsets to the 6th power).

import { type Core, loadCore } from '@keyhush/wasm'
import { buildDatabase, type Database, later } from '../../../packages/client/test/support/database.js'
import { decodeDirectory, indexOf } from '../../interop/reference/directory.js'
import { fingerprint } from '../../interop/reference/hash.js'
import { hexOf } from '../ledger.js'
import type { Plain } from '../questions.js'

export type { Database }

export const core: Core = await loadCore()

const KEYS = Array.from({ length: 86 }, (_, i) => `key ${i}`)
const ABSENT = ['nobody', 'nowhere', 'nothing']
export const ALL_KEYS = [...KEYS, ...ABSENT]

const bytes = (text: string) => new TextEncoder().encode(text)
const valueIn = (epoch: number, key: string) => bytes(`${key} in epoch ${epoch}`)

/** All epochs, oldest first. */
export const DATABASES: readonly Database[] = [1, 2, 3].map(epoch =>
  buildDatabase(core, {
    keys: KEYS,
    values: KEYS.map(key => valueIn(epoch, key)),
    variable: true,
    partitions: 6,
    manifest: epoch === 1 ? {} : later(epoch),
  }),
)

export const RECORDS = KEYS.length

/** The key directory is the same in every epoch; read by the reference, not by the core. */
const directory = decodeDirectory(DATABASES[0]!.blobs.get(hexOf(DATABASES[0]!.manifest.directoryHash))!, RECORDS)

/** The record that a lookup of this key asks for, whether the key is there or not. */
export const indexOfKey = (key: string): number => indexOf(directory, fingerprint(bytes(key)), RECORDS)

export function plainOf({ byIndex, manifest }: Database): Plain {
  return {
    at: index => byIndex[index],
    get: key => (ABSENT.includes(key) ? undefined : valueIn(manifest.epoch, key)),
  }
}
