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
export interface DatabaseInMemory {
  readonly core: Core
  readonly database: DatabaseHandle
  readonly blocks: DatabaseHandle | undefined
}

/** The parts of an epoch, in the order in which their public hints stand in the blob. */
export function partsOf(
  manifest: Prepares,
  { database, blocks }: Pick<DatabaseInMemory, 'database' | 'blocks'>,
): Part[] {
  return kindsOf(manifest).map(of => ({ of, ...sizeOf(manifest, of), handle: of === 'records' ? database : blocks! }))
}

/** A copy of `length` bytes of a part, from byte `at` on. */
export function bytesOf(core: Core, { handle }: Part, at: number, length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(core.memory.buffer, handle.recordsPointer() + at, length).slice()
}

/** `a` ⊕ `b`, of as many bytes as `a` has. */
export function xor(a: Uint8Array, b: Uint8Array | undefined): Uint8Array {
  return b === undefined ? a : a.map((byte, i) => byte ^ b[i]!)
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

/** Bytes of a column in an output, and of an output's rows modulo two primes. */
const ELEMENT_BYTES = 512
const ROWS_BYTES = 2 ** 24

/**
 * Memory of an epoch's thread once it is prepared. It does not shrink: columns are there twice while they are whitened, and one output's
 * rows while they are packed. At the most columns and outputs that is less than 4 GiB. Throws as `sizesFor`.
 */
export function preparedBytes(core: Core, manifest: Prepares): number {
  const sizes = kindsOf(manifest).map(of => sizesFor(core, manifest, of))
  const columns = sizes.map(({ columns, outputs }) => columns * outputs * ELEMENT_BYTES)
  return sizes.reduce((sum, { serverBytes }) => sum + serverBytes, ROWS_BYTES + Math.max(...columns))
}

function sizeOf(manifest: Prepares, of: InstantOf): { readonly records: number; readonly recordBytes: number } {
  const { records, recordBytes } = instantLayout(manifest as Manifest, of)
  return { records, recordBytes }
}
