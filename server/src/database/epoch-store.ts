// What an updatable database keeps in its storage, under which keys. One transaction makes an epoch, and it holds little
// more than the epoch's update list.
//
// Records lie in chunks, and a chunk is written behind: it says as of which epoch it is, and the lists since then say
// what has changed in it. A list has old ⊕ new, so it leads a chunk forward and back alike.
//
// A list that is long is staged: it lies under its epoch's number before there is that epoch, which one transaction makes then.
//
// An epoch number in a key has eight hex digits, so that keys sort by it.

import { randomUUID } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { equalBytes, type Manifest, partitionBytes, type SignatureInfo } from '@keyhush/protocol'
import { BYTES_AT_ONCE, Pace } from '../base/pace.js'
import type { Storage, Transaction } from '../storage/storage.js'

/** Bytes of records under one key: with the chunk's and the page's headers, eight pages of an LMDB file. */
export const CHUNK_BYTES = 8 * 4096 - 24 - 8

/** What is written in one transaction, so that neither memory nor the event loop has to bear a whole database. */
export const CHUNKS_TOGETHER = 128

/** A list lies in pieces of so many bytes, so that a part of one can be read: with the headers, sixteen pages of an LMDB file. */
const PIECE_BYTES = 16 * 4096 - 24 - 4

/** As many pieces are written in one transaction; a list of more is staged. */
const PIECES_TOGETHER = 32

const FORMAT = 6
const CHUNK = 'chunk/'
/** marks a generation that has chunks, or whose chunks are being removed */
const GENERATION = 'generation/'
const MANIFEST = 'manifest/'
const LIST = 'list/'
/** marks that a list is staged, or was begun to be: by whom */
const STAGED = 'staged'
const BATCH = 'batch/'
const SIGNATURE = 'signature/'
const HEAD = 'head'
const DIRECTORY = 'directory/'
/** with Pointproofs: row lists, which lists lead forward as they do the directory; openings by row; the transcript */
const ROWS = 'rows/'
const OPENINGS = 'openings/'
const TRANSCRIPT = 'transcript/'
/** before a value: the CRC-32 of its key and of what follows (u32); … */
const SEAL_BYTES = 4
/** … and then, of a dated one, its epoch (u32) */
const DATE_BYTES = SEAL_BYTES + 4

export const ANOTHER_PROCESS = 'another process has published into this store'
const DAMAGED = 'a stored value is damaged'

/** Where a store stands. */
export interface Head {
  /** the newest epoch, … */
  readonly epoch: number
  /** … and its generation; each has chunks of its own */
  readonly generation: number
  /** the one that the store was begun with, if a list led there: nothing before it is known here */
  readonly first?: number | undefined
  /** no chunk has changed from its own epoch to this one, so that the lists since lead from every chunk to everywhere */
  readonly base: number
  /** the generation before, answered for some time yet; its chunks are those of its last epoch */
  readonly old?: OldGeneration | undefined
}

export interface OldGeneration {
  readonly generation: number
  /** its last */
  readonly epoch: number
  /** seconds since 1970 */
  readonly until: number
}

/** What a store is begun with. */
export interface FirstEpoch {
  readonly manifest: Manifest
  readonly manifestBytes: Uint8Array
  /** empty: keyless */
  readonly directory: Uint8Array
  /** the one that led there, for clients that are one epoch behind; undefined: none did */
  readonly list: Uint8Array | undefined
  readonly chunk: (number: number) => Uint8Array
  readonly proofs: StoredProofs | undefined
}

/** A generation's first epoch, made here of the one before. */
export interface GenerationChanges {
  readonly manifest: Manifest
  readonly manifestBytes: Uint8Array
  /** empty: keyless */
  readonly directory: Uint8Array
  /** of the last epoch of the generation before, which may be asked for its blocks yet */
  readonly oldDirectory: Uint8Array
  readonly batch: BatchRecord
  readonly until: number
  /** history before this epoch goes */
  readonly oldest: number
}

/** What became of an epoch. */
export interface BatchRecord {
  /** hex; empty: no batch made this epoch */
  readonly batch: string
  readonly changes: number
}

/** What a generation is proved with. */
interface StoredProofs {
  readonly transcript: Uint8Array
  readonly rowLists: Uint8Array
  /** of each row, by its number */
  readonly openings: readonly Dated[]
}

/** Bytes as they were at an epoch. */
export interface Dated {
  readonly epoch: number
  readonly bytes: Uint8Array
}

/** An epoch's worth of changes to the store. */
export interface EpochChanges {
  readonly epoch: number
  readonly manifest: Uint8Array
  readonly list: Uint8Array
  readonly batch: BatchRecord
  /** history before this epoch goes */
  readonly oldest: number
}

export class EpochStore {
  readonly #storage: Storage

  constructor(storage: Storage) {
    this.#storage = storage
  }

  get location(): string {
    return this.#storage.location
  }

  /** undefined: the store is empty */
  async head(): Promise<Head | undefined> {
    return decodeHead(await this.#storage.get(HEAD))
  }

  /** A store's first epoch, whole or not at all: its head comes last. */
  async create({ manifest, manifestBytes, directory, list, chunk, proofs }: FirstEpoch): Promise<void> {
    if ((await this.head()) !== undefined) throw new Error('the store is not empty')
    const { epoch, generation } = manifest
    await this.stage(manifest, chunk)
    if (proofs !== undefined) await this.#stageOpenings(generation, proofs.openings)
    await this.#storage.transact([], transaction => {
      if (proofs !== undefined) {
        putSealed(transaction, TRANSCRIPT + hex(generation), proofs.transcript)
        putDated(transaction, ROWS + hex(generation), epoch, proofs.rowLists)
      }
      putDated(transaction, DIRECTORY + hex(generation), epoch, directory)
      putSealed(transaction, MANIFEST + hex(epoch), manifestBytes)
      putJson(transaction, BATCH + hex(epoch), { batch: '', changes: 0 })
      if (list !== undefined) putPieces(transaction, epoch, list, 0)
      putHead(transaction, { epoch, generation, base: epoch, ...(list !== undefined && { first: epoch }) })
    })
  }

  /** Writes all chunks of a generation, which mean nothing before a head names it. */
  async stage(manifest: Manifest, chunk: (number: number) => Uint8Array): Promise<void> {
    const { generation, epoch } = manifest
    const head = await this.head()
    if ((await this.generations()).includes(generation)) await this.drop(generation) // an attempt that ended early
    await this.#storage.transact([], transaction => putJson(transaction, GENERATION + hex(generation), {}))
    const count = Math.ceil((manifest.partitions * partitionBytes(manifest)) / CHUNK_BYTES)
    for (let start = 0; start < count; start += CHUNKS_TOGETHER) {
      await this.#storage.transact([HEAD, GENERATION + hex(generation)], transaction => {
        if (readHead(transaction)?.epoch !== head?.epoch || !hasMark(transaction, generation)) {
          throw new Error(ANOTHER_PROCESS)
        }
        for (let number = start; number < Math.min(count, start + CHUNKS_TOGETHER); number++) {
          putDated(transaction, chunkKey(generation, number), epoch, chunk(number))
        }
      })
    }
  }

  async #stageOpenings(generation: number, openings: readonly Dated[]): Promise<void> {
    for (let start = 0; start < openings.length; start += CHUNKS_TOGETHER) {
      await this.#storage.transact([], transaction => {
        for (const [n, { epoch, bytes }] of openings.slice(start, start + CHUNKS_TOGETHER).entries()) {
          putDated(transaction, openingsKey(generation, start + n), epoch, bytes)
        }
      })
    }
  }

  /** Writes a row's openings as they are at an epoch before the newest. false: another process has begun a generation. */
  async writeOpenings(generation: number, row: number, { epoch, bytes }: Dated): Promise<boolean> {
    return this.#storage.transact([HEAD], transaction => {
      const head = readHead(transaction)
      if (head?.generation !== generation || head.epoch <= epoch) return false
      putDated(transaction, openingsKey(generation, row), epoch, bytes)
      return true
    })
  }

  /** By row. One that was never written is of records that are all zero. */
  async *openings(generation: number): AsyncIterable<readonly [number, Dated]> {
    const prefix = openingsPrefix(generation)
    for await (const [key, bytes] of this.#storage.entries(prefix)) {
      yield [Number.parseInt(key.slice(prefix.length), 16), dated(key, bytes)]
    }
  }

  transcript(generation: number): Promise<Uint8Array | undefined> {
    return this.#sealed(TRANSCRIPT + hex(generation))
  }

  rowLists(generation: number): Promise<Dated | undefined> {
    return this.#dated(ROWS + hex(generation))
  }

  async #sealed(key: string): Promise<Uint8Array | undefined> {
    const bytes = await this.#storage.get(key)
    return bytes === undefined ? undefined : unsealed(key, bytes)
  }

  async #dated(key: string): Promise<Dated | undefined> {
    const bytes = await this.#storage.get(key)
    return bytes === undefined ? undefined : dated(key, bytes)
  }

  /** Begins a generation whose chunks are staged. The old one's chunks are to be those of its last epoch. */
  async begin(changes: GenerationChanges): Promise<boolean> {
    const { epoch, generation } = changes.manifest
    const before = await this.head()
    if (before?.epoch !== epoch - 1) return false
    const old = { generation: before.generation, epoch: before.epoch, until: changes.until }
    const forgotten = await this.#keysBefore(changes.oldest, before.base, old)
    const [key, oldKey] = [generation, before.generation].map(each => DIRECTORY + hex(each)) as [string, string]
    const directory = await datedValue(key, epoch, changes.directory)
    const oldDirectory = await datedValue(oldKey, before.epoch, changes.oldDirectory)
    return this.#storage.transact([HEAD, GENERATION + hex(generation)], transaction => {
      if (readHead(transaction)?.epoch !== epoch - 1 || !hasMark(transaction, generation)) return false
      transaction.put(key, directory)
      transaction.put(oldKey, oldDirectory)
      putSealed(transaction, MANIFEST + hex(epoch), changes.manifestBytes)
      putJson(transaction, BATCH + hex(epoch), changes.batch)
      putHead(transaction, { epoch, generation, base: epoch, old })
      for (const key of forgotten) transaction.remove(key)
      return true
    })
  }

  /** Generations that have chunks, or had. */
  async generations(): Promise<number[]> {
    return (await this.#all(GENERATION)).map(([key, mark]) => {
      parse(key, mark)
      return Number.parseInt(key.slice(GENERATION.length), 16)
    })
  }

  async #all(prefix: string): Promise<(readonly [string, Uint8Array])[]> {
    const entries: (readonly [string, Uint8Array])[] = []
    for await (const entry of this.#storage.entries(prefix)) entries.push(entry)
    return entries
  }

  /** Removes a generation that is not the head's. */
  async drop(generation: number): Promise<void> {
    await this.#storage.transact([HEAD], transaction => {
      const head = readHead(transaction)
      if (head?.old?.generation === generation) putHead(transaction, { ...head, old: undefined })
      transaction.remove(DIRECTORY + hex(generation))
      putJson(transaction, GENERATION + hex(generation), { dropped: true })
    })
    for (const prefix of [chunkPrefix(generation), openingsPrefix(generation)]) {
      for (let start = 0; (await this.#storage.count(prefix)) > 0; start += CHUNKS_TOGETHER) {
        await this.#storage.transact([], transaction => {
          for (let number = start; number < start + CHUNKS_TOGETHER; number++) transaction.remove(prefix + hex(number))
        })
      }
    }
    await this.#storage.transact([], transaction => transaction.remove(GENERATION + hex(generation)))
  }

  /** Adds an epoch. false, and nothing has changed: another process has added one meanwhile, or is about to. */
  async append(changes: EpochChanges): Promise<boolean> {
    const { epoch, oldest, list } = changes
    const before = await this.head()
    if (before?.epoch !== epoch - 1) return false
    await this.sweep()
    const forgotten = await this.#keysBefore(oldest, before.base, before.old)
    const mark = list.length > PIECES_TOGETHER * PIECE_BYTES ? json(STAGED, { attempt: randomUUID() }) : undefined
    if (mark !== undefined && !(await this.#stageList(epoch, list, mark))) return false
    return this.#storage.transact([HEAD, STAGED], transaction => {
      const head = readHead(transaction)
      if (head?.epoch !== epoch - 1 || !isStaged(transaction, mark)) return false
      putSealed(transaction, MANIFEST + hex(epoch), changes.manifest)
      if (mark === undefined) putPieces(transaction, epoch, list, 0)
      else transaction.remove(STAGED)
      putJson(transaction, BATCH + hex(epoch), changes.batch)
      putHead(transaction, { ...head, epoch })
      for (const key of forgotten) transaction.remove(key)
      return true
    })
  }

  /** Writes the list of an epoch to come, which means nothing before a head names it. */
  async #stageList(epoch: number, list: Uint8Array, mark: Uint8Array): Promise<boolean> {
    const isMarked = await this.#storage.transact([HEAD, STAGED], transaction => {
      if (readHead(transaction)?.epoch !== epoch - 1 || !isStaged(transaction, undefined)) return false
      transaction.put(STAGED, mark)
      return true
    })
    if (!isMarked) return false
    for (let first = 0; first * PIECE_BYTES < list.length; first += PIECES_TOGETHER) {
      const isOurs = await this.#storage.transact([STAGED], transaction => {
        if (!isStaged(transaction, mark)) return false
        putPieces(transaction, epoch, list, first, first + PIECES_TOGETHER)
        return true
      })
      if (!isOurs) return false
    }
    return true
  }

  /**
   * Removes a list that was staged and whose epoch never came to be. It is marked as being swept before its first piece goes:
   * whoever staged it may yet come back, and must not take what is left for all of it. Nor may who sweeps and comes back.
   */
  async sweep(): Promise<void> {
    const found = await this.#storage.get(STAGED)
    const head = await this.head()
    if (found === undefined || head === undefined) return
    const mark = json(STAGED, { attempt: randomUUID() })
    const isMarked = await this.#storage.transact([STAGED], transaction => {
      if (!isStaged(transaction, found)) return false
      transaction.put(STAGED, mark)
      return true
    })
    if (!isMarked) return
    const prefix = listPrefix(head.epoch + 1)
    for (let first = 0; (await this.#storage.count(prefix)) > 0; first += PIECES_TOGETHER) {
      await this.#storage.transact([HEAD, STAGED], transaction => {
        if (readHead(transaction)?.epoch !== head.epoch || !isStaged(transaction, mark))
          throw new Error(ANOTHER_PROCESS)
        for (let piece = first; piece < first + PIECES_TOGETHER; piece++) transaction.remove(prefix + hex(piece))
      })
    }
    await this.#storage.transact([STAGED], transaction => {
      if (isStaged(transaction, mark)) transaction.remove(STAGED)
    })
  }

  /** Writes chunks as they are at `epoch`, the newest. false, and nothing has changed: another process added one. */
  async writeChunks(
    epoch: number,
    numbers: readonly number[],
    chunk: (number: number) => Uint8Array,
  ): Promise<boolean> {
    return this.#storage.transact([HEAD], transaction => {
      const head = readHead(transaction)
      if (head?.epoch !== epoch) return false
      for (const number of numbers) putDated(transaction, chunkKey(head.generation, number), epoch, chunk(number))
      return true
    })
  }

  /** Every chunk is at least as it was at epoch `base`; directory and row lists are given as they are at `epoch`, the newest. */
  async rebase(base: number, epoch: number, directory: Uint8Array, rowLists?: Uint8Array): Promise<boolean> {
    const before = await this.head()
    if (before?.epoch !== epoch) return false
    const key = DIRECTORY + hex(before.generation)
    const value = await datedValue(key, epoch, directory)
    return this.#storage.transact([HEAD], transaction => {
      const head = readHead(transaction)
      if (head?.epoch !== epoch) return false
      transaction.put(key, value)
      if (rowLists !== undefined) putDated(transaction, ROWS + hex(head.generation), epoch, rowLists)
      putHead(transaction, { ...head, base })
      return true
    })
  }

  manifest(epoch: number): Promise<Uint8Array | undefined> {
    return this.#sealed(MANIFEST + hex(epoch))
  }

  /** The update list that leads to `epoch`. */
  async list(epoch: number): Promise<Uint8Array | undefined> {
    const [pieces, pace]: [Uint8Array[], Pace] = [[], new Pace()]
    let length = 0
    for await (const [key, bytes] of this.#storage.entries(listPrefix(epoch))) {
      const piece = unsealed(key, bytes)
      pieces.push(piece)
      length += piece.length
      await pace.turn()
    }
    if (pieces.length === 0) return undefined
    const list = Buffer.allocUnsafe(length)
    let start = 0
    for (const piece of pieces) {
      list.set(piece, start)
      start += piece.length
      await pace.turn()
    }
    return list
  }

  /** Bytes `first` to `last` of that list, both included. Throws if it has gone. */
  async listSlice(epoch: number, first: number, last: number): Promise<Uint8Array> {
    const slice = Buffer.alloc(last - first + 1)
    for (let piece = Math.floor(first / PIECE_BYTES); piece * PIECE_BYTES <= last; piece++) {
      const start = piece * PIECE_BYTES
      const bytes = await this.#sealed(listPrefix(epoch) + hex(piece))
      if (bytes === undefined) throw new Error('the update list has gone')
      slice.set(bytes.subarray(Math.max(0, first - start), last + 1 - start), Math.max(0, start - first))
    }
    return slice
  }

  async batch(epoch: number): Promise<BatchRecord | undefined> {
    const key = BATCH + hex(epoch)
    const bytes = await this.#storage.get(key)
    return bytes === undefined ? undefined : (parse(key, bytes) as BatchRecord)
  }

  /** A generation's; of no bytes if keyless. */
  directory(generation: number): Promise<Dated | undefined> {
    return this.#dated(DIRECTORY + hex(generation))
  }

  /** A generation's chunks by number. One that was never written is zero, as of the head's base. */
  async *chunks(generation: number): AsyncIterable<readonly [number, Dated]> {
    const prefix = chunkPrefix(generation)
    for await (const [key, bytes] of this.#storage.entries(prefix)) {
      yield [Number.parseInt(key.slice(prefix.length), 16), dated(key, bytes)]
    }
  }

  /** All epochs with a manifest, ascending. */
  async *epochs(): AsyncIterable<number> {
    for await (const [key] of this.#storage.entries(MANIFEST)) yield Number.parseInt(key.slice(MANIFEST.length), 16)
  }

  /** One a key and epoch. */
  async addSignature(signature: SignatureInfo): Promise<void> {
    const { epoch, publicKey } = signature
    await this.#storage.transact([], transaction => {
      putJson(transaction, `${SIGNATURE}${hex(epoch)}/${publicKey}`, signature)
    })
  }

  async signatures(epoch: number): Promise<SignatureInfo[]> {
    return (await this.#all(`${SIGNATURE}${hex(epoch)}/`)).map(([key, bytes]) => parse(key, bytes) as SignatureInfo)
  }

  /** What is kept of epochs before `oldest`, but for deltas that chunks need, and of the old generation's last epoch. */
  async #keysBefore(oldest: number, base: number, old: OldGeneration | undefined): Promise<string[]> {
    const keys: string[] = []
    for (const prefix of [MANIFEST, LIST, BATCH, SIGNATURE]) {
      const end = prefix + hex(prefix === LIST ? Math.min(oldest, base + 1) : oldest)
      for await (const [key] of this.#storage.entries(prefix)) {
        if (key >= end) break
        if (old === undefined || !key.startsWith(prefix + hex(old.epoch))) keys.push(key)
      }
    }
    return keys
  }
}

/** Writes a list's pieces, from one number to before another. */
function putPieces(transaction: Transaction, epoch: number, list: Uint8Array, first: number, end = Infinity): void {
  for (let piece = first; piece < end && piece * PIECE_BYTES < list.length; piece++) {
    const bytes = list.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES)
    putSealed(transaction, listPrefix(epoch) + hex(piece), bytes)
  }
}

function listPrefix(epoch: number): string {
  return `${LIST + hex(epoch)}/`
}

/** Whether a list is staged by whoever set this mark; undefined: whether none is. */
function isStaged(from: Transaction, mark: Uint8Array | undefined): boolean {
  const found = from.get(STAGED)
  return found === undefined || mark === undefined ? found === mark : equalBytes(found, mark)
}

/** Whether a generation's chunks are there to stay. */
function hasMark(from: Transaction, generation: number): boolean {
  const key = GENERATION + hex(generation)
  const mark = from.get(key)
  return mark !== undefined && !('dropped' in (parse(key, mark) as object))
}

function chunkPrefix(generation: number): string {
  return `${CHUNK}${hex(generation)}/`
}

function chunkKey(generation: number, number: number): string {
  return chunkPrefix(generation) + hex(number)
}

function openingsPrefix(generation: number): string {
  return `${OPENINGS}${hex(generation)}/`
}

function openingsKey(generation: number, row: number): string {
  return openingsPrefix(generation) + hex(row)
}

function putDated(transaction: Transaction, key: string, epoch: number, bytes: Uint8Array): void {
  const date = Buffer.alloc(DATE_BYTES - SEAL_BYTES)
  date.writeUInt32LE(epoch)
  putSealed(transaction, key, date, bytes)
}

function dated(key: string, value: Uint8Array): Dated {
  const bytes = unsealed(key, value)
  const epoch = new DataView(bytes.buffer, bytes.byteOffset, bytes.length).getUint32(0, true)
  return { epoch, bytes: bytes.subarray(DATE_BYTES - SEAL_BYTES) }
}

function putSealed(transaction: Transaction, key: string, ...parts: readonly Uint8Array[]): void {
  const value = Buffer.concat([Buffer.alloc(SEAL_BYTES), ...parts])
  value.writeUInt32LE(crc32(value.subarray(SEAL_BYTES), crc32(key)))
  transaction.put(key, value)
}

/** What `putDated` puts, of many bytes: made in slices. */
async function datedValue(key: string, epoch: number, bytes: Uint8Array): Promise<Uint8Array> {
  const [value, pace] = [Buffer.allocUnsafe(DATE_BYTES + bytes.length), new Pace()]
  value.writeUInt32LE(epoch, SEAL_BYTES)
  let checksum = crc32(value.subarray(SEAL_BYTES, DATE_BYTES), crc32(key))
  for (let start = 0; start < bytes.length; start += BYTES_AT_ONCE) {
    const part = bytes.subarray(start, start + BYTES_AT_ONCE)
    checksum = crc32(part, checksum)
    value.set(part, DATE_BYTES + start)
    await pace.turn()
  }
  value.writeUInt32LE(checksum)
  return value
}

function unsealed(key: string, value: Uint8Array): Uint8Array {
  const bytes = value.subarray(SEAL_BYTES)
  const view = new DataView(value.buffer, value.byteOffset, value.length)
  if (value.length < SEAL_BYTES || crc32(bytes, crc32(key)) !== view.getUint32(0, true)) throw new Error(DAMAGED)
  return bytes
}

function readHead(from: Transaction): Head | undefined {
  return decodeHead(from.get(HEAD))
}

function decodeHead(bytes: Uint8Array | undefined): Head | undefined {
  if (bytes === undefined) return undefined
  const { format, ...head } = parse(HEAD, bytes) as Head & { format: number }
  if (format !== FORMAT) throw new Error(`the store has format ${format}, and this version knows ${FORMAT}`)
  return head
}

/** SQL for the newest epoch of a store that is in a schema. */
export function headEpoch(schema: string): string {
  return `SELECT (left(convert_from(value, 'UTF8'), -8)::json ->> 'epoch')::int FROM ${schema}.entries WHERE key = '${HEAD}'`
}

function putHead(transaction: Transaction, head: Head): void {
  putJson(transaction, HEAD, { format: FORMAT, ...head })
}

function hex(number: number): string {
  return number.toString(16).padStart(8, '0')
}

function putJson(transaction: Transaction, key: string, value: object): void {
  transaction.put(key, json(key, value))
}

/** Text, so that SQL can read it, and behind it, in hex, the CRC-32 of its key and of it. */
function json(key: string, value: object): Uint8Array {
  const text = JSON.stringify(value)
  return Buffer.from(text + checksum(key, text))
}

/** The head's, which says what format the store has, is that of all formats. */
function checksum(key: string, text: string): string {
  return hex(crc32(text, key === HEAD ? 0 : crc32(key)))
}

function parse(key: string, bytes: Uint8Array): unknown {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()
  const value = text.slice(0, -8)
  if (checksum(key, value) !== text.slice(-8)) throw new Error(DAMAGED)
  return JSON.parse(value)
}
