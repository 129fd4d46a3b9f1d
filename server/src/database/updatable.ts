// A database that changes: batches become epochs (TAPIR Fig. 6, UpdateDB), durably, while queries go on. The newest
// epoch and the one before it are answered; a batch is on disk before anyone hears of its epoch.
//
// The core applies a batch in place. From then until it is on disk the epoch that everybody knows is the core's
// previous one; should the write fail, it stays so until the same batch comes again and can be written.

import {
  type Batch,
  type BatchSignature,
  contentHash,
  decodeBatch,
  decodeManifest,
  type EpochEvent,
  type EpochInfo,
  type EpochStatus,
  encodeManifest,
  equalBytes,
  fromHex,
  type Manifest,
  partitionBytes,
  type SignatureInfo,
  SUITE_POINTPROOFS,
  signedBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import {
  type Core,
  type CoreError,
  type DatabaseHandle,
  loadCore,
  type RefusedError,
  type ServerDirectoryHandle,
} from '@keyhush/wasm'
import { verifies } from '../base/ed25519.js'
import { DatasetError } from '../base/errors.js'
import { epochUnknown, Refusal } from '../base/refusal.js'
import { directoryFields } from '../dataset/blocks.js'
import type { Progress } from '../dataset/build.js'
import { changedBlocks } from '../dataset/changed-blocks.js'
import { type Dataset, updateListOf } from '../dataset/load.js'
import type { RowProofs } from '../dataset/proof-kinds.js'
import { recordBytesView } from '../dataset/view.js'
import { type Storage, StorageError } from '../storage/storage.js'
import { Announcements, SIGNED } from './announcements.js'
import { ANOTHER_PROCESS, CHUNK_BYTES, EpochStore, type Head } from './epoch-store.js'
import { askedOnce, type Blob, type Epoch, type Epochs, infoOf, memoryBlob, slicedBlob } from './epochs.js'
import type { Fence, FenceOptions } from './fence.js'
import { Folding } from './folding.js'
import { type MadeGeneration, makeGeneration } from './generations.js'
import { hashed } from './hashing.js'
import { History } from './history.js'
import { advance, type KnownManifest, type Loaded, load, loadOld, readingFrom, readStep, type Step } from './loading.js'
import { type InMemory, type NextEpoch, nextOfBatch } from './next-epoch.js'
import { type Operations, readOperations, refuse } from './operations.js'
import { PostgresFence } from './postgres-fence.js'
import { Readers } from './readers.js'
import { Signatures } from './signatures.js'
import { StoredFence } from './stored-fence.js'
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
  /** takes up what another process stores, and stores nothing but its fence's entries; where processes share a storage */
  readonly replica?: boolean | undefined
}

/** What a batch's signature says of the batch. */
export type SignedFor = Pick<BatchSignature, 'batchHash' | 'previousManifest'>

const DEFAULT_HISTORY = 64
const DEFAULT_LINGER_HOURS = 24
const HOUR_SECONDS = 60 * 60
const CHAIN_MANIFESTS = 64
const CHAIN_BYTES = 8 * 1024 * 1024

/** An epoch of an updatable database: the core's newest, or the one before it. */
interface UpdatableEpoch extends Epoch {
  isCores: 'newest' | 'previous'
}

/** The last epoch of a generation that has ended. */
interface OldEpoch {
  readonly epoch: UpdatableEpoch
  readonly database: DatabaseHandle
  readonly blocks: DatabaseHandle | undefined
  readonly readers: Readers
  /** seconds since 1970 */
  until: number
}

/** An epoch that is stored, and can be answered, but is not everybody's yet. */
interface Staged {
  readonly epoch: UpdatableEpoch
  /** it is */
  readonly show: () => void
}

/** What a batch made of the core's database, not yet on disk. */
interface Turn {
  readonly epoch: UpdatableEpoch
  readonly list: Uint8Array
  /** indices of records that changed */
  readonly changed: Uint32Array
  /** empty: keyless */
  readonly directoryBytes: Uint8Array
}

export class UpdatableDatabase implements Epochs {
  readonly fence: Fence
  readonly history: number
  /** told when memory and disk have parted: nothing may be published here, and the process is to be replaced */
  onFailure: (error: Error) => void = () => {}

  readonly #core: Core
  readonly #storage: Storage
  readonly #store: EpochStore
  #database: DatabaseHandle
  /** the padded blocks of its directory; undefined if nobody can ask for one */
  #blocks: DatabaseHandle | undefined
  /** of both; they change, and go, when no thread reads them */
  #readers = new Readers()
  #directory: ServerDirectoryHandle | undefined
  #directoryBytes: Uint8Array
  #newest: UpdatableEpoch
  #previous: UpdatableEpoch | undefined
  /** the generation before, while it is answered */
  #old: OldEpoch | undefined
  #behind: WriteBehind
  /** with Pointproofs: what proves answers, … */
  readonly #openings: RowProofs | undefined
  readonly #folding: Folding | undefined
  /** … and the row lists of the core's two epochs, by their hash */
  #rowLists = new Map<string, Uint8Array>()
  /** partitions by their hash, in the core's newest epoch; made when needed */
  #partitions: Map<string, number> | undefined
  readonly #past: History
  readonly #signatures: Signatures
  readonly #listeners = new Set<(event: EpochEvent) => void>()
  /** settles after all batches so far */
  #queue: Promise<unknown> = Promise.resolve()
  #failed = false
  /** applied in the core, but not on disk yet: the disk was full */
  #unwritten: { readonly turn: Turn; readonly hash: string } | undefined
  /** where several processes share the storage: what they announce together, … */
  #announcements: Announcements | undefined
  /** … and the epoch that they are about to */
  #staged: Staged | undefined
  #onShown: (() => void)[] = []
  readonly #isReplica: boolean
  readonly #lingerSeconds: number
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined

  private constructor(core: Core, storage: Storage, loaded: Loaded, fence: Fence, options: UpdatableOptions) {
    this.#core = core
    this.#storage = storage
    this.#store = new EpochStore(storage)
    this.#past = new History(core, this.#store)
    this.#signatures = new Signatures(this.#store, () => this.answerable().map(({ manifest }) => manifest.epoch))
    this.#database = loaded.database
    this.#blocks = loaded.blocks
    this.#directory = loaded.directory
    this.#directoryBytes = loaded.directoryBytes
    if (loaded.proofs !== undefined) {
      const { openings, before } = loaded.proofs
      this.#openings = openings
      this.#folding = new Folding(this.#store, openings, () => this.#newest.manifest)
      for (const lists of [before, openings.rowLists]) if (lists !== undefined) this.#noteRowLists(lists)
    }
    this.#newest = this.#epochOf(loaded.newest)
    if (loaded.previous !== undefined) {
      this.#previous = this.#epochOf(loaded.previous)
      this.#previous.isCores = 'previous'
    }
    this.#behind = this.#writeBehind(loaded)
    // The epoch before is answered, so that much history there always is.
    this.history = Math.max(1, options.history ?? DEFAULT_HISTORY)
    this.fence = fence
    this.#isReplica = options.replica ?? false
    this.#lingerSeconds = (options.lingerHours ?? DEFAULT_LINGER_HOURS) * HOUR_SECONDS
    this.#now = options.now ?? (() => Date.now() / 1000)
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
    const { core, database, manifest, manifestBytes, directory, openings } = dataset
    const chunk = chunksOf(core, database, manifest)
    const proofs = openings && {
      transcript: openings.transcript,
      rowLists: openings.rowLists,
      openings: openings.rows(),
    }
    const list = await updateListOf(dataset)
    await new EpochStore(storage).create({ manifest, manifestBytes, directory, list, chunk, proofs })
  }

  /**
   * Opens the database in a storage, which is then this object's to close. Every digest is computed anew from the
   * stored records.
   * @throws {DatasetError} naming the file
   * @example
   * const updatable = await UpdatableDatabase.open(openLmdb('store'), { history: 100 })
   */
  static async open(storage: Storage, options: UpdatableOptions = {}): Promise<UpdatableDatabase> {
    const core = await loadCore()
    const { loaded, head } = await asItIs(storage, options.replica, async then => {
      const store = new EpochStore(then)
      const head = await readingFrom(store.location, () => store.head())
      if (head === undefined) throw new DatasetError(store.location, 'there is no database in it')
      return { loaded: await load(core, store, head, options.onProgress), head }
    })
    try {
      if (options.replica && loaded.proofs !== undefined) {
        throw new DatasetError(storage.location, 'a database with Pointproofs has no replicas')
      }
      const fence = await openFence(storage, options.fence)
      const updatable = new UpdatableDatabase(core, storage, loaded, fence, options)
      await updatable.#past.index()
      await updatable.#resumeOld(head)
      await updatable.#signatures.read()
      updatable.#fold()
      await updatable.#join()
      return updatable
    } catch (error) {
      loaded.proofs?.openings.free()
      loaded.database.free()
      loaded.blocks?.free()
      throw error
    }
  }

  get databaseId(): Uint8Array {
    return this.#newest.manifest.databaseId
  }

  /** where it is stored */
  get location(): string {
    return this.#storage.location
  }

  /** Why openings fall behind at the moment, for people; undefined: they do not. */
  get foldingFailure(): string | undefined {
    return this.#folding?.failure
  }

  /** `listener` is told whenever folding edits into openings fails. */
  onFoldingFailure(listener: (error: Error) => void): void {
    if (this.#folding !== undefined) this.#folding.onFailure = listener
  }

  /** Why nothing can be kept at the moment, for people; undefined: it can. */
  get storageFailure(): string | undefined {
    return this.#storage.failure
  }

  get newest(): Epoch {
    return this.#newest
  }

  /** Why other processes are ahead of this one, for people; undefined: they are not. */
  get behind(): string | undefined {
    return this.#announcements?.behind
  }

  find(generation: number, epoch: number): Epoch | undefined {
    return this.answerable().find(({ manifest }) => manifest.generation === generation && manifest.epoch === epoch)
  }

  answerable(): readonly Epoch[] {
    return this.#staged === undefined ? this.#answered() : [...this.#answered(), this.#staged.epoch]
  }

  list(): EpochInfo[] {
    return this.#answered().map(infoOf)
  }

  /** Newest last. */
  #answered(): UpdatableEpoch[] {
    if (this.#oldSeconds <= 0) this.#endOld()
    return [this.#old?.epoch, this.#previous, this.#newest].filter(epoch => epoch !== undefined)
  }

  async manifestOf(generation: number, epoch: number): Promise<Uint8Array | undefined> {
    if (epoch > this.#latest.manifest.epoch) return undefined
    const bytes = await this.#past.manifest(epoch)
    return bytes !== undefined && decodeManifest(bytes).generation === generation ? bytes : undefined
  }

  async since(epoch: number, reserve: (bytes: number) => void = () => {}): Promise<Uint8Array | undefined> {
    const newest = this.#newest.manifest.epoch
    if (epoch > this.#latest.manifest.epoch) return undefined
    const chain: Uint8Array[] = []
    let bytes = 0
    for (let next = epoch + 1; next <= newest && chain.length < CHAIN_MANIFESTS; next++) {
      const manifest = await this.#past.manifest(next)
      if (manifest === undefined) return undefined
      if (chain.length > 0 && bytes + manifest.length > CHAIN_BYTES) break
      chain.push(manifest)
      bytes += manifest.length
    }
    reserve(bytes)
    return Buffer.concat(chain)
  }

  async findBlob(hash: string): Promise<Blob | undefined> {
    const known = this.#wholeBlob(hash)
    if (known !== undefined) return known
    // From when an epoch begins to be written until everybody may know of it, partitions are those of the epoch to come.
    if (this.#newest.isCores !== 'newest') await this.#queue
    if (this.#staged !== undefined) await new Promise<void>(resolve => this.#onShown.push(resolve))
    const { manifest } = this.#newest
    this.#partitions ??= new Map(
      Array.from({ length: manifest.partitions }, (_, q) => [toHex(contentHash(manifest, q)), q]),
    )
    const q = this.#partitions.get(hash)
    return q === undefined ? this.#wholeBlob(hash) : this.#partitionBlob(q)
  }

  /** What no batch changes in place: who catches up need not wait for one that takes long. */
  #wholeBlob(hash: string): Blob | undefined {
    const list = this.#past.list(hash)
    if (list !== undefined) return list
    const { manifest } = this.#newest
    if (manifest.keyed && hash === toHex(manifest.directoryHash)) return memoryBlob(this.#directoryBytes)
    const proved = this.#provedBlob(hash)
    return proved && memoryBlob(proved)
  }

  /** Row lists of epochs that are answered, and the key. */
  #provedBlob(hash: string): Uint8Array | undefined {
    const { pointproofs } = this.#newest.manifest
    return pointproofs && hash === toHex(pointproofs.keyHash) ? this.#openings!.key : this.#rowLists.get(hash)
  }

  /** What became of an epoch; undefined: it is not known, any more or yet. */
  async status(epoch: number): Promise<EpochStatus | undefined> {
    const batch = epoch > this.#latest.manifest.epoch ? undefined : await this.#store.batch(epoch)
    const bytes = batch === undefined ? undefined : await this.#past.manifest(epoch)
    if (batch === undefined || bytes === undefined) return undefined
    const { generation } = decodeManifest(bytes)
    return { generation, epoch, manifest: toHex(this.#core.blake3(bytes)), ...batch }
  }

  /** `listener` is told of every epoch from now on, and again when one is signed. Returns how to end that. */
  listen(listener: (event: EpochEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Makes an epoch of a batch (the bytes of `POST /v1/epochs`), or finds that it was made before. Resolves when it is
   * on disk; batches happen one after the other. If `signed` says what a publisher signed, the bytes must be that.
   * Throws a Refusal, and then nothing has changed.
   */
  publish(body: Uint8Array, signed?: SignedFor): Promise<EpochStatus> {
    return this.#inTurn(() => this.#publish(body, signed))
  }

  /** Keeps a publisher's signature for whoever asks. Throws a Refusal if it is none. */
  async addSignature(signature: SignatureInfo): Promise<void> {
    this.#checkWrites()
    const epoch = this.find(signature.generation, signature.epoch)
    if (epoch === undefined) throw epochUnknown(this.#newest.manifest)
    const { signature: digits, publicKey } = signature
    // Whoever has read it at /v1/info can send it again; it is written and told once.
    const kept = await this.#store.signatures(signature.epoch)
    if (kept.some(other => other.publicKey === publicKey && other.signature === digits)) return
    if (!verifies(fromHex(digits), signedBytes(epoch.manifestBytes), fromHex(publicKey))) {
      throw new Refusal('bad_request', 'it does not verify with that key for the manifest of that epoch')
    }
    const { generation, epoch: number } = signature
    await this.#store.addSignature({ publicKey, generation, epoch: number, signature: digits })
    await this.#signatures.read()
    // Whoever insists on signatures could not follow when the epoch was new.
    this.#tell(this.#newest.manifest)
    this.#storage.engine?.notify(SIGNED)
  }

  /** For the epochs of `list`. Every client asks for them, also while the storage is away. */
  signatures(): SignatureInfo[] {
    return this.#signatures.of(this.list().map(({ epoch }) => epoch))
  }

  /** Gives the memory back and closes the storage, after the batches under way. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#announcements?.stop()
    this.#shown()
    await this.#folding?.stop()
    await this.#queue
    await this.#behind.stop()
    this.#listeners.clear()
    this.#directory?.free()
    await this.#readers.exclusively(() => freeBoth(this.#database, this.#blocks))
    this.#openings?.free()
    const old = this.#old
    await old?.readers.exclusively(() => freeBoth(old.database, old.blocks))
    await this.#storage.close()
  }

  #checkWrites(): void {
    if (this.#isReplica) throw new Refusal('not_ready', 'this process is a replica; publish at the one that writes')
  }

  async #publish(body: Uint8Array, signed: SignedFor | undefined): Promise<EpochStatus> {
    this.#checkWrites()
    if (this.#failed) throw new Refusal('not_ready', 'this server has failed and is restarting')
    const batchHash = await hashed(this.#core, body)
    if (signed !== undefined && !equalBytes(signed.batchHash, batchHash)) {
      throw new Refusal('unauthorized', 'these bytes are not the batch that was signed')
    }
    const batch = this.#parseBatch(body)
    if (signed !== undefined && !equalBytes(signed.previousManifest, batch.previousManifest)) {
      throw new Refusal('unauthorized', 'the batch was signed for another manifest than the one it is made on')
    }
    const hash = toHex(batchHash)
    const made = await this.#alreadyMade(batch, hash)
    if (made !== undefined) return made
    if (this.#unwritten !== undefined) {
      if (this.#unwritten.hash !== hash) {
        throw new Refusal(
          'not_ready',
          'the batch before could not be written; publish that one again, or restart this server',
        )
      }
      const status = await this.#write(this.#unwritten.turn, hash)
      this.#tell(status)
      return status
    }

    const operations = await readOperations(this.#core, this.#newest.manifest, batch.encoding, batch.operations)
    const status =
      'headroom' in operations
        ? await this.#beginGeneration(batch, hash, operations.headroom)
        : await this.#change(batch, hash, operations)
    this.#tell(status)
    return status
  }

  #tell({ generation, epoch }: EpochEvent): void {
    for (const listener of this.#listeners) listener({ generation, epoch })
  }

  /** The next epoch of this generation. */
  async #change(batch: Batch, hash: string, operations: Operations): Promise<EpochStatus> {
    const next = await this.#draft(operations)
    const turn = await this.#orFail(() => this.#turn(batch, next))
    next.free()
    return this.#write(turn, hash)
  }

  /** Puts a turn on disk. Throws StorageError; the turn is then kept, for the same batch to come again. */
  async #write(turn: Turn, hash: string): Promise<EpochStatus> {
    const { epoch } = turn.epoch.manifest
    const known = { batch: hash, changes: turn.changed.length }
    return this.#orFail(async () => {
      const again = this.#unwritten !== undefined
      this.#unwritten = { turn, hash }
      const added = await this.#store.append({
        epoch,
        manifest: turn.epoch.manifestBytes,
        list: turn.list,
        batch: known,
        oldest: epoch - this.history,
      })
      // A write that was said to have failed may have reached the disk.
      const stored =
        again && (await this.#store.head())?.epoch === epoch ? await this.#store.manifest(epoch) : undefined
      if (!added && !(stored !== undefined && equalBytes(stored, turn.epoch.manifestBytes)))
        throw new Error(ANOTHER_PROCESS)
      this.#unwritten = undefined
      await this.#stage({ epoch: turn.epoch, show: () => this.#complete(turn) })
      return { ...infoOf(turn.epoch), ...known }
    })
  }

  /** The first epoch of the next generation. Until it is on disk nothing here has changed. */
  async #beginGeneration(batch: Batch, hash: string, headroom: number): Promise<EpochStatus> {
    if (this.#openings !== undefined) {
      refuse(1, 'all openings would have to be made anew; build the next generation with `keyhush build --succeeds`')
    }
    // What stays on disk of the old generation is to be its last epoch, without a list.
    await this.#behind.flush()
    const made = await makeGeneration(this.#core, this.#database, this.#newest, batch, headroom)
    const { manifest, bytes } = made.known
    const known = { batch: hash, changes: 0 }
    try {
      await this.#store.stage(manifest, chunksOf(this.#core, made.database, manifest))
    } catch (error) {
      made.free()
      throw error
    }
    return this.#orFail(async () => {
      const { directoryBytes: directory } = made
      const oldDirectory = this.#directoryBytes
      const until = Math.floor(this.#now()) + this.#lingerSeconds
      const oldest = batch.epoch - this.history
      const begun = await this.#store
        .begin({ manifest, manifestBytes: bytes, directory, oldDirectory, batch: known, until, oldest })
        .catch(error => {
          made.free()
          throw error
        })
      if (!begun) throw new Error(ANOTHER_PROCESS)
      const readers = new Readers()
      const epoch = this.#epochOf(made.known, made.database, made.blocks, readers)
      await this.#stage({ epoch, show: () => this.#succeed(made, until, readers) })
      return { ...infoOf(this.#newest), ...known }
    })
  }

  /** A generation is on disk: everybody may know, and the old one lingers. */
  #succeed(made: Omit<MadeGeneration, 'free'>, until: number, next: Readers): void {
    this.#endOld()
    const [database, blocks, readers] = [this.#database, this.#blocks, this.#readers]
    this.#old = { epoch: this.#newest, database, blocks, readers, until }
    this.#directory?.free()
    this.#database = made.database
    this.#blocks = made.blocks
    this.#readers = next
    this.#directory = made.directory
    this.#directoryBytes = made.directoryBytes
    this.#newest = this.#epochOf(made.known)
    this.#previous = undefined
    this.#partitions = undefined
    void this.#behind.stop()
    this.#behind = this.#writeBehind({ base: made.known.manifest.epoch, lagging: [], listBytes: 0 })
    this.#forgetPast()
    this.#watchOld()
  }

  /** Takes part in what processes that share the storage decide together. */
  async #join(): Promise<void> {
    const { engine } = this.#storage
    if (engine === undefined) return
    const database = this
    this.#announcements = await Announcements.begin(engine, {
      writes: !this.#isReplica,
      get has() {
        return database.#latest.manifest.epoch
      },
      get shows() {
        return database.#newest.manifest.epoch
      },
      follow: () => this.#inTurn(() => this.#follow()),
      show: epoch => {
        if (epoch >= this.#latest.manifest.epoch) this.#shown()
      },
      fail: error => {
        this.#failed = true
        this.onFailure(error)
      },
    })
    engine.listen(message => {
      if (message !== SIGNED && message !== '') return
      void this.#signatures.readBehind().then(() => {
        if (message === SIGNED) this.#tell(this.#newest.manifest)
      })
    })
  }

  /** The newest epoch that can be answered. */
  get #latest(): UpdatableEpoch {
    return this.#staged?.epoch ?? this.#newest
  }

  /** An epoch is stored. Resolves once everybody may know. */
  async #stage(staged: Staged): Promise<void> {
    this.#staged = staged
    await this.#announcements?.announced(staged.epoch.manifest.epoch)
    this.#shown()
  }

  /** Everybody may know what is stored. */
  #shown(): void {
    const staged = this.#staged
    if (staged === undefined) return
    this.#staged = undefined
    staged.show()
    if (this.#isReplica) this.#tell(this.#newest.manifest)
    const waiting = this.#onShown
    this.#onShown = []
    for (const resolve of waiting) resolve()
  }

  /** Takes up what the process that writes has stored since. Each epoch but the last has been announced, or there were no later one. */
  async #follow(): Promise<void> {
    const head = await this.#store.head()
    while (head !== undefined && head.epoch > this.#latest.manifest.epoch) {
      this.#shown()
      const { epoch, generation } = this.#newest.manifest
      const step = await readStep(this.#store, epoch + 1)
      if (step?.known.manifest.generation === generation) await this.#takeStep(step)
      else await this.#takeGeneration()
    }
  }

  async #takeStep(step: Step): Promise<void> {
    const { directory, directoryBytes } = await advance(
      ...[this.#core, this.#store, this.#inMemory],
      ...[step, this.#readers, () => this.#begun()],
    )
    this.#directory = directory
    const epoch = this.#epochOf(step.known)
    const show = () => {
      this.#previous = this.#newest
      this.#newest = epoch
      this.#directoryBytes = directoryBytes
      this.#past.note(epoch.manifest)
      this.#forgetPast()
    }
    this.#staged = { epoch, show }
  }

  /** Another generation, or epochs that no list leads to any more: the newest there is, beside what is answered. */
  async #takeGeneration(): Promise<void> {
    const { loaded, head } = await asItIs(this.#storage, true, async then => {
      const store = new EpochStore(then)
      const head = (await store.head())!
      return { loaded: await load(this.#core, store, head), head }
    })
    const readers = new Readers()
    const { database, blocks, directory, directoryBytes, newest: known } = loaded
    const epoch = this.#epochOf(known, database, blocks, readers)
    const show = () => {
      const isOld = head.old?.epoch === this.#newest.manifest.epoch
      this.#succeed({ database, blocks, directory, directoryBytes, known }, isOld ? head.old!.until : 0, readers)
      if (loaded.previous === undefined) return
      this.#previous = this.#epochOf(loaded.previous)
      this.#previous.isCores = 'previous'
    }
    this.#staged = { epoch, show }
    await this.#past.index()
  }

  /** Once disk may differ from memory, a failure is for good, unless it is that nothing could be written. */
  async #orFail<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      void this.#behind.stop() // what is in memory may be no epoch that is on disk
      if (error instanceof StorageError) throw error
      this.#failed = true
      this.onFailure(error as Error)
      throw error
    }
  }

  /** Takes up a generation that lingered when the process ended, and clears away what is left of others. */
  async #resumeOld({ generation, old }: Head): Promise<void> {
    const lingers = old !== undefined && old.until > this.#now()
    if (!this.#isReplica) await this.#store.sweep()
    for (const other of this.#isReplica ? [] : await this.#store.generations()) {
      if (other !== generation && !(lingers && other === old.generation)) await this.#store.drop(other)
    }
    if (!lingers) return
    const loaded = await loadOld(this.#core, this.#store, old)
    if (loaded === undefined) return
    const { known, database, blocks } = loaded
    const readers = new Readers()
    const epoch = this.#epochOf(known, database, blocks, readers)
    this.#old = { epoch, database, blocks, readers, until: old.until }
    this.#watchOld()
  }

  /** Memory goes when its time is over, whether anybody asks or not. */
  #watchOld(): void {
    clearTimeout(this.#timer)
    if (this.#old === undefined) return
    const rest = this.#oldSeconds
    if (rest <= 0) this.#endOld()
    else this.#timer = setTimeout(() => this.#watchOld(), 1000 * Math.min(rest, HOUR_SECONDS)).unref()
  }

  /** How long the old generation is answered yet: never longer than it would be if it had ended now, whatever the clock did. */
  get #oldSeconds(): number {
    if (this.#old === undefined) return Number.POSITIVE_INFINITY
    const now = this.#now()
    this.#old.until = Math.min(this.#old.until, now + this.#lingerSeconds)
    return this.#old.until - now
  }

  #endOld(): void {
    if (this.#old === undefined) return
    const { epoch, database, blocks, readers } = this.#old
    this.#old = undefined
    // Not at once: whoever has just asked for an epoch may be about to read this.
    const freed = Promise.resolve().then(() => readers.exclusively(() => freeBoth(database, blocks)))
    // Should this fail, the next start clears it away.
    this.#inTurn(async () => {
      await freed
      if (this.#isReplica) return
      await this.#store.drop(epoch.manifest.generation)
    }).catch(() => {})
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
  async #alreadyMade(batch: Batch, hash: string): Promise<EpochStatus | undefined> {
    const { manifest, manifestHash } = this.#newest
    if (!equalBytes(batch.databaseId, manifest.databaseId)) {
      throw new Refusal('wrong_database', 'the batch is for another database than the one served here')
    }
    if (batch.epoch <= manifest.epoch) {
      const status = await this.status(batch.epoch)
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

  /** Which epoch is which in the core, from the moment on that one begins to be written. */
  #begun(): void {
    this.#newest.isCores = 'previous'
    this.#previous = undefined
    this.#partitions = undefined
  }

  /** Writes the next epoch into the core's database, and says what it is. */
  async #turn(batch: Batch, next: NextEpoch): Promise<Turn> {
    await next.write(() => this.#begun())
    const before = this.#newest.manifest
    const { list: delta, listHash, changed, directory } = next.made
    if (directory !== undefined) {
      this.#directory?.free()
      this.#directory = directory.handle
    }
    const directoryBytes = directory?.bytes ?? new Uint8Array()
    const sized = this.#sized()
    const { rows, fields } = await this.#proved(batch.epoch, sized.partitions, delta)
    const list = rows === undefined ? delta : Buffer.concat([delta, rows])
    const manifest: Manifest = {
      ...before,
      epoch: batch.epoch,
      expires: batch.expires,
      ...sized,
      ...fields,
      ...directoryFields(this.#core, directory?.handle, directoryBytes, this.#blocks, directory?.hash),
      updateListBytes: list.length,
      updateListHash: rows === undefined ? listHash : await hashed(this.#core, list),
      previousManifest: this.#core.blake3(this.#newest.manifestBytes),
    }
    const epoch = this.#epochOf({ manifest, bytes: encodeManifest(manifest) })
    return { epoch, list, changed, directoryBytes }
  }

  /** What an update list changes in what answers are proved with; nothing without Pointproofs. */
  async #proved(
    epoch: number,
    partitions: number,
    delta: Uint8Array,
  ): Promise<{ rows?: Uint8Array; fields?: Pick<Manifest, 'pointproofs'> }> {
    const before = this.#newest.manifest
    if (this.#openings === undefined || before.pointproofs === undefined) return {}
    const handle = this.#core.decodeUpdateList(delta)
    const [indices, differences] = [handle.indices(), handle.differences()]
    handle.free()
    const bytes = before.recordBytes * before.blockRecords
    const block = (number: number) => recordBytesView(this.#core, this.#database, number * bytes, bytes)
    const rows = await this.#openings.turn(epoch, partitions, changedBlocks(before, indices, differences, block))
    this.#rowLists = new Map([...this.#rowLists].slice(-1))
    const rowsHash = this.#noteRowLists(this.#openings.rowLists)
    return { rows, fields: { pointproofs: { ...before.pointproofs, rowsHash } } }
  }

  /** Returns their hash. */
  #noteRowLists(lists: Uint8Array): Uint8Array {
    const hash = this.#core.blake3(lists)
    this.#rowLists.delete(toHex(hash))
    this.#rowLists.set(toHex(hash), lists)
    return hash
  }

  #fold(): void {
    this.#folding?.catchUp(work => this.#inTurn(work))
  }

  /** Settles once no edits are being folded into openings. */
  async folded(): Promise<void> {
    await this.#folding?.settled()
  }

  async #draft(operations: Operations): Promise<NextEpoch> {
    try {
      return await nextOfBatch(this.#core, this.#inMemory, operations, this.#readers)
    } catch (error) {
      if ((error as CoreError).code === 'layout') throw new Refusal('batch_refused', (error as Error).message)
      if ((error as CoreError).code !== 'refused') throw error
      const { operation, reason } = error as RefusedError
      return refuse(operation + 1, reason)
    }
  }

  get #inMemory(): InMemory {
    return { database: this.#database, blocks: this.#blocks, directory: this.#directory }
  }

  /** What changed records change in the manifest: N, Q and the digests. */
  #sized(): Pick<Manifest, 'records' | 'partitions' | 'commitments' | 'contentHashes'> {
    const layout = this.#database.layout
    const { records, partitions } = layout
    layout.free()
    const [commitments, contentHashes] = [this.#database.commitments(), this.#database.contentHashes()]
    return { records, partitions, commitments, contentHashes }
  }

  /** The turn is on disk: everybody may know. */
  #complete(turn: Turn): void {
    const { manifest } = turn.epoch
    this.#previous = this.#newest
    this.#newest = turn.epoch
    this.#directoryBytes = turn.directoryBytes
    this.#behind.note(turn.changed, manifest.recordBytes, turn.list.length)
    this.#behind.catchUp(work => this.#inTurn(work))
    this.#fold()
    this.#past.note(manifest)
    this.#forgetPast()
  }

  #forgetPast(): void {
    this.#past.forgetBefore(this.#newest.manifest.epoch - this.history)
  }

  #writeBehind(from: ConstructorParameters<typeof WriteBehind>[2]): WriteBehind {
    const current = () => ({
      epoch: this.#newest.manifest.epoch,
      chunk: chunksOf(this.#core, this.#database, this.#newest.manifest),
      directoryBytes: this.#directoryBytes,
      proofs: this.#openings,
    })
    return new WriteBehind(this.#store, current, from)
  }

  /** After all that was begun before, and before all that is begun after. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(work)
    this.#queue = done.catch(() => {})
    return done
  }

  #epochOf(
    { manifest, bytes }: KnownManifest,
    database = this.#database,
    blocks = this.#blocks,
    readers = this.#readers,
  ): UpdatableEpoch {
    const core = this.#core
    const openings = this.#openings
    const manifestHash = core.blake3(bytes)
    const epoch: UpdatableEpoch = {
      manifest,
      manifestBytes: bytes,
      manifestHash: toHex(manifestHash),
      isCores: 'newest',
      suites: database.suites,
      queryLimits: askedOnce(suite => database.queryLimits(suite, epoch.isCores !== 'newest')),
      answerBytes: (...query) => database.answerBytes(...query, epoch.isCores !== 'newest'),
      answer: (queries, suite) => {
        const isNewest = epoch.isCores === 'newest'
        const body = isNewest ? database.answer(queries, suite) : database.answerPrevious(queries, suite)
        if (suite !== SUITE_POINTPROOFS || openings === undefined) return body
        return openings.prove(body, queries, { manifest, manifestHash })
      },
      shared: () => ({ core, handle: database, readers, previous: epoch.isCores === 'previous' }),
      blocks: () => blocks && { core, handle: blocks, readers, previous: epoch.isCores === 'previous' },
    }
    return epoch
  }

  /** A partition as it is in memory. Should a batch change it meanwhile, the download breaks off. */
  #partitionBlob(q: number): Blob {
    const { manifest } = this.#newest
    const database = this.#database
    const hash = contentHash(manifest, q)
    const length = partitionBytes(manifest)
    const isThere = () => database === this.#database && equalBytes(database.contentHash(q), hash)
    // A batch that could not be written is in memory already.
    if (!isThere()) throw new Refusal('not_ready', 'a batch that is not on disk yet has changed this partition')
    const slice = (first: number, last: number) => {
      if (!isThere()) throw new Error('the partition has changed')
      return recordBytesView(this.#core, database, q * length + first, last - first + 1).slice()
    }
    return slicedBlob(length, slice)
  }
}

function openFence(storage: Storage, options: FenceOptions | undefined): Promise<Fence> {
  return storage.engine === undefined ? StoredFence.open(storage, options) : PostgresFence.open(storage.engine, options)
}

/** Runs `work` on a storage that does not change meanwhile: nobody else writes there, or it is read as it was. */
function asItIs<T>(storage: Storage, isReplica = false, work: (storage: Storage) => Promise<T>): Promise<T> {
  return isReplica && storage.engine !== undefined ? storage.engine.snapshot(work) : work(storage)
}

function freeBoth(database: DatabaseHandle, blocks: DatabaseHandle | undefined): void {
  database.free()
  blocks?.free()
}

/** A database's chunks by number, as they are in memory when they are asked for. */
function chunksOf(core: Core, database: DatabaseHandle, manifest: Manifest): (number: number) => Uint8Array {
  const total = manifest.partitions * partitionBytes(manifest)
  return number => {
    const at = number * CHUNK_BYTES
    return recordBytesView(core, database, at, Math.min(CHUNK_BYTES, total - at))
  }
}
