// What lookups with one server are made of: the records of an epoch, and in a keyed database the padded blocks of its directory.

import { type InstantOf, instantLayout, type Manifest } from '@keyhush/protocol'
import type { Core, DatabaseHandle, OneServerSizes } from '@keyhush/wasm'

/** What of a manifest decides what is prepared. */
export type Prepares = Pick<
  Manifest,
  | 'databaseId'
  | 'generation'
  | 'keyed'
  | 'records'
  | 'recordBytes'
  | 'partitions'
  | 'partitionRecords'
  | 'blockRecords'
  | 'directoryBlockLog'
  | 'directoryBlockBytes'
>

/** One of the two, in the core's memory. */
export interface Part {
  readonly of: InstantOf
  readonly records: number
  readonly recordBytes: number
  readonly handle: DatabaseHandle
}

/** A database in the core's memory. `blocks`: of a keyed one. */
export interface InMemory {
  readonly core: Core
  readonly database: DatabaseHandle
  readonly blocks: DatabaseHandle | undefined
}

/** The parts of an epoch, in the order in which their hints stand in the blob. */
export function partsOf(manifest: Prepares, { database, blocks }: Pick<InMemory, 'database' | 'blocks'>): Part[] {
  return kindsOf(manifest).map(of => ({ of, ...sizeOf(manifest, of), handle: of === 'records' ? database : blocks! }))
}

/** A copy of `length` bytes of a part, from byte `at` on. */
export function bytesOf(core: Core, { handle }: Part, at: number, length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(core.memory.buffer, handle.recordsPointer() + at, length).slice()
}

/** What lookups in this database are of. */
export function kindsOf({ keyed }: Pick<Manifest, 'keyed'>): readonly InstantOf[] {
  return keyed ? ['records', 'directory'] : ['records']
}

/** Sizes of requests and answers. Throws the core's `layout` error for a database that is too large. */
export function sizesFor(core: Core, manifest: Prepares, of: InstantOf): OneServerSizes {
  const { records, recordBytes } = sizeOf(manifest, of)
  return core.oneServerSizes({ records, recordBytes })
}

/** Memory of an epoch that is prepared. Throws as `sizesFor`. */
export function preparedBytes(core: Core, manifest: Prepares): number {
  return kindsOf(manifest).reduce((sum, of) => sum + sizesFor(core, manifest, of).serverBytes, 0)
}

function sizeOf(manifest: Prepares, of: InstantOf): { readonly records: number; readonly recordBytes: number } {
  const { records, recordBytes } = instantLayout(manifest as Manifest, of)
  return { records, recordBytes }
}
