// A database as a server holds it, built on the real core and the real codecs.

import {
  encodeManifest,
  encodeRecord,
  type InstantOf,
  type Manifest,
  type Proofs,
  type Sharing,
  suiteOf,
  TWO_SERVERS,
} from '@keyhush/protocol'
import type { Core, DatabaseHandle, ServerDirectoryHandle } from '@keyhush/wasm'
import { slotMarks } from '../../../../tests/interop/reference/slot-marks.js'

export interface Contents {
  /** text keys; without them the database is keyless */
  readonly keys?: readonly string[]
  /** one a key, or one a record */
  readonly values: readonly Uint8Array[]
  /** values state their length */
  readonly variable?: boolean
  readonly partitions: number
  /** M; ⌈N/Q⌉ by default */
  readonly partitionRecords?: number
  /** indices of slots left empty, in a keyed database */
  readonly empty?: readonly number[]
  /** fields of the manifest that are to be other than usual */
  readonly manifest?: Partial<Manifest>
  /** it has slot marks */
  readonly marked?: boolean
  /** what its maker does to the records, before anything is made of them */
  readonly planted?: (records: Uint8Array) => unknown
}

export interface Database {
  readonly contents: Contents
  readonly manifest: Manifest
  readonly manifestBytes: Uint8Array
  /** by lower-case hex of its BLAKE3 */
  readonly blobs: ReadonlyMap<string, Uint8Array>
  /** value at each index; undefined: empty */
  readonly byIndex: readonly (Uint8Array | undefined)[]
  readonly handle: DatabaseHandle
  /** undefined in a keyless database */
  readonly directory: ServerDirectoryHandle | undefined
  /** its padded blocks */
  readonly blocks: DatabaseHandle | undefined
  answer(vectors: Uint8Array, proofs?: Proofs): Uint8Array
  /** to queries one after the other, as a server's passes do */
  answerInstantly(of: InstantOf, queries: Uint8Array, sharing?: Sharing): Uint8Array
  /** of a database that is prepared for lookups with one server */
  readonly oneServer?: { answer(of: InstantOf, queries: Uint8Array): Uint8Array } | undefined
}

const ZERO = new Uint8Array(32)
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** `count` values of `bytes` bytes, all different from one another where that is possible, and from zero. */
export function someValues(count: number, bytes: number): Uint8Array[] {
  return Array.from({ length: count }, (_, i) =>
    Uint8Array.from({ length: bytes }, (_, b) => 1 + ((i * 7 + b * 31 + (i >> 5) * 3) % 255)),
  )
}

export function buildDatabase(core: Core, contents: Contents): Database {
  const { keys, values, variable = false, partitions, empty = [] } = contents
  const records = values.length
  const keyed = keys !== undefined
  const valueBytes = values.reduce((most, value) => Math.max(most, value.length), 0)
  const shape = { keyed, variable, valueBytes, recordBytes: (keyed ? 16 : 0) + (variable ? 2 : 0) + valueBytes }
  const partitionRecords = contents.partitionRecords ?? Math.ceil(records / partitions)

  const fingerprints = keys?.map(key => core.fingerprint(new TextEncoder().encode(key)))
  const slots = partitions * partitionRecords
  const directory = fingerprints && core.buildDirectory(Uint8Array.from(fingerprints.flatMap(f => [...f])), slots)
  const blocks = directory?.database()
  const byIndex: (Uint8Array | undefined)[] = []
  const flat = new Uint8Array(partitions * partitionRecords * shape.recordBytes)
  values.forEach((value, i) => {
    const fingerprint = fingerprints?.[i]
    const index = fingerprint && directory ? directory.index(fingerprint, records) : i
    byIndex[index] = empty.includes(index) ? undefined : value
    if (!empty.includes(index)) flat.set(encodeRecord(shape, fingerprint, value), index * shape.recordBytes)
  })

  contents.planted?.(flat)

  const layout = core.layout(records, shape.recordBytes, partitions, partitionRecords)
  const handle = core.newDatabase(layout)
  new Uint8Array(core.memory.buffer, handle.recordsPointer(), flat.length).set(flat)
  for (let q = 0; q < partitions; q++) handle.commit(q)
  const perPartition = (digest: (q: number) => Uint8Array) =>
    Uint8Array.from(Array.from({ length: partitions }, (_, q) => [...digest(q)]).flat())

  const directoryBlob = directory?.encode()
  const blobs = new Map<string, Uint8Array>()
  const keep = (blob: Uint8Array) => blobs.set(hex(core.blake3(blob)), blob)
  const partitionBytes = partitionRecords * shape.recordBytes
  for (let q = 0; q < partitions; q++) keep(flat.slice(q * partitionBytes, (q + 1) * partitionBytes))
  if (directoryBlob) keep(directoryBlob)
  const marks = contents.marked ? slotMarks(flat.slice(0, records * shape.recordBytes), shape.recordBytes) : undefined
  if (marks) keep(marks)

  const manifest: Manifest = {
    suite: 1,
    databaseId: core.databaseId(new TextEncoder().encode('test')),
    generation: 1,
    epoch: 1,
    records,
    ...shape,
    partitions,
    partitionRecords,
    blockRecords: 1,
    maxQueries: handle.maxQueries,
    expires: 0,
    directoryBytes: directoryBlob?.length ?? 0,
    updateListBytes: 0,
    directoryHash: directoryBlob ? core.blake3(directoryBlob) : ZERO,
    updateListHash: ZERO,
    previousManifest: ZERO,
    directoryBlockLog: directory?.blockLog ?? 0,
    directoryBlockBytes: directory?.blockBytes ?? 0,
    directorySeed: directory?.seed ?? new Uint8Array(16),
    directoryCommitment: blocks?.commitment(0) ?? ZERO,
    commitments: perPartition(q => handle.commitment(q)),
    contentHashes: perPartition(q => handle.contentHash(q)),
    ...(marks && { slotMarksHash: core.blake3(marks) }),
    ...contents.manifest,
  }
  const answer = (vectors: Uint8Array, proofs?: Proofs) => handle.answer(vectors, proofs && suiteOf(proofs))
  const answerInstantly = answering(core, handle, blocks)
  const manifestBytes = encodeManifest(manifest)
  return {
    ...{ contents, manifest, manifestBytes, blobs, byIndex, handle, directory, blocks },
    ...{ answer, answerInstantly },
  }
}

export function answering(core: Core, handle: DatabaseHandle, blocks: DatabaseHandle | undefined) {
  return (of: InstantOf, queries: Uint8Array, sharing: Sharing = TWO_SERVERS) =>
    instantAnswers(core, of === 'records' ? handle : blocks!, queries, sharing)
}

/** A keyed database whose block for a key is none, although both servers vouch for it: its padding is not zero. */
export function withMalformedBlock(core: Core, database: Database, key: string) {
  const { directoryBlockLog: log, directoryBlockBytes: length, directorySeed: seed } = database.manifest
  const shape = core.directoryShape(log, length, seed)
  const blockOf = (key: string) => shape.number(core.fingerprint(new TextEncoder().encode(key)))
  const number = blockOf(key)
  const blocks = core.newDatabase(core.layout(2 ** log, length, 1, 2 ** log))
  const [from, into] = [database.blocks!, blocks].map(
    handle => new Uint8Array(core.memory.buffer, handle.recordsPointer(), length * 2 ** log),
  )
  into!.set(from!)
  into![(number + 1) * length - 1] = 1
  blocks.commit(0)
  const manifest = { ...database.manifest, directoryCommitment: blocks.commitment(0) }
  const answerInstantly = answering(core, database.handle, blocks)
  const malformed = { ...database, manifest, manifestBytes: encodeManifest(manifest), blocks, answerInstantly }
  return { malformed, isInIt: (key: string) => blockOf(key) === number }
}

/** One pass for each query, in this thread. */
export function instantAnswers(
  core: Core,
  handle: DatabaseHandle,
  queries: Uint8Array,
  { servers, vectors, groupLog }: Sharing = TWO_SERVERS,
): Uint8Array {
  const { layout } = handle
  const each =
    groupLog === undefined
      ? layout.instantSizes(servers)[Number(vectors)]!
      : core.instantPartSizes(layout, servers, groupLog)[0]!
  const answers: Uint8Array[] = []
  for (let at = 0; at < queries.length; at += each) {
    const pass = core.newInstantPass(
      handle,
      queries.subarray(at, at + each),
      Uint8Array.of(2 * Number(vectors)),
      servers,
      groupLog,
    )
    while (pass.step(handle));
    answers.push(pass.finish(handle))
    pass.free()
  }
  return Buffer.concat(answers)
}

/** Manifest fields of a later epoch: it has a predecessor, and within the first generation a list that leads to it. */
export function later(epoch: number, generation = 1): Partial<Manifest> {
  const previousManifest = new Uint8Array(32).fill(1)
  const hash = new Uint8Array(32).fill(2)
  const list = { updateListBytes: 40, updateListHash: hash }
  return { epoch, generation, previousManifest, ...(generation === 1 && list) }
}
