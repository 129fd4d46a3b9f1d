// A database that changes: batches become epochs (TAPIR Fig. 6, UpdateDB), durably, while queries go on. The newest
// epoch and the one before it are answered; a batch is on disk before anyone hears of its epoch.
//
// The core applies a batch in place. From then until it is on disk the epoch that everybody knows is the core's
// previous one; should the write fail, memory and disk have parted for good, and the process has to be replaced.

import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
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
  FINGERPRINT_BYTES,
  fromHex,
  HASH_BYTES,
  isZero,
  type Manifest,
  partitionBytes,
  proofsOf,
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
  type UpdateForm,
} from '@pirouette/wasm'
import type { Progress } from '../dataset/build.js'
import { DatasetError } from '../dataset/errors.js'
import type { Dataset } from '../dataset/load.js'
import { recordBytesView } from '../dataset/memory.js'
import { type Blob, type Epoch, type Epochs, infoOf, memoryBlob } from '../epochs.js'
import { epochUnknown, Refusal } from '../refusal.js'
import type { Storage } from '../storage/storage.js'
import { Fence, type FenceOptions } from './fence.js'
import { type Operations, readOperations, refuse } from './operations.js'
import { type BatchRecord, CHUNK_BYTES, EpochStore } from './store.js'

export interface LivingOptions {
  /** epochs before the newest whose manifests and update lists are kept; default 64 */
  readonly history?: number | undefined
  readonly fence?: FenceOptions | undefined
  readonly onProgress?: ((progress: Progress) => void) | undefined
}

const DEFAULT_HISTORY = 64
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
  /** the same in record form */
  readonly recordList: Uint8Array
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
  /** records by which the newest epoch differs from what the store has */
  #changed: Uint32Array = new Uint32Array()
  /** partitions by their hash, in the core's newest epoch; made when needed */
  #partitions: Map<string, number> | undefined
  /** the update lists of the epochs in history, by their hash, each in both forms */
  readonly #lists = new Map<string, { readonly epoch: number; readonly form: UpdateForm }>()
  readonly #listeners = new Set<(event: EpochEvent) => void>()
  /** settles after all batches so far */
  #queue: Promise<unknown> = Promise.resolve()
  #failed = false

  private constructor(
    core: Core,
    storage: Storage,
    database: DatabaseHandle,
    epoch: { readonly manifest: Manifest; readonly bytes: Uint8Array },
    directory: { readonly handle: DirectoryHandle | undefined; readonly bytes: Uint8Array },
    options: LivingOptions,
  ) {
    this.#core = core
    this.#storage = storage
    this.#store = new EpochStore(storage)
    this.#database = database
    this.#directory = directory.handle
    this.#directoryBytes = directory.bytes
    this.#newest = this.#epochOf(epoch.manifest, epoch.bytes)
    this.history = options.history ?? DEFAULT_HISTORY
    this.fence = new Fence(storage, options.fence)
  }

  /** Whether a storage has a database in it. */
  static existsIn(storage: Storage): boolean {
    return reading(storage, () => new EpochStore(storage).head()) !== undefined
  }

  /** Puts a dataset's epoch into an empty storage, whole or not at all. The dataset stays the caller's. */
  static async create(storage: Storage, dataset: Dataset): Promise<void> {
    const { core, database, manifest, manifestBytes, directory } = dataset
    const total = manifest.partitions * partitionBytes(manifest)
    await new EpochStore(storage).create(manifest, manifestBytes, directory, number => {
      const at = number * CHUNK_BYTES
      return recordBytesView(core, database, at, Math.min(CHUNK_BYTES, total - at))
    })
  }

  /**
   * Opens the database in a storage, which is then this object's to close. Every digest is computed anew, of the
   * stored records and, by applying the last batch again, of the newest epoch. Throws DatasetError, naming the file.
   */
  static async open(storage: Storage, options: LivingOptions = {}): Promise<LivingDatabase> {
    const core = await loadCore()
    const store = new EpochStore(storage)
    const wrong = (reason: string): never => {
      throw new DatasetError(store.location, reason)
    }
    const head = reading(storage, () => store.head()) ?? wrong('there is no database in it')
    const body = store.lastBatch()
    const bytes = store.manifest(body === undefined ? head : head - 1) ?? wrong('a manifest is missing')
    const manifest = reading(storage, () => decodeManifest(bytes))
    const database = allocate(core, store.location, manifest)
    try {
      fill(core, database, manifest, store)
      for (let q = 0; q < manifest.partitions; q++) {
        database.commit(q)
        checkPartition(database, manifest, q, wrong)
        options.onProgress?.({ stage: 'hashing', done: q + 1, total: manifest.partitions })
        await nextTurn()
      }
      const { records, recordBytes } = manifest
      const unused = manifest.partitions * partitionBytes(manifest) - records * recordBytes
      if (!isZero(recordBytesView(core, database, records * recordBytes, unused))) {
        wrong(`bytes after the last of its ${records} records are not zero`)
      }
      const directory = openDirectory(core, database, manifest, store.directory() ?? new Uint8Array(), wrong)
      const living = new LivingDatabase(core, storage, database, { manifest, bytes }, directory, options)
      if (body !== undefined) living.#replay(body, store.manifest(head) ?? wrong('the newest manifest is missing'))
      living.#indexLists()
      return living
    } catch (error) {
      database.free()
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
    const known = this.#lists.get(hash)
    const list = known && this.#store.list(known.epoch, known.form)
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
    const work = this.#queue.then(() => this.#publish(body))
    this.#queue = work.catch(() => {})
    return work
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
    await this.#queue
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
    const chunks = this.#laggingChunks()
    const directory = this.#directoryBytes
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
        recordList: turn.recordList,
        batch: known,
        body,
        directory,
        chunks,
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
    const list = change.list('delta')
    const recordList = change.list('record')
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
      updateRecordsHash: this.#core.blake3(recordList),
      previousManifest: this.#core.blake3(this.#newest.manifestBytes),
    }
    return { epoch: this.#epochOf(manifest, encodeManifest(manifest)), list, recordList, changed, directoryBytes }
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
    this.#changed = turn.changed
    this.#directoryBytes = turn.directoryBytes
    for (const { form, hash } of listsOf(manifest)) this.#lists.set(toHex(hash), { epoch: manifest.epoch, form })
    for (const [hash, { epoch }] of this.#lists) if (epoch < manifest.epoch - this.history) this.#lists.delete(hash)
  }

  /** Applies the stored batch to the stored epoch, and holds the result to the stored manifest. */
  #replay(body: Uint8Array, manifestBytes: Uint8Array): void {
    const { location } = this.#store
    const { manifest } = this.#newest
    const hash = reading(this.#storage, () => this.#store.batch(manifest.epoch + 1)?.batch)
    if (hash !== toHex(this.#core.blake3(body))) throw new DatasetError(location, 'its last batch is damaged')
    const { batch, turn } = reading(this.#storage, () => {
      const batch = decodeBatch(body)
      const operations = readOperations(this.#core, manifest, batch.encoding, batch.operations)
      return { batch, turn: this.#turn(batch, this.#applyInCore(operations)) }
    })
    if (!equalBytes(turn.epoch.manifestBytes, manifestBytes)) {
      throw new DatasetError(location, `the last batch does not lead to the manifest of epoch ${batch.epoch}`)
    }
    this.#complete(turn)
  }

  #indexLists(): void {
    for (const epoch of this.#store.epochs()) {
      const manifest = reading(this.#storage, () => decodeManifest(this.#store.manifest(epoch)!))
      if (manifest.updateListBytes === 0) continue
      for (const { form, hash } of listsOf(manifest)) {
        const list = this.#store.list(epoch, form)
        if (list === undefined || !equalBytes(this.#core.blake3(list), hash)) {
          throw new DatasetError(this.#store.location, `the update list of epoch ${epoch} is missing or damaged`)
        }
        this.#lists.set(toHex(hash), { epoch, form })
      }
    }
  }

  /** The chunks that the store lacks of the newest epoch, as they are now. */
  #laggingChunks(): Map<number, Uint8Array> {
    const { manifest } = this.#newest
    const { recordBytes } = manifest
    const total = manifest.partitions * partitionBytes(manifest)
    const chunks = new Map<number, Uint8Array>()
    for (const index of this.#changed) {
      const first = Math.floor((index * recordBytes) / CHUNK_BYTES)
      const last = Math.floor(((index + 1) * recordBytes - 1) / CHUNK_BYTES)
      for (let number = first; number <= last; number++) {
        if (chunks.has(number)) continue
        const at = number * CHUNK_BYTES
        chunks.set(number, recordBytesView(this.#core, this.#database, at, Math.min(CHUNK_BYTES, total - at)).slice())
      }
    }
    return chunks
  }

  #epochOf(manifest: Manifest, manifestBytes: Uint8Array): LivingEpoch {
    const database = this.#database
    return {
      manifest,
      manifestBytes,
      manifestHash: toHex(this.#core.blake3(manifestBytes)),
      isCores: 'newest',
      answer(...query) {
        return this.isCores === 'newest' ? database.answer(...query) : database.answerPrevious(...query)
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

/** The two forms of the list that leads to an epoch. */
function listsOf({ updateListHash, updateRecordsHash }: Manifest): { form: UpdateForm; hash: Uint8Array }[] {
  return [
    { form: 'delta', hash: updateListHash },
    { form: 'record', hash: updateRecordsHash },
  ]
}

/** Runs `work` on what was stored; anything wrong with it names the file. */
function reading<T>(storage: Storage, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if ((error as Error).name === 'RuntimeError') throw error // a trap of the core
    throw new DatasetError(storage.location, (error as Error).message)
  }
}

function allocate(core: Core, location: string, manifest: Manifest): DatabaseHandle {
  try {
    const layout = core.layout(manifest.records, manifest.recordBytes, manifest.partitions, manifest.partitionRecords)
    const database = core.newDatabase(layout, proofsOf(manifest)[0])
    layout.free()
    return database
  } catch (error) {
    if ((error as CoreError).code !== 'layout') throw error
    throw new DatasetError(location, (error as Error).message)
  }
}

/** Stored records into memory. A chunk that was never written is zero. */
function fill(core: Core, database: DatabaseHandle, manifest: Manifest, store: EpochStore): void {
  const total = manifest.partitions * partitionBytes(manifest)
  const records = recordBytesView(core, database, 0, total)
  for (const [at, bytes] of store.chunks()) {
    if (at + bytes.length > total)
      throw new DatasetError(store.location, 'it holds more records than its manifest says')
    records.set(bytes, at)
  }
}

function checkPartition(
  database: DatabaseHandle,
  manifest: Manifest,
  q: number,
  wrong: (reason: string) => never,
): void {
  if (!equalBytes(database.contentHash(q), contentHash(manifest, q))) {
    wrong(`the records of partition ${q} are not those of epoch ${manifest.epoch}`)
  }
  if (!equalBytes(database.commitment(q), manifest.commitments.subarray(HASH_BYTES * q, HASH_BYTES * (q + 1)))) {
    wrong(`the commitment of partition ${q} is not that of its records`)
  }
}

/** The stored directory, if it is the manifest's and leads to every record there is. */
function openDirectory(
  core: Core,
  database: DatabaseHandle,
  manifest: Manifest,
  bytes: Uint8Array,
  wrong: (reason: string) => never,
): { handle: DirectoryHandle | undefined; bytes: Uint8Array } {
  if (!manifest.keyed) return { handle: undefined, bytes: new Uint8Array() }
  if (bytes.length !== manifest.directoryBytes || !equalBytes(core.blake3(bytes), manifest.directoryHash)) {
    wrong('its directory is not the one that the manifest names')
  }
  const { records, recordBytes } = manifest
  const stored = recordBytesView(core, database, 0, records * recordBytes)
  const fingerprints = new Uint8Array(FINGERPRINT_BYTES * records)
  for (let i = 0; i < records; i++) {
    for (let k = 0; k < FINGERPRINT_BYTES; k++) fingerprints[FINGERPRINT_BYTES * i + k] = stored[i * recordBytes + k]!
  }
  let handle: DirectoryHandle
  try {
    handle = core.decodeDirectory(bytes, records)
  } catch (error) {
    if ((error as CoreError).code !== 'directory') throw error
    return wrong(`its directory: ${(error as Error).message}`)
  }
  const indices = handle.indices(fingerprints, records)
  for (let i = 0; i < records; i++) {
    const empty = isZero(fingerprints, FINGERPRINT_BYTES * i, FINGERPRINT_BYTES * (i + 1))
    if (!empty && indices[i] !== i) wrong(`its directory does not lead to record ${i}`)
  }
  return { handle, bytes }
}

function verifies({ publicKey, signature }: SignatureInfo, manifest: Uint8Array): boolean {
  try {
    return ed25519.verify(fromHex(signature), signedBytes(manifest), fromHex(publicKey), { zip215: false })
  } catch {
    return false // not a point, not canonical
  }
}
