// Batches become epochs, one after the other and durably, while queries go on.
//
// The core applies a batch in place. Until it is on disk the newest epoch here is the core's previous one. If the write fails,
// that lasts until the same batch is published again.

import { type Batch, type EpochStatus, hasOneServer, type Manifest, toHex } from '@keyhush/protocol'
import type { KnownManifest } from '../base/known-manifest.js'
import { Refusal } from '../base/refusal.js'
import { directoryFields } from '../dataset/blocks.js'
import { hashed } from '../dataset/hashing.js'
import type { Folding, RowProofs } from '../dataset/proof-kinds.js'
import { marksField } from '../dataset/slot-marks.js'
import { StorageError } from '../storage/storage.js'
import { checkExpiry, isNext, madeBefore, readBatch, type SignedFor } from './batches.js'
import { oldestKept } from './changing-epochs.js'
import { chunksOf } from './chunks.js'
import type { BatchRecord } from './epoch-store.js'
import { infoOf } from './epochs.js'
import type { EpochInMemory, Generation } from './generation.js'
import type { Loaded } from './loading.js'
import { type NextEpoch, nextOfBatch } from './next-epoch.js'
import { makeGeneration } from './next-generation.js'
import { nextManifest } from './next-manifest.js'
import { checkHintable, expectBase, type MadeOf, withBase } from './one-server.js'
import { type BeginGeneration, type Operations, readOperations, refuse } from './operations.js'
import type { Processes, Together } from './processes.js'
import { ANOTHER_PROCESS } from './stored-values.js'
import { checkAdded, checkEntries, MisfitError, takeGeneration, takeList } from './taking.js'
import { WriteBehind } from './write-behind.js'

/** What publishing needs of a database. */
interface Published extends Together {
  readonly processes: Processes
  readonly folding: Folding | undefined
  /** epochs before the newest that stay known */
  readonly history: number
  /** seconds since 1970 */
  readonly now: () => number
}

/** What a batch made of the core's database, not yet on disk. */
interface UnwrittenEpoch {
  readonly epoch: EpochInMemory
  /** as clients fetch it */
  readonly list: Uint8Array
  /** indices of records that changed */
  readonly changed: Uint32Array
  readonly batch: BatchRecord
}

/** A generation in memory, and its first epoch, not yet on disk. */
interface GenerationInMemory {
  readonly generation: Generation
  readonly known: KnownManifest
  readonly directoryBytes: Uint8Array
}

/** The epoch that a batch would make. */
export interface CheckedBatch {
  readonly generation: number
  readonly epoch: number
  /** partitions that it would have */
  readonly partitions: number
}

/** Called once a batch is on disk. */
type OnStored = (status: EpochStatus) => void

export class Publishing {
  readonly #database: Published
  /** what proves answers, where the core does not */
  readonly #proofs: RowProofs | undefined
  readonly #chunks: WriteBehind
  /** what is applied in the core, and not on disk yet, or could not be written */
  #unwritten: { readonly made: UnwrittenEpoch; readonly hasFailed: boolean } | undefined

  constructor(database: Published, loaded: Loaded) {
    const { store, answered, queue } = database
    const { proofs } = loaded
    this.#database = database
    this.#proofs = proofs
    const current = () => {
      const { manifest, directoryBytes } = answered.newest
      return { epoch: manifest.epoch, chunk: chunksOf(answered.generation, manifest), directoryBytes, proofs }
    }
    this.#chunks = new WriteBehind(store, queue, current, loaded)
  }

  /** Why nothing can be published but the same batch, for people; undefined: other batches can. */
  get failure(): string | undefined {
    const isWaiting = this.#unwritten?.hasFailed && !this.#database.answered.hasFailed
    return isWaiting ? 'a batch could not be written; publish it again' : undefined
  }

  /**
   * Makes an epoch of a batch (the bytes of `POST /v1/epochs`), unless it was made before. Resolves when it is on disk, whatever other
   * processes do that take it up. Batches run one after the other. The bytes must be those that `signed` names. `isLate`: another
   * server has made the epoch, so the batch may have expired. Throws a Refusal; then nothing has changed.
   */
  async publish(body: Uint8Array, signed: SignedFor | undefined, isLate: boolean): Promise<EpochStatus> {
    const { answered, past, queue, now } = this.#database
    const read = async () => {
      const hash = await hashed(answered.generation.core, body)
      return { batch: readBatch(body, hash, signed), hash: toHex(hash) }
    }
    if (answered.staged !== undefined) {
      // Its turn is not over. The batch that made it may come again, and does not have to wait.
      const { batch, hash } = await read()
      if (batch.epoch <= answered.latest.manifest.epoch && !isNext(batch, answered.latest)) {
        return madeBefore(batch, hash, past.status(batch.epoch))
      }
    }
    return await new Promise<EpochStatus>((resolve, reject) => {
      const turn = queue(async () => {
        if (answered.hasFailed) throw new Refusal('not_ready', 'this server has failed and is restarting')
        const { batch, hash } = await read()
        if (!isNext(batch, answered.newest)) return madeBefore(batch, hash, past.status(batch.epoch))
        if (!isLate) checkExpiry(batch, now())
        return await this.#make(batch, hash, resolve)
      })
      turn.then(resolve, reject)
    })
  }

  /**
   * Does with a batch what `publish` does, up to the point where something would change, and throws the outcome away. Throws a Refusal, as
   * `publish` would.
   */
  async check(body: Uint8Array, signed: SignedFor | undefined, isLate = false): Promise<CheckedBatch> {
    const { answered, past, queue, now } = this.#database
    return await queue(async () => {
      const { core } = answered.generation
      const hash = await hashed(core, body)
      const batch = readBatch(body, hash, signed)
      const { generation, epoch } = batch
      const { partitions, partitionRecords } = answered.newest.manifest
      if (!isNext(batch, answered.newest)) {
        madeBefore(batch, toHex(hash), past.status(epoch))
        return { generation, epoch, partitions }
      }
      if (!isLate) checkExpiry(batch, now())
      if (this.#waiting(toHex(hash)) !== undefined) return { generation, epoch, partitions }
      const operations = await this.#operationsOf(batch)
      if ('headroom' in operations)
        return refuse(1, 'expected changes of records, got a new generation; publish it unchecked')
      const next = await nextOfBatch(answered.generation, operations)
      const last = next.made.changed.at(-1) ?? 0
      next.discard()
      return { generation, epoch, partitions: Math.max(partitions, Math.floor(last / partitionRecords) + 1) }
    })
  }

  /**
   * Makes the next epoch of its manifest, which must follow the newest, and of the list that leads there; without one, of a new
   * generation. Resolves, once it is on disk, to the records that changed. Throws MisfitError if the manifest says something else than
   * comes of it: nothing is stored then, and memory is of no use.
   */
  async take(next: KnownManifest, list: Uint8Array | undefined): Promise<number> {
    return await this.#database.queue(() =>
      this.#orFail(async () => (list === undefined ? this.#takeGeneration(next) : this.#takeList(next, list))),
    )
  }

  async #takeList(next: KnownManifest, list: Uint8Array): Promise<number> {
    const { answered } = this.#database
    const { generation, newest } = answered
    const { updateListBytes: length } = next.manifest
    if (list.length !== length) throw new MisfitError(`expected a list of ${length} bytes, got ${list.length}`)
    const added = await checkEntries(generation, newest.manifest, list)
    const { changed, directory } = await takeList(generation, next, list, () => answered.begun())
    checkAdded(added, next.manifest.records, generation)
    const directoryBytes = directory?.bytes ?? new Uint8Array()
    await this.#checkBase(generation, { manifest: next.manifest, directoryBytes, list })
    const epoch = generation.epochOf(next, directoryBytes)
    await this.#write({ epoch, list, changed, batch: { batch: '', changes: changed.length } }, () => {})
    return changed.length
  }

  async #takeGeneration(known: KnownManifest): Promise<number> {
    const { answered } = this.#database
    await this.#chunks.flush()
    const made = await takeGeneration(answered.generation, answered.newest.manifest, known)
    const { generation, directoryBytes } = made
    try {
      await this.#checkBase(generation, { manifest: known.manifest, directoryBytes, list: undefined })
    } catch (error) {
      await generation.free()
      throw error
    }
    await this.#begin({ ...made, known }, { batch: '', changes: 0 }, () => {})
    return 0
  }

  /** Makes what a manifest says for lookups with one server. Throws MisfitError if it says something else. */
  async #checkBase(generation: Generation, made: MadeOf): Promise<void> {
    if (!hasOneServer(made.manifest)) return
    await withBase(generation, made, this.#database.answered.preparing)
    expectBase(generation.base!, made.manifest)
  }

  /** Nothing is written afterwards. */
  async stop(): Promise<void> {
    await this.#chunks.stop()
  }

  async #make(batch: Batch, hash: string, onStored: OnStored): Promise<EpochStatus> {
    const waiting = this.#waiting(hash)
    if (waiting !== undefined) return await this.#write(waiting, onStored)
    const { generation } = this.#database.answered
    const operations = await this.#operationsOf(batch)
    if ('headroom' in operations) return await this.#beginGeneration(batch, hash, operations.headroom, onStored)
    const next = await nextOfBatch(generation, operations)
    const made = await this.#orFail(() => this.#makeEpoch(next, batch, hash))
    return await this.#write(made, onStored)
  }

  /** What this batch made, if it could not be written. Throws a Refusal if that is so of another. */
  #waiting(hash: string): UnwrittenEpoch | undefined {
    if (this.#unwritten === undefined || this.#unwritten.made.batch.batch === hash) return this.#unwritten?.made
    const reason = 'the previous batch could not be written; publish it again, or restart this server'
    throw new Refusal('not_ready', reason)
  }

  async #operationsOf(batch: Batch): Promise<Operations | BeginGeneration> {
    const { generation, newest } = this.#database.answered
    const operations = await readOperations(generation.core, newest.manifest, batch)
    const added = 'headroom' in operations ? operations.headroom : operations.kinds.length
    checkHintable(generation, newest.manifest, batch.expires, added)
    return operations
  }

  /** A batch's changes become the next epoch in memory (TAPIR Fig. 6, UpdateDB). */
  async #makeEpoch(next: NextEpoch, batch: Batch, hash: string): Promise<UnwrittenEpoch> {
    const { answered } = this.#database
    const { generation, newest, preparing } = answered
    const { manifest } = newest
    await next.write(() => answered.begun())
    const { core, database, blocks } = generation
    const { list: changes, listHash, changed, directory } = next.made
    const directoryBytes = directory?.bytes ?? new Uint8Array()
    let list = changes
    let { pointproofs }: Pick<Manifest, 'pointproofs'> = manifest
    if (this.#proofs !== undefined && pointproofs !== undefined) {
      const { rows, rowsHash } = await this.#proofs.advance(batch.epoch, changes, database)
      pointproofs = { ...pointproofs, rowsHash }
      list = Buffer.concat([changes, rows])
    }
    const unhinted = nextManifest(generation, newest, batch, {
      ...directoryFields(core, directory?.handle, directoryBytes, blocks, directory?.hash),
      generation: manifest.generation,
      updateListBytes: list.length,
      updateListHash: list === changes ? listHash : await hashed(core, list),
      pointproofs,
      oneServer: undefined,
      ...(await marksField(core, generation.slotMarks)),
    })
    const made = { manifest: unhinted.manifest, directoryBytes, list: changes }
    const known = hasOneServer(manifest) ? await withBase(generation, made, preparing) : unhinted
    const epoch = generation.epochOf(known, directoryBytes)
    return { epoch, list, changed, batch: { batch: hash, changes: changed.length } }
  }

  /** Puts an epoch on disk. Throws StorageError; it is then kept, for the same batch to come again. */
  async #write(made: UnwrittenEpoch, onStored: OnStored): Promise<EpochStatus> {
    const { store, answered, folding, history } = this.#database
    const { epoch, list, batch, changed } = made
    const { manifest, manifestBytes: bytes } = epoch
    return this.#orFail(async () => {
      const isAgain = this.#unwritten !== undefined
      this.#unwritten = { made, hasFailed: false }
      const oldest = oldestKept(manifest, this.#database.answered.newest.manifest, history)
      const added = await store.append({ manifest, bytes, list, batch, oldest }).catch((error: unknown) => {
        this.#unwritten = { made, hasFailed: true }
        throw error
      })
      // A write that was said to have failed may have reached the disk.
      const isStored = added || (isAgain && (await store.isNewest(manifest.epoch, bytes)))
      if (!isStored) throw new Error(ANOTHER_PROCESS)
      this.#unwritten = undefined
      const status = { ...infoOf(epoch), ...batch }
      const { generation, newest: previous } = answered
      await this.#database.processes.announce({ epoch, previous, generation, until: 0 }, status, onStored)
      this.#chunks.note(changed, manifest.recordBytes, list.length)
      this.#chunks.catchUp()
      folding?.catchUp()
      return status
    })
  }

  /** The first epoch of the next generation. Until it is on disk nothing here has changed. */
  async #beginGeneration(batch: Batch, hash: string, headroom: number, onStored: OnStored): Promise<EpochStatus> {
    if (this.#proofs !== undefined) {
      refuse(1, 'a generation needs new openings for all records; build it with `keyhush build --succeeds`')
    }
    const { answered } = this.#database
    const { newest, preparing } = answered
    // What stays on disk of the old generation is to be its last epoch, without a list.
    await this.#chunks.flush()
    void preparing.makeRoom()
    const made = await makeGeneration(answered.generation, newest, batch, headroom)
    const { generation, directoryBytes } = made
    const first = { manifest: made.known.manifest, directoryBytes, list: undefined }
    const hinted = hasOneServer(newest.manifest) ? withBase(generation, first, preparing) : made.known
    const known = await Promise.resolve(hinted).catch(async error => {
      await generation.free()
      throw error
    })
    return await this.#begin({ ...made, known }, { batch: hash, changes: 0 }, onStored)
  }

  /** Stores the next generation, which is in memory. Until it is on disk nothing else has changed. */
  async #begin(made: GenerationInMemory, record: BatchRecord, onStored: OnStored): Promise<EpochStatus> {
    const { store, answered, processes, history } = this.#database
    const { newest, preparing, lingering } = answered
    const { generation, known, directoryBytes } = made
    const orFree = <T>(work: Promise<T>) =>
      work.catch(async (error: unknown) => {
        if (generation.base !== undefined) await preparing.end(generation.base)
        await generation.free()
        throw error
      })
    const { until } = lingering
    await orFree(store.stage(known.manifest, chunksOf(generation, known.manifest)))
    return this.#orFail(async () => {
      const directories = { directory: directoryBytes, oldDirectory: newest.directoryBytes }
      const changes = {
        ...known,
        ...directories,
        batch: record,
        until,
        oldest: oldestKept(known.manifest, newest.manifest, history),
      }
      if (!(await orFree(store.begin(changes)))) throw new Error(ANOTHER_PROCESS)
      const epoch = generation.epochOf(known, directoryBytes)
      const status = { ...infoOf(epoch), ...record }
      await processes.announce({ epoch, previous: undefined, generation, until }, status, onStored)
      return status
    })
  }

  /** While disk may differ from memory, a failure is for good, unless it only says that nothing was written. */
  async #orFail<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      void this.#chunks.stop() // memory may have an epoch that is not on disk
      if (!(error instanceof StorageError)) this.#database.answered.fail(error as Error)
      throw error
    }
  }
}
