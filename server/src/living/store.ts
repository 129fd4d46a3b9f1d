// What a living database keeps in its storage, under which keys. One transaction makes an epoch.
//
// Records are kept one epoch behind, with the batch that leads from there: loading applies it once more, so that after
// a restart the previous epoch can be answered too, and every digest of both epochs is computed anew.
//
// An epoch number in a key has eight hex digits, so that keys sort by it.

import { type Manifest, partitionBytes, type SignatureInfo } from '@pirouette/protocol'
import type { UpdateForm } from '@pirouette/wasm'
import type { Storage, Transaction } from '../storage/storage.js'

/** Bytes of records under one key: what fills one page of an LMDB file beside its header. */
export const CHUNK_BYTES = 4072

const FORMAT = 1
const CHUNK = 'chunk/'
const MANIFEST = 'manifest/'
const LIST = 'list/'
const RECORD_LIST = 'record-list/'
const BATCH = 'batch/'
const SIGNATURE = 'signature/'
const HEAD = 'head'
const DIRECTORY = 'directory'
const OPERATIONS = 'last-batch'

/** What became of an epoch. */
export interface BatchRecord {
  /** hex; empty: no batch made this epoch */
  readonly batch: string
  readonly changes: number
}

/** An epoch's worth of changes to the store. */
export interface EpochChanges {
  readonly epoch: number
  readonly manifest: Uint8Array
  readonly list: Uint8Array
  /** the same in record form */
  readonly recordList: Uint8Array
  readonly batch: BatchRecord
  /** the batch's whole body */
  readonly body: Uint8Array
  /** the directory of the epoch before; empty in keyless databases */
  readonly directory: Uint8Array
  /** the chunks that the epoch before changed */
  readonly chunks: ReadonlyMap<number, Uint8Array>
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

  /** The newest epoch; undefined: the store is empty. */
  head(): number | undefined {
    return readHead(this.#storage)
  }

  /** A store's first epoch. All or nothing. */
  async create(
    manifest: Manifest,
    manifestBytes: Uint8Array,
    directory: Uint8Array,
    chunk: (number: number) => Uint8Array,
  ): Promise<void> {
    await this.#storage.transact(transaction => {
      if (readHead(transaction) !== undefined) throw new Error('the store is not empty')
      for (let number = 0; number < chunksOf(manifest); number++) transaction.put(CHUNK + hex(number), chunk(number))
      transaction.put(DIRECTORY, directory)
      transaction.put(MANIFEST + hex(manifest.epoch), manifestBytes)
      transaction.put(BATCH + hex(manifest.epoch), json({ batch: '', changes: 0 }))
      transaction.put(HEAD, json({ format: FORMAT, epoch: manifest.epoch }))
    })
  }

  /** Adds an epoch. false, and nothing has changed: another process has added one meanwhile. */
  async append(changes: EpochChanges): Promise<boolean> {
    const { epoch } = changes
    const forgotten = this.#epochsBefore(changes.oldest)
    return this.#storage.transact(transaction => {
      if (readHead(transaction) !== epoch - 1) return false
      for (const [number, bytes] of changes.chunks) transaction.put(CHUNK + hex(number), bytes)
      transaction.put(DIRECTORY, changes.directory)
      transaction.put(MANIFEST + hex(epoch), changes.manifest)
      transaction.put(LIST + hex(epoch), changes.list)
      transaction.put(RECORD_LIST + hex(epoch), changes.recordList)
      transaction.put(BATCH + hex(epoch), json(changes.batch))
      transaction.put(OPERATIONS, changes.body)
      transaction.put(HEAD, json({ format: FORMAT, epoch }))
      for (const key of forgotten) transaction.remove(key)
      return true
    })
  }

  manifest(epoch: number): Uint8Array | undefined {
    return this.#storage.get(MANIFEST + hex(epoch))
  }

  list(epoch: number, form: UpdateForm): Uint8Array | undefined {
    return this.#storage.get((form === 'delta' ? LIST : RECORD_LIST) + hex(epoch))
  }

  batch(epoch: number): BatchRecord | undefined {
    const bytes = this.#storage.get(BATCH + hex(epoch))
    return bytes === undefined ? undefined : (parse(bytes) as BatchRecord)
  }

  /** The body of the batch that leads from the stored records to the newest epoch; undefined: they are the newest. */
  lastBatch(): Uint8Array | undefined {
    return this.#storage.get(OPERATIONS)
  }

  directory(): Uint8Array | undefined {
    return this.#storage.get(DIRECTORY)
  }

  /** Stored records, as (position in bytes, bytes). */
  *chunks(): Iterable<readonly [number, Uint8Array]> {
    for (const [key, bytes] of this.#storage.entries(CHUNK)) {
      yield [Number.parseInt(key.slice(CHUNK.length), 16) * CHUNK_BYTES, bytes]
    }
  }

  /** All epochs with a manifest, ascending. */
  *epochs(): Iterable<number> {
    for (const [key] of this.#storage.entries(MANIFEST)) yield Number.parseInt(key.slice(MANIFEST.length), 16)
  }

  async addSignature(signature: SignatureInfo): Promise<void> {
    await this.#storage.transact(transaction => {
      transaction.put(`${SIGNATURE}${hex(signature.epoch)}/${signature.publicKey}`, json(signature))
    })
  }

  signatures(epoch: number): SignatureInfo[] {
    return [...this.#storage.entries(`${SIGNATURE}${hex(epoch)}/`)].map(([, bytes]) => parse(bytes) as SignatureInfo)
  }

  #epochsBefore(oldest: number): string[] {
    const keys: string[] = []
    for (const prefix of [MANIFEST, LIST, RECORD_LIST, BATCH, SIGNATURE]) {
      for (const [key] of this.#storage.entries(prefix)) {
        if (key >= prefix + hex(oldest)) break
        keys.push(key)
      }
    }
    return keys
  }
}

/** How many chunks a database has. */
export function chunksOf(manifest: Manifest): number {
  return Math.ceil((manifest.partitions * partitionBytes(manifest)) / CHUNK_BYTES)
}

function readHead(from: Pick<Transaction, 'get'>): number | undefined {
  const bytes = from.get(HEAD)
  if (bytes === undefined) return undefined
  const { format, epoch } = parse(bytes) as { format: number; epoch: number }
  if (format !== FORMAT) throw new Error(`the store has format ${format}, and this version knows ${FORMAT}`)
  return epoch
}

function hex(number: number): string {
  return number.toString(16).padStart(8, '0')
}

function json(value: object): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}

function parse(bytes: Uint8Array): unknown {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString())
}
