// docs/protocol.md, Manifest: its header, the pairs of hashes after it, and what suite 6, a hint and slot marks add.

import { bytesToHex } from '@noble/hashes/utils.js'
import { isZero, offsetsOf, Reader, readFields, Writer, writeFields } from './bytes.js'
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
  readonly maxQueries: number
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
  readonly oneServer?: OneServer
  /** if it is marked */
  readonly slotMarksHash?: Uint8Array
}

export interface Pointproofs {
  readonly rowsHash: Uint8Array
  readonly keyHash: Uint8Array
  readonly transcriptHash: Uint8Array
  readonly development: boolean
}

/** What lookups with one server need. */
export interface OneServer {
  readonly hintHash: Uint8Array
  readonly baseEpoch: number
  readonly baseRecords: number
  readonly patchBytes: number
  readonly patchHash: Uint8Array
}

/** The header's fields, in order, with their lengths. */
export const HEADER_FIELDS = {
  ...{ magic: 4, format: 2, suite: 2, databaseId: 16, generation: 4, epoch: 4 },
  ...{ records: 4, recordBytes: 4, partitions: 4, partitionRecords: 4, valueBytes: 4 },
  ...{ keyed: 1, variable: 1, maxQueries: 1, packing: 1, expires: 8, directoryBytes: 4, updateListBytes: 4 },
  ...{ directoryHash: 32, updateListHash: 32, previousManifest: 32 },
  ...{ directoryBlockLog: 2, hinted: 1, marked: 1, directoryBlockBytes: 4, directorySeed: 16, directoryCommitment: 32 },
} as const

/** What suite 6 adds. */
export const POINTPROOFS_FIELDS = {
  ...{ rowsHash: 32, keyHash: 32, transcriptHash: 32, rowRecords: 2, flags: 2, reserved: 4 },
} as const

/** What a hinted database adds. */
export const ONE_SERVER_FIELDS = {
  ...{ hintHash: 32, baseEpoch: 4, baseRecords: 4, patchBytes: 4, reserved: 4, patchHash: 32 },
} as const

const { magic: _, ...BEHIND_MAGIC } = HEADER_FIELDS

export function encodeManifest(manifest: Manifest): Uint8Array {
  const { blockRecords, commitments, contentHashes, pointproofs, oneServer, slotMarksHash } = manifest
  const writer = new Writer().put('PIRM')
  const flags = { hinted: oneServer !== undefined, marked: slotMarksHash !== undefined }
  writeFields(writer, BEHIND_MAGIC, { ...manifest, ...flags, format: 1, packing: Math.log2(blockRecords) })
  commitments.forEach((commitment, q) => void writer.put(commitment, contentHashes[q]!))
  if (pointproofs !== undefined) {
    const derived = { rowRecords: 256, flags: pointproofs.development, reserved: 0 }
    writeFields(writer, POINTPROOFS_FIELDS, { ...pointproofs, ...derived })
  }
  if (oneServer !== undefined) writeFields(writer, ONE_SERVER_FIELDS, { ...oneServer, reserved: 0 })
  if (slotMarksHash !== undefined) writer.put(slotMarksHash)
  return writer.bytes()
}

/** As the header has it. */
type Header = Omit<Manifest, 'keyed' | 'variable' | 'blockRecords' | 'commitments' | 'contentHashes'> &
  Readonly<Record<'format' | 'keyed' | 'variable' | 'packing' | 'hinted' | 'marked', number>>

export function decodeManifest(bytes: Uint8Array): Manifest {
  const reader = new Reader(bytes)
  reader.expect('magic', 'PIRM')
  const { format, packing, hinted, marked, ...header } = readFields(reader, BEHIND_MAGIC) as Header
  const { suite, generation, epoch, records, recordBytes, partitions, partitionRecords, valueBytes, maxQueries } =
    header
  const { expires, directoryBytes, updateListBytes, directoryHash, updateListHash, previousManifest } = header
  const { directoryBlockLog, directoryBlockBytes, directorySeed, directoryCommitment } = header
  if (format !== 1) throw new Error('unknown format')
  if (suite !== 1 && suite !== 2 && suite !== 6) throw new Error('unknown suite')
  if (Math.max(header.keyed, header.variable, hinted, marked) > 1) throw new Error('a flag is neither 0 nor 1')
  const [keyed, variable] = [header.keyed === 1, header.variable === 1]
  const blockRecords = 2 ** packing
  const layout = { records, recordBytes, partitions, partitionRecords, blockRecords }
  checkLayout(layout)
  const hashes = Array.from({ length: partitions }, () => [reader.take(32), reader.take(32)] as const)
  const pointproofs = suite === 6 ? readPointproofs(reader) : undefined
  const oneServer = hinted === 1 ? readOneServer(reader, header) : undefined
  if (oneServer !== undefined && (suite === 2 || expires === 0n))
    throw new Error('a hint without commitments or an expiry')
  const slotMarksHash = marked === 1 ? reader.take(32) : undefined
  if (slotMarksHash !== undefined && (isZero(slotMarksHash) || !keyed))
    throw new Error('a hash of no marks, or without keys')
  reader.end()

  if (generation < 1 || epoch < generation) throw new Error('epochs count from 1 and on through generations')
  if (recordBytes !== 16 * Number(keyed) + 2 * Number(variable) + valueBytes) throw new Error('wrong ℓ')
  if (!keyed && !(directoryBytes === 0 && isZero(directoryHash))) throw new Error('a directory without keys')
  if (keyed && directoryBytes === 0) throw new Error('keys without a directory')
  const ofBlocks = directoryBlockLog === 0 && directoryBlockBytes === 0 && isZero(directorySeed)
  if (keyed) checkShape({ blockLog: directoryBlockLog, blockBytes: directoryBlockBytes })
  else if (!ofBlocks) throw new Error('blocks without keys')
  if ((!keyed || suite === 2) && !isZero(directoryCommitment)) throw new Error('a commitment to no blocks')
  if (maxQueries < 1 || maxQueries > 64) throw new Error('no query limit')
  if (maxQueries > 1 && maxQueries * partitions * entryBytes(layout, suite === 2 ? 2 : 1) > 2 ** 24) {
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
    ...{ ...header, keyed, variable, blockRecords },
    commitments: hashes.map(([commitment]) => commitment),
    contentHashes: hashes.map(([, contentHash]) => contentHash),
    ...(pointproofs && { pointproofs }),
    ...(oneServer && { oneServer }),
    ...(slotMarksHash && { slotMarksHash }),
  }
}

function readPointproofs(reader: Reader): Pointproofs {
  type Read = Omit<Pointproofs, 'development'> & Readonly<Record<'rowRecords' | 'flags' | 'reserved', number>>
  const { rowRecords, flags, reserved, ...hashes } = readFields(reader, POINTPROOFS_FIELDS) as Read
  if (rowRecords !== 256) throw new Error('rows of another length')
  if (flags > 1 || reserved !== 0) throw new Error('flags or reserved bytes')
  if (Object.values(hashes).some(hash => isZero(hash))) throw new Error('a hash of nothing')
  return { ...hashes, development: flags === 1 }
}

function readOneServer(
  reader: Reader,
  { generation, epoch, records, recordBytes }: Pick<Manifest, 'generation' | 'epoch' | 'records' | 'recordBytes'>,
): OneServer {
  type Read = OneServer & { readonly reserved: number }
  const { reserved, ...read } = readFields(reader, ONE_SERVER_FIELDS) as Read
  const { hintHash, baseEpoch, baseRecords, patchBytes, patchHash } = read
  if (isZero(hintHash) || reserved !== 0) throw new Error('a hash of no hint, or reserved bytes')
  if (baseEpoch < generation || baseEpoch > epoch || epoch - baseEpoch > 1024)
    throw new Error('a base of another generation, or of a later epoch')
  if (baseRecords < 1 || baseRecords > records) throw new Error('a base of no records, or of more')
  if (baseEpoch === epoch && (baseRecords !== records || patchBytes !== 0)) throw new Error('changes since itself')
  if (patchBytes % (5 + recordBytes) !== 0) throw new Error('a patch of broken entries')
  if ((patchBytes === 0) !== isZero(patchHash)) throw new Error('a patch without its hash, or a hash without its patch')
  return read
}

const AT = offsetsOf(HEADER_FIELDS)

/** Manifests as `/v1/manifests` gives them, each of which has to be one that comes after the one before (Epochs). */
export function decodeChain(bytes: Uint8Array): Manifest[] {
  const chain: Manifest[] = []
  for (let at = 0; at < bytes.length; ) {
    const from = (field: keyof typeof HEADER_FIELDS) => new Reader(bytes.subarray(at + AT[field]))
    const more = from('suite').u16() === 6 ? offsetsOf(POINTPROOFS_FIELDS).end : 0
    const last = 80 * bytes[at + AT.hinted]! + 32 * bytes[at + AT.marked]!
    const end = at + AT.end + 64 * from('partitions').u32() + more + last
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
    checkBase(undefined, next)
    return
  }
  if (next.generation !== before.generation) throw new Error('generations grow by one')
  if (next.updateListBytes === 0) throw new Error('no update list within a generation')
  const same = [
    ...(['suite', 'recordBytes', 'partitionRecords', 'blockRecords', 'maxQueries', 'valueBytes'] as const),
    ...(['directoryBlockLog', 'directoryBlockBytes'] as const),
  ]
  const seeds = [before, next].map(({ directorySeed }) => bytesToHex(directorySeed))
  if (same.some(field => next[field] !== before[field]) || seeds[0] !== seeds[1])
    throw new Error('what stays in a generation has changed')
  const [was, is] = [before, next].map(({ keyed, variable, oneServer, slotMarksHash }) => {
    return `${keyed} ${variable} ${oneServer !== undefined} ${slotMarksHash !== undefined}`
  })
  if (is !== was) throw new Error('a flag has changed')
  if (before.pointproofs !== undefined && next.pointproofs !== undefined) {
    const kept = [before.pointproofs, next.pointproofs].map(
      ({ keyHash, transcriptHash, development }) => `${bytesToHex(keyHash)}${bytesToHex(transcriptHash)}${development}`,
    )
    const most = [before, next].map(({ maxQueries, partitions }) =>
      Math.min(maxQueries, Math.max(1, Math.floor(256 / partitions))),
    )
    if (kept[0] !== kept[1] || most[0] !== most[1]) throw new Error('what is proved, or how much of it, has changed')
  }
  checkBase(before, next)
  if (next.records < before.records || next.partitions < before.partitions) throw new Error('N and Q never shrink')
}

/** The base is the epoch itself, or that of the epoch before, whose patch then grows by the entries of the update list. */
function checkBase(before: Manifest | undefined, { suite, epoch, oneServer: is, updateListBytes }: Manifest): void {
  if (is === undefined || is.baseEpoch === epoch) return
  const was = before?.oneServer
  if (was === undefined || was.baseEpoch !== is.baseEpoch) throw new Error('a base that the epoch before had not')
  if (was.baseRecords !== is.baseRecords || bytesToHex(was.hintHash) !== bytesToHex(is.hintHash))
    throw new Error('one base is another')
  const grown = is.patchBytes - was.patchBytes
  if (suite === 6 ? grown < 0 : grown !== updateListBytes - 40) throw new Error('a patch that did not grow by the list')
}
