// The manifest: the public parameters of one epoch in canonical bytes (docs/protocol.md, Manifest). Clients compare
// the bytes of two servers, so equal parameters must give equal bytes and every byte must be accounted for.

import { checkInteger, checkLength, checkMagic, copyOf, isZero, viewOf, writeMagic } from './bytes.js'
import {
  DATABASE_ID_BYTES,
  FINGERPRINT_BYTES,
  FORMAT,
  HASH_BYTES,
  MAX_BASE_AGE,
  MAX_ENTRIES_BYTES,
  MAX_PARTITION_RECORDS,
  MAX_PARTITIONS,
  MAX_QUERIES,
  MAX_RECORD_BYTES,
  MAX_SHARDS,
  POINTPROOFS_ROW_RECORDS,
  SUITE_SHARDED,
  UPDATE_ENTRY_HEADER_BYTES,
  UPDATE_LIST_HEADER_BYTES,
} from './constants.js'
import { malformed, WireError } from './errors.js'
import {
  byteString,
  checkKeyless,
  checkZero,
  flag,
  headerBytes,
  number,
  power,
  readFields,
  type Values,
  writeFields,
} from './fields.js'
import { entryBytes } from './geometry.js'
import { hasRows, isCommitted, MANIFEST_SUITES } from './proofs.js'
import { longestUpdateList } from './update-list.js'

const MAGIC = 'PIRM'
const PER_PARTITION_BYTES = 2 * HASH_BYTES
const MAX_U32 = 0xffff_ffff
const DIRECTORY_BLOCK_UNIT = 32

const same = { next: 'same' } as const
const keyedOnly = { keyedOnly: true } as const

/** The header behind magic and format. The table in docs/protocol.md has the same rows. */
export const HEADER = {
  /** 1: answers come with or without opening proofs; 2: without, and all commitments are zero; 6: as 1, and with Pointproofs; 11: sharded */
  suite: number('suite', 2, same),
  databaseId: byteString('database id', DATABASE_ID_BYTES, same),
  /** from 1; another generation has another layout or directory */
  generation: number('generation', 4, { min: 1 }),
  /** from 1, consecutive, counting on through generations */
  epoch: number('epoch', 4, { min: 1 }),
  /** N */
  records: number('records', 4, { min: 1, next: 'no smaller' }),
  /** ℓ: whole length of a stored record */
  recordBytes: number('record bytes', 4, { min: 1, max: MAX_RECORD_BYTES, ...same }),
  /** Q */
  partitions: number('partitions', 4, { min: 1, max: MAX_PARTITIONS, next: 'no smaller' }),
  /** M */
  partitionRecords: number('partition records', 4, { min: 1, ...same }),
  /** length of every value, or with `variable` the longest allowed */
  valueBytes: number('value bytes', 4, { max: MAX_RECORD_BYTES, ...same }),
  /** records begin with their key's fingerprint */
  keyed: flag('keyed', 1, same),
  /** records state their value's length */
  variable: flag('variable', 1, same),
  /** most queries a request may carry; the same for the life of the generation, so that what is pending can be sent */
  maxQueries: number('query limit', 1, { min: 1, max: MAX_QUERIES, ...same }),
  /** g: the records of a block, a power of two */
  blockRecords: power('log2 of block records', 1, { max: Math.log2(MAX_RECORD_BYTES), ...same }),
  /** seconds since 1970; 0: none */
  expires: number('expiry', 8),
  directoryBytes: number('directory length', 4, keyedOnly),
  /** 0: no update list */
  updateListBytes: number('update list length', 4),
  directoryHash: byteString('directory hash', HASH_BYTES, keyedOnly),
  updateListHash: byteString('update list hash', HASH_BYTES),
  /** zero in epoch 1 */
  previousManifest: byteString('previous manifest', HASH_BYTES),
  /** b: the directory has 2^b blocks, which are looked up one at a time in mode `instant` */
  directoryBlockLog: number('directory block bits', 2, { max: 16, ...same, ...keyedOnly }),
  /** what lookups with one server need follows */
  hinted: flag('hinted', 1, same),
  /** the hash of the slot marks stands last */
  marked: flag('marked', 1, { ...same, ...keyedOnly }),
  /** of each block with its padding */
  directoryBlockBytes: number('directory block length', 4, { max: MAX_RECORD_BYTES, ...same, ...keyedOnly }),
  /** keys are hashed under it */
  directorySeed: byteString('directory seed', FINGERPRINT_BYTES, { ...same, ...keyedOnly }),
  /** to the padded blocks, as to one partition; zero in suite 2 */
  directoryCommitment: byteString('directory commitment', HASH_BYTES, keyedOnly),
}

/** What stands behind the partitions' hashes in suite 6. The table in docs/protocol.md has the same rows. */
export const POINTPROOFS = {
  /** BLAKE3 of the row lists of all partitions, one behind the other */
  rowsHash: byteString('row lists hash', HASH_BYTES),
  /** BLAKE3 of the verifier's key */
  keyHash: byteString('key hash', HASH_BYTES, same),
  /** BLAKE3 of the transcript that the key was made of */
  transcriptHash: byteString('transcript hash', HASH_BYTES, same),
  rowRecords: number('row records', 2, { min: POINTPROOFS_ROW_RECORDS, max: POINTPROOFS_ROW_RECORDS }),
  /** of a ceremony for development: whoever runs the servers may know how to forge */
  development: flag('development', 2, same),
  reserved: number('reserved', 4, { max: 0 }),
}

/** What stands behind those in a hinted database. The table in docs/protocol.md has the same rows. */
export const ONE_SERVER = {
  /** BLAKE3 of the public hint, which is of the base's records */
  hintHash: byteString('hint hash', HASH_BYTES),
  /** the epoch that lookups are made at: this one, or an earlier one of its generation */
  baseEpoch: number('base epoch', 4, { min: 1 }),
  /** N of the base */
  baseRecords: number('base records', 4, { min: 1 }),
  /** of what has changed since the base */
  patchBytes: number('patch length', 4),
  reserved: number('reserved', 4, { max: 0 }),
  /** zero: nothing has changed */
  patchHash: byteString('patch hash', HASH_BYTES),
}

/** What a manifest says. */
export interface Manifest extends Omit<Values<typeof HEADER>, 'hinted' | 'marked'> {
  /** 32·Q bytes, partition 0 first; zero in suite 2; in suite 11 the root */
  readonly commitments: Uint8Array
  /** 32·Q bytes, partition 0 first; in suite 11 `shardsField` */
  readonly contentHashes: Uint8Array
  /** S in suite 11, and in no other */
  readonly shards?: number | undefined
  /** in suite 6, and in no other */
  readonly pointproofs?: PointproofsFields | undefined
  /** for lookups with one server; missing: there are none */
  readonly oneServer?: OneServerFields | undefined
  /** BLAKE3 of the slot marks; missing: there are none */
  readonly slotMarksHash?: Uint8Array | undefined
}

/** What answers of suite 6 are verified with. */
export interface PointproofsFields extends Omit<Values<typeof POINTPROOFS>, keyof typeof CONSTANT> {}

/** What lookups with one server are made at, and verified with (docs/protocol/one-server.md). */
export interface OneServerFields extends Omit<Values<typeof ONE_SERVER>, 'reserved'> {}

export const CONSTANT = { rowRecords: POINTPROOFS_ROW_RECORDS, reserved: 0 }

/** Where the header's table begins: behind magic and format. */
export const HEADER_AT = 6
const FORMAT_AT = 4

/** The fixed part of a manifest; 64 bytes for each partition follow. */
export const MANIFEST_HEADER_BYTES = HEADER_AT + headerBytes(HEADER)

/** What follows those in suite 6. */
export const MANIFEST_POINTPROOFS_BYTES = headerBytes(POINTPROOFS)

const ONE_SERVER_BYTES = headerBytes(ONE_SERVER)

/** No manifest is longer. */
export const LONGEST_MANIFEST_BYTES =
  MANIFEST_HEADER_BYTES +
  PER_PARTITION_BYTES * MAX_PARTITIONS +
  MANIFEST_POINTPROOFS_BYTES +
  ONE_SERVER_BYTES +
  HASH_BYTES

const SUITES = [...MANIFEST_SUITES, SUITE_SHARDED]

/** How many pairs of hashes it has: in suite 11 one, which is of all partitions. */
function pairsOf({ suite, partitions }: Pick<Manifest, 'suite' | 'partitions'>): number {
  return suite === SUITE_SHARDED ? 1 : partitions
}

/** What stands behind the root in suite 11: S (u32), then zeros. */
export function shardsField(shards: number): Uint8Array {
  const field = new Uint8Array(HASH_BYTES)
  viewOf(field).setUint32(0, shards, true)
  return field
}

/** Where the parts of a manifest end that not every one has. */
function endsOf({
  suite,
  partitions,
  hinted,
  marked,
}: Pick<Values<typeof HEADER>, 'suite' | 'partitions' | 'hinted' | 'marked'>): {
  readonly pointproofs: number
  readonly oneServer: number
  readonly marks: number
} {
  const hashes = MANIFEST_HEADER_BYTES + PER_PARTITION_BYTES * pairsOf({ suite, partitions })
  const pointproofs = hashes + (hasRows({ suite }) ? MANIFEST_POINTPROOFS_BYTES : 0)
  const oneServer = pointproofs + (hinted ? ONE_SERVER_BYTES : 0)
  return { pointproofs, oneServer, marks: oneServer + (marked ? HASH_BYTES : 0) }
}

/** The manifest's canonical bytes. Throws WireError if the values contradict each other. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  const { oneServer, slotMarksHash } = manifest
  const values = withFlags(manifest)
  const header = writeFields(HEADER, values)
  checkRules(manifest)
  const ends = endsOf(values)
  const bytes = new Uint8Array(ends.marks)
  writeMagic(bytes, MAGIC)
  viewOf(bytes).setUint16(FORMAT_AT, FORMAT, true)
  bytes.set(header, HEADER_AT)
  for (let q = 0; q < pairsOf(manifest); q++) {
    const at = MANIFEST_HEADER_BYTES + PER_PARTITION_BYTES * q
    bytes.set(hashAt(manifest.commitments, q), at)
    bytes.set(contentHash(manifest, q), at + HASH_BYTES)
  }
  const { pointproofs } = manifest
  if (pointproofs !== undefined) {
    const at = ends.pointproofs - MANIFEST_POINTPROOFS_BYTES
    bytes.set(writeFields(POINTPROOFS, { ...pointproofs, ...CONSTANT }), at)
  }
  if (oneServer !== undefined) bytes.set(writeFields(ONE_SERVER, { ...oneServer, reserved: 0 }), ends.pointproofs)
  if (slotMarksHash !== undefined) bytes.set(slotMarksHash, ends.oneServer)
  return bytes
}

function readPointproofs(bytes: Uint8Array): PointproofsFields {
  const { rowRecords, reserved, ...fields } = readFields(POINTPROOFS, bytes)
  return fields
}

function readOneServer(bytes: Uint8Array): OneServerFields {
  const { reserved, ...fields } = readFields(ONE_SERVER, bytes)
  return fields
}

/**
 * Reads a manifest and checks every rule of the format. The result shares no memory with `bytes`.
 * Throws WireError, and nothing else, for any bytes that `encodeManifest` would not have written.
 */
export function decodeManifest(bytes: Uint8Array): Manifest {
  const { manifest, length } = decodeFirst(bytes)
  checkLength('manifest length', bytes, length)
  return manifest
}

/** The manifest that these bytes begin with. */
export function decodeFirst(bytes: Uint8Array): { readonly manifest: Manifest; readonly length: number } {
  const atLeast = (length: number) => {
    if (bytes.length < length) malformed('manifest length', `at least ${length} bytes`, bytes.length)
  }
  atLeast(MANIFEST_HEADER_BYTES)
  checkMagic(bytes, MAGIC)
  const view = viewOf(bytes)
  checkVersion('manifest', view.getUint16(FORMAT_AT, true), view.getUint16(HEADER_AT, true), SUITES)
  const { hinted, marked, ...header } = readFields(HEADER, bytes.subarray(HEADER_AT))
  const pairs = pairsOf(header)
  const ends = endsOf({ ...header, hinted, marked })
  const length = ends.marks
  atLeast(length)
  const commitments = new Uint8Array(HASH_BYTES * pairs)
  const contentHashes = new Uint8Array(HASH_BYTES * pairs)
  for (let q = 0; q < pairs; q++) {
    const at = MANIFEST_HEADER_BYTES + PER_PARTITION_BYTES * q
    commitments.set(bytes.subarray(at, at + HASH_BYTES), HASH_BYTES * q)
    contentHashes.set(bytes.subarray(at + HASH_BYTES, at + PER_PARTITION_BYTES), HASH_BYTES * q)
  }
  const pointproofs = hasRows(header) && {
    pointproofs: readPointproofs(bytes.subarray(ends.pointproofs - MANIFEST_POINTPROOFS_BYTES, ends.pointproofs)),
  }
  const oneServer = hinted && { oneServer: readOneServer(bytes.subarray(ends.pointproofs)) }
  const marks = marked && { slotMarksHash: copyOf(bytes, ends.oneServer, length) }
  const sharded = header.suite === SUITE_SHARDED && { shards: viewOf(contentHashes).getUint32(0, true) }
  const manifest = { ...header, commitments, contentHashes, ...sharded, ...pointproofs, ...oneServer, ...marks }
  checkRules(manifest)
  return { manifest, length }
}

/** The header's values of a manifest. */
export function withFlags(manifest: Manifest): Values<typeof HEADER> {
  return {
    ...manifest,
    hinted: manifest.oneServer !== undefined,
    marked: manifest.slotMarksHash !== undefined,
  }
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
  known: readonly number[] = MANIFEST_SUITES,
): void {
  if (format !== FORMAT) throw new WireError('version', `${what} format: expected ${FORMAT}, got ${format}`)
  if (!known.includes(suite)) {
    throw new WireError('version', `${what} suite: expected ${known.join(' or ')}, got ${suite}`)
  }
}

/** The rules that bind the fields to one another; one place for both directions. */
function checkRules(manifest: Manifest): void {
  const { records, recordBytes, partitions, partitionRecords, blockRecords, keyed, variable, valueBytes } = manifest
  checkVersion('manifest', FORMAT, manifest.suite, SUITES)
  checkInteger('generation', manifest.generation, 1, manifest.epoch)
  checkInteger('block records', blockRecords, 1, Math.floor(MAX_RECORD_BYTES / recordBytes))
  checkInteger('partition records', partitionRecords, 1, MAX_PARTITION_RECORDS * blockRecords)
  if (partitionRecords % blockRecords !== 0)
    malformed('block records', `a divisor of ${partitionRecords}`, blockRecords)
  checkInteger('records', records, 1, partitions * partitionRecords)
  const overhead = (keyed ? FINGERPRINT_BYTES : 0) + (variable ? 2 : 0)
  checkInteger('record bytes', recordBytes, ...exactly(overhead + valueBytes))
  const pairs = pairsOf(manifest)
  const longest = manifest.maxQueries * pairs * entryBytes(manifest)
  if (manifest.maxQueries > 1 && longest > MAX_ENTRIES_BYTES) {
    malformed('query limit', `answers of at most ${MAX_ENTRIES_BYTES} bytes`, longest)
  }
  if (keyed) checkDirectory(manifest)
  else checkKeyless(HEADER, withFlags(manifest))
  checkSuccession(manifest)
  checkLength('commitments', manifest.commitments, HASH_BYTES * pairs)
  checkLength('content hashes', manifest.contentHashes, HASH_BYTES * pairs)
  if (manifest.shards !== undefined || manifest.suite === SUITE_SHARDED) checkSharded(manifest)
  if (!isCommitted(manifest)) {
    checkZero('commitments', manifest.commitments, 'in suite 2')
    checkZero('directory commitment', manifest.directoryCommitment, 'in suite 2')
  }
  checkPointproofs(manifest)
  const { slotMarksHash } = manifest
  if (slotMarksHash !== undefined) checkHash('slot marks hash', slotMarksHash)
  checkOneServer(manifest)
}

function checkOneServer(manifest: Manifest): void {
  const { oneServer, generation, epoch, records, recordBytes } = manifest
  if (oneServer === undefined) return
  if (!isCommitted(manifest)) malformed('hinted', 'a suite other than 2', 'suite 2')
  if (manifest.expires === 0) malformed('expiry', 'one, with a hint', 'none')
  const { hintHash, baseEpoch, baseRecords, patchBytes, patchHash } = oneServer
  checkHash('hint hash', hintHash)
  checkInteger('base epoch', baseEpoch, Math.max(generation, epoch - MAX_BASE_AGE), epoch)
  const isOwn = baseEpoch === epoch
  checkInteger('base records', baseRecords, isOwn ? records : 1, records)
  checkInteger('patch length', patchBytes, 0, isOwn ? 0 : MAX_U32)
  if (patchBytes % (UPDATE_ENTRY_HEADER_BYTES + recordBytes) !== 0)
    malformed('patch length', 'a length of whole entries', patchBytes)
  if (patchBytes === 0) checkZero('patch hash', patchHash, 'without a patch')
  else checkHash('patch hash', patchHash)
}

function checkHash(name: string, hash: Uint8Array): void {
  checkLength(name, hash, HASH_BYTES)
  if (isZero(hash)) malformed(name, 'a hash', 'zero')
}

function checkPointproofs(manifest: Manifest): void {
  const { suite, pointproofs } = manifest
  if (hasRows(manifest) !== (pointproofs !== undefined)) {
    malformed('pointproofs', 'them in suite 6, and in no other', pointproofs === undefined ? 'none' : `suite ${suite}`)
  }
  if (pointproofs === undefined) return
  for (const field of ['rowsHash', 'keyHash', 'transcriptHash'] as const) {
    if (isZero(pointproofs[field])) malformed(POINTPROOFS[field].name, 'a hash', 'zero')
  }
}

/** What a reader needs of a sharded database (docs/protocol/sharded.md): numbers that divide among shards. */
function checkSharded(manifest: Manifest): void {
  const { suite, shards = 0, records, partitions, partitionRecords, contentHashes } = manifest
  const numbers = [shards / 2, partitions / shards, partitionRecords]
  const isOne =
    suite === SUITE_SHARDED &&
    manifest.keyed &&
    manifest.directoryBytes === 0 &&
    shards <= MAX_SHARDS &&
    numbers.every(number => number >= 1 && Number.isInteger(Math.log2(number))) &&
    records === partitions * partitionRecords &&
    viewOf(contentHashes).getUint32(0, true) === shards &&
    isZero(contentHashes.subarray(4))
  if (!isOne) malformed('suite 11', 'the manifest of a sharded database', 'another')
}

function checkDirectory({ suite, directoryBytes, directoryBlockBytes }: Manifest): void {
  if (suite !== SUITE_SHARDED) checkInteger('directory length', directoryBytes, 1, MAX_U32)
  if (directoryBlockBytes === 0 || directoryBlockBytes % DIRECTORY_BLOCK_UNIT !== 0) {
    malformed('directory block length', `a multiple of ${DIRECTORY_BLOCK_UNIT}`, directoryBlockBytes)
  }
}

/** What leads here from the epoch before: nothing in the first, a list within a generation, a hash always after that. */
function checkSuccession(manifest: Manifest): void {
  const { generation, epoch, recordBytes, updateListBytes, updateListHash, previousManifest } = manifest
  if (updateListBytes !== 0 || (epoch > 1 && generation === 1)) {
    if (epoch === 1) malformed('update list length', 'zero in epoch 1', updateListBytes)
    const withRows = hasRows(manifest)
    const longest = Math.min(MAX_U32, longestUpdateList(manifest.records, recordBytes, withRows))
    checkInteger('update list length', updateListBytes, UPDATE_LIST_HEADER_BYTES, longest)
    const entries = updateListBytes - UPDATE_LIST_HEADER_BYTES
    const isAnyLength = withRows || manifest.suite === SUITE_SHARDED
    if (!isAnyLength && entries % (UPDATE_ENTRY_HEADER_BYTES + recordBytes) !== 0) {
      malformed('update list length', 'a length of whole entries', updateListBytes)
    }
    if (isZero(updateListHash)) malformed('update list hash', 'the hash of a list', 'zero')
  } else {
    checkZero('update list hash', updateListHash, 'without an update list')
  }
  if (epoch === 1) checkZero('previous manifest', previousManifest, 'in epoch 1')
  else if (isZero(previousManifest)) malformed('previous manifest', 'a hash', 'zero')
}

export function exactly(value: number): readonly [number, number] {
  return [value, value]
}

function hashAt(hashes: Uint8Array, q: number): Uint8Array {
  return hashes.subarray(HASH_BYTES * q, HASH_BYTES * (q + 1))
}
