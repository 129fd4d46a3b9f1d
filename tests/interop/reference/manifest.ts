// docs/protocol.md, Manifest: its 224 bytes, the pairs of hashes after them, and what suite 6 and a hint add.

import { bytesToHex } from '@noble/hashes/utils.js'
import { isZero, Reader, Writer } from './bytes.js'
import { checkShape } from './directory.js'
import { checkLayout, entryBytes, type Layout, type Suite } from './layout.js'

export interface Manifest extends Layout {
  readonly blockRecords: number
  readonly suite: Suite
  readonly databaseId: Uint8Array
  readonly generation: number
  readonly epoch: number
  readonly valueBytes: number
  readonly keyed: boolean
  readonly variable: boolean
  readonly maxBatch: number
  readonly expires: bigint
  readonly directoryBytes: number
  readonly updateListBytes: number
  readonly directoryHash: Uint8Array
  readonly updateListHash: Uint8Array
  readonly previousManifest: Uint8Array
  readonly directoryBlockLog: number
  readonly directoryBlockBytes: number
  readonly directorySeed: Uint8Array
  readonly directoryCommitment: Uint8Array
  /** one a partition */
  readonly commitments: readonly Uint8Array[]
  readonly contentHashes: readonly Uint8Array[]
  /** in suite 6 */
  readonly pointproofs?: Pointproofs
  /** if it is hinted */
  readonly oneServerHint?: Uint8Array
}

export interface Pointproofs {
  readonly rowsHash: Uint8Array
  readonly keyHash: Uint8Array
  readonly transcriptHash: Uint8Array
  readonly development: boolean
}

export function encodeManifest(manifest: Manifest): Uint8Array {
  const writer = new Writer()
    .put('PIRM')
    .u16(1)
    .u16(manifest.suite)
    .put(manifest.databaseId)
    .u32(manifest.generation)
    .u32(manifest.epoch)
    .u32(manifest.records)
    .u32(manifest.recordBytes)
    .u32(manifest.partitions)
    .u32(manifest.partitionRecords)
    .u32(manifest.valueBytes)
    .flag(manifest.keyed)
    .flag(manifest.variable)
    .put(Uint8Array.of(manifest.maxBatch, Math.log2(manifest.blockRecords)))
    .u64(manifest.expires)
    .u32(manifest.directoryBytes)
    .u32(manifest.updateListBytes)
    .put(manifest.directoryHash, manifest.updateListHash, manifest.previousManifest)
    .u16(manifest.directoryBlockLog)
    .u16(manifest.oneServerHint === undefined ? 0 : 1)
    .u32(manifest.directoryBlockBytes)
    .put(manifest.directorySeed, manifest.directoryCommitment)
  manifest.commitments.forEach((commitment, q) => void writer.put(commitment, manifest.contentHashes[q]!))
  if (manifest.pointproofs !== undefined) {
    const { rowsHash, keyHash, transcriptHash, development } = manifest.pointproofs
    writer.put(rowsHash, keyHash, transcriptHash).u16(256).u16(Number(development)).u32(0)
  }
  if (manifest.oneServerHint !== undefined) writer.put(manifest.oneServerHint)
  return writer.bytes()
}

export function decodeManifest(bytes: Uint8Array): Manifest {
  const reader = new Reader(bytes)
  reader.expect('magic', 'PIRM')
  if (reader.u16() !== 1) throw new Error('unknown format')
  const suite = reader.u16()
  if (suite !== 1 && suite !== 2 && suite !== 6) throw new Error('unknown suite')
  const databaseId = reader.take(16)
  const generation = reader.u32()
  const epoch = reader.u32()
  const records = reader.u32()
  const recordBytes = reader.u32()
  const partitions = reader.u32()
  const partitionRecords = reader.u32()
  const valueBytes = reader.u32()
  const keyed = reader.flag('keyed')
  const variable = reader.flag('variable')
  const [maxBatch, packing] = reader.take(2) as unknown as [number, number]
  const blockRecords = 2 ** packing
  const expires = reader.u64()
  const directoryBytes = reader.u32()
  const updateListBytes = reader.u32()
  const directoryHash = reader.take(32)
  const updateListHash = reader.take(32)
  const previousManifest = reader.take(32)
  const [directoryBlockLog, hinted, directoryBlockBytes] = [reader.u16(), reader.u16(), reader.u32()]
  if (hinted > 1) throw new Error('hinted: neither 0 nor 1')
  const [directorySeed, directoryCommitment] = [reader.take(16), reader.take(32)]

  const layout = { records, recordBytes, partitions, partitionRecords, blockRecords }
  checkLayout(layout)
  const hashes = Array.from({ length: partitions }, () => [reader.take(32), reader.take(32)] as const)
  const pointproofs = suite === 6 ? readPointproofs(reader) : undefined
  const oneServerHint = hinted === 1 ? reader.take(32) : undefined
  if (oneServerHint !== undefined && (isZero(oneServerHint) || suite === 2 || expires === 0n)) {
    throw new Error('a hash of no hint, or without commitments or an expiry')
  }
  reader.end()

  if (generation < 1 || epoch < generation) throw new Error('epochs count from 1 and on through generations')
  if (recordBytes !== 16 * Number(keyed) + 2 * Number(variable) + valueBytes) throw new Error('wrong ℓ')
  if (!keyed && !(directoryBytes === 0 && isZero(directoryHash))) throw new Error('a directory without keys')
  if (keyed && directoryBytes === 0) throw new Error('keys without a directory')
  const ofBlocks = directoryBlockLog === 0 && directoryBlockBytes === 0 && isZero(directorySeed)
  if (keyed) checkShape({ blockLog: directoryBlockLog, blockBytes: directoryBlockBytes })
  else if (!ofBlocks) throw new Error('blocks without keys')
  if ((!keyed || suite === 2) && !isZero(directoryCommitment)) throw new Error('a commitment to no blocks')
  if (maxBatch < 1 || maxBatch > 64) throw new Error('no batch limit')
  if (maxBatch > 1 && maxBatch * partitions * entryBytes(layout, suite === 2 ? 2 : 1) > 2 ** 24) {
    throw new Error('answers that are too long')
  }
  if (expires > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error('an expiry beyond 2^53 - 1')
  if ((epoch === 1) !== isZero(previousManifest)) throw new Error('all but the first name the manifest before')
  if (updateListBytes === 0) {
    if (!isZero(updateListHash)) throw new Error('the hash of no update list')
    if (generation === 1 && epoch > 1) throw new Error('nothing leads to this epoch')
  } else {
    if (epoch === 1) throw new Error('an update list in the first epoch')
    if (updateListBytes < 40 || isZero(updateListHash)) throw new Error('an update list that is none')
    const most = 40 + records * ((suite === 6 ? 53 : 5) + recordBytes)
    if (updateListBytes > most) throw new Error('an update list longer than any')
    if (suite !== 6 && (updateListBytes - 40) % (5 + recordBytes) !== 0)
      throw new Error('an update list of broken entries')
  }
  if (suite === 2 && !hashes.every(([commitment]) => isZero(commitment))) throw new Error('commitments in suite 2')
  return {
    suite,
    databaseId,
    generation,
    epoch,
    records,
    recordBytes,
    partitions,
    partitionRecords,
    blockRecords,
    valueBytes,
    keyed,
    variable,
    maxBatch,
    expires,
    directoryBytes,
    updateListBytes,
    directoryHash,
    updateListHash,
    previousManifest,
    directoryBlockLog,
    directoryBlockBytes,
    directorySeed,
    directoryCommitment,
    commitments: hashes.map(([commitment]) => commitment),
    contentHashes: hashes.map(([, contentHash]) => contentHash),
    ...(pointproofs && { pointproofs }),
    ...(oneServerHint && { oneServerHint }),
  }
}

function readPointproofs(reader: Reader): Pointproofs {
  const [rowsHash, keyHash, transcriptHash] = [reader.take(32), reader.take(32), reader.take(32)]
  if (reader.u16() !== 256) throw new Error('rows of another length')
  const flags = reader.u16()
  if (flags > 1 || reader.u32() !== 0) throw new Error('flags or reserved bytes')
  if ([rowsHash, keyHash, transcriptHash].some(hash => isZero(hash))) throw new Error('a hash of nothing')
  return { rowsHash, keyHash, transcriptHash, development: flags === 1 }
}

/** Manifests as `/v1/manifests` gives them, each of which has to be one that comes after the one before (Epochs). */
export function decodeChain(bytes: Uint8Array): Manifest[] {
  const chain: Manifest[] = []
  for (let at = 0; at < bytes.length; ) {
    const more = new Reader(bytes.subarray(at + 6)).u16() === 6 ? 104 : 0
    const hint = 32 * new Reader(bytes.subarray(at + 170)).u16()
    const end = at + 224 + 64 * new Reader(bytes.subarray(at + 40)).u32() + more + hint
    const next = decodeManifest(bytes.subarray(at, end))
    const before = chain.at(-1)
    if (before !== undefined) checkNext(before, next)
    chain.push(next)
    at = end
  }
  return chain
}

function checkNext(before: Manifest, next: Manifest): void {
  if (next.epoch !== before.epoch + 1) throw new Error('epochs are consecutive')
  if (bytesToHex(next.databaseId) !== bytesToHex(before.databaseId)) throw new Error('another database')
  if (next.generation === before.generation + 1) {
    if (next.updateListBytes !== 0) throw new Error('an update list into a generation')
    return
  }
  if (next.generation !== before.generation) throw new Error('generations grow by one')
  if (next.updateListBytes === 0) throw new Error('no update list within a generation')
  const same = [
    ...(['suite', 'recordBytes', 'partitionRecords', 'blockRecords', 'maxBatch', 'valueBytes'] as const),
    ...(['directoryBlockLog', 'directoryBlockBytes'] as const),
  ]
  const seeds = [before, next].map(({ directorySeed }) => bytesToHex(directorySeed))
  if (same.some(field => next[field] !== before[field]) || seeds[0] !== seeds[1])
    throw new Error('what stays in a generation has changed')
  const hinted = [before, next].map(({ oneServerHint }) => oneServerHint !== undefined)
  if (next.keyed !== before.keyed || next.variable !== before.variable || hinted[0] !== hinted[1])
    throw new Error('a flag has changed')
  if (before.pointproofs !== undefined && next.pointproofs !== undefined) {
    const kept = [before.pointproofs, next.pointproofs].map(
      ({ keyHash, transcriptHash, development }) => `${bytesToHex(keyHash)}${bytesToHex(transcriptHash)}${development}`,
    )
    const most = [before, next].map(({ maxBatch, partitions }) =>
      Math.min(maxBatch, Math.max(1, Math.floor(256 / partitions))),
    )
    if (kept[0] !== kept[1] || most[0] !== most[1]) throw new Error('what is proved, or how much of it, has changed')
  }
  if (next.records < before.records || next.partitions < before.partitions) throw new Error('N and Q never shrink')
}
