// Loads a dataset directory for serving. Every digest in the manifest (commitments, content hashes, directory) is computed anew from
// the records, and must be the same. One exception: the update list of an epoch that a batch made, and the manifest before it, do not
// follow from the records. For these the operator trusts the publisher (docs/threat-model.md).

import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { setImmediate as nextTask } from 'node:timers/promises'
import {
  builtFor,
  contentHash,
  decodeManifest,
  decodeRecord,
  equalBytes,
  HASH_BYTES,
  isPackaged,
  type Manifest,
  partitionBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import { type Core, type CoreError, type DatabaseHandle, loadCore, type ServerDirectoryHandle } from '@keyhush/wasm'
import { DatasetError, readingFrom } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import type { Base } from '../one-server/base.js'
import { blocksOf, directoryFields, hasFields } from './blocks.js'
import type { Progress } from './build.js'
import { betweenPath, blobPath, blobsOf, listOf, manifestPath } from './directory.js'
import { readRecords } from './memory.js'
import { hasEmpty, misplacedRecord, storedFingerprints } from './places.js'
import { type DatasetProofs, proofsPackage, type RowProofs } from './proof-kinds.js'
import { areLinked, baseBefore } from './since-base.js'
import { namesMarks, slotMarksOf } from './slot-marks.js'
import { emptyDatabase, recordBytesView } from './view.js'

/** A file that clients may fetch under its hash. */
export interface BlobFile {
  readonly path: string
  readonly bytes: number
}

/** One epoch of a database, checked and ready to answer. */
export interface Dataset {
  readonly manifest: Manifest
  readonly manifestBytes: Uint8Array
  /** hex */
  readonly manifestHash: string
  /** the key directory's bytes; empty if keyless */
  readonly directory: Uint8Array
  /** the manifests between its base and it */
  readonly between: readonly KnownManifest[]
  /** what lookups with one server are answered from; undefined: there are none */
  readonly base: Base | undefined
  /** partitions, directory and update list, by their hash in hex */
  readonly blobs: ReadonlyMap<string, BlobFile>
  readonly core: Core
  readonly database: DatabaseHandle
  /** the padded blocks of the directory; undefined without instant lookups of keys */
  readonly blocks: DatabaseHandle | undefined
  /** what proves answers as a whole; undefined without Pointproofs */
  readonly openings: RowProofs | undefined
  /** gives the memory back; the dataset cannot be used afterwards */
  close(): void
}

/**
 * Reads and checks the dataset in `dir`.
 * @throws {DatasetError} naming the file that is not what it should be
 * @example
 * const dataset = await loadDataset('dataset')
 */
export async function loadDataset(dir: string, onProgress?: (progress: Progress) => void): Promise<Dataset> {
  const core = await loadCore()
  const file = manifestPath(dir)
  const manifestBytes = await readManifest(file)
  const manifest = await readingFrom(file, () => parseManifest(manifestBytes))
  const database = await readingFrom(file, () => emptyDatabase(core, manifest))
  let keyBlocks: DatabaseHandle | undefined
  let proofs: DatasetProofs | undefined
  try {
    const kind = builtFor(manifest)
    if (isPackaged(kind)) proofs = await (await proofsPackage(kind)).load(core, dir, manifest)
    const length = partitionBytes(manifest)
    for (let q = 0; q < manifest.partitions; q++) {
      loadPartition(core, database, dir, manifest, q)
      await proofs?.check(q, recordBytesView(core, database, q * length, length))
      onProgress?.({ stage: 'hashing', done: q + 1, total: manifest.partitions })
      await nextTask()
    }
    let directory: Uint8Array = new Uint8Array()
    if (manifest.keyed) {
      const path = blobPath(dir, manifest.directoryHash)
      const checked = checkDirectory(core, database, path, manifest)
      directory = checked.bytes
      keyBlocks = checked.blocks
    }
    checkRecords(core, database, dir, manifest)
    checkPadding(core, database, dir, manifest)
    await checkMarks(core, database, dir, manifest)
    const between = await readBetween(core, dir, { manifest, bytes: manifestBytes })
    const known = [...between.map(known => known.manifest), manifest]
    const lists = known.filter(({ updateListBytes }) => updateListBytes > 0).map(of => readUpdateList(core, dir, of))
    const base = await loadBase(core, database, dir, manifest, directory, lists)
    const blobs = new Map(
      [...blobsOf(manifest), ...between.map(({ manifest: of }) => listOf(of))].map(({ hash, bytes }) => [
        toHex(hash),
        { path: blobPath(dir, hash), bytes },
      ]),
    )
    const openings = proofs?.finish()
    return {
      manifest,
      manifestBytes,
      manifestHash: toHex(core.blake3(manifestBytes)),
      directory,
      between,
      base,
      blobs,
      core,
      database,
      blocks: keyBlocks,
      openings,
      close() {
        openings?.free()
        database.free()
        keyBlocks?.free()
      },
    }
  } catch (error) {
    database.free()
    keyBlocks?.free()
    proofs?.free()
    throw error
  }
}

async function readManifest(path: string): Promise<Uint8Array> {
  return readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new DatasetError(path, `expected a dataset's manifest, got ${error.code}; \`keyhush build\` makes a dataset`)
  })
}

function parseManifest(bytes: Uint8Array): Manifest {
  const manifest = decodeManifest(bytes)
  if (manifest.updateListBytes === 0 || manifest.pointproofs === undefined) return manifest
  throw new Error('with Pointproofs, expected an epoch that was built, got one that a batch made; build it anew')
}

/** Reads partition `q` into the database and compares its two digests with the manifest's. */
function loadPartition(core: Core, database: DatabaseHandle, dir: string, manifest: Manifest, q: number): void {
  const path = blobPath(dir, contentHash(manifest, q))
  const length = partitionBytes(manifest)
  const fd = openBlob(path, length)
  try {
    if (!readRecords(core, database, q * length, length, fd))
      throw new DatasetError(path, `expected ${length} bytes, got fewer while it was read; build the dataset anew`)
  } finally {
    closeSync(fd)
  }
  database.commit(q)
  if (!equalBytes(database.contentHash(q), contentHash(manifest, q))) {
    throw new DatasetError(
      path,
      `its bytes are not those of partition ${q}, got BLAKE3 ${toHex(database.contentHash(q))}; build the dataset anew`,
    )
  }
  if (!equalBytes(database.commitment(q), manifest.commitments.subarray(HASH_BYTES * q, HASH_BYTES * (q + 1)))) {
    throw new DatasetError(manifestPath(dir), `expected the commitment of partition ${q}, got another; build it anew`)
  }
}

function openBlob(path: string, length: number): number {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (error) {
    throw new DatasetError(path, `expected a file, got ${(error as NodeJS.ErrnoException).code}; build it anew`)
  }
  const { size } = fstatSync(fd)
  if (size === length) return fd
  closeSync(fd)
  throw new DatasetError(path, `expected ${length} bytes, got ${size}; build the dataset anew`)
}

/** The bytes of a blob. Throws DatasetError if they are not those of its hash. */
function readBlob(core: Core, path: string, hash: Uint8Array, length: number, what: string): Uint8Array {
  closeSync(openBlob(path, length))
  const bytes = readFileSync(path)
  if (equalBytes(core.blake3(bytes), hash)) return bytes
  throw new DatasetError(path, `expected the ${what} that the manifest names, got other bytes; build the dataset anew`)
}

/** The list that led to a dataset's epoch, or to one since its base, if one did. Throws DatasetError. */
export function updateListOf(
  { core, blobs }: Dataset,
  { updateListHash, updateListBytes }: Manifest,
): Uint8Array | undefined {
  const file = blobs.get(toHex(updateListHash))
  return file && readBlob(core, file.path, updateListHash, updateListBytes, 'update list')
}

function readUpdateList(core: Core, dir: string, { updateListHash, updateListBytes }: Manifest): Uint8Array {
  return readBlob(core, blobPath(dir, updateListHash), updateListHash, updateListBytes, 'update list')
}

/** The manifests between an epoch's base and the epoch. */
async function readBetween(core: Core, dir: string, newest: KnownManifest): Promise<readonly KnownManifest[]> {
  const { oneServer, epoch } = newest.manifest
  const first = (oneServer?.baseEpoch ?? epoch) + 1
  if (first >= epoch) return []
  const path = betweenPath(dir)
  const between = await readingFrom(path, async () => decodeManifests(await readFile(path)))
  if (between.length === epoch - first && between[0]!.manifest.epoch === first && areLinked(core, [...between, newest]))
    return between
  throw new DatasetError(path, `expected the manifests of epochs ${first} to ${epoch - 1}, got others; export it anew`)
}

/** Throws DatasetError if the lists do not lead to the epoch from a base with the patch that the manifest names. */
async function loadBase(
  core: Core,
  database: DatabaseHandle,
  dir: string,
  manifest: Manifest,
  directory: Uint8Array,
  lists: readonly Uint8Array[],
): Promise<Base | undefined> {
  if (manifest.oneServer === undefined) return undefined
  const isOwn = manifest.oneServer.baseEpoch === manifest.epoch
  const base = await baseBefore({ core, database }, manifest, directory, isOwn ? [] : lists)
  if (base !== undefined) return base
  throw new DatasetError(manifestPath(dir), 'expected the patch of its update lists, got another; export it anew')
}

/**
 * The directory follows from the records' fingerprints, and nothing in its file is believed; unless batches have changed it,
 * in an order that the records do not tell: then it is to lead to every one of them.
 */
function checkDirectory(
  core: Core,
  database: DatabaseHandle,
  path: string,
  manifest: Manifest,
): { readonly bytes: Uint8Array; readonly blocks: DatabaseHandle | undefined } {
  const bytes = readBlob(core, path, manifest.directoryHash, manifest.directoryBytes, 'directory')
  const { records } = manifest
  const fingerprints = storedFingerprints(core, database, manifest)
  try {
    const directory =
      manifest.updateListBytes === 0
        ? firstDirectory(core, manifest, fingerprints)
        : core.decodeDirectory(bytes, records)
    try {
      if (!equalBytes(directory.encode(), bytes))
        throw new DatasetError(path, 'expected the directory of these records, got another; build the dataset anew')
      const misplaced = misplacedRecord(directory, fingerprints, records)
      if (misplaced !== undefined)
        throw new DatasetError(path, `expected to find record ${misplaced} by it, but cannot; build the dataset anew`)
      const blocks = blocksOf(manifest, directory)
      if (hasFields(manifest, directoryFields(core, directory, bytes, blocks))) return { bytes, blocks }
      blocks?.free()
      throw new DatasetError(path, 'expected the blocks that the manifest names, got others; build the dataset anew')
    } finally {
      directory.free()
    }
  } catch (error) {
    if ((error as CoreError).code !== 'directory') throw error
    throw new DatasetError(path, `the records have no directory: ${(error as Error).message}; build it anew`)
  }
}

/** The slot marks follow from the records. */
async function checkMarks(core: Core, database: DatabaseHandle, dir: string, manifest: Manifest): Promise<void> {
  const { slotMarksHash, records } = manifest
  if (slotMarksHash === undefined) return
  readBlob(core, blobPath(dir, slotMarksHash), slotMarksHash, records, 'slot marks')
  if (await namesMarks(core, manifest, await slotMarksOf({ core, database }))) return
  throw new DatasetError(manifestPath(dir), 'expected the slot marks of these records, got others; build it anew')
}

/** That of a first epoch. Only a shard has empty slots then, and records in all slots; its directory has a shape that was decided before. */
function firstDirectory(core: Core, manifest: Manifest, fingerprints: Uint8Array): ServerDirectoryHandle {
  const { records, partitions, partitionRecords, directoryBlockLog, directoryBlockBytes, directorySeed } = manifest
  const slots = partitions * partitionRecords
  if (records < slots || !hasEmpty(fingerprints)) return core.buildDirectory(fingerprints, slots)
  return core.buildShapedDirectory(fingerprints, directoryBlockLog, directoryBlockBytes, directorySeed, 0)
}

/** A malformed record would fail the lookups of its key alone, so that its author could tell which key they are for. */
function checkRecords(core: Core, database: DatabaseHandle, dir: string, manifest: Manifest): void {
  const { records, recordBytes, keyed, variable } = manifest
  if (!keyed && !variable) return // any bytes are one
  const stored = recordBytesView(core, database, 0, records * recordBytes)
  for (let i = 0; i < records; i++) {
    try {
      decodeRecord(manifest, stored.subarray(i * recordBytes, (i + 1) * recordBytes))
    } catch (error) {
      if (error instanceof WireError) throw new DatasetError(manifestPath(dir), `record ${i}: ${error.message}`)
      throw error
    }
  }
}

/** The rest of the last partition belongs to no record and is zero. */
function checkPadding(core: Core, database: DatabaseHandle, dir: string, manifest: Manifest): void {
  const { records, recordBytes, partitions, partitionRecords } = manifest
  const unused = (partitions * partitionRecords - records) * recordBytes
  const padding = recordBytesView(core, database, records * recordBytes, unused)
  if (padding.some(byte => byte !== 0)) {
    throw new DatasetError(manifestPath(dir), `expected zeros after its ${records} records, got others; build it anew`)
  }
}
