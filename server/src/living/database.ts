// A database that changes: batches become epochs (TAPIR Fig. 6, UpdateDB), durably, while queries go on. The newest
// epoch and the one before it are answered; a batch is on disk before anyone hears of its epoch.
//
// The core applies a batch in place. From then until it is on disk the epoch that everybody knows is the core's
// previous one; should the write fail, memory and disk have parted for good, and the process has to be replaced.

import { Readable } from 'node:stream'
import { ed25519 } from '@noble/curves/ed25519.js'
import {
  type Batch,
  contentHash,
  decodeBatch,
  decodeManifest,
  type EpochEvent,
  type EpochInfo,
  type EpochStatus,
  encodeManifest,
  equalBytes,
  fromHex,
  HASH_BYTES,
  type Manifest,
  partitionBytes,
  type SignatureInfo,
  signedBytes,
  toHex,
  WireError,
} from '@pirouette/protocol'
import {
  type Core,
  type CoreError,
  type DatabaseHandle,
  type DirectoryHandle,
  type EpochHandle,
  loadCore,
  type RefusedError,
} from '@pirouette/wasm'
import type { Progress } from '../dataset/build.js'
import { DatasetError } from '../dataset/errors.js'
import type { Dataset } from '../dataset/load.js'
import { recordBytesView } from '../dataset/memory.js'
import { type Blob, type Epoch, type Epochs, infoOf, memoryBlob } from '../epochs.js'
import { epochUnknown, Refusal } from '../refusal.js'
import type { Storage } from '../storage/storage.js'
import { Fence, type FenceOptions } from './fence.js'
import { type KnownManifest, type Loaded, load, reading } from './loading.js'
import { type Operations, readOperations, refuse } from './operations.js'
import { type BatchRecord, CHUNK_BYTES, CHUNKS_TOGETHER, EpochStore } from './store.js'

export interface LivingOptions {
  /** epochs before the newest whose manifests and update lists are kept; default 64 */
  readonly history?: number | undefined
  readonly fence?: FenceOptions | undefined
  readonly onProgress?: ((progress: Progress) => void) | undefined
}

const DEFAULT_HISTORY = 64

/** How far stored chunks may fall behind: what has to be applied to them when the server starts. */
const MOST_BEHIND_BYTES = 8 * 1024 * 1024
const MOST_BEHIND_EPOCHS = 64

const CHAIN_MANIFESTS = 64
const CHAIN_BYTES = 8 * 1024 * 1024
const SLICE_BYTES = 256 * 1024

/** An epoch of a living database: the core's newest, or the one before it. */
interface LivingEpoch extends Epoch {
  isCores: 'newest' | 'previous'
}

/** What a batch made of the core's database, not yet on disk. */
interface Turn {
  readonly epoch: LivingEpoch
  readonly list: Uint8Array
  /** indices of records that changed */
  readonly changed: Uint32Array
  /** empty: keyless */
  readonly directoryBytes: Uint8Array
}

export class LivingDatabase implements Epochs {
  readonly fence: Fence
  readonly history: number
  /** told when memory and disk have parted: nothing may be published here, and the process is to be replaced */
  onFailure: (error: Error) => void = () => {}

  readonly #core: Core
  readonly #storage: Storage
  readonly #store: EpochStore
  readonly #database: DatabaseHandle
  #directory: DirectoryHandle | undefined
  #directoryBytes: Uint8Array
  #newest: LivingEpoch
  #previous: LivingEpoch | undefined
  /** chunks that changed after the store got them, and the bytes of the lists that tell it how */
  #behind: Set<number>
  #behindBytes: number
  /** the epoch of which chunks that never changed since are */
  #base: number
  #catchingUp: Promise<void> | undefined
  /** partitions by their hash, in the core's newest epoch; made when needed */
  #partitions: Map<string, number> | undefined
  /** epochs by their update list's hash */
  readonly #lists = new Map<string, number>()
  readonly #listeners = new Set<(event: EpochEvent) => void>()
  /** settles after all batches so far */
  #queue: Promise<unknown> = Promise.resolve()
  #failed = false
  #closing = false

  private constructor(core: Core, storage: Storage, loaded: Loaded, options: LivingOptions) {
    this.#core = core
    this.#storage = storage
    this.#store = new EpochStore(storage)
    this.#database = loaded.database
    this.#directory = loaded.directory
    this.#directoryBytes = loaded.directoryBytes
    this.#newest = this.#epochOf(loaded.newest)
    if (loaded.previous !== undefined) this.#previous = { ...this.#epochOf(loaded.previous), isCores: 'previous' }
    this.#behind = new Set(loaded.lagging)
    this.#behindBytes = loaded.listBytes
    this.#base = loaded.base
    // The epoch before is answered, so that much history there always is.
    this.history = Math.max(1, options.history ?? DEFAULT_HISTORY)
    this.fence = new Fence(storage, options.fence)
  }

  /** Whether a storage has a database in it. */
  static existsIn(storage: Storage): boolean {
    return reading(storage.location, () => new EpochStore(storage).head()) !== undefined
  }

  /** Puts a dataset's epoch into an empty storage, whole or not at all. The dataset stays the caller's. */
  static async create(storage: Storage, dataset: Dataset): Promise<void> {
    const { core, database, manifest, manifestBytes, directory } = dataset
    const chunk = chunksOf(core, database, manifest)
    await new EpochStore(storage).create(manifest, manifestBytes, directory, chunk)
  }

  /**
   * Opens the database in a storage, which is then this object's to close. Every digest is computed anew from the
   * stored records. Throws DatasetError, naming the file.
   */
  static async open(storage: Storage, options: LivingOptions = {}): Promise<LivingDatabase> {
    const core = await loadCore()
    const store = new EpochStore(storage)
    const head = reading(store.location, () => store.head())
    if (head === undefined) throw new DatasetError(store.location, 'there is no database in it')
    const loaded = await load(core, store, head, options.onProgress)
    try {
      const living = new LivingDatabase(core, storage, loaded, options)
      living.#indexHistory()
      return living
    } catch (error) {
      loaded.database.free()
      throw error
    }
  }

  get databaseId(): Uint8Array {
    return this.#newest.manifest.databaseId
  }

  get newest(): Epoch {
    return this.#newest
  }

  find(generation: number, epoch: number): Epoch | undefined {
    return [this.#newest, this.#previous].find(
      known => known?.manifest.generation === generation && known.manifest.epoch === epoch,
    )
  }

  list(): EpochInfo[] {
    return [...(this.#previous === undefined ? [] : [this.#previous]), this.#newest].map(infoOf)
  }

  manifestOf(generation: number, epoch: number): Uint8Array | undefined {
    if (epoch > this.#newest.manifest.epoch) return undefined
    const bytes = this.#store.manifest(epoch)
    return bytes !== undefined && decodeManifest(bytes).generation === generation ? bytes : undefined
  }

  since(epoch: number): Uint8Array | undefined {
    const newest = this.#newest.manifest.epoch
    if (epoch > newest) return undefined
    const chain: Uint8Array[] = []
    let bytes = 0
    for (let next = epoch + 1; next <= newest && chain.length < CHAIN_MANIFESTS; next++) {
      const manifest = this.#store.manifest(next)
      if (manifest === undefined) return undefined
      if (chain.length > 0 && bytes + manifest.length > CHAIN_BYTES) break
      chain.push(manifest)
      bytes += manifest.length
    }
    return Buffer.concat(chain)
  }

  async findBlob(hash: string): Promise<Blob | undefined> {
    await this.#queue // between a batch and its epoch, partitions are already those of the epoch to come
    const epoch = this.#lists.get(hash)
    const list = epoch === undefined ? undefined : this.#store.list(epoch)
    if (list !== undefined) return memoryBlob(list)
    const { manifest } = this.#newest
    if (manifest.keyed && hash === toHex(manifest.directoryHash)) return memoryBlob(this.#directoryBytes)
    this.#partitions ??= new Map(
      Array.from({ length: manifest.partitions }, (_, q) => [toHex(contentHash(manifest, q)), q]),
    )
    const q = this.#partitions.get(hash)
    return q === undefined ? undefined : this.#partitionBlob(q)
  }

  /** What became of an epoch; undefined: it is not known, any more or yet. */
  status(epoch: number): EpochStatus | undefined {
    const batch = epoch > this.#newest.manifest.epoch ? undefined : this.#store.batch(epoch)
    const bytes = batch === undefined ? undefined : this.#store.manifest(epoch)
    if (batch === undefined || bytes === undefined) return undefined
    const { generation } = decodeManifest(bytes)
    return { generation, epoch, manifest: toHex(this.#core.blake3(bytes)), ...batch }
  }

  /** `listener` is told of every epoch from now on. Returns how to end that. */
  listen(listener: (event: EpochEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Makes an epoch of a batch (the bytes of `POST /v1/epochs`), or finds that it was made before. Resolves when it is
   * on disk; batches happen one after the other. Throws a Refusal, and then nothing has changed.
   */
  publish(body: Uint8Array): Promise<EpochStatus> {
    return this.#inTurn(() => this.#publish(body))
  }

  /** Keeps a publisher's signature for whoever asks. Throws a Refusal if it is none. */
  async addSignature(signature: SignatureInfo): Promise<void> {
    const epoch = this.find(signature.generation, signature.epoch)
    if (epoch === undefined) throw epochUnknown(this.#newest.manifest)
    if (!verifies(signature, epoch.manifestBytes)) {
      throw new Refusal('bad_request', 'it does not verify with that key for the manifest of that epoch')
    }
    const { publicKey, generation, epoch: number, signature: digits } = signature
    await this.#store.addSignature({ publicKey, generation, epoch: number, signature: digits })
  }

  /** For the epochs of `list`. */
  signatures(): SignatureInfo[] {
    return this.list().flatMap(({ epoch }) => this.#store.signatures(epoch))
  }

  /** Gives the memory back and closes the storage, after the batches under way. */
  async close(): Promise<void> {
    this.#closing = true
    await this.#queue
    await this.#catchingUp
    this.#listeners.clear()
    this.#directory?.free()
    this.#database.free()
    await this.#storage.close()
  }

  async #publish(body: Uint8Array): Promise<EpochStatus> {
    if (this.#failed) throw new Refusal('not_ready', 'this server has failed and is restarting')
    const batch = this.#parseBatch(body)
    const hash = toHex(this.#core.blake3(body))
    const made = this.#alreadyMade(batch, hash)
    if (made !== undefined) return made

    const operations = readOperations(this.#core, this.#newest.manifest, batch.encoding, batch.operations)
    const change = this.#applyInCore(operations)
    let turn: Turn
    let known: BatchRecord
    try {
      turn = this.#turn(batch, change)
      known = { batch: hash, changes: turn.changed.length }
      const added = await this.#store.append({
        epoch: batch.epoch,
        manifest: turn.epoch.manifestBytes,
        list: turn.list,
        batch: known,
        oldest: batch.epoch - this.history,
      })
      if (!added) throw new Error('another process has published into this store')
    } catch (error) {
      this.#failed = true
      this.onFailure(error as Error)
      throw error
    }
    this.#complete(turn)
    for (const listener of this.#listeners) listener({ generation: batch.generation, epoch: batch.epoch })
    return { ...infoOf(turn.epoch), ...known }
  }

  #parseBatch(body: Uint8Array): Batch {
    try {
      return decodeBatch(body)
    } catch (error) {
      if (error instanceof WireError) throw new Refusal('bad_request', error.message)
      throw error
    }
  }

  /** The status of a batch's epoch if this batch made it; undefined if it is the next. */
  #alreadyMade(batch: Batch, hash: string): EpochStatus | undefined {
    const { manifest, manifestHash } = this.#newest
    if (!equalBytes(batch.databaseId, manifest.databaseId)) {
      throw new Refusal('wrong_database', 'the batch is for another database than the one served here')
    }
    if (batch.epoch <= manifest.epoch) {
      const status = this.status(batch.epoch)
      if (status === undefined) throw new Refusal('epoch_gap', `what made epoch ${batch.epoch} is no longer known here`)
      if (status.batch === hash) return status
      throw new Refusal('batch_conflict', `epoch ${batch.epoch} was made from another batch`)
    }
    if (batch.epoch !== manifest.epoch + 1) {
      throw new Refusal('epoch_gap', `the newest epoch here is ${manifest.epoch}, so the next is ${manifest.epoch + 1}`)
    }
    if (batch.generation !== manifest.generation || toHex(batch.previousManifest) !== manifestHash) {
      throw new Refusal('batch_conflict', `the batch was not made on the manifest of epoch ${manifest.epoch} here`)
    }
    return undefined
  }

  /** The core's database has changed: what was its newest epoch is its previous one from here on. */
  #turn(batch: Batch, change: EpochHandle): Turn {
    this.#newest.isCores = 'previous'
    this.#previous = undefined
    this.#partitions = undefined
    const before = this.#newest.manifest
    const list = change.list()
    const changed = change.indices()
    const directory = change.takeDirectory()
    change.free()
    if (directory !== undefined) {
      this.#directory?.free()
      this.#directory = directory
    }
    const directoryBytes = directory?.encode() ?? new Uint8Array()
    const manifest: Manifest = {
      ...before,
      epoch: batch.epoch,
      expires: batch.expires,
      ...this.#digests(before, changed),
      directoryBytes: directoryBytes.length,
      directoryHash: before.keyed ? this.#core.blake3(directoryBytes) : new Uint8Array(HASH_BYTES),
      updateListBytes: list.length,
      updateListHash: this.#core.blake3(list),
      previousManifest: this.#core.blake3(this.#newest.manifestBytes),
    }
    return { epoch: this.#epochOf({ manifest, bytes: encodeManifest(manifest) }), list, changed, directoryBytes }
  }

  #applyInCore({ kinds, fingerprints, indices, records }: Operations): EpochHandle {
    try {
      return this.#directory === undefined
        ? this.#database.applyKeyless(kinds, indices, records)
        : this.#database.applyKeyed(this.#directory, kinds, fingerprints, records)
    } catch (error) {
      if ((error as CoreError).code === 'layout') throw new Refusal('batch_refused', (error as Error).message)
      if ((error as CoreError).code !== 'refused') throw error
      const { operation, reason } = error as RefusedError
      return refuse(operation + 1, reason)
    }
  }

  /** N, Q and the two lists of digests after records changed. */
  #digests(
    before: Manifest,
    changed: Uint32Array,
  ): Pick<Manifest, 'records' | 'partitions' | 'commitments' | 'contentHashes'> {
    const layout = this.#database.layout
    const { records, partitions, partitionRecords } = layout
    layout.free()
    const commitments = new Uint8Array(HASH_BYTES * partitions)
    const contentHashes = new Uint8Array(HASH_BYTES * partitions)
    commitments.set(before.commitments)
    contentHashes.set(before.contentHashes)
    const stale = new Set(Array.from(changed, index => Math.floor(index / partitionRecords)))
    for (let q = before.partitions; q < partitions; q++) stale.add(q)
    for (const q of stale) {
      commitments.set(this.#database.commitment(q), HASH_BYTES * q)
      contentHashes.set(this.#database.contentHash(q), HASH_BYTES * q)
    }
    return { records, partitions, commitments, contentHashes }
  }

  /** The turn is on disk: everybody may know. */
  #complete(turn: Turn): void {
    const { manifest } = turn.epoch
    this.#previous = this.#newest
    this.#newest = turn.epoch
    this.#directoryBytes = turn.directoryBytes
    this.#fallBehind(turn)
    this.#lists.set(toHex(manifest.updateListHash), manifest.epoch)
    for (const [hash, epoch] of this.#lists) if (epoch < manifest.epoch - this.history) this.#lists.delete(hash)
  }

  /** What is kept of earlier epochs must be whole too. */
  #indexHistory(): void {
    const { location } = this.#store
    for (const epoch of this.#store.epochs()) {
      const { updateListBytes, updateListHash } = reading(location, () => {
        if (this.#store.batch(epoch) === undefined) throw new Error(`what became of epoch ${epoch} is missing`)
        this.#store.signatures(epoch)
        return decodeManifest(this.#store.manifest(epoch)!)
      })
      if (updateListBytes === 0) continue
      const list = this.#store.list(epoch)
      if (list === undefined || !equalBytes(this.#core.blake3(list), updateListHash)) {
        throw new DatasetError(location, `the update list of epoch ${epoch} is missing or damaged`)
      }
      this.#lists.set(toHex(updateListHash), epoch)
    }
  }

  /** Stored chunks that the newest epoch changed are behind from now on. */
  #fallBehind({ changed, list, epoch: { manifest } }: Turn): void {
    const { recordBytes } = manifest
    for (const index of changed) {
      const last = Math.floor(((index + 1) * recordBytes - 1) / CHUNK_BYTES)
      for (let number = Math.floor((index * recordBytes) / CHUNK_BYTES); number <= last; number++) {
        this.#behind.add(number)
      }
    }
    this.#behindBytes += list.length
    if (this.#behindBytes > MOST_BEHIND_BYTES || manifest.epoch - this.#base > MOST_BEHIND_EPOCHS) {
      this.#catchingUp ??= this.#catchUp().finally(() => {
        this.#catchingUp = undefined
      })
    }
  }

  /**
   * Writes the chunks that are behind, a few at a time between batches. If that fails they stay behind and nothing is
   * lost: the lists are there, and it is tried again after the next batch.
   */
  async #catchUp(): Promise<void> {
    const before = { base: this.#base, chunks: this.#behind, bytes: this.#behindBytes }
    const base = this.#newest.manifest.epoch
    this.#base = base
    this.#behind = new Set()
    this.#behindBytes = 0
    const numbers = [...before.chunks]
    let done = true
    try {
      for (let i = 0; i < numbers.length && done; i += CHUNKS_TOGETHER) {
        done = await this.#inTurn(() => this.#writeChunks(numbers.slice(i, i + CHUNKS_TOGETHER)))
      }
      done &&= await this.#inTurn(() => this.#store.rebase(base, this.#newest.manifest.epoch, this.#directoryBytes))
    } catch {
      done = false
    }
    if (done) return
    for (const number of before.chunks) this.#behind.add(number)
    this.#behindBytes += before.bytes
    this.#base = before.base
  }

  /** To be called in turn: what is in memory is then the newest epoch, on disk. */
  async #writeChunks(numbers: readonly number[]): Promise<boolean> {
    const { manifest } = this.#newest
    return (
      !this.#closing &&
      (await this.#store.writeChunks(manifest.epoch, numbers, chunksOf(this.#core, this.#database, manifest)))
    )
  }

  /** After all that was begun before, and before all that is begun after. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(work)
    this.#queue = done.catch(() => {})
    return done
  }

  #epochOf({ manifest, bytes }: KnownManifest): LivingEpoch {
    const database = this.#database
    return {
      manifest,
      manifestBytes: bytes,
      manifestHash: toHex(this.#core.blake3(bytes)),
      isCores: 'newest',
      answer(vectors) {
        return this.isCores === 'newest' ? database.answer(vectors) : database.answerPrevious(vectors)
      },
    }
  }

  /** A partition as it is in memory. Should a batch change it meanwhile, the download breaks off. */
  #partitionBlob(q: number): Blob {
    const { manifest } = this.#newest
    const hash = contentHash(manifest, q)
    const length = partitionBytes(manifest)
    const slice = (first: number, last: number) => {
      if (!equalBytes(this.#database.contentHash(q), hash)) throw new Error('the partition has changed')
      return recordBytesView(this.#core, this.#database, q * length + first, last - first + 1).slice()
    }
    function* slices(first: number, last: number) {
      for (let at = first; at <= last; at += SLICE_BYTES) yield slice(at, Math.min(last, at + SLICE_BYTES - 1))
    }
    return { bytes: length, open: async (first, last) => Readable.from(slices(first, last)) }
  }
}

/** A database's chunks by number, as they are in memory when they are asked for. */
function chunksOf(core: Core, database: DatabaseHandle, manifest: Manifest): (number: number) => Uint8Array {
  const total = manifest.partitions * partitionBytes(manifest)
  return number => {
    const at = number * CHUNK_BYTES
    return recordBytesView(core, database, at, Math.min(CHUNK_BYTES, total - at))
  }
}

function verifies({ publicKey, signature }: SignatureInfo, manifest: Uint8Array): boolean {
  try {
    return ed25519.verify(fromHex(signature), signedBytes(manifest), fromHex(publicKey), { zip215: false })
  } catch {
    return false // not a point, not canonical
  }
}
