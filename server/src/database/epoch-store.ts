// What an updatable database keeps in its storage. One transaction makes an epoch, and it holds little more than the
// epoch's update list.
//
// Records lie in chunks, which are written later (write-behind.ts). A chunk says as of which epoch it is, and the lists since then say
// what has changed in it. A list has old ⊕ new, so it leads a chunk forward and back alike.

import { equalBytes, type Manifest, partitionBytes, type SignatureInfo } from '@keyhush/protocol'
import type { KnownManifest } from '../base/known-manifest.js'
import type { Dated, RowProofs } from '../dataset/proof-kinds.js'
import type { Storage, Transaction } from '../storage/storage.js'
import { CHUNK_BYTES, CHUNKS_TOGETHER } from './chunks.js'
import { isStaged, LIST, putPieces, STAGED, StoredLists } from './stored-lists.js'
import {
  ANOTHER_PROCESS,
  dated,
  datedValue,
  decodeHead,
  HEAD,
  type Head,
  hex,
  type OldEpoch,
  parse,
  putDated,
  putHead,
  putJson,
  putSealed,
  readHead,
  unsealed,
} from './stored-values.js'

const CHUNK = 'chunk/'
/** marks a generation that has chunks, or whose chunks are being removed */
const GENERATION = 'generation/'
const MANIFEST = 'manifest/'
const BATCH = 'batch/'
const SIGNATURE = 'signature/'
const DIRECTORY = 'directory/'
/** of a sharded database: the batch that makes the next epoch, or made the newest */
const INTENT = 'intent'
/** the hash of a public hint that was made anew of the records of its base */
const CHECKED = 'checked'
/** with Pointproofs: row lists, which update lists lead forward as they do the directory; openings by row; the transcript */
const ROWS = 'rows/'
const OPENINGS = 'openings/'
const TRANSCRIPT = 'transcript/'

/** What a store is begun with. */
interface FirstEpoch extends KnownManifest {
  /** empty: keyless */
  readonly directory: Uint8Array
  /** the update list that led there, for clients that are one epoch behind */
  readonly list: Uint8Array | undefined
  /** the epochs between its base and it, with the lists that led to them */
  readonly between?: readonly (KnownManifest & { readonly list: Uint8Array })[]
  /** undefined: its records are elsewhere */
  readonly chunk: ((number: number) => Uint8Array) | undefined
  readonly proofs: Pick<RowProofs, 'transcript' | 'rowLists' | 'rows'> | undefined
}

/** What became of an epoch. */
export interface BatchRecord {
  /** hex; empty: no batch made this epoch */
  readonly batch: string
  readonly changes: number
}

/** A publisher's signature, with what its `proof` is the hash of. */
export interface KeptSignature extends SignatureInfo {
  readonly proofText?: string
}

/** An epoch that a batch made. */
interface MadeEpoch extends KnownManifest {
  readonly batch: BatchRecord
  /** history before this epoch goes */
  readonly oldest: number
}

/** A generation's first epoch, made here of the one before. */
interface MadeGeneration extends MadeEpoch {
  /** empty: keyless */
  readonly directory: Uint8Array
  /** of the last epoch of the generation before, whose blocks are still answered */
  readonly oldDirectory: Uint8Array
  readonly until: number
}

export class EpochStore {
  /** update lists by the epochs that they lead to */
  readonly lists: StoredLists
  readonly #storage: Storage

  constructor(storage: Storage) {
    this.#storage = storage
    this.lists = new StoredLists(storage)
  }

  get location(): string {
    return this.#storage.location
  }

  /** undefined: the store is empty */
  async head(): Promise<Head | undefined> {
    return decodeHead(await this.#storage.get(HEAD))
  }

  /** Whether the newest epoch is this one, with this manifest. */
  async isNewest(epoch: number, manifest: Uint8Array): Promise<boolean> {
    const stored = (await this.head())?.epoch === epoch ? await this.manifest(epoch) : undefined
    return stored !== undefined && equalBytes(stored, manifest)
  }

  /** A store's first epoch, whole or not at all: its head comes last. */
  async create({ manifest, bytes, directory, list, between = [], chunk, proofs }: FirstEpoch): Promise<void> {
    if ((await this.head()) !== undefined) throw new Error('expected an empty store, got a database; name another')
    const { epoch, generation } = manifest
    if (chunk !== undefined) await this.stage(manifest, chunk)
    const rows = proofs?.rows() ?? []
    await inSteps(rows.length, (start, end) =>
      this.#storage.transact([], transaction => {
        for (let row = start; row < end; row++) {
          putDated(transaction, numbered(OPENINGS, generation, row), rows[row]!.epoch, rows[row]!.bytes)
        }
      }),
    )
    await this.#storage.transact([], transaction => {
      if (proofs !== undefined) {
        putSealed(transaction, TRANSCRIPT + hex(generation), proofs.transcript)
        putDated(transaction, ROWS + hex(generation), epoch, proofs.rowLists)
      }
      putDated(transaction, DIRECTORY + hex(generation), epoch, directory)
      for (const { manifest: of, ...known } of [...between, { manifest, bytes, list }]) {
        putSealed(transaction, MANIFEST + hex(of.epoch), known.bytes)
        putJson(transaction, BATCH + hex(of.epoch), { batch: '', changes: 0 })
        if (known.list !== undefined) putPieces(transaction, of.epoch, known.list)
      }
      putHead(transaction, { epoch, generation, base: epoch, ...(list !== undefined && { first: epoch }) })
    })
  }

  /** Writes all chunks of a generation, which mean nothing before a head names it. */
  async stage(manifest: Manifest, chunk: (number: number) => Uint8Array): Promise<void> {
    const { generation, epoch } = manifest
    const mark = GENERATION + hex(generation)
    const head = await this.head()
    if ((await this.generations()).includes(generation)) await this.drop(generation) // an attempt that ended early
    await this.#storage.transact([], transaction => putJson(transaction, mark, {}))
    const count = Math.ceil((manifest.partitions * partitionBytes(manifest)) / CHUNK_BYTES)
    await inSteps(count, (start, end) =>
      this.#storage.transact([HEAD, mark], transaction => {
        if (readHead(transaction)?.epoch !== head?.epoch || !isThere(transaction, mark))
          throw new Error(ANOTHER_PROCESS)
        for (let number = start; number < end; number++) {
          putDated(transaction, numbered(CHUNK, generation, number), epoch, chunk(number))
        }
      }),
    )
  }

  /** Begins a generation whose chunks are staged. The old generation's chunks must be of its last epoch. */
  async begin(changes: MadeGeneration): Promise<boolean> {
    const { epoch, generation } = changes.manifest
    const before = await this.head()
    if (before?.epoch !== epoch - 1) return false
    const old = { generation: before.generation, epoch: before.epoch, until: changes.until }
    const forgotten = await this.#keysBefore(changes.oldest, before.base, old)
    const [key, oldKey] = [generation, before.generation].map(each => DIRECTORY + hex(each)) as [string, string]
    const directory = await datedValue(key, epoch, changes.directory)
    const oldDirectory = await datedValue(oldKey, before.epoch, changes.oldDirectory)
    const mark = GENERATION + hex(generation)
    return this.#storage.transact([HEAD, mark], transaction => {
      if (readHead(transaction)?.epoch !== epoch - 1 || !isThere(transaction, mark)) return false
      transaction.put(key, directory)
      transaction.put(oldKey, oldDirectory)
      putEpoch(transaction, changes, { epoch, generation, base: epoch, old }, forgotten)
      return true
    })
  }

  /** Generations that have chunks, or had. */
  async generations(): Promise<number[]> {
    return (await this.#all(GENERATION)).map(([key, mark]) => {
      parse(key, mark)
      return numberIn(key)
    })
  }

  /** Removes what was staged and never came to be, and all generations but these. */
  async removeAllBut(generations: readonly number[]): Promise<void> {
    await this.lists.sweep()
    for (const other of await this.generations()) if (!generations.includes(other)) await this.drop(other)
  }

  /** Removes a generation that is not the head's. */
  async drop(generation: number): Promise<void> {
    const mark = GENERATION + hex(generation)
    await this.#storage.transact([HEAD], transaction => {
      const head = readHead(transaction)
      if (head?.old?.generation === generation) putHead(transaction, { ...head, old: undefined })
      transaction.remove(DIRECTORY + hex(generation))
      putJson(transaction, mark, { dropped: true })
    })
    for (const kind of [CHUNK, OPENINGS]) {
      for (let start = 0; (await this.#storage.count(numbered(kind, generation))) > 0; start += CHUNKS_TOGETHER) {
        await this.#storage.transact([], transaction => {
          for (let number = start; number < start + CHUNKS_TOGETHER; number++) {
            transaction.remove(numbered(kind, generation, number))
          }
        })
      }
    }
    await this.#storage.transact([], transaction => transaction.remove(mark))
  }

  /** Adds an epoch. false, and nothing has changed: another process has added one meanwhile, or is about to. `base`: the head's, if another. */
  async append(changes: MadeEpoch & { readonly list: Uint8Array; readonly base?: number }): Promise<boolean> {
    const { oldest, list, base } = changes
    const { epoch, generation } = changes.manifest
    const before = await this.head()
    if (before?.epoch !== epoch - 1) return false
    await this.lists.sweep()
    const forgotten = await this.#keysBefore(oldest, before.base, before.old)
    const mark = await this.lists.stage(epoch, list)
    if (mark === false) return false
    return this.#storage.transact([HEAD, STAGED], transaction => {
      const head = readHead(transaction)
      if (head?.epoch !== epoch - 1 || !isStaged(transaction, mark)) return false
      if (mark === undefined) putPieces(transaction, epoch, list)
      else transaction.remove(STAGED)
      putEpoch(transaction, changes, { ...head, epoch, generation, base: base ?? head.base }, forgotten)
      return true
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
      for (const number of numbers) {
        putDated(transaction, numbered(CHUNK, head.generation, number), epoch, chunk(number))
      }
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

  /** Writes a row's openings as they are at an epoch before the newest. false: another process has begun a generation. */
  async writeOpenings(generation: number, row: number, { epoch, bytes }: Dated): Promise<boolean> {
    return this.#storage.transact([HEAD], transaction => {
      const head = readHead(transaction)
      if (head?.generation !== generation || head.epoch <= epoch) return false
      putDated(transaction, numbered(OPENINGS, generation, row), epoch, bytes)
      return true
    })
  }

  /** By row. One that was never written is of records that are all zero. */
  openings(generation: number): AsyncIterable<readonly [number, Dated]> {
    return this.#byNumber(numbered(OPENINGS, generation))
  }

  /** A generation's chunks by number. One that was never written is zero, as of the head's base. */
  chunks(generation: number): AsyncIterable<readonly [number, Dated]> {
    return this.#byNumber(numbered(CHUNK, generation))
  }

  transcript(generation: number): Promise<Uint8Array | undefined> {
    return this.#sealed(TRANSCRIPT + hex(generation))
  }

  rowLists(generation: number): Promise<Dated | undefined> {
    return this.#dated(ROWS + hex(generation))
  }

  /** A generation's; of no bytes if keyless. */
  directory(generation: number): Promise<Dated | undefined> {
    return this.#dated(DIRECTORY + hex(generation))
  }

  manifest(epoch: number): Promise<Uint8Array | undefined> {
    return this.#sealed(MANIFEST + hex(epoch))
  }

  async batch(epoch: number): Promise<BatchRecord | undefined> {
    const key = BATCH + hex(epoch)
    const bytes = await this.#storage.get(key)
    return bytes === undefined ? undefined : (parse(key, bytes) as BatchRecord)
  }

  /**
   * Keeps the batch that is to make the epoch after the newest, unless one is kept for it. Returns the kept one. Throws if another process
   * has added an epoch.
   */
  async intend(epoch: number, body: Uint8Array): Promise<Uint8Array> {
    const value = await datedValue(INTENT, epoch, body)
    return this.#storage.transact([HEAD, INTENT], transaction => {
      if (readHead(transaction)?.epoch !== epoch - 1) throw new Error(ANOTHER_PROCESS)
      const kept = transaction.get(INTENT)
      const intent = kept === undefined ? undefined : dated(INTENT, kept)
      if (intent?.epoch === epoch) return intent.bytes
      transaction.put(INTENT, value)
      return body
    })
  }

  /** The batch that was kept last, and its epoch. */
  intent(): Promise<Dated | undefined> {
    return this.#dated(INTENT)
  }

  /** The public hint, by its hash in hex, that was last made anew of its base, and is right. */
  async checkedHint(): Promise<string | undefined> {
    const bytes = await this.#storage.get(CHECKED)
    return bytes === undefined ? undefined : (parse(CHECKED, bytes) as { hint: string }).hint
  }

  async noteCheckedHint(hint: string): Promise<void> {
    await this.#storage.transact([], transaction => putJson(transaction, CHECKED, { hint }))
  }

  /** All epochs with a manifest, ascending. */
  async *epochs(): AsyncIterable<number> {
    for await (const [key] of this.#storage.entries(MANIFEST)) yield numberIn(key)
  }

  /** Keeps one signature for each key and epoch, with the longest proof that came. false: they are kept already. */
  async addSignature(signature: KeptSignature): Promise<boolean> {
    const key = numbered(SIGNATURE, signature.epoch) + signature.publicKey
    return this.#storage.transact([key], transaction => {
      const bytes = transaction.get(key)
      const kept = bytes === undefined ? undefined : (parse(key, bytes) as KeptSignature)
      const { proof = '', proofText = '' } = kept ?? {}
      const isLonger = (signature.proofText?.length ?? 0) > proofText.length
      if (kept?.signature === signature.signature && !isLonger) return false
      putJson(transaction, key, isLonger || proof === '' ? signature : { ...signature, proof, proofText })
      return true
    })
  }

  async signatures(epoch: number): Promise<KeptSignature[]> {
    return (await this.#all(numbered(SIGNATURE, epoch))).map(([key, bytes]) => parse(key, bytes) as KeptSignature)
  }

  async #sealed(key: string): Promise<Uint8Array | undefined> {
    const bytes = await this.#storage.get(key)
    return bytes === undefined ? undefined : unsealed(key, bytes)
  }

  async #dated(key: string): Promise<Dated | undefined> {
    const bytes = await this.#storage.get(key)
    return bytes === undefined ? undefined : dated(key, bytes)
  }

  async *#byNumber(prefix: string): AsyncIterable<readonly [number, Dated]> {
    for await (const [key, bytes] of this.#storage.entries(prefix)) yield [numberIn(key), dated(key, bytes)]
  }

  async #all(prefix: string): Promise<(readonly [string, Uint8Array])[]> {
    const entries: (readonly [string, Uint8Array])[] = []
    for await (const entry of this.#storage.entries(prefix)) entries.push(entry)
    return entries
  }

  /** Keys of epochs before `oldest`, but for lists that chunks need, and for the old generation's last epoch. */
  async #keysBefore(oldest: number, base: number, old: OldEpoch | undefined): Promise<string[]> {
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

function putEpoch(
  transaction: Transaction,
  { bytes, batch }: MadeEpoch,
  head: Head,
  forgotten: readonly string[],
): void {
  putSealed(transaction, MANIFEST + hex(head.epoch), bytes)
  putJson(transaction, BATCH + hex(head.epoch), batch)
  putHead(transaction, head)
  for (const key of forgotten) transaction.remove(key)
}

/** The key of something that is numbered within a generation or an epoch; without its number, what such keys begin with. */
function numbered(kind: string, within: number, number?: number): string {
  return `${kind}${hex(within)}/${number === undefined ? '' : hex(number)}`
}

/** The number that a key ends with. */
function numberIn(key: string): number {
  return Number.parseInt(key.slice(key.lastIndexOf('/') + 1), 16)
}

/** Whether a generation's chunks are there to stay, by its mark. */
function isThere(from: Transaction, key: string): boolean {
  const mark = from.get(key)
  return mark !== undefined && !('dropped' in (parse(key, mark) as object))
}

/** Steps of CHUNKS_TOGETHER, from one number to before another. */
async function inSteps(count: number, step: (start: number, end: number) => Promise<void>): Promise<void> {
  for (let start = 0; start < count; start += CHUNKS_TOGETHER) {
    await step(start, Math.min(count, start + CHUNKS_TOGETHER))
  }
}
