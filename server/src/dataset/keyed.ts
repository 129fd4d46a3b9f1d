// From records to a database in memory and its first manifest. Nothing here is Node's: a browser can do it as well.

import {
  CONFIDENTIAL_NAME,
  confidentialId,
  DATABASE_ID_BYTES,
  encodeManifest,
  FINGERPRINT_BYTES,
  fromHex,
  HASH_BYTES,
  MAX_RECORD_BYTES,
  type Manifest,
  type Proofs,
  type RecordShape,
  suiteOf,
  writeRecord,
} from '@keyhush/protocol'
import type { Core, CoreError, DatabaseHandle, LayoutHandle } from '@keyhush/wasm'
import { BuildError } from '../base/errors.js'
import { blocksOf, type DirectoryFields, directoryFields } from './blocks.js'
import type { KeyedRecords } from './ingest/table.js'
import { faultOfValue, recordsOf, type Shape } from './shape.js'
import { recordBytesView } from './view.js'

/** How records are laid out, and what proves them. */
export interface LayoutOptions {
  /** Q; default: the planner's */
  readonly partitions?: number | undefined
  /** g, the records of a block; default: the planner's */
  readonly pack?: number | undefined
  /** the planner leaves room for so many more records, so that updates find it in the partitions there are; default 0 */
  readonly headroom?: number | undefined
  /** keyed formats only: gives every record room for a value of this length, and a length of its own */
  readonly maxValueBytes?: number | undefined
  /**
   * `merkle` (default): the manifest has commitments, and clients may also keep tags; `tags`: they must; `pointproofs`: as
   * `merkle`, and all answers can also be proved as a whole.
   */
  readonly proofs?: Proofs | undefined
  /** of a shard: takes the place of all these */
  readonly given?: Shape | undefined
}

/** A database in memory. */
export interface Filled {
  readonly shape: RecordShape
  readonly records: number
  /** records that are not empty */
  readonly keys: number
  readonly layout: LayoutHandle
  readonly database: DatabaseHandle
  /** empty: keyless */
  readonly directory: Uint8Array
  readonly directoryFields: DirectoryFields
  /** the padded blocks of the directory; undefined without keys or commitments */
  readonly blocks: DatabaseHandle | undefined
}

/** Puts records where the directory says; they are not hashed yet. Throws BuildError, which names `file`. */
export function place(core: Core, table: KeyedRecords, options: LayoutOptions, file?: string): Filled {
  const { given } = options
  const shape = given === undefined ? recordShapeOf(table, options.maxValueBytes) : recordsOf(given)
  if (given !== undefined) checkFits(table, given, file)
  const records = given === undefined ? table.records : given.partitions * given.partitionRecords
  const { layout, database } = allocate(core, options, records, shape.recordBytes, file)
  const directory = directoryOf(core, table, layout, given, file)
  const indices = directory.indices(table.fingerprints, table.records)
  const into = recordBytesView(core, database, 0, layout.partitions * layout.partitionBytes)
  for (let i = 0; i < table.records; i++) {
    const fingerprint = table.fingerprints.subarray(FINGERPRINT_BYTES * i, FINGERPRINT_BYTES * (i + 1))
    const value = table.values.subarray(i === 0 ? 0 : table.valueEnds[i - 1], table.valueEnds[i])
    writeRecord(shape, into, indices[i]! * shape.recordBytes, fingerprint, value)
  }
  const encoded = directory.encode()
  const blocks = blocksOf({ suite: suiteOf(options.proofs ?? 'merkle') }, directory)
  const fields = directoryFields(core, directory, encoded, blocks)
  directory.free()
  return { shape, records, keys: table.records, layout, database, directory: encoded, directoryFields: fields, blocks }
}

/** Throws BuildError if a shape has no place for all records. */
function checkFits(table: KeyedRecords, shape: Shape, file?: string): void {
  const most = shape.partitions * shape.partitionRecords
  if (table.records > most)
    throw new BuildError(
      `expected at most ${most} keys in a shard, got ${table.records}; plan a shape for more records`,
      file,
    )
  for (let i = 0, start = 0; i < table.records; i++) {
    const reason = faultOfValue(shape, table.valueEnds[i]! - start)
    if (reason !== undefined) throw table.fault(i, reason)
    start = table.valueEnds[i]!
  }
}

function directoryOf(core: Core, table: KeyedRecords, layout: LayoutHandle, shape: Shape | undefined, file?: string) {
  if (shape === undefined) return core.buildDirectory(table.fingerprints, layout.partitions * layout.partitionRecords)
  const { directoryBlockLog, directoryBlockBytes, directorySeed, directoryRoom } = shape
  try {
    const seed = fromHex(directorySeed)
    return core.buildShapedDirectory(table.fingerprints, directoryBlockLog, directoryBlockBytes, seed, directoryRoom)
  } catch (error) {
    if ((error as CoreError).code !== 'directory') throw error
    throw new BuildError((error as Error).message, file)
  }
}

/** Fixed if all values are equally long and no room for longer ones was asked for, else variable. */
function recordShapeOf(table: KeyedRecords, maxValueBytes: number | undefined): RecordShape {
  let longest = 0
  let longestAt = 0
  let equal = true
  for (let i = 0, start = 0; i < table.records; i++) {
    const length = table.valueEnds[i]! - start
    start = table.valueEnds[i]!
    if (i > 0 && length !== longest) equal = false
    if (length > longest) {
      longest = length
      longestAt = i
    }
  }
  const valueBytes = maxValueBytes ?? longest
  const variable = !equal || valueBytes !== longest
  const recordBytes = FINGERPRINT_BYTES + (variable ? 2 : 0) + valueBytes
  if (recordBytes > MAX_RECORD_BYTES) {
    const most = MAX_RECORD_BYTES - FINGERPRINT_BYTES - 2
    throw table.fault(
      longestAt,
      `expected a value of at most ${most} bytes where values differ in length, got ${longest}; shorten it`,
    )
  }
  return { recordBytes, valueBytes, keyed: true, variable }
}

/** As planned, all zero. Throws BuildError. */
export function allocate(
  core: Core,
  { partitions, pack, headroom = 0, proofs, given }: LayoutOptions,
  records: number,
  recordBytes: number,
  file?: string,
): { layout: LayoutHandle; database: DatabaseHandle } {
  try {
    const plan = given ?? core.planLayout(records + headroom, recordBytes, partitions, pack)
    const layout = core.layout(records, recordBytes, plan.partitions, plan.partitionRecords, plan.blockRecords)
    if ('free' in plan) plan.free()
    return { layout, database: core.newDatabase(layout, proofs) }
  } catch (error) {
    if ((error as CoreError).code !== 'layout') throw error
    throw new BuildError(`no layout for ${records} records of ${recordBytes} bytes: ${(error as Error).message}`, file)
  }
}

/** The manifest of a first epoch, of a database that has been hashed; its id is still zero. */
export function manifestOf(
  { shape, records, layout, database, directoryFields }: Filled,
  { proofs = 'merkle', expires = 0 }: { readonly proofs: Proofs | undefined; readonly expires: number | undefined },
): Manifest {
  return {
    suite: suiteOf(proofs),
    databaseId: new Uint8Array(DATABASE_ID_BYTES),
    generation: 1,
    epoch: 1,
    records,
    ...shape,
    partitions: layout.partitions,
    partitionRecords: layout.partitionRecords,
    blockRecords: layout.blockRecords,
    maxQueries: database.maxQueries,
    expires,
    updateListBytes: 0,
    ...directoryFields,
    updateListHash: new Uint8Array(HASH_BYTES),
    previousManifest: new Uint8Array(HASH_BYTES),
    commitments: database.commitments(),
    contentHashes: database.contentHashes(),
  }
}

/** With its id, derived from a name, or from the manifest itself. */
export function named(core: Core, manifest: Manifest, name?: string): Manifest {
  return { ...manifest, databaseId: name === undefined ? core.databaseId(encodeManifest(manifest)) : idOf(core, name) }
}

/** The id that a name stands for. */
export function idOf(core: Core, name: string): Uint8Array {
  const id = core.databaseId(new TextEncoder().encode(name))
  return name.startsWith(CONFIDENTIAL_NAME) ? confidentialId(id) : id
}
