// The next epoch of a database, as a server makes it, on the real core and the real codecs.

import { encodeManifest, encodeRecord, type Manifest, suiteOf } from '@keyhush/protocol'
import type { Core, DatabaseHandle, EpochHandle } from '@keyhush/wasm'
import { slotMarks } from '../../../../tests/interop/reference/slot-marks.js'
import { answering, buildDatabase, type Database } from './database.js'
import { core } from './harness.js'

/** With `key` in a keyed database, with `index` in a keyless one, where an add has neither. */
export interface Operation {
  readonly op: 'add' | 'edit' | 'delete'
  readonly key?: string
  readonly index?: number
  readonly value?: Uint8Array
}

const KINDS = { add: 1, edit: 2, delete: 3 } as const
const NOTHING = new Uint8Array()
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** `change`: fields of the manifest that are to be other than usual. */
export function nextEpoch(
  core: Core,
  before: Database,
  operations: readonly Operation[],
  change: Partial<Manifest> = {},
): Database {
  const { manifest: old } = before
  const handle = copyOf(core, before)
  const epoch = applied(core, { ...before, handle }, operations)
  const directory = epoch.takeDirectory()
  const blocks = directory?.database()
  const list = epoch.list()
  epoch.free()

  const { records, partitions, partitionBytes } = handle.layout
  const flat = new Uint8Array(core.memory.buffer, handle.recordsPointer(), partitions * partitionBytes).slice()
  const blobs = new Map([[hex(core.blake3(list)), list]])
  const perPartition = (digest: (q: number) => Uint8Array) =>
    Uint8Array.from(Array.from({ length: partitions }, (_, q) => [...digest(q)]).flat())
  for (let q = 0; q < partitions; q++) {
    blobs.set(hex(handle.contentHash(q)), flat.slice(q * partitionBytes, (q + 1) * partitionBytes))
  }
  const directoryBytes = directory?.encode()
  if (directoryBytes) blobs.set(hex(core.blake3(directoryBytes)), directoryBytes)
  const marks = old.slotMarksHash && slotMarks(flat.slice(0, records * old.recordBytes), old.recordBytes)
  if (marks) blobs.set(hex(core.blake3(marks)), marks)
  const manifest: Manifest = {
    ...old,
    epoch: old.epoch + 1,
    records,
    partitions,
    directoryBytes: directoryBytes?.length ?? 0,
    directoryHash: directoryBytes ? core.blake3(directoryBytes) : old.directoryHash,
    updateListBytes: list.length,
    updateListHash: core.blake3(list),
    previousManifest: core.blake3(before.manifestBytes),
    directoryCommitment: blocks?.commitment(0) ?? old.directoryCommitment,
    commitments: perPartition(q => handle.commitment(q)),
    contentHashes: perPartition(q => handle.contentHash(q)),
    ...(marks && { slotMarksHash: core.blake3(marks) }),
    ...change,
  }
  return {
    ...before,
    handle,
    manifest,
    manifestBytes: encodeManifest(manifest),
    blobs,
    byIndex: Array.from({ length: records }, (_, i) => valueAt(manifest, flat, i)),
    directory,
    blocks,
    answer: (vectors, proofs) => handle.answer(vectors, proofs && suiteOf(proofs)),
    answerInstantly: answering(core, handle, blocks),
  }
}

/** The same records in a handle of their own, so that each epoch can be answered for as long as a test likes. */
function copyOf(core: Core, { handle, manifest }: Database): DatabaseHandle {
  const { records, recordBytes, partitions, partitionRecords } = manifest
  const copy = core.newDatabase(core.layout(records, recordBytes, partitions, partitionRecords))
  const bytes = partitions * partitionRecords * recordBytes
  const flat = new Uint8Array(core.memory.buffer, handle.recordsPointer(), bytes)
  new Uint8Array(core.memory.buffer, copy.recordsPointer(), bytes).set(flat)
  for (let q = 0; q < partitions; q++) copy.commit(q)
  return copy
}

function applied(core: Core, { handle, manifest, directory }: Database, operations: readonly Operation[]): EpochHandle {
  const fingerprintOf = ({ key }: Operation) => core.fingerprint(new TextEncoder().encode(key!))
  const kinds = Uint8Array.from(operations, ({ op }) => KINDS[op])
  const records = Buffer.concat(
    operations.map(operation => {
      const { op, value } = operation
      if (op === 'delete') return new Uint8Array(manifest.recordBytes)
      return encodeRecord(manifest, manifest.keyed ? fingerprintOf(operation) : undefined, value ?? NOTHING)
    }),
  )
  if (directory === undefined) {
    return handle.applyKeyless(
      kinds,
      Uint32Array.from(operations, ({ index }) => index ?? 0),
      records,
    )
  }
  return handle.applyKeyed(directory, kinds, Buffer.concat(operations.map(fingerprintOf)), records)
}

function valueAt(manifest: Manifest, flat: Uint8Array, index: number): Uint8Array | undefined {
  const record = flat.subarray(index * manifest.recordBytes, (index + 1) * manifest.recordBytes)
  let at = manifest.keyed ? 16 : 0
  if (manifest.keyed && record.subarray(0, 16).every(byte => byte === 0)) return undefined
  let length = manifest.valueBytes
  if (manifest.variable) {
    length = record[at]! | (record[at + 1]! << 8)
    at += 2
  }
  return record.slice(at, at + length)
}

/** The next generation of a database, in other partitions. */
export function laidOutAnew(
  { manifest, manifestBytes, byIndex }: Database,
  partitions: number,
  values = byIndex.map(value => value!),
): Database {
  const next = {
    databaseId: manifest.databaseId,
    generation: manifest.generation + 1,
    epoch: manifest.epoch + 1,
    previousManifest: core.blake3(manifestBytes),
  }
  return buildDatabase(core, { values, partitions, manifest: next })
}
