// A database that changes: batches become epochs, durably, while queries go on. It answers the newest epoch and the one
// before, and clients hear of an epoch once it is on disk.
//
// The core applies a batch in place. Until it is on disk the newest epoch here is the core's previous one. If the write fails,
// that lasts until the same batch is published again.

import {
  type Batch,
  decodeManifest,
  type EpochEvent,
  type EpochInfo,
  type EpochStatus,
  equalBytes,
  hasOneServer,
  type SignatureInfo,
  toHex,
} from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { DatasetError, readingFrom } from '../base/errors.js'
import { epochUnknown, Refusal } from '../base/refusal.js'
import type { Progress } from '../dataset/build.js'
import { type Dataset, updateListOf } from '../dataset/load.js'
import type { Folding, RowProofs } from '../dataset/proof-kinds.js'
import { preparedBytes } from '../one-server/contents.js'
import { hintOf, Prepared } from '../one-server/prepared.js'
import { type Storage, StorageError } from '../storage/storage.js'
import { Announcements, SIGNED } from './announcements.js'
import { checkExpiry, isNext, madeBefore, readBatch, type SignedFor } from './batches.js'
import { chunksOf } from './chunks.js'
import { EpochStore } from './epoch-store.js'
import { type Blob, type Epoch, type Epochs, infoOf, memoryBlob } from './epochs.js'
import type { Fence, FenceOptions } from './fence.js'
import { epochsOf, loadNewest, type StoredEpoch, takeNext } from './following.js'
import type { EpochInMemory, Generation } from './generation.js'
import { hashed } from './hashing.js'
import { History } from './history.js'
import { type Loaded, loadOld } from './loading.js'
import { makeGeneration } from './next-generation.js'
import { OldGeneration } from './old-generation.js'
import { checkHintable, hintBlob, withHint } from './one-server.js'
import { readOperations, refuse } from './operations.js'
import { PostgresFence } from './postgres-fence.js'
import { Signatures } from './signatures.js'
import { StoredFence } from './stored-fence.js'
import { ANOTHER_PROCESS, type Head } from './stored-values.js'
import { draftNext, type Turn, writeNext } from './turn.js'
import { WriteBehind } from './write-behind.js'

export interface UpdatableOptions {
  /** epochs before the newest whose manifests and update lists are kept; default 64 */
  readonly history?: number | undefined
  /** how long a generation is answered after it has ended, unless the next one ends before; default 24 */
  readonly lingerHours?: number | undefined
  readonly fence?: FenceOptions | undefined
  /** seconds since 1970; default: the system's */
  readonly now?: (() => number) | undefined
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /** whether lookups with one server are answered, if the database has a hint for them; default: true */
  readonly oneServer?: boolean | undefined
  /** called before they are prepared for the first time, with the bytes of memory that an epoch takes */
  readonly onPreparing?: ((bytes: number) => void) | undefined
  /** follows a process that writes, where several share a storage, and itself stores nothing but its fence's entries */
  readonly replica?: boolean | undefined
}

const DEFAULT_HISTORY = 64

/** Where the newest batch is, from the core's memory to everybody. */
type Phase =
  | { readonly is: 'idle' }
  /** applied in the core, and not on disk yet, or the write has failed */
  | { readonly is: 'unwritten'; readonly turn: Turn; readonly failed: boolean }
  /** on disk, and answered if asked; announced to clients once other processes have it too */
  | { readonly is: 'staged'; readonly stored: StoredEpoch }
  /** memory and disk have parted, for good */
  | { readonly is: 'failed' }

const IDLE: Phase = { is: 'idle' }

/** Called once a batch is on disk. */
type OnStored = (status: EpochStatus) => void

export class UpdatableDatabase implements Epochs {
  readonly fence: Fence
  readonly history: number
  /** with Pointproofs */
  readonly folding: Folding | undefined
  /** called when memory and disk have parted: nothing may be published here, and the process is to be replaced */
  onFailure: (error: Error) => void = () => {}

  readonly #storage: Storage
  readonly #store: EpochStore
  readonly #isReplica: boolean
  #generation: Generation
  #newest: EpochInMemory
  #previous: EpochInMemory | undefined
  #phase: Phase = IDLE
  /** the generation before, while it is answered */
  readonly #old: OldGeneration
  #behind: WriteBehind
  readonly #past: History
  readonly #signatures: Signatures
  /** what proves answers, where the core does not */
  readonly #proofs: RowProofs | undefined
  readonly #answersOneServer: boolean
  /** the epochs with threads for that: the newest, and the one that clients knew before it */
  #prepared: EpochInMemory[] = []
  /** where processes share the storage: says when all show an epoch */
  #announcements: Announcements | undefined
  readonly #listeners = new Set<(event: EpochEvent) => void>()
  readonly #now: () => number
  /** since when this process shows the newest epoch, in seconds since 1970 */
  #shownSince: number
  /** settles after all batches so far */
  #queue: Promise<unknown> = Promise.resolve()
  #closed: Promise<void> | undefined

  private constructor(storage: Storage, loaded: Loaded, fence: Fence, options: UpdatableOptions) {
    const { generation, proofs } = loaded
    const { epoch, previous } = epochsOf(loaded)
    this.#storage = storage
    this.#store = new EpochStore(storage)
    this.#isReplica = options.replica ?? false
    this.#answersOneServer = options.oneServer ?? true
    // The epoch before is answered, so there is always that much history.
    this.history = Math.max(1, options.history ?? DEFAULT_HISTORY)
    this.fence = fence
    this.#generation = generation
    this.#newest = epoch
    this.#previous = previous
    this.#now = options.now ?? (() => Date.now() / 1000)
    this.#shownSince = this.#now()
    this.#old = new OldGeneration(options, (number, freed) => this.#removeOld(number, freed))
    this.#behind = this.#writeBehind(loaded)
    this.#past = new History(generation.core, this.#store)
    this.#signatures = new Signatures(this.#store, () => this.answerable().map(({ manifest }) => manifest.epoch))
    this.#proofs = proofs
    this.folding = proofs?.folding(
      () => this.#newest.manifest,
      (row, openings) => this.#inTurn(() => this.#store.writeOpenings(this.#newest.manifest.generation, row, openings)),
    )
  }

  /**
   * Whether a storage has a database in it.
   * @throws {DatasetError} if what is there is not one of ours
   * @example
   * if (!(await UpdatableDatabase.existsIn(storage))) await UpdatableDatabase.create(storage, dataset)
   */
  static async existsIn(storage: Storage): Promise<boolean> {
    return (await readingFrom(storage.location, () => new EpochStore(storage).head())) !== undefined
  }

  /**
   * Puts a dataset's epoch into an empty storage, whole or not at all. The dataset stays the caller's.
   * @throws {Error} if the storage fails; nothing is in it then
   * @example
   * await UpdatableDatabase.create(openLmdb('store'), await loadDataset('dataset'))
   */
  static async create(storage: Storage, dataset: Dataset): Promise<void> {
    const { manifest, manifestBytes: bytes, directory, openings: proofs } = dataset
    const [list, chunk] = [await updateListOf(dataset), chunksOf(dataset, manifest)]
    await new EpochStore(storage).create({ manifest, bytes, directory, list, chunk, proofs })
  }

  /**
   * Opens the database in a storage, which is then this object's to close. Every digest is computed anew from the stored records.
   * @throws {DatasetError} naming the file
   * @example
   * const updatable = await UpdatableDatabase.open(openLmdb('store'), { history: 100 })
   */
  static async open(storage: Storage, options: UpdatableOptions = {}): Promise<UpdatableDatabase> {
    const core = await loadCore()
    const { loaded, head } = await loadNewest(core, storage, options.replica ?? false, options.onProgress)
    try {
      if (options.replica && loaded.proofs !== undefined) {
        throw new DatasetError(storage.location, 'a database with Pointproofs has no replicas; leave --replica out')
      }
      const [{ engine }, how] = [storage, options.fence]
      const fence = engine ? await PostgresFence.open(engine, how) : await StoredFence.open(storage, how)
      const updatable = new UpdatableDatabase(storage, loaded, fence, options)
      await updatable.#past.index()
      await updatable.#resumeOld(head)
      await updatable.#signatures.read()
      updatable.folding?.catchUp()
      const { manifest } = updatable.#newest
      if (updatable.#answersOneServer && hasOneServer(manifest)) options.onPreparing?.(preparedBytes(core, manifest))
      await updatable.#prepare(updatable.#newest, updatable.#generation)
      await updatable.#join()
      return updatable
    } catch (error) {
      loaded.proofs?.free()
      await loaded.generation.free()
      throw error
    }
  }

  get databaseId(): Uint8Array {
    return this.#newest.manifest.databaseId
  }

  get location(): string {
    return this.#storage.location
  }

  /** Why nothing can be kept at the moment, for people; undefined: it can. */
  get storageFailure(): string | undefined {
    const isWaiting = this.#phase.is === 'unwritten' && this.#phase.failed
    return this.#storage.failure ?? (isWaiting ? 'a batch could not be written; publish it again' : undefined)
  }

  /** Why other processes are ahead of this one, for people; undefined: they are not. */
  get behind(): string | undefined {
    return this.#announcements?.behind
  }

  get newest(): Epoch {
    return this.#newest
  }

  /** The newest epoch that can be answered. */
  get #latest(): EpochInMemory {
    return this.#phase.is === 'staged' ? this.#phase.stored.epoch : this.#newest
  }

  find(generation: number, epoch: number): Epoch | undefined {
    return this.answerable().find(({ manifest }) => manifest.generation === generation && manifest.epoch === epoch)
  }

  answerable(): readonly Epoch[] {
    return this.#phase.is === 'staged' ? [...this.#shown(), this.#phase.stored.epoch] : this.#shown()
  }

  /**
   * The newest epoch that clients are told of. An epoch is told once it is signed by any key, or at once if the one before it is not
   * signed: then its publisher does not sign.
   */
  get told(): Epoch {
    const { epoch } = this.#newest.manifest
    const before = this.#shown().find(({ manifest }) => manifest.epoch === epoch - 1)
    const isTold = before === undefined || this.#signatures.has(epoch) || !this.#signatures.has(epoch - 1)
    return isTold ? this.#newest : before
  }

  /** How long the newest epoch has been shown here without a signature; 0: it has one. */
  get unsignedSeconds(): number {
    return this.#signatures.has(this.#newest.manifest.epoch) ? 0 : Math.max(0, this.#now() - this.#shownSince)
  }

  /** The newest answered epoch that is signed; 0: none. */
  get signedEpoch(): number {
    return Math.max(0, ...this.list().map(({ epoch }) => (this.#signatures.has(epoch) ? epoch : 0)))
  }

  list(): EpochInfo[] {
    return this.#shown().map(infoOf)
  }

  /** Those that clients may know of, newest last. */
  #shown(): EpochInMemory[] {
    return [this.#old.epoch, this.#previous, this.#newest].filter(epoch => epoch !== undefined)
  }

  async manifestOf(generation: number, epoch: number): Promise<Uint8Array | undefined> {
    if (epoch > this.#latest.manifest.epoch) return undefined
    const bytes = await this.#past.manifest(epoch)
    return bytes !== undefined && decodeManifest(bytes).generation === generation ? bytes : undefined
  }

  async since(epoch: number, reserve: (bytes: number) => void = () => {}): Promise<Uint8Array | undefined> {
    if (epoch > this.#latest.manifest.epoch) return undefined
    return await this.#past.since(epoch, this.#newest.manifest.epoch, reserve)
  }

  /** What became of an epoch; undefined: it is not known, any more or yet. */
  status(epoch: number): EpochStatus | undefined {
    return epoch > this.#latest.manifest.epoch ? undefined : this.#past.status(epoch)
  }

  async findBlob(hash: string): Promise<Blob | undefined> {
    const epochs = [...this.#shown(), ...(this.#phase.is === 'staged' ? [this.#phase.stored.epoch] : [])].reverse()
    for (const epoch of epochs) {
      const blob = epoch.blob(hash)
      if (blob !== undefined) return blob
    }
    const proved = this.#proofs?.blob(hash)
    if (proved !== undefined) return memoryBlob(proved)
    return hintBlob(epochs, hash) ?? this.#past.list(hash)
  }

  /** Calls `listener` for each epoch that clients are told of, and when it gets a further signature. Returns unsubscribe. */
  listen(listener: (event: EpochEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Tells of the newest epoch, if it is told. */
  #tell(): void {
    if (this.told !== this.#newest) return
    const { generation, epoch } = this.#newest.manifest
    for (const listener of this.#listeners) listener({ generation, epoch })
  }

  /** Keeps a publisher's signature. Throws a Refusal if it is none. */
  async addSignature(signature: SignatureInfo): Promise<void> {
    this.#checkWrites()
    const epoch = this.find(signature.generation, signature.epoch)
    if (epoch === undefined) throw epochUnknown(this.#newest.manifest)
    if (!(await this.#signatures.add(epoch, signature))) return
    if (epoch === this.#newest) this.#tell()
    this.#storage.engine?.notify(SIGNED)
  }

  /** For the epochs of `list`. Every client asks for them, also while the storage is away. */
  signatures(): SignatureInfo[] {
    return this.#signatures.of(this.list().map(({ epoch }) => epoch))
  }

  /**
   * Makes an epoch of a batch (the bytes of `POST /v1/epochs`), unless it was made before. Resolves when it is on disk, whatever other
   * processes do that follow this one. Batches run one after the other. The bytes must be those that `signed` names. `isLate`: another
   * server has made the epoch, so the batch may have expired. Throws a Refusal; then nothing has changed.
   */
  async publish(body: Uint8Array, signed?: SignedFor, isLate = false): Promise<EpochStatus> {
    this.#checkWrites()
    const read = async () => {
      const hash = await hashed(this.#generation.core, body)
      return { batch: readBatch(body, hash, signed), hash: toHex(hash) }
    }
    if (this.#phase.is === 'staged') {
      // Its turn is not over. The batch that made it may come again, and does not have to wait.
      const { batch, hash } = await read()
      if (batch.epoch <= this.#latest.manifest.epoch && !isNext(batch, this.#latest)) {
        return madeBefore(batch, hash, this.status(batch.epoch))
      }
    }
    return await new Promise<EpochStatus>((resolve, reject) => {
      const turn = this.#inTurn(async () => {
        if (this.#phase.is === 'failed') throw new Refusal('not_ready', 'this server has failed and is restarting')
        const { batch, hash } = await read()
        if (!isNext(batch, this.#newest)) return madeBefore(batch, hash, this.status(batch.epoch))
        if (!isLate) checkExpiry(batch, this.#now())
        return await this.#make(batch, hash, resolve)
      })
      turn.then(resolve, reject)
    })
  }

  #checkWrites(): void {
    if (this.#isReplica) throw new Refusal('not_ready', 'this is a replica; publish to the process without --replica')
  }

  async #make(batch: Batch, hash: string, onStored: OnStored): Promise<EpochStatus> {
    if (this.#phase.is === 'unwritten') {
      const { turn } = this.#phase
      if (turn.batch.batch === hash) return await this.#write(turn, onStored)
      const reason = 'the previous batch could not be written; publish it again, or restart this server'
      throw new Refusal('not_ready', reason)
    }
    const operations = await readOperations(this.#generation.core, this.#newest.manifest, batch)
    const added = 'headroom' in operations ? operations.headroom : operations.kinds.length
    checkHintable(this.#generation, this.#newest.manifest, batch.expires, added)
    if ('headroom' in operations) return await this.#beginGeneration(batch, hash, operations.headroom, onStored)
    const next = await draftNext(this.#generation, operations)
    const step = {
      ...{ batch, hash, proofs: this.#proofs, begun: () => this.#begun() },
      answersOneServer: this.#answersOneServer,
    }
    const turn = await this.#orFail(() => writeNext(this.#generation, this.#newest, next, step))
    this.#note(turn.epoch)
    return await this.#write(turn, onStored)
  }

  /** The core begins to write the next epoch. */
  #begun(): void {
    this.#newest.isCores = 'previous'
    if (this.#previous !== undefined) this.#previous.isCores = 'gone'
    this.#previous = undefined
    this.#endAllBut(this.#newest)
  }

  /** Has an epoch prepared that was not made here. Resolves once its records are copied. */
  async #prepare(epoch: EpochInMemory, from: Generation): Promise<void> {
    const { manifest } = epoch
    if (!this.#answersOneServer || !hasOneServer(manifest)) return
    epoch.oneServer = await Prepared.begin(manifest, from, manifest.oneServerHint)
    this.#note(epoch)
  }

  /** Makes the hint of the newest epoch anew, as its builder has to. Throws DatasetError if the manifest names another. */
  async checkHint(): Promise<void> {
    const { manifest } = this.#newest
    if (manifest.oneServerHint === undefined) return
    const { core } = this.#generation
    const hint = await hintOf(manifest, this.#generation).catch((error: Error) => {
      throw new DatasetError(this.location, error.message)
    })
    if (equalBytes(core.blake3(hint), manifest.oneServerHint)) return
    throw new DatasetError(
      this.location,
      'expected the hint of these records, got a manifest that names another; sign nothing, and build the dataset yourself',
    )
  }

  #note(epoch: EpochInMemory): void {
    if (epoch.oneServer === undefined) return
    this.#prepared.push(epoch)
    epoch.oneServer.onLost = () => {
      this.#inTurn(() => this.#prepareAnew(epoch)).catch(() => {}) // /readyz names it
    }
  }

  /** Not if clients have a newer epoch, or will: that has a thread of its own. */
  async #prepareAnew(epoch: EpochInMemory): Promise<void> {
    if (this.#closed !== undefined || epoch !== this.#newest || epoch.isCores !== 'newest') return
    this.#prepared = this.#prepared.filter(other => other !== epoch)
    await this.#prepare(epoch, this.#generation)
  }

  /** Gives back the memory of all epochs that are prepared, but for these. */
  #endAllBut(...kept: readonly EpochInMemory[]): void {
    for (const epoch of this.#prepared) {
      if (kept.includes(epoch)) continue
      void epoch.oneServer?.close()
      epoch.oneServer = undefined
    }
    this.#prepared = this.#prepared.filter(epoch => kept.includes(epoch))
  }

  /** Puts a turn on disk. Throws StorageError; the turn is then kept, for the same batch to come again. */
  async #write(turn: Turn, onStored: OnStored): Promise<EpochStatus> {
    const { epoch, list, batch, changed } = turn
    const { manifest, manifestBytes: bytes } = epoch
    return this.#orFail(async () => {
      const isAgain = this.#phase.is === 'unwritten'
      this.#phase = { is: 'unwritten', turn, failed: false }
      const oldest = manifest.epoch - this.history
      const added = await this.#store.append({ manifest, bytes, list, batch, oldest }).catch((error: unknown) => {
        this.#phase = { is: 'unwritten', turn, failed: true }
        throw error
      })
      // A write that was said to have failed may have reached the disk.
      const isStored = added || (isAgain && (await this.#store.isNewest(manifest.epoch, bytes)))
      if (!isStored) throw new Error(ANOTHER_PROCESS)
      const generation = this.#generation
      const status = { ...infoOf(epoch), ...batch }
      await this.#announce({ epoch, previous: this.#newest, generation, until: 0 }, status, onStored)
      this.#behind.note(changed, manifest.recordBytes, list.length)
      this.#behind.catchUp(work => this.#inTurn(work))
      this.folding?.catchUp()
      return status
    })
  }

  /** The first epoch of the next generation. Until it is on disk nothing here has changed. */
  async #beginGeneration(batch: Batch, hash: string, headroom: number, onStored: OnStored): Promise<EpochStatus> {
    if (this.#proofs !== undefined) {
      refuse(1, 'a generation needs new openings for all records; build it with `keyhush build --succeeds`')
    }
    // What stays on disk of the old generation is to be its last epoch, without a list.
    await this.#behind.flush()
    this.#endAllBut(this.#newest) // room for the next
    const made = await makeGeneration(this.#generation, this.#newest, batch, headroom)
    const { generation, known: unhinted, directoryBytes } = made
    let oneServer: Prepared | undefined
    const orFree = <T>(work: Promise<T>) =>
      work.catch(async (error: unknown) => {
        await oneServer?.close()
        await generation.free()
        throw error
      })
    const hinted = await orFree(withHint(generation, this.#newest.manifest, unhinted, this.#answersOneServer))
    oneServer = hinted.oneServer
    const { known } = hinted
    const { until } = this.#old
    const record = { batch: hash, changes: 0 }
    await orFree(this.#store.stage(known.manifest, chunksOf(generation, known.manifest)))
    return this.#orFail(async () => {
      const directories = { directory: directoryBytes, oldDirectory: this.#newest.directoryBytes }
      const changes = { ...known, ...directories, batch: record, until, oldest: batch.epoch - this.history }
      if (!(await orFree(this.#store.begin(changes)))) throw new Error(ANOTHER_PROCESS)
      const epoch = generation.epochOf(known, directoryBytes)
      epoch.oneServer = oneServer
      this.#note(epoch)
      const status = { ...infoOf(epoch), ...record }
      await this.#announce({ epoch, previous: undefined, generation, until }, status, onStored)
      return status
    })
  }

  /** An epoch is stored. Resolves once all processes show it; its publisher does not wait for them. */
  async #announce(stored: StoredEpoch, status: EpochStatus, onStored: OnStored): Promise<void> {
    this.#past.noteStatus(status)
    this.#phase = { is: 'staged', stored }
    if (this.#announcements !== undefined) {
      onStored(status)
      await this.#announcements.announced(stored.epoch.manifest.epoch)
    }
    this.#show()
  }

  /** Shows the staged epoch, if there is one. */
  #show(): void {
    if (this.#phase.is !== 'staged') return
    const { epoch, generation, previous, until } = this.#phase.stored
    this.#phase = IDLE
    this.#endAllBut(epoch, this.#newest)
    if (generation !== this.#generation) {
      this.#old.begin(this.#newest, this.#generation, until)
      this.#generation = generation
      void this.#behind.stop()
      this.#behind = this.#writeBehind({ base: epoch.manifest.epoch, lagging: [], listBytes: 0 })
    }
    this.#previous = previous
    this.#newest = epoch
    this.#shownSince = this.#now()
    this.#past.note(epoch.manifest)
    this.#past.forgetBefore(epoch.manifest.epoch - this.history, this.#old.epoch?.manifest.epoch)
    // A replica learns of signatures from the store.
    if (this.#isReplica) void this.#signatures.readBehind().then(() => this.#tell())
    else this.#tell()
  }

  /** Takes part in what processes that share the storage decide together. */
  async #join(): Promise<void> {
    const { engine } = this.#storage
    if (engine === undefined) return
    this.#announcements = await Announcements.begin(engine, {
      writes: !this.#isReplica,
      has: () => this.#latest.manifest.epoch,
      shows: () => this.#newest.manifest.epoch,
      follow: () => this.#inTurn(() => this.#follow()),
      show: epoch => {
        if (epoch >= this.#latest.manifest.epoch) this.#show()
      },
      fail: error => this.#fail(error),
    })
    engine.listen(message => {
      if (message !== SIGNED && message !== '') return
      void this.#signatures.readBehind().then(() => {
        if (message === SIGNED) this.#tell()
      })
    })
  }

  /** Takes up what the process that writes has stored since. */
  async #follow(): Promise<void> {
    const head = await this.#store.head()
    while (head !== undefined && head.epoch > this.#latest.manifest.epoch) {
      this.#show() // it has been announced: there is a later one
      const stored = await takeNext(this.#storage, this.#newest, this.#generation, () => this.#begun())
      await this.#prepare(stored.epoch, stored.generation)
      await stored.epoch.oneServer?.made.catch(() => {}) // /readyz names it
      const batch = await this.#store.batch(stored.epoch.manifest.epoch)
      if (batch !== undefined) this.#past.noteStatus({ ...infoOf(stored.epoch), ...batch })
      this.#phase = { is: 'staged', stored }
      if (stored.generation !== this.#generation) await this.#past.index()
    }
  }

  /** While disk may differ from memory, a failure is for good, unless it only says that nothing was written. */
  async #orFail<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      void this.#behind.stop() // memory may have an epoch that is not on disk
      if (!(error instanceof StorageError)) this.#fail(error as Error)
      throw error
    }
  }

  #fail(error: Error): void {
    this.#show() // it is on disk
    this.#phase = { is: 'failed' }
    this.onFailure(error)
  }

  /** Answers a generation that lingered when the process ended, and clears away what is left of others. */
  async #resumeOld({ generation, old }: Head): Promise<void> {
    const lingering = this.#old.lasts(old?.until) ? old : undefined
    if (!this.#isReplica) await this.#store.removeAllBut([generation, lingering?.generation ?? generation])
    const loaded = lingering && (await loadOld(this.#generation.core, this.#store, lingering))
    if (lingering === undefined || loaded === undefined) return
    this.#old.begin(epochsOf(loaded).epoch, loaded.generation, lingering.until)
  }

  #removeOld(generation: number, freed: Promise<void>): void {
    const removed = this.#inTurn(async () => {
      await freed
      if (!this.#isReplica) await this.#store.drop(generation)
    })
    removed.catch(() => {}) // the next start clears it away
  }

  #writeBehind(from: ConstructorParameters<typeof WriteBehind>[2]): WriteBehind {
    const current = () => ({
      epoch: this.#newest.manifest.epoch,
      chunk: chunksOf(this.#generation, this.#newest.manifest),
      directoryBytes: this.#newest.directoryBytes,
      proofs: this.#proofs,
    })
    return new WriteBehind(this.#store, current, from)
  }

  /** Runs `work` after all that was begun before it. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(work)
    this.#queue = done.catch(() => {})
    return done
  }

  /** Gives the memory back and closes the storage, after the batches under way. */
  close(): Promise<void> {
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    await this.#announcements?.stop()
    this.#show()
    await this.folding?.stop()
    await this.#queue
    await this.#behind.stop()
    this.#listeners.clear()
    this.#endAllBut()
    await this.#generation.free()
    this.#proofs?.free()
    await this.#old.close()
    await this.#storage.close()
  }
}
