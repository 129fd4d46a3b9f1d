// From storage to memory. Anything wrong is a DatasetError that names the store.
//
// 1. The lists lead the stored chunks to the epoch before the newest.
// 2. Every digest of that epoch is computed anew from the records.
// 3. The last list makes the newest epoch, whose digests are checked too.

import { setImmediate as nextTask } from 'node:timers/promises'
import {
  builtFor,
  contentHash,
  decodeManifest,
  equalBytes,
  HASH_BYTES,
  isZero,
  type Manifest,
  partitionBytes,
} from '@keyhush/protocol'
import { splitUpdateList } from '@keyhush/protocol/chain'
import type { Core, CoreError, DatabaseHandle, ServerDirectoryHandle } from '@keyhush/wasm'
import { DatasetError, readingFrom } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { blocksOf, directoryFields, hasFields } from '../dataset/blocks.js'
import type { Progress } from '../dataset/build.js'
import { misplacedRecord, storedFingerprints } from '../dataset/places.js'
import { type Dated, proofsPackage, type RowProofs, type StoredProofs } from '../dataset/proof-kinds.js'
import { baseBefore } from '../dataset/since-base.js'
import { namesMarks, nextSlotMarks, slotMarksOf } from '../dataset/slot-marks.js'
import { along, emptyDatabase, layoutOf, recordBytesView } from '../dataset/view.js'
import type { Base } from '../one-server/base.js'
import type { Storage } from '../storage/storage.js'
import { CHUNK_BYTES, changesOf, inChunks } from './chunks.js'
import { EpochStore } from './epoch-store.js'
import { type EpochInMemory, Generation } from './generation.js'
import type { Head, OldEpoch } from './stored-values.js'

/** A stored database in memory, at its newest epoch. */
export interface Loaded {
  readonly generation: Generation
  readonly epoch: EpochInMemory
  /** the epoch before, which the core answers too; undefined: the newest is its generation's first, or the store's */
  readonly previous: EpochInMemory | undefined
  /** the head's */
  readonly base: number
  /** chunks that the lists since then changed after they were written */
  readonly lagging: ReadonlySet<number>
  /** of those lists */
  readonly listBytes: number
  /** with Pointproofs */
  readonly proofs: RowProofs | undefined
}

/** Update lists by the epochs they lead to, ascending; with Pointproofs, what stands behind each. */
type Lists = StoredProofs['lists']

/** `isOld`: of a generation that has ended, whose lists may be gone; `onProgress` is called for each partition hashed. */
export async function load(
  core: Core,
  store: EpochStore,
  head: Head,
  isOld: boolean,
  onProgress?: (progress: Progress) => void,
): Promise<Loaded> {
  return readingFrom(store.location, async () => {
    const loader = new Loader(core, store, head)
    const newest = await loader.manifest(head.epoch)
    const isFirst = newest.manifest.updateListBytes === 0 || head.epoch === head.first
    const previous = isFirst ? undefined : await loader.manifest(head.epoch - 1)
    const start = previous ?? newest
    const lists = await loader.lists(isFirst, newest.manifest)
    const database = loader.allocate(start.manifest)
    try {
      const lagging = await loader.fill(database, start.manifest, newest.manifest, lists)
      await loader.commit(database, start.manifest, onProgress)
      const before = previous && { manifest: previous.manifest, list: lists.get(head.epoch)!.list }
      const previousMarks = previous && (await loader.marks(database, previous.manifest))
      if (before !== undefined) loader.advance(database, newest.manifest, before.list)
      const slotMarks = await loader.marks(database, newest.manifest, previousMarks, before?.list)
      const { directoryBytes, previousDirectoryBytes, ...directory } = await loader.directory(
        database,
        newest.manifest,
        lists,
        before,
      )
      const proofs = await loader.proofs(database, previous?.manifest, newest.manifest, lists)
      const generation = new Generation(core, { database, ...directory, slotMarks }, proofs)
      const leadsBack = !isOld || (await loader.leadsBack(newest.manifest))
      const base = leadsBack ? await loader.base(generation, newest.manifest, directoryBytes) : undefined
      const isLast = before?.manifest.oneServer?.baseEpoch !== base?.manifest.epoch
      generation.base =
        before && base && isLast
          ? await loader.base(generation, before.manifest, previousDirectoryBytes, before.list)
          : base
      const epochBefore = previous && generation.epochOf(previous, previousDirectoryBytes, 'previous', previousMarks)
      generation.base = base
      const epoch = generation.epochOf(newest, directoryBytes)
      const listBytes = [...lists.values()].reduce((sum, { list }) => sum + list.length, 0)
      return { ...{ generation, epoch, lagging, listBytes, proofs, base: head.base }, previous: epochBefore }
    } catch (error) {
      database.free()
      throw error
    }
  })
}

/** Loads the newest epoch of a storage that does not change meanwhile: nobody else writes there, or it is read as it was. */
export function loadNewest(
  core: Core,
  storage: Storage,
  isReplica: boolean,
  onProgress?: (progress: Progress) => void,
): Promise<{ readonly loaded: Loaded; readonly head: Head }> {
  const read = async (then: Storage) => {
    const store = new EpochStore(then)
    const head = await readingFrom(store.location, () => store.head())
    if (head === undefined)
      throw new DatasetError(store.location, 'the store is empty; first start the process without --replica')
    return { loaded: await load(core, store, head, false, onProgress), head }
  }
  return isReplica && storage.engine !== undefined ? storage.engine.snapshot(read) : read(storage)
}

/** The last epoch of a generation that has ended; undefined: memory does not suffice for it too. */
export async function loadOld(
  core: Core,
  store: EpochStore,
  { generation, epoch }: OldEpoch,
): Promise<Loaded | undefined> {
  try {
    return await load(core, store, { generation, epoch, base: epoch, first: epoch }, true)
  } catch (error) {
    if (error instanceof NoMemoryError) return undefined
    throw error
  }
}

class NoMemoryError extends DatasetError {}

/** Throws DatasetError if a partition has other records than the manifest says. */
function checkPartition(location: string, database: DatabaseHandle, manifest: Manifest, q: number): void {
  const wrong = wrongPartition(database, manifest, q)
  if (wrong !== undefined) throw new DatasetError(location, `${wrong}; begin a new store`)
}

/** How a partition's records are not those that the manifest says; undefined: they are. */
export function wrongPartition(database: DatabaseHandle, manifest: Manifest, q: number): string | undefined {
  if (!equalBytes(database.contentHash(q), contentHash(manifest, q)))
    return `expected the records of partition ${q}, got others`
  if (equalBytes(database.commitment(q), manifest.commitments.subarray(HASH_BYTES * q, HASH_BYTES * (q + 1))))
    return undefined
  return `expected the commitment of partition ${q}, got another`
}

class Loader {
  readonly #core: Core
  readonly #store: EpochStore
  readonly #head: Head

  constructor(core: Core, store: EpochStore, head: Head) {
    this.#core = core
    this.#store = store
    this.#head = head
  }

  async manifest(epoch: number): Promise<KnownManifest> {
    const bytes = (await this.#store.manifest(epoch)) ?? this.#wrong(`expected manifest ${epoch}, got none`)
    return { manifest: decodeManifest(bytes), bytes }
  }

  /** The lists that lead from the head's base to its epoch; and the last one, which also leads back, if there is any. */
  async lists(isFirst: boolean, { pointproofs }: Manifest): Promise<Lists> {
    const lists = new Map<number, { list: Uint8Array; rows?: Uint8Array }>()
    const { base, epoch: last } = this.#head
    for (let epoch = isFirst ? base + 1 : Math.min(base + 1, last); epoch <= last; epoch++) {
      const list = (await this.#store.lists.read(epoch)) ?? this.#wrong(`expected update list ${epoch}, got none`)
      lists.set(epoch, pointproofs === undefined ? { list } : splitUpdateList(list))
    }
    return lists
  }

  allocate(manifest: Manifest): DatabaseHandle {
    try {
      return emptyDatabase(this.#core, manifest)
    } catch (error) {
      if ((error as CoreError).code !== 'layout') throw error
      throw new NoMemoryError(this.#store.location, (error as Error).message)
    }
  }

  /** All records as they were at the epoch of `manifest`. Returns the chunks that are behind the newest epoch. */
  async fill(database: DatabaseHandle, manifest: Manifest, newest: Manifest, lists: Lists): Promise<Set<number>> {
    const bytesOf = (of: Manifest) => of.partitions * partitionBytes(of)
    const total = bytesOf(manifest)
    const changes = [...lists].map(([epoch, { list }]) => ({ epoch, ...changesOf(this.#core, list) }))
    const epochs = new Map<number, number>()
    if (!(await this.#store.generations()).includes(newest.generation)) {
      this.#wrong(`expected the mark of generation ${newest.generation}, got none`)
    }
    for await (const [number, chunk] of this.#store.chunks(newest.generation)) {
      const at = number * CHUNK_BYTES
      if (at >= bytesOf(newest)) this.#wrong('expected as many records as the manifest says, got more')
      this.#checkEpoch(chunk, `chunk ${number}`)
      epochs.set(number, Math.max(chunk.epoch, this.#head.base))
      const bytes = chunk.bytes.subarray(0, Math.max(0, total - at))
      if (at < total) recordBytesView(this.#core, database, at, bytes.length).set(bytes)
    }
    const records = recordBytesView(this.#core, database, 0, total) // until the core allocates
    const lagging = new Set<number>()
    for (const { epoch, ...list } of changes) {
      for (const { number, at, delta } of inChunks(list, newest.recordBytes)) {
        const written = epochs.get(number) ?? this.#head.base
        if (written < epoch) lagging.add(number)
        if (written < epoch === manifest.epoch < epoch) continue
        for (let i = 0; i < delta.length && at + i < total; i++) records[at + i]! ^= delta[i]!
      }
    }
    return lagging
  }

  /** Hashes all records and holds them to the manifest. */
  async commit(
    database: DatabaseHandle,
    manifest: Manifest,
    onProgress: (progress: Progress) => void = () => {},
  ): Promise<void> {
    for (let q = 0; q < manifest.partitions; q++) {
      database.commit(q)
      checkPartition(this.#store.location, database, manifest, q)
      onProgress({ stage: 'hashing', done: q + 1, total: manifest.partitions })
      await nextTask()
    }
    const { records, recordBytes } = manifest
    const unused = manifest.partitions * partitionBytes(manifest) - records * recordBytes
    if (!isZero(recordBytesView(this.#core, database, records * recordBytes, unused))) {
      this.#wrong(`expected zeros after the last of ${records} records, got other bytes`)
    }
  }

  /** The newest epoch, from the one before. */
  advance(database: DatabaseHandle, newest: Manifest, list: Uint8Array): void {
    const after = layoutOf(this.#core, newest)
    database.applyList(list, after)
    after.free()
    for (let q = 0; q < newest.partitions; q++) checkPartition(this.#store.location, database, newest, q)
  }

  /**
   * The newest epoch's directory, which must be the manifest's and lead to every record, and its padded blocks. `before`: the
   * manifest of the epoch before, which the core answers too, and the list since.
   */
  async directory(
    database: DatabaseHandle,
    newest: Manifest,
    lists: Lists,
    before?: { readonly manifest: Manifest; readonly list: Uint8Array },
  ): Promise<
    Pick<Generation, 'directory' | 'blocks'> & Record<'directoryBytes' | 'previousDirectoryBytes', Uint8Array>
  > {
    const stored = this.#recent(await this.#store.directory(newest.generation), 'the directory')
    if (!newest.keyed) {
      if (stored.bytes.length > 0) this.#wrong('expected no directory in a database without keys, got one')
      const { bytes } = stored
      return { directory: undefined, directoryBytes: bytes, previousDirectoryBytes: bytes, blocks: undefined }
    }
    let directory = this.#core.decodeDirectory(stored.bytes, newest.records)
    for (let epoch = stored.epoch + 1; epoch <= newest.epoch; epoch++) {
      const { list } = lists.get(epoch)!
      const updated = along(this.#core, list, (from, to) => directory.updated(list, from, to))
      directory.free()
      directory = updated
    }
    const directoryBytes = directory.encode()
    if (!equalBytes(this.#core.blake3(directoryBytes), newest.directoryHash)) {
      this.#wrong('expected the directory that the manifest names, got another')
    }
    const fingerprints = storedFingerprints(this.#core, database, newest)
    const misplaced = misplacedRecord(directory, fingerprints, newest.records)
    if (misplaced !== undefined) this.#wrong(`expected a directory that leads to record ${misplaced}, got another`)
    let blocks: DatabaseHandle | undefined
    let previousDirectoryBytes: Uint8Array = new Uint8Array()
    if (before === undefined) {
      blocks = blocksOf(newest, directory)
    } else {
      const { list, manifest } = before
      const old = along(this.#core, list, (from, to) => directory.undone(list, from, to))
      blocks = blocksOf(manifest, old)
      previousDirectoryBytes = old.encode()
      this.#checkBlocks(manifest, old, previousDirectoryBytes, blocks)
      old.free()
      if (blocks !== undefined) directory.bring(blocks)
    }
    this.#checkBlocks(newest, directory, directoryBytes, blocks)
    return { directory, directoryBytes, previousDirectoryBytes, blocks }
  }

  /** Whether the lists since the base of an epoch are there. The first is removed first. */
  async leadsBack({ oneServer, epoch }: Manifest): Promise<boolean> {
    const first = (oneServer?.baseEpoch ?? epoch) + 1
    return first > epoch || (await this.#store.lists.read(first)) !== undefined
  }

  /**
   * What lookups with one server at an epoch are answered from, led back to by the lists since; undefined: there are none. `after`: the list
   * since, if the epoch is the one before the newest.
   */
  async base(
    memory: Generation,
    { oneServer, epoch: last, ...manifest }: Manifest,
    directoryBytes: Uint8Array,
    after?: Uint8Array,
  ): Promise<Base | undefined> {
    if (oneServer === undefined) return undefined
    const lists: Uint8Array[] = []
    for (let epoch = oneServer.baseEpoch + 1; epoch <= last; epoch++) {
      const list = (await this.#store.lists.read(epoch)) ?? this.#wrong(`expected update list ${epoch}, got none`)
      lists.push(manifest.pointproofs === undefined ? list : splitUpdateList(list).list)
    }
    const base = await baseBefore(memory, { ...manifest, oneServer, epoch: last }, directoryBytes, lists, after)
    return base ?? this.#wrong('expected the patch of these lists, got another')
  }

  /** The slot marks of the epoch in memory; undefined: the database is not marked. `before`: those of the epoch that `list` leads from. */
  async marks(
    database: DatabaseHandle,
    manifest: Manifest,
    before?: Uint8Array,
    list?: Uint8Array,
  ): Promise<Uint8Array | undefined> {
    if (manifest.slotMarksHash === undefined) return undefined
    const marked = { core: this.#core, database }
    const marks =
      before === undefined || list === undefined
        ? await slotMarksOf(marked)
        : await nextSlotMarks(marked, before, changesOf(this.#core, list).indices)
    if (!(await namesMarks(this.#core, manifest, marks)))
      this.#wrong(`expected the slot marks of epoch ${manifest.epoch}, got others`)
    return marks
  }

  #checkBlocks(
    manifest: Manifest,
    directory: ServerDirectoryHandle,
    bytes: Uint8Array,
    blocks: DatabaseHandle | undefined,
  ): void {
    if (hasFields(manifest, directoryFields(this.#core, directory, bytes, blocks))) return
    this.#wrong(`expected the directory blocks of epoch ${manifest.epoch}, got others`)
  }

  /** What a package proves answers with; undefined: the core proves them itself. */
  async proofs(
    database: DatabaseHandle,
    previous: Manifest | undefined,
    newest: Manifest,
    lists: Lists,
  ): Promise<RowProofs | undefined> {
    if (newest.pointproofs === undefined) return undefined
    const { generation } = newest
    const rowLists = this.#recent(await this.#store.rowLists(generation), 'the row lists')
    const transcript = (await this.#store.transcript(generation)) ?? this.#wrong('expected a transcript, got none')
    const openings = this.#store.openings(generation)
    const { resume } = await proofsPackage(builtFor(newest))
    const { location } = this.#store
    return await resume(this.#core, { location, database, newest, previous, lists, transcript, rowLists, openings })
  }

  /** A stored value that lists lead on to the newest epoch, as `what` says. */
  #recent(stored: Dated | undefined, what: string): Dated {
    if (stored === undefined) return this.#wrong(`expected ${what}, got none`)
    this.#checkEpoch(stored, what)
    if (stored.epoch < this.#head.base) this.#wrong(`expected ${what} of epoch ${this.#head.base} or later, got older`)
    return stored
  }

  #checkEpoch({ epoch }: Dated, what: string): void {
    if (epoch > this.#head.epoch) this.#wrong(`expected ${what} of epoch ${this.#head.epoch} or before, got ${epoch}`)
  }

  #wrong(reason: string): never {
    throw new DatasetError(this.#store.location, `${reason}; begin a new store`)
  }
}
