// The manifest: the public parameters of one epoch in canonical bytes (docs/protocol.md, Manifest). Clients compare
// the bytes of two servers, so equal parameters must give equal bytes and every byte must be accounted for.

import { checkInteger, checkLength, checkMagic, copyOf, equalBytes, isZero, viewOf, writeMagic } from './bytes.js'
import {
  DATABASE_ID_BYTES,
  FINGERPRINT_BYTES,
  FORMAT,
  HASH_BYTES,
  MANIFEST_HEADER_BYTES,
  MANIFEST_POINTPROOFS_BYTES,
  MAX_BATCH,
  MAX_ENTRIES_BYTES,
  MAX_PARTITION_RECORDS,
  MAX_PARTITIONS,
  MAX_RECORD_BYTES,
  POINTPROOFS_ENTRIES,
  POINTPROOFS_ROW_RECORDS,
  SUITE_MERKLE_BLAKE3,
  SUITE_POINTPROOFS,
  SUITE_TAGS,
  UPDATE_ENTRY_HEADER_BYTES,
  UPDATE_LIST_HEADER_BYTES,
} from './constants.js'
import { malformed, WireError } from './errors.js'
import { entryBytes } from './geometry.js'
import { longestUpdateList } from './update-list.js'

/** What a manifest says. Hashes are 32 bytes; the two per-partition lists are 32·Q bytes, partition 0 first. */
export interface Manifest {
  /** 1: answers come with or without opening proofs; 2: without, and all commitments are zero; 6: as 1, and with Pointproofs */
  readonly suite: number
  /** 16 bytes */
  readonly databaseId: Uint8Array
  /** from 1; another generation has another layout or directory */
  readonly generation: number
  /** from 1, consecutive, counting on through generations */
  readonly epoch: number
  /** N */
  readonly records: number
  /** ℓ: whole length of a stored record */
  readonly recordBytes: number
  /** Q */
  readonly partitions: number
  /** M */
  readonly partitionRecords: number
  /** g: the records of a block, a power of two */
  readonly blockRecords: number
  /** length of every value, or with `variable` the longest allowed */
  readonly valueBytes: number
  /** records begin with their key's fingerprint */
  readonly keyed: boolean
  /** records state their value's length */
  readonly variable: boolean
  /** most queries a request may carry; the same for the life of the generation, so that what is pending can be sent */
  readonly maxBatch: number
  /** seconds since 1970; 0: none */
  readonly expires: number
  /** 0 in a keyless database */
  readonly directoryBytes: number
  /** 0: no update list */
  readonly updateListBytes: number
  readonly directoryHash: Uint8Array
  readonly updateListHash: Uint8Array
  /** zero in epoch 1 */
  readonly previousManifest: Uint8Array
  /** b: the directory has 2^b blocks, which are looked up one at a time by whoever has not got it whole */
  readonly directoryBlockLog: number
  /** of each block with its padding */
  readonly directoryBlockBytes: number
  /** 16 bytes that keys are hashed under */
  readonly directorySeed: Uint8Array
  /** to the padded blocks, as to one partition; zero in suite 2 */
  readonly directoryCommitment: Uint8Array
  readonly commitments: Uint8Array
  readonly contentHashes: Uint8Array
  /** in suite 6, and in no other */
  readonly pointproofs?: PointproofsFields | undefined
}

/** What answers of suite 6 are verified with. */
export interface PointproofsFields {
  /** BLAKE3 of the row lists of all partitions, one behind the other */
  readonly rowsHash: Uint8Array
  /** BLAKE3 of the verifier's key */
  readonly keyHash: Uint8Array
  /** BLAKE3 of the transcript that the key was made of */
  readonly transcriptHash: Uint8Array
  /** of a ceremony for development: whoever runs the servers may know how to forge */
  readonly development: boolean
}

const MAGIC = 'PIRM'
const PER_PARTITION_BYTES = 2 * HASH_BYTES
const MAX_U32 = 0xffff_ffff
const MAX_DIRECTORY_BLOCK_LOG = 16
const DIRECTORY_BLOCK_UNIT = 32

/** Where the fields stand. */
const AT = {
  format: 4,
  suite: 6,
  databaseId: 8,
  generation: 24,
  epoch: 28,
  records: 32,
  recordBytes: 36,
  partitions: 40,
  partitionRecords: 44,
  valueBytes: 48,
  keyed: 52,
  variable: 53,
  maxBatch: 54,
  blockRecordsLog: 55,
  expires: 56,
  directoryBytes: 64,
  updateListBytes: 68,
  directoryHash: 72,
  updateListHash: 104,
  previousManifest: 136,
  directoryBlockLog: 168,
  directoryBlockBytes: 172,
  directorySeed: 176,
  directoryCommitment: 192,
} as const

/** Where they stand behind the partitions' hashes. */
const POINTPROOFS_AT = {
  rowsHash: 0,
  keyHash: 32,
  transcriptHash: 64,
  rowRecords: 96,
  flags: 98,
  reserved: 100,
} as const

/** Bytes of a manifest. */
function manifestBytes({ suite, partitions }: Pick<Manifest, 'suite' | 'partitions'>): number {
  const more = suite === SUITE_POINTPROOFS ? MANIFEST_POINTPROOFS_BYTES : 0
  return MANIFEST_HEADER_BYTES + PER_PARTITION_BYTES * partitions + more
}

/** The manifest's canonical bytes. Throws WireError if the values contradict each other. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  checkManifest(manifest)
  const bytes = new Uint8Array(manifestBytes(manifest))
  const view = viewOf(bytes)
  writeMagic(bytes, MAGIC)
  view.setUint16(AT.format, FORMAT, true)
  view.setUint16(AT.suite, manifest.suite, true)
  bytes.set(manifest.databaseId, AT.databaseId)
  view.setUint32(AT.generation, manifest.generation, true)
  view.setUint32(AT.epoch, manifest.epoch, true)
  view.setUint32(AT.records, manifest.records, true)
  view.setUint32(AT.recordBytes, manifest.recordBytes, true)
  view.setUint32(AT.partitions, manifest.partitions, true)
  view.setUint32(AT.partitionRecords, manifest.partitionRecords, true)
  view.setUint32(AT.valueBytes, manifest.valueBytes, true)
  bytes[AT.keyed] = manifest.keyed ? 1 : 0
  bytes[AT.variable] = manifest.variable ? 1 : 0
  bytes[AT.maxBatch] = manifest.maxBatch
  bytes[AT.blockRecordsLog] = Math.log2(manifest.blockRecords)
  view.setBigUint64(AT.expires, BigInt(manifest.expires), true)
  view.setUint32(AT.directoryBytes, manifest.directoryBytes, true)
  view.setUint32(AT.updateListBytes, manifest.updateListBytes, true)
  bytes.set(manifest.directoryHash, AT.directoryHash)
  bytes.set(manifest.updateListHash, AT.updateListHash)
  bytes.set(manifest.previousManifest, AT.previousManifest)
  view.setUint32(AT.directoryBlockLog, manifest.directoryBlockLog, true)
  view.setUint32(AT.directoryBlockBytes, manifest.directoryBlockBytes, true)
  bytes.set(manifest.directorySeed, AT.directorySeed)
  bytes.set(manifest.directoryCommitment, AT.directoryCommitment)
  for (let q = 0; q < manifest.partitions; q++) {
    const at = MANIFEST_HEADER_BYTES + PER_PARTITION_BYTES * q
    bytes.set(hashAt(manifest.commitments, q), at)
    bytes.set(contentHash(manifest, q), at + HASH_BYTES)
  }
  if (manifest.pointproofs !== undefined) writePointproofs(manifest.pointproofs, bytes)
  return bytes
}

function writePointproofs({ rowsHash, keyHash, transcriptHash, development }: PointproofsFields, bytes: Uint8Array) {
  const last = bytes.subarray(bytes.length - MANIFEST_POINTPROOFS_BYTES)
  last.set(rowsHash, POINTPROOFS_AT.rowsHash)
  last.set(keyHash, POINTPROOFS_AT.keyHash)
  last.set(transcriptHash, POINTPROOFS_AT.transcriptHash)
  const view = viewOf(last)
  view.setUint16(POINTPROOFS_AT.rowRecords, POINTPROOFS_ROW_RECORDS, true)
  view.setUint16(POINTPROOFS_AT.flags, development ? 1 : 0, true)
}

function readPointproofs(bytes: Uint8Array): PointproofsFields {
  const last = bytes.subarray(bytes.length - MANIFEST_POINTPROOFS_BYTES)
  const view = viewOf(last)
  checkInteger('records a row', view.getUint16(POINTPROOFS_AT.rowRecords, true), ...exactly(POINTPROOFS_ROW_RECORDS))
  const hash = (at: number) => copyOf(last, at, at + HASH_BYTES)
  if (!isZero(last, POINTPROOFS_AT.reserved)) malformed('reserved bytes', 'zero', 'others')
  return {
    rowsHash: hash(POINTPROOFS_AT.rowsHash),
    keyHash: hash(POINTPROOFS_AT.keyHash),
    transcriptHash: hash(POINTPROOFS_AT.transcriptHash),
    development: flag('for development', view.getUint16(POINTPROOFS_AT.flags, true)),
  }
}

/**
 * Reads a manifest and checks every rule of the format. The result shares no memory with `bytes`.
 * Throws WireError, and nothing else, for any bytes that `encodeManifest` would not have written.
 */
export function decodeManifest(bytes: Uint8Array): Manifest {
  if (bytes.length < MANIFEST_HEADER_BYTES) {
    malformed('manifest length', `at least ${MANIFEST_HEADER_BYTES} bytes`, bytes.length)
  }
  checkMagic(bytes, MAGIC)
  const view = viewOf(bytes)
  const suite = view.getUint16(AT.suite, true)
  checkVersion('manifest', view.getUint16(AT.format, true), suite)
  const partitions = view.getUint32(AT.partitions, true)
  checkInteger('partitions', partitions, 1, MAX_PARTITIONS)
  checkLength('manifest length', bytes, manifestBytes({ suite, partitions }))
  const expires = view.getBigUint64(AT.expires, true)
  if (expires > BigInt(Number.MAX_SAFE_INTEGER)) malformed('expiry', 'at most 2^53 - 1 seconds', `${expires}`)

  const commitments = new Uint8Array(HASH_BYTES * partitions)
  const contentHashes = new Uint8Array(HASH_BYTES * partitions)
  for (let q = 0; q < partitions; q++) {
    const at = MANIFEST_HEADER_BYTES + PER_PARTITION_BYTES * q
    commitments.set(bytes.subarray(at, at + HASH_BYTES), HASH_BYTES * q)
    contentHashes.set(bytes.subarray(at + HASH_BYTES, at + PER_PARTITION_BYTES), HASH_BYTES * q)
  }
  const manifest: Manifest = {
    suite,
    databaseId: copyOf(bytes, AT.databaseId, AT.databaseId + DATABASE_ID_BYTES),
    generation: view.getUint32(AT.generation, true),
    epoch: view.getUint32(AT.epoch, true),
    records: view.getUint32(AT.records, true),
    recordBytes: view.getUint32(AT.recordBytes, true),
    partitions,
    partitionRecords: view.getUint32(AT.partitionRecords, true),
    valueBytes: view.getUint32(AT.valueBytes, true),
    keyed: flag('keyed', bytes[AT.keyed]!),
    variable: flag('variable', bytes[AT.variable]!),
    maxBatch: bytes[AT.maxBatch]!,
    blockRecords: 2 ** bytes[AT.blockRecordsLog]!,
    expires: Number(expires),
    directoryBytes: view.getUint32(AT.directoryBytes, true),
    updateListBytes: view.getUint32(AT.updateListBytes, true),
    directoryHash: copyOf(bytes, AT.directoryHash, AT.directoryHash + HASH_BYTES),
    updateListHash: copyOf(bytes, AT.updateListHash, AT.updateListHash + HASH_BYTES),
    previousManifest: copyOf(bytes, AT.previousManifest, AT.previousManifest + HASH_BYTES),
    directoryBlockLog: view.getUint32(AT.directoryBlockLog, true),
    directoryBlockBytes: view.getUint32(AT.directoryBlockBytes, true),
    directorySeed: copyOf(bytes, AT.directorySeed, AT.directorySeed + FINGERPRINT_BYTES),
    directoryCommitment: copyOf(bytes, AT.directoryCommitment, AT.directoryCommitment + HASH_BYTES),
    commitments,
    contentHashes,
    ...(suite === SUITE_POINTPROOFS ? { pointproofs: readPointproofs(bytes) } : {}),
  }
  checkManifest(manifest)
  return manifest
}

/**
 * The manifests of a chain, one after the other as `/v1/manifests` gives them. Throws WireError if one is malformed or
 * does not continue the one before it: consecutive epochs, and within a generation everything that never changes. The
 * previous manifests' hashes are the caller's to check.
 */
export function decodeManifests(bytes: Uint8Array): { readonly manifest: Manifest; readonly bytes: Uint8Array }[] {
  const chain: { readonly manifest: Manifest; readonly bytes: Uint8Array }[] = []
  for (let at = 0; at < bytes.length; ) {
    if (bytes.length - at < MANIFEST_HEADER_BYTES) malformed('chain of manifests', 'whole manifests', bytes.length)
    const view = viewOf(bytes)
    const suite = view.getUint16(at + AT.suite, true)
    const end = at + manifestBytes({ suite, partitions: view.getUint32(at + AT.partitions, true) })
    const manifest = decodeManifest(bytes.subarray(at, end))
    const previous = chain.at(-1)
    if (previous !== undefined) checkFollows(previous.manifest, manifest)
    chain.push({ manifest, bytes: copyOf(bytes, at, end) })
    at = end
  }
  return chain
}

/** Refuses a manifest that cannot be the next one after `previous` (docs/protocol.md, Manifest). */
export function checkFollows(previous: Manifest, next: Manifest): void {
  checkInteger('epoch', next.epoch, ...exactly(previous.epoch + 1))
  if (!equalBytes(previous.databaseId, next.databaseId)) malformed('database id', 'that of the epoch before', 'another')
  if (next.generation !== previous.generation) {
    checkInteger('generation', next.generation, ...exactly(previous.generation + 1))
    checkInteger('update list length', next.updateListBytes, ...exactly(0))
    return
  }
  const fixed = [
    ...(['suite', 'recordBytes', 'partitionRecords', 'blockRecords'] as const),
    ...(['valueBytes', 'keyed', 'variable', 'maxBatch', 'directoryBlockLog', 'directoryBlockBytes'] as const),
  ]
  for (const field of fixed) {
    if (next[field] !== previous[field]) malformed(field, `${previous[field]} as before`, `${next[field]}`)
  }
  if (!equalBytes(previous.directorySeed, next.directorySeed)) malformed('directory seed', 'that of before', 'another')
  for (const field of ['records', 'partitions'] as const) {
    if (next[field] < previous[field]) malformed(field, `at least ${previous[field]}`, next[field])
  }
  if (next.updateListBytes === 0) malformed('update list length', 'a list within a generation', 0)
  checkProvedAsBefore(previous, next)
}

/** Whoever has taken a key keeps it; and what a pending request carries, a later one may. */
function checkProvedAsBefore(previous: Manifest, next: Manifest): void {
  if (previous.pointproofs === undefined || next.pointproofs === undefined) return
  for (const field of ['keyHash', 'transcriptHash'] as const) {
    if (!equalBytes(previous.pointproofs[field], next.pointproofs[field])) malformed(field, 'that of before', 'another')
  }
  const { development } = next.pointproofs
  if (previous.pointproofs.development !== development) malformed('for development', 'as before', `${development}`)
  const [before, after] = [mostProved(previous), mostProved(next)]
  checkInteger('queries of a request in suite 6', after, ...exactly(before))
}

/** Most queries of a request in suite 6. */
function mostProved({ maxBatch, partitions }: Manifest): number {
  return Math.min(maxBatch, Math.max(1, Math.floor(POINTPROOFS_ENTRIES / partitions)))
}

/** The plain BLAKE3 of partition `q`, a view into the manifest. */
export function contentHash(manifest: Pick<Manifest, 'contentHashes'>, q: number): Uint8Array {
  return hashAt(manifest.contentHashes, q)
}

/** Refuses a format or suite this software does not know; `what` names the message. */
export function checkVersion(
  what: string,
  format: number,
  suite: number,
  known: readonly number[] = [SUITE_MERKLE_BLAKE3, SUITE_TAGS, SUITE_POINTPROOFS],
): void {
  if (format !== FORMAT) throw new WireError('version', `${what} format: expected ${FORMAT}, got ${format}`)
  if (!known.includes(suite)) {
    throw new WireError('version', `${what} suite: expected ${known.join(' or ')}, got ${suite}`)
  }
}

/** The rules that bind the fields to one another; one place for both directions. */
function checkManifest(manifest: Manifest): void {
  const { records, recordBytes, partitions, partitionRecords, blockRecords, valueBytes, keyed, variable } = manifest
  checkVersion('manifest', FORMAT, manifest.suite)
  checkLength('database id', manifest.databaseId, DATABASE_ID_BYTES)
  checkInteger('epoch', manifest.epoch, 1, MAX_U32)
  checkInteger('generation', manifest.generation, 1, manifest.epoch)
  checkInteger('record bytes', recordBytes, 1, MAX_RECORD_BYTES)
  checkInteger('partitions', partitions, 1, MAX_PARTITIONS)
  checkInteger('block records', blockRecords, 1, Math.floor(MAX_RECORD_BYTES / recordBytes))
  checkInteger('partition records', partitionRecords, 1, Math.min(MAX_U32, MAX_PARTITION_RECORDS * blockRecords))
  if (!Number.isInteger(Math.log2(blockRecords)) || partitionRecords % blockRecords !== 0) {
    malformed('block records', `a power of two that divides ${partitionRecords}`, blockRecords)
  }
  checkInteger('records', records, 1, Math.min(MAX_U32, partitions * partitionRecords))
  checkInteger('value bytes', valueBytes, 0, MAX_RECORD_BYTES)
  checkInteger(
    'record bytes',
    recordBytes,
    ...exactly((keyed ? FINGERPRINT_BYTES : 0) + (variable ? 2 : 0) + valueBytes),
  )
  checkInteger('batch limit', manifest.maxBatch, 1, MAX_BATCH)
  const longest = manifest.maxBatch * partitions * entryBytes(manifest)
  if (manifest.maxBatch > 1 && longest > MAX_ENTRIES_BYTES) {
    malformed('batch limit', `answers of at most ${MAX_ENTRIES_BYTES} bytes`, longest)
  }
  checkInteger('expiry', manifest.expires, 0, Number.MAX_SAFE_INTEGER)

  checkInteger('directory length', manifest.directoryBytes, ...(keyed ? ([1, MAX_U32] as const) : exactly(0)))
  checkLength('directory hash', manifest.directoryHash, HASH_BYTES)
  if (!keyed && !isZero(manifest.directoryHash)) malformed('directory hash', 'zero without keys', 'others')
  checkBlocks(manifest)
  checkSuccession(manifest)
  checkLength('commitments', manifest.commitments, HASH_BYTES * partitions)
  if (manifest.suite === SUITE_TAGS && !isZero(manifest.commitments))
    malformed('commitments', 'zero in suite 2', 'others')
  checkLength('content hashes', manifest.contentHashes, HASH_BYTES * partitions)
  checkPointproofs(manifest)
}

/** What answers of suite 6 are verified with. */
function checkPointproofs({ suite, pointproofs }: Manifest): void {
  if ((suite === SUITE_POINTPROOFS) !== (pointproofs !== undefined)) {
    malformed('pointproofs', 'those of suite 6, and of no other', pointproofs === undefined ? 'none' : `suite ${suite}`)
  }
  if (pointproofs === undefined) return
  for (const field of ['rowsHash', 'keyHash', 'transcriptHash'] as const) {
    checkLength(field, pointproofs[field], HASH_BYTES)
    if (isZero(pointproofs[field])) malformed(field, 'a hash', 'zero')
  }
}

/** The directory's blocks. */
function checkBlocks(manifest: Manifest): void {
  const { keyed, suite, directoryBlockLog, directoryBlockBytes, directorySeed, directoryCommitment } = manifest
  checkInteger('directory block bits', directoryBlockLog, 0, keyed ? MAX_DIRECTORY_BLOCK_LOG : 0)
  const [least, most] = keyed ? [DIRECTORY_BLOCK_UNIT, MAX_RECORD_BYTES] : [0, 0]
  checkInteger('directory block length', directoryBlockBytes, least, most)
  if (directoryBlockBytes % DIRECTORY_BLOCK_UNIT !== 0) {
    malformed('directory block length', `a multiple of ${DIRECTORY_BLOCK_UNIT}`, directoryBlockBytes)
  }
  checkLength('directory seed', directorySeed, FINGERPRINT_BYTES)
  checkLength('directory commitment', directoryCommitment, HASH_BYTES)
  if (!keyed && !isZero(directorySeed)) malformed('directory seed', 'zero without keys', 'others')
  const committed = keyed && suite !== SUITE_TAGS
  if (!committed && !isZero(directoryCommitment)) malformed('directory commitment', 'zero', 'others')
}

/** What leads here from the epoch before: nothing in the first, a list within a generation, a hash always after that. */
function checkSuccession(manifest: Manifest): void {
  const { suite, generation, epoch, recordBytes, updateListBytes, updateListHash, previousManifest } = manifest
  checkLength('update list hash', updateListHash, HASH_BYTES)
  checkLength('previous manifest', previousManifest, HASH_BYTES)
  if (updateListBytes !== 0 || (epoch > 1 && generation === 1)) {
    if (epoch === 1) malformed('update list length', 'zero in epoch 1', updateListBytes)
    const withRows = suite === SUITE_POINTPROOFS
    const longest = Math.min(MAX_U32, longestUpdateList(manifest.records, recordBytes, withRows))
    checkInteger('update list length', updateListBytes, UPDATE_LIST_HEADER_BYTES, longest)
    const entries = updateListBytes - UPDATE_LIST_HEADER_BYTES
    if (!withRows && entries % (UPDATE_ENTRY_HEADER_BYTES + recordBytes) !== 0) {
      malformed('update list length', 'that of whole entries', updateListBytes)
    }
    if (isZero(updateListHash)) malformed('update list hash', 'that of a list', 'zero')
  } else if (!isZero(updateListHash)) {
    malformed('update list hash', 'zero without an update list', 'others')
  }
  if ((epoch === 1) !== isZero(previousManifest)) {
    malformed('previous manifest', epoch === 1 ? 'zero in epoch 1' : 'a hash', epoch === 1 ? 'others' : 'zero')
  }
}

function exactly(value: number): readonly [number, number] {
  return [value, value]
}

function flag(field: string, byte: number): boolean {
  if (byte > 1) malformed(field, '0 or 1', byte)
  return byte === 1
}

function hashAt(hashes: Uint8Array, q: number): Uint8Array {
  return hashes.subarray(HASH_BYTES * q, HASH_BYTES * (q + 1))
}
