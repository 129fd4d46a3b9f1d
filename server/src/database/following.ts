// A replica follows: it takes up what the process that writes has stored, epoch by epoch, while queries go on.

import { decodeManifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { DatasetError, readingFrom } from '../base/errors.js'
import { directoryFields, hasFields } from '../dataset/blocks.js'
import type { Progress } from '../dataset/build.js'
import type { Storage } from '../storage/storage.js'
import { EpochStore } from './epoch-store.js'
import type { KnownManifest } from './epochs.js'
import type { EpochInMemory, Generation } from './generation.js'
import { checkPartitions, type Loaded, layoutOf, load } from './loading.js'
import { nextOfList } from './next-epoch.js'

import type { Head } from './stored-values.js'

/** An epoch that is stored and in memory, and what changes with it once clients may know. */
export interface StoredEpoch {
  readonly epoch: EpochInMemory
  /** the epoch before, if the core answers it */
  readonly previous: EpochInMemory | undefined
  readonly generation: Generation
  /** of another generation: until when the one before is answered, in seconds since 1970 */
  readonly until: number
}

/** Takes up the epoch after `newest`. Calls `begun` when the core begins to write. After a DatasetError memory is of no use. */
export async function takeNext(
  storage: Storage,
  newest: EpochInMemory,
  generation: Generation,
  begun: () => void,
): Promise<StoredEpoch> {
  const store = new EpochStore(storage)
  return readingFrom(store.location, async () => {
    const { manifest } = newest
    const [bytes, list] = [await store.manifest(manifest.epoch + 1), await store.lists.read(manifest.epoch + 1)]
    const next = bytes && { manifest: decodeManifest(bytes), bytes }
    if (next === undefined || list === undefined || next.manifest.generation !== manifest.generation) {
      return takeGeneration(generation.core, storage, newest)
    }
    const directoryBytes = await advance(store.location, generation, next, list, begun)
    return { epoch: generation.epochOf(next, directoryBytes), previous: newest, generation, until: 0 }
  })
}

/** What a list makes of the newest epoch. Returns the bytes of the directory. */
async function advance(
  location: string,
  generation: Generation,
  { manifest }: KnownManifest,
  list: Uint8Array,
  begun: () => void,
): Promise<Uint8Array> {
  const { core, database, blocks } = generation
  const after = layoutOf(core, manifest)
  const next = await nextOfList(generation, list, after).finally(() => after.free())
  await next.write(begun)
  next.free()
  checkPartitions(location, database, manifest)
  const { directory } = next.made
  if (directory === undefined) return new Uint8Array()
  generation.directory?.free()
  generation.directory = directory.handle
  if (hasFields(manifest, directoryFields(core, directory.handle, directory.bytes, blocks, directory.hash))) {
    return directory.bytes
  }
  throw new DatasetError(location, `expected the directory of epoch ${manifest.epoch}, got another; begin a new store`)
}

/** Another generation, or epochs that no list leads to any more: loads the newest epoch beside what is answered. */
async function takeGeneration(core: Core, storage: Storage, { manifest }: EpochInMemory): Promise<StoredEpoch> {
  const { loaded, head } = await loadNewest(core, storage, true)
  const { generation } = loaded
  return {
    ...{ generation, ...epochsOf(loaded) },
    until: head.old?.epoch === manifest.epoch ? head.old.until : 0,
  }
}

/** What a loaded generation answers. */
export function epochsOf({ generation, newest, previous, directoryBytes, previousDirectoryBytes }: Loaded) {
  return {
    epoch: generation.epochOf(newest, directoryBytes),
    previous: previous && generation.epochOf(previous, previousDirectoryBytes, 'previous'),
  }
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
    return { loaded: await load(core, store, head, onProgress), head }
  }
  return isReplica && storage.engine !== undefined ? storage.engine.snapshot(read) : read(storage)
}
