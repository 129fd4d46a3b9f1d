// A database that changes: batches become epochs (publishing.ts), and replicas take these up (processes.ts). It answers the newest epoch
// and the one before (answered.ts), and clients hear of an epoch once it is on disk (signatures.ts).

import { type EpochStatus, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { DatasetError, readingFrom } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import type { Progress } from '../dataset/build.js'
import { type Dataset, updateListOf } from '../dataset/load.js'
import type { Folding, RowProofs } from '../dataset/proof-kinds.js'
import type { Base } from '../one-server/base.js'
import { preparedBytes } from '../one-server/contents.js'
import type { Storage } from '../storage/storage.js'
import { Answered } from './answered.js'
import type { SignedFor } from './batches.js'
import { ChangingEpochs, type ChangingOptions, systemClock } from './changing-epochs.js'
import { chunksOf } from './chunks.js'
import { EpochStore } from './epoch-store.js'
import { type Blob, memoryBlob } from './epochs.js'
import type { Fence, FenceOptions } from './fence.js'
import type { EpochInMemory } from './generation.js'
import { Lingering, type LingeringOptions } from './lingering.js'
import { type Loaded, loadNewest } from './loading.js'
import { baseBlob, checkHint } from './one-server.js'
import { PostgresFence } from './postgres-fence.js'
import { Preparing } from './preparing.js'
import { Processes } from './processes.js'
import { type CheckedBatch, Publishing } from './publishing.js'
import { newQueue, type Queue } from './queue.js'
import { StoredFence } from './stored-fence.js'

export interface UpdatableOptions extends LingeringOptions, ChangingOptions {
  readonly fence?: FenceOptions | undefined
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /** whether lookups with one server are answered, if the database has a public hint for them; default: true */
  readonly oneServer?: boolean | undefined
  /** called before they are prepared for the first time, with the bytes of memory that an epoch takes */
  readonly onPreparing?: ((bytes: number) => void) | undefined
}

export class UpdatableDatabase extends ChangingEpochs<EpochInMemory> {
  readonly fence: Fence
  /** with Pointproofs */
  readonly folding: Folding | undefined
  readonly #storage: Storage
  readonly #store: EpochStore
  readonly #isReplica: boolean
  readonly #answered: Answered
  readonly #processes: Processes
  readonly #publishing: Publishing
  /** what proves answers, where the core does not */
  readonly #proofs: RowProofs | undefined
  /** batches, and what must not run beside them */
  readonly #queue: Queue
  #closed: Promise<void> | undefined

  private constructor(storage: Storage, loaded: Loaded, fence: Fence, options: UpdatableOptions) {
    const { proofs } = loaded
    const { now = systemClock, oneServer = true, replica = false } = options
    const queue = newQueue()
    const store = new EpochStore(storage)
    const newest = () => (this.#closed === undefined ? answered.generation : undefined)
    const preparing: Preparing = new Preparing(oneServer, queue, newest)
    const answered: Answered = new Answered(loaded, preparing, new Lingering(options, store, queue))
    super(storage, store, answered, options)
    const { past, signed, history } = this
    this.#queue = queue
    this.#storage = storage
    this.#store = store
    this.#isReplica = replica
    this.#answered = answered
    this.fence = fence
    this.#proofs = proofs
    this.folding = proofs?.folding(
      () => answered.newest.manifest,
      (row, openings) => queue(() => store.writeOpenings(answered.newest.manifest.generation, row, openings)),
    )
    const { folding } = this
    const together = { storage, store, answered, past, signed, queue }
    this.#processes = new Processes(together)
    this.#publishing = new Publishing({ ...together, processes: this.#processes, folding, history, now }, loaded)
    answered.onFailure = error => this.onFailure(error)
    answered.onShown = epoch => this.shown(epoch, answered.lingering.epoch?.manifest.epoch)
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
   * await UpdatableDatabase.create(await openLmdb('store'), await loadDataset('dataset'))
   */
  static async create(storage: Storage, dataset: Dataset): Promise<void> {
    const { manifest, manifestBytes: bytes, directory, openings: proofs } = dataset
    const [list, chunk] = [updateListOf(dataset, manifest), chunksOf(dataset, manifest)]
    const between = dataset.between.map(known => ({ ...known, list: updateListOf(dataset, known.manifest)! }))
    await new EpochStore(storage).create({ manifest, bytes, directory, list, between, chunk, proofs })
  }

  /**
   * Opens the database in a storage, which is then this object's to close. Every digest is computed anew from the stored records.
   * @throws {DatasetError} naming the file
   * @example
   * const updatable = await UpdatableDatabase.open(await openLmdb('store'), { history: 100 })
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
      await updatable.past.index()
      await updatable.#answered.lingering.resume(core, head)
      await updatable.signed.read()
      updatable.folding?.catchUp()
      const { preparing, generation, lingering } = updatable.#answered
      if (preparing.answers && generation.base !== undefined)
        options.onPreparing?.(preparedBytes(core, generation.base.manifest))
      // Until the newest epoch is signed, clients use the one before.
      const told = updatable.#answered.shown.find(epoch => epoch === updatable.signed.told)
      const from = told === lingering.epoch ? lingering.generation : undefined
      if (told?.oneServer !== generation.base) await preparing.prepare(told?.oneServer, from ?? generation)
      await preparing.prepare(generation.base, generation)
      await updatable.#processes.join(updatable.#isReplica)
      return updatable
    } catch (error) {
      loaded.proofs?.free()
      await loaded.generation.free()
      throw error
    }
  }

  override get storageFailure(): string | undefined {
    return super.storageFailure ?? this.#publishing.failure
  }

  override get bases(): readonly Base[] {
    return this.#answered.preparing.bases
  }

  get behind(): string | undefined {
    return this.#processes.behind
  }

  override async findBlob(hash: string, withholds = false): Promise<Blob | undefined> {
    const epochs = this.#answered.all.reverse()
    const open = (await super.findBlob(hash)) ?? baseBlob(this.bases, hash)
    if (open !== undefined || withholds) return open
    for (const epoch of epochs) {
      const blob = epoch.blob(hash)
      if (blob !== undefined) return blob
    }
    const proved = this.#proofs?.blob(hash)
    return proved === undefined ? this.past.list(hash) : memoryBlob(proved)
  }

  /** Makes an epoch of a batch; see Publishing. */
  async publish(body: Uint8Array, signed?: SignedFor, isLate = false): Promise<EpochStatus> {
    this.checkWrites()
    return await this.#publishing.publish(body, signed, isLate)
  }

  /** Says what a batch would make, or why it is refused; see Publishing. */
  async check(body: Uint8Array, signed?: SignedFor, isLate = false): Promise<CheckedBatch> {
    this.checkWrites()
    return await this.#publishing.check(body, signed, isLate)
  }

  /** Makes an epoch that others have made; see Publishing. */
  async take(next: KnownManifest, list: Uint8Array | undefined): Promise<number> {
    return await this.#publishing.take(next, list)
  }

  /** Makes the public hint of the newest base anew, as its builder has to, once. Throws DatasetError if the manifest names another. */
  async checkHint(): Promise<void> {
    const { generation } = this.#answered
    if (generation.base === undefined) return
    const hint = toHex(generation.base.fields.hintHash)
    if ((await readingFrom(this.location, () => this.#store.checkedHint())) === hint) return
    await checkHint(this.location, generation)
    await this.#store.noteCheckedHint(hint)
  }

  /** Gives the memory back and closes the storage, after the batches under way. */
  close(): Promise<void> {
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    const { preparing, lingering } = this.#answered
    await this.#processes.stop()
    this.#answered.show()
    await this.folding?.stop()
    await this.#queue(async () => {})
    await this.#publishing.stop()
    this.signed.close()
    await preparing.end(...preparing.bases)
    await this.#answered.generation.free()
    this.#proofs?.free()
    await lingering.close()
    await this.#storage.close()
  }
}
