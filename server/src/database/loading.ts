// From storage to memory: the stored chunks are led to one epoch by the lists, every digest of that epoch is computed
// anew from the records, and the last list makes the newest epoch of it, whose digests are checked as well. Anything
// wrong is a DatasetError that names the file.

import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  builtFor,
  contentHash,
  decodeManifest,
  equalBytes,
  HASH_BYTES,
  isZero,
  type Manifest,
  partitionBytes,
  splitUpdateList,
  updatedRowLists,
} from '@keyhush/protocol'
import type { Core, DatabaseHandle, LayoutHandle, ServerDirectoryHandle } from '@keyhush/wasm'
import { DatasetError } from '../base/errors.js'
import { blocksOf, directoryFields, hasFields } from '../dataset/blocks.js'
import type { Progress } from '../dataset/build.js'
import { type ChangedBlocks, changedBlocks } from '../dataset/changed-blocks.js'
import { misplacedRecord, storedFingerprints } from '../dataset/places.js'
import { proofsPackage, type RowOpenings, type RowProofs, type StoredProofs } from '../dataset/proof-kinds.js'
import { recordBytesView } from '../dataset/view.js'
import { StorageError } from '../storage/storage.js'
import { CHUNK_BYTES, type Dated, type EpochStore, type Head, type OldGeneration } from './epoch-store.js'
import { type InMemory, nextOfList } from './next-epoch.js'
import type { Readers } from './readers.js'

export interface KnownManifest {
  readonly manifest: Manifest
  readonly bytes: Uint8Array
}

/** A stored database in memory, at its newest epoch. */
export interface Loaded {
  readonly database: DatabaseHandle
  readonly directory: ServerDirectoryHandle | undefined
  /** empty: keyless */
  readonly directoryBytes: Uint8Array
  /** the padded blocks of the directory, at the newest epoch; undefined if nobody can ask for one */
  readonly blocks: DatabaseHandle | undefined
  readonly newest: KnownManifest
  /** what the core answers besides; undefined: the newest is its generation's first, or the store's */
  readonly previous: KnownManifest | undefined
  /** the head's */
  readonly base: number
  /** chunks that the lists since then changed after they were written */
  readonly lagging: ReadonlySet<number>
  /** of those lists */
  readonly listBytes: number
  /** with Pointproofs */
  readonly proofs: LoadedProofs | undefined
}

interface LoadedProofs {
  readonly openings: RowProofs
  /** the row lists of the previous epoch; undefined: there is none */
  readonly before: Uint8Array | undefined
}

/** `onProgress` is told of partitions hashed. */
export async function load(
  core: Core,
  store: EpochStore,
  head: Head,
  onProgress: (progress: Progress) => void = () => {},
): Promise<Loaded> {
  const loader = new Loader(core, store, head)
  const newest = await loader.manifest(head.epoch)
  const isFirst = newest.manifest.updateListBytes === 0 || head.epoch === head.first
  const start = isFirst ? newest : await loader.manifest(head.epoch - 1)
  const lists = await loader.lists(isFirst, newest.manifest)
  const database = loader.allocate(start.manifest)
  try {
    const lagging = await loader.fill(database, start.manifest, newest.manifest, lists)
    await loader.commit(database, start.manifest, onProgress)
    if (!isFirst) loader.turn(database, newest.manifest, lists.get(head.epoch)!)
    const { directory, directoryBytes } = await loader.directory(database, newest.manifest, lists)
    const blocks =
      directory &&
      loader.blocks(
        directory,
        directoryBytes,
        newest.manifest,
        isFirst ? undefined : lists.get(head.epoch)!,
        start.manifest,
      )
    const proofs = await loader.proofs(database, start.manifest, newest.manifest, lists)
    let listBytes = 0
    for (const { length } of lists.values()) listBytes += length
    return {
      ...{ database, directory, directoryBytes, blocks, newest, lagging, listBytes, proofs, base: head.base },
      previous: isFirst ? undefined : start,
    }
  } catch (error) {
    database.free()
    throw error
  }
}

/** The last epoch of a generation that has ended; undefined: memory does not suffice for it too. */
export async function loadOld(
  core: Core,
  store: EpochStore,
  { generation, epoch }: OldGeneration,
): Promise<(Pick<Loaded, 'database' | 'blocks'> & { readonly known: KnownManifest }) | undefined> {
  const loader = new Loader(core, store, { generation, epoch, base: epoch })
  const known = await loader.manifest(epoch)
  let database: DatabaseHandle
  try {
    database = loader.allocate(known.manifest)
  } catch {
    return undefined
  }
  try {
    await loader.fill(database, known.manifest, known.manifest, new Map())
    await loader.commit(database, known.manifest)
    const { directory, directoryBytes } = await loader.directory(database, known.manifest, new Map())
    const blocks = directory && loader.blocks(directory, directoryBytes, known.manifest)
    directory?.free()
    return { database, blocks, known }
  } catch (error) {
    database.free()
    throw error
  }
}

/** A stored epoch and the list that leads to it. */
export interface Step {
  readonly known: KnownManifest
  readonly list: Uint8Array
}

/** undefined: no list leads there, any more or at all. */
export async function readStep(store: EpochStore, epoch: number): Promise<Step | undefined> {
  const [bytes, list] = await readingFrom(store.location, async () => [
    await store.manifest(epoch),
    await store.list(epoch),
  ])
  if (bytes === undefined || list === undefined) return undefined
  return { known: { manifest: reading(store.location, () => decodeManifest(bytes)), bytes }, list }
}

/**
 * One epoch on, in memory: what another process has stored is made of a database whose newest epoch is the one before, in slices,
 * and every digest is held to the manifest. `begun`: as `NextEpoch.write` calls it. The directory is another one afterwards.
 * Throws DatasetError, and then none of it is of use.
 */
export async function advance(
  core: Core,
  store: EpochStore,
  now: InMemory,
  { known: { manifest }, list }: Step,
  readers: Readers,
  begun: () => void,
): Promise<Pick<Loaded, 'directory' | 'directoryBytes'>> {
  const { epoch, generation } = manifest
  const loader = new Loader(core, store, { epoch, generation, base: epoch - 1 })
  return readingFrom(store.location, () => loader.advance(now, manifest, list, readers, begun))
}

/** Runs `work` on what was stored; anything wrong with it names the file. */
function reading<T>(location: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    return wrongIn(location, error)
  }
}

/** The same for what is read as it is needed. */
export async function readingFrom<T>(location: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    return wrongIn(location, error)
  }
}

function wrongIn(location: string, error: unknown): never {
  if ((error as Error).name === 'RuntimeError') throw error // a trap of the core
  if (error instanceof DatasetError || error instanceof StorageError) throw error
  throw new DatasetError(location, (error as Error).message)
}

/** What a list changes: records, ascending, and old ⊕ new of each. */
interface Changes {
  readonly indices: Uint32Array
  readonly differences: Uint8Array
}

/** The differences, cut where chunks end: chunk, position in the database, old ⊕ new. */
function* changesOf(
  { indices, differences }: Changes,
  recordBytes: number,
): Iterable<{ number: number; at: number; delta: Uint8Array }> {
  for (const [i, index] of indices.entries()) {
    const start = index * recordBytes
    const delta = differences.subarray(i * recordBytes, (i + 1) * recordBytes)
    for (let done = 0; done < recordBytes; ) {
      const number = Math.floor((start + done) / CHUNK_BYTES)
      const end = Math.min(recordBytes, (number + 1) * CHUNK_BYTES - start)
      yield { number, at: start + done, delta: delta.subarray(done, end) }
      done = end
    }
  }
}

class Loader {
  readonly #core: Core
  readonly #store: EpochStore
  readonly #head: Head
  /** the commitments of rows behind a list, by its epoch */
  readonly #touched = new Map<number, Uint8Array>()

  constructor(core: Core, store: EpochStore, head: Head) {
    this.#core = core
    this.#store = store
    this.#head = head
  }

  async manifest(epoch: number): Promise<KnownManifest> {
    const bytes =
      (await this.#readingFrom(() => this.#store.manifest(epoch))) ??
      this.#wrong(`the manifest of epoch ${epoch} is missing`)
    return { manifest: this.#reading(() => decodeManifest(bytes)), bytes }
  }

  /** The lists that lead from the head's base to its epoch; and the last one, which also leads back, if there is any. */
  async lists(isFirst: boolean, { pointproofs }: Manifest): Promise<Map<number, Uint8Array>> {
    const lists = new Map<number, Uint8Array>()
    const { base, epoch: last } = this.#head
    for (let epoch = isFirst ? base + 1 : Math.min(base + 1, last); epoch <= last; epoch++) {
      const stored =
        (await this.#readingFrom(() => this.#store.list(epoch))) ??
        this.#wrong(`the update list of epoch ${epoch} is missing`)
      const { list, rows } = pointproofs
        ? this.#reading(() => splitUpdateList(stored))
        : { list: stored, rows: undefined }
      lists.set(epoch, list)
      if (rows !== undefined) this.#touched.set(epoch, rows)
    }
    return lists
  }

  allocate(manifest: Manifest): DatabaseHandle {
    return this.#reading(() => {
      const layout = this.#layoutOf(manifest)
      const database = this.#core.newDatabase(layout, builtFor(manifest), manifest.maxBatch)
      layout.free()
      return database
    })
  }

  /** All records as they were at the epoch of `manifest`. Returns the chunks that are behind the newest epoch. */
  async fill(
    database: DatabaseHandle,
    manifest: Manifest,
    newest: Manifest,
    lists: Map<number, Uint8Array>,
  ): Promise<Set<number>> {
    const bytesOf = (of: Manifest) => of.partitions * partitionBytes(of)
    const total = bytesOf(manifest)
    const changes = [...lists].map(([epoch, list]) => ({ epoch, ...this.#decoded(list) }))
    const epochs = new Map<number, number>()
    if (!(await this.#readingFrom(() => this.#store.generations())).includes(newest.generation)) {
      this.#wrong(`the mark of generation ${newest.generation} is missing`)
    }
    await this.#readingFrom(async () => {
      for await (const [number, chunk] of this.#store.chunks(newest.generation)) {
        const at = number * CHUNK_BYTES
        if (at >= bytesOf(newest)) this.#wrong('it holds more records than its manifest says')
        this.#checkEpoch(chunk, `chunk ${number}`)
        epochs.set(number, Math.max(chunk.epoch, this.#head.base))
        const bytes = chunk.bytes.subarray(0, Math.max(0, total - at))
        if (at < total) recordBytesView(this.#core, database, at, bytes.length).set(bytes)
      }
    })
    const records = recordBytesView(this.#core, database, 0, total) // until the core allocates
    const lagging = new Set<number>()
    for (const { epoch, ...list } of changes) {
      for (const { number, at, delta } of changesOf(list, newest.recordBytes)) {
        const written = epochs.get(number) ?? this.#head.base
        if (written < epoch) lagging.add(number)
        if (written < epoch === manifest.epoch < epoch) continue
        for (let i = 0; i < delta.length && at + i < total; i++) records[at + i]! ^= delta[i]!
      }
    }
    return lagging
  }

  #decoded(list: Uint8Array): Changes {
    return this.#reading(() => {
      const handle = this.#core.decodeUpdateList(list)
      const changes = { indices: handle.indices(), differences: handle.differences() }
      handle.free()
      return changes
    })
  }

  /** Hashes all records and holds them to the manifest. */
  async commit(
    database: DatabaseHandle,
    manifest: Manifest,
    onProgress: (progress: Progress) => void = () => {},
  ): Promise<void> {
    for (let q = 0; q < manifest.partitions; q++) {
      database.commit(q)
      this.#checkPartition(database, manifest, q)
      onProgress({ stage: 'hashing', done: q + 1, total: manifest.partitions })
      await nextTurn()
    }
    this.#checkPadding(database, manifest)
  }

  #checkPartition(database: DatabaseHandle, manifest: Manifest, q: number): void {
    if (!equalBytes(database.contentHash(q), contentHash(manifest, q))) {
      this.#wrong(`the records of partition ${q} are not those of epoch ${manifest.epoch}`)
    }
    if (!equalBytes(database.commitment(q), manifest.commitments.subarray(HASH_BYTES * q, HASH_BYTES * (q + 1)))) {
      this.#wrong(`the commitment of partition ${q} is not that of its records`)
    }
  }

  #checkPadding(database: DatabaseHandle, manifest: Manifest): void {
    const { records, recordBytes } = manifest
    const unused = manifest.partitions * partitionBytes(manifest) - records * recordBytes
    if (!isZero(recordBytesView(this.#core, database, records * recordBytes, unused))) {
      this.#wrong(`bytes after the last of its ${records} records are not zero`)
    }
  }

  /** The newest epoch, from the one before. */
  turn(database: DatabaseHandle, newest: Manifest, list: Uint8Array): void {
    this.#reading(() => {
      const after = this.#layoutOf(newest)
      database.applyList(list, after)
      after.free()
    })
    this.#checkPartitions(database, newest)
  }

  #checkPartitions(database: DatabaseHandle, manifest: Manifest): void {
    for (let q = 0; q < manifest.partitions; q++) this.#checkPartition(database, manifest, q)
  }

  /** The newest epoch's directory, if it is the manifest's and leads to every record there is. */
  async directory(
    database: DatabaseHandle,
    newest: Manifest,
    lists: Map<number, Uint8Array>,
  ): Promise<{ directory: ServerDirectoryHandle | undefined; directoryBytes: Uint8Array }> {
    const stored =
      (await this.#readingFrom(() => this.#store.directory(newest.generation))) ??
      this.#wrong('its directory is missing')
    this.#checkEpoch(stored, 'the directory')
    if (stored.epoch < this.#head.base) this.#wrong('its directory is too old')
    if (!newest.keyed) {
      if (stored.bytes.length > 0) this.#wrong('it has a directory and no keys')
      return { directory: undefined, directoryBytes: stored.bytes }
    }
    const directory = this.#reading(() => {
      let latest = this.#core.decodeDirectory(stored.bytes, newest.records)
      for (let epoch = stored.epoch + 1; epoch <= newest.epoch; epoch++)
        latest = this.#updated(latest, lists.get(epoch)!)
      return latest
    })
    const directoryBytes = directory.encode()
    if (!equalBytes(this.#core.blake3(directoryBytes), newest.directoryHash)) {
      this.#wrong('its directory is not the one that the manifest names')
    }
    this.#checkPlaces(directory, database, newest)
    return { directory, directoryBytes }
  }

  /** Row lists and openings: as stored, led on by the lists; undefined without Pointproofs. */
  async proofs(
    database: DatabaseHandle,
    start: Manifest,
    newest: Manifest,
    lists: Map<number, Uint8Array>,
  ): Promise<LoadedProofs | undefined> {
    const { pointproofs, generation, partitions, recordBytes, blockRecords } = newest
    if (pointproofs === undefined) return undefined
    const { location } = this.#store
    const transcript =
      (await this.#readingFrom(() => this.#store.transcript(generation))) ?? this.#wrong('its transcript is missing')
    const { resume } = await proofsPackage(builtFor(newest))
    const proved = await resume(this.#core, newest, transcript, location)
    try {
      const rowLists = await this.#rowLists(newest, lists)
      for (let q = 0; q < partitions; q++) {
        const partition = recordBytesView(this.#core, database, q * partitionBytes(newest), partitionBytes(newest))
        if (!proved.commits(rowLists, q, partition)) {
          this.#wrong(`the rows of partition ${q} are not those of its records`)
        }
        await nextTurn()
      }
      const openings = proved.finish(await this.#openings(newest, proved), rowLists)
      // Backwards, as what lists say is old ⊕ new; what a row has yet to be told of, forwards.
      const steps: { readonly epoch: number; readonly changed: ChangedBlocks }[] = []
      const blockBytes = recordBytes * blockRecords
      const later = new Map<number, Uint8Array>()
      const blockOf = (block: number) =>
        later.get(block) ?? recordBytesView(this.#core, database, block * blockBytes, blockBytes).slice()
      for (const [epoch, list] of [...lists].reverse()) {
        const { indices, differences } = this.#decoded(list)
        const changed = changedBlocks(newest, indices, differences, blockOf)
        for (const [n, block] of changed.blocks.entries()) {
          later.set(block, changed.old.subarray(n * blockBytes, (n + 1) * blockBytes))
        }
        steps.unshift({ epoch, changed })
      }
      for (const { epoch, changed } of steps) openings.missed(epoch, changed)
      const last = steps.at(-1)
      const before =
        start === newest || last === undefined ? undefined : await openings.before(start.partitions, last.changed)
      if (before !== undefined && !equalBytes(this.#core.blake3(before), start.pointproofs!.rowsHash)) {
        this.#wrong(`the rows before the newest epoch are not those of epoch ${start.epoch}`)
      }
      return { openings, before }
    } catch (error) {
      proved.free()
      throw error
    }
  }

  /** Of the newest epoch. */
  async #rowLists(newest: Manifest, lists: Map<number, Uint8Array>): Promise<Uint8Array> {
    const stored =
      (await this.#readingFrom(() => this.#store.rowLists(newest.generation))) ??
      this.#wrong('its row lists are missing')
    this.#checkEpoch(stored, 'what commits to rows')
    if (stored.epoch < this.#head.base) this.#wrong('its row lists are too old')
    let rowLists = stored.bytes
    for (let epoch = stored.epoch + 1; epoch <= newest.epoch; epoch++) {
      const list = lists.get(epoch)!
      const { indices } = this.#decoded(list)
      const partitions = this.#along(list, (_, after) => after.partitions)
      rowLists = this.#reading(() =>
        updatedRowLists(rowLists, { ...newest, partitions }, indices, this.#touched.get(epoch)!),
      )
    }
    if (!equalBytes(this.#core.blake3(rowLists), newest.pointproofs!.rowsHash)) {
      this.#wrong('its row lists are not those that the manifest names')
    }
    return rowLists
  }

  async #openings(newest: Manifest, proved: StoredProofs): Promise<RowOpenings[]> {
    const rows = proved.emptyRows()
    await this.#readingFrom(async () => {
      for await (const [row, openings] of this.#store.openings(newest.generation)) {
        this.#checkEpoch(openings, `what opens row ${row}`)
        if (openings.bytes.length !== rows[row]?.bytes.length) this.#wrong(`what opens row ${row} is of another length`)
        rows[row] = openings
      }
    })
    return rows
  }

  /** The newest epoch, from the one before, while queries go on. */
  async advance(
    now: InMemory,
    newest: Manifest,
    list: Uint8Array,
    readers: Readers,
    begun: () => void,
  ): Promise<Pick<Loaded, 'directory' | 'directoryBytes'>> {
    const { database, blocks } = now
    const after = this.#layoutOf(newest)
    const next = await nextOfList(this.#core, now, list, after, readers).finally(() => after.free())
    await next.write(begun)
    next.free()
    this.#checkPartitions(database, newest)
    const { directory } = next.made
    if (directory === undefined) return { directory: undefined, directoryBytes: new Uint8Array() }
    now.directory?.free()
    const { handle, bytes, hash } = directory
    if (!hasFields(newest, directoryFields(this.#core, handle, bytes, blocks, hash))) {
      this.#wrong(`its directory is not that of epoch ${newest.epoch}`)
    }
    return { directory: handle, directoryBytes: bytes }
  }

  #layoutOf({ records, recordBytes, partitions, partitionRecords, blockRecords }: Manifest): LayoutHandle {
    return this.#core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
  }

  #updated(directory: ServerDirectoryHandle, list: Uint8Array): ServerDirectoryHandle {
    const updated = this.#along(list, (before, after) => directory.updated(list, before, after))
    directory.free()
    return updated
  }

  /** Runs `step` with the layouts that a list leads from and to. */
  #along<T>(list: Uint8Array, step: (before: LayoutHandle, after: LayoutHandle) => T): T {
    const changes = this.#core.decodeUpdateList(list)
    const { before, after } = changes
    try {
      return step(before, after)
    } finally {
      for (const handle of [changes, before, after]) handle.free()
    }
  }

  /** The padded blocks of a directory, at the newest epoch; with the one before, if a list leads there. */
  blocks(
    directory: ServerDirectoryHandle,
    directoryBytes: Uint8Array,
    newest: Manifest,
    list?: Uint8Array,
    before?: Manifest,
  ): DatabaseHandle | undefined {
    const check = (
      manifest: Manifest,
      of: ServerDirectoryHandle,
      bytes: Uint8Array,
      blocks: DatabaseHandle | undefined,
    ) => {
      if (hasFields(manifest, directoryFields(this.#core, of, bytes, blocks))) return
      this.#wrong(`the blocks of its directory are not those of epoch ${manifest.epoch}`)
    }
    if (list === undefined || before === undefined) {
      const blocks = this.#reading(() => blocksOf(newest, directory))
      check(newest, directory, directoryBytes, blocks)
      return blocks
    }
    const old = this.#reading(() => this.#along(list, (from, to) => directory.undone(list, from, to)))
    const blocks = this.#reading(() => blocksOf(before, old))
    check(before, old, old.encode(), blocks)
    old.free()
    this.#reading(() => blocks && directory.bring(blocks))
    check(newest, directory, directoryBytes, blocks)
    return blocks
  }

  #checkPlaces(directory: ServerDirectoryHandle, database: DatabaseHandle, newest: Manifest): void {
    const fingerprints = storedFingerprints(this.#core, database, newest)
    const misplaced = misplacedRecord(directory, fingerprints, newest.records)
    if (misplaced !== undefined) this.#wrong(`its directory does not lead to record ${misplaced}`)
  }

  #checkEpoch({ epoch }: Dated, what: string): void {
    if (epoch > this.#head.epoch) this.#wrong(`${what} is of an epoch that is not there`)
  }

  #reading<T>(work: () => T): T {
    return reading(this.#store.location, work)
  }

  #readingFrom<T>(work: () => Promise<T>): Promise<T> {
    return readingFrom(this.#store.location, work)
  }

  #wrong(reason: string): never {
    throw new DatasetError(this.#store.location, reason)
  }
}
