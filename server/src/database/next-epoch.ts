// The next epoch, made in memory of a batch, or of the list that another process made of one, in slices: the event loop has its
// turn between them, and the epochs that are answered are answered all the while.
//
// Drafting changes nothing, so that a batch can be refused. Then the newest epoch becomes the previous one, at one go, and
// what leads to the next is written. Threads that read the same memory are kept away only while what they read is written.

import type { Core, DatabaseHandle, DraftHandle, LayoutHandle, ServerDirectoryHandle, WriteHandle } from '@keyhush/wasm'
import { gathered, Pace } from '../base/pace.js'
import type { Operations } from './operations.js'
import type { Readers } from './readers.js'

/** What changes from epoch to epoch in memory. */
export interface InMemory {
  readonly database: DatabaseHandle
  /** the padded blocks of its directory; undefined if nobody can ask for one */
  readonly blocks: DatabaseHandle | undefined
  readonly directory: ServerDirectoryHandle | undefined
}

/** The directory of the next epoch. */
interface NextDirectory {
  readonly handle: ServerDirectoryHandle
  readonly bytes: Uint8Array
  /** BLAKE3 of them */
  readonly hash: Uint8Array
}

/** Operations that cross into the core together. */
const OPERATIONS_TOGETHER = 1 << 13

/** A write and what it is for. */
interface Part {
  readonly write: WriteHandle
  readonly database: DatabaseHandle
}

/** What came of drafting. */
export interface Drafted {
  /** without keys there is none */
  readonly directory: NextDirectory | undefined
  /** the update list, without what Pointproofs put behind it … */
  readonly list: Uint8Array
  /** … and its BLAKE3 */
  readonly listHash: Uint8Array
  /** records that it changes, ascending */
  readonly changed: Uint32Array
}

/** Drafts what a batch makes. Throws the core's errors, RefusedError among them, and then nothing has changed. */
export async function nextOfBatch(
  core: Core,
  now: InMemory,
  operations: Operations,
  readers: Readers,
): Promise<NextEpoch> {
  const { kinds, fingerprints, indices, records } = operations
  const [pace, count] = [new Pace(), kinds.length]
  const draft = core.newDraft(now.database, now.directory !== undefined, count)
  return drafted(core, now, draft, readers, pace, async () => {
    for (let start = 0; start < count; start += OPERATIONS_TOGETHER) {
      const end = Math.min(count, start + OPERATIONS_TOGETHER)
      const part = (all: Uint8Array) => all.subarray((start * all.length) / count, (end * all.length) / count)
      draft.push(part(kinds), part(fingerprints), indices.subarray(start, end), part(records))
      await pace.turn()
    }
  })
}

/** Drafts what a list makes that leads to layout `after`. Throws the core's errors, and then nothing has changed. */
export async function nextOfList(
  core: Core,
  now: InMemory,
  list: Uint8Array,
  after: LayoutHandle,
  readers: Readers,
): Promise<NextEpoch> {
  return drafted(core, now, core.newDraftOfList(now.database, list, after), readers, new Pace())
}

export class NextEpoch {
  readonly made: Drafted
  readonly #readers: Readers
  readonly #parts: readonly Part[]
  readonly #pace: Pace

  constructor(made: Drafted, readers: Readers, parts: readonly Part[], pace: Pace) {
    this.made = made
    this.#readers = readers
    this.#parts = parts
    this.#pace = pace
  }

  /**
   * Writes it. `begun` is called in the moment from which on the newest epoch is the previous one; then there is no way back.
   */
  async write(begun: () => void): Promise<void> {
    await this.#run(() => {
      begun()
      for (const { write, database } of this.#parts) write.begin(database)
    })
  }

  /** Sees to it that `write` cannot fail any more. Throws the core's `layout` error, and then nothing has changed. */
  async makeReady(): Promise<void> {
    await this.#run()
  }

  /** Makes all steps there are, after `begin`, which is to be alone. */
  async #run(begin?: () => void): Promise<void> {
    const left = [...this.#parts]
    const step = () => {
      const { write, database } = left[0]!
      if (!write.step(database)) left.shift()
    }
    let beginning = begin
    const alone = () => {
      this.#pace.begin()
      beginning?.()
      beginning = undefined
      do step()
      while (left.length > 0 && !this.#pace.isOver)
    }
    while (left.length > 0) {
      if (beginning !== undefined || left[0]!.write.alone) await this.#readers.exclusively(alone)
      else step()
      await this.#pace.turn()
    }
  }

  /** Gives back what only writing needs. The directory is the caller's. */
  free(): void {
    for (const { write } of this.#parts) write.free()
  }
}

async function drafted(
  core: Core,
  { database, blocks, directory }: InMemory,
  draft: DraftHandle,
  readers: Readers,
  pace: Pace,
  begin: () => Promise<void> = async () => {},
): Promise<NextEpoch> {
  const parts: Part[] = []
  let next: ServerDirectoryHandle | undefined
  let isOpen = true // `draft`
  try {
    await begin()
    const step = () => (directory === undefined ? draft.stepKeyless(database) : draft.stepKeyed(database, directory))
    while (step()) await pace.turn()
    const [listHash, directoryHash] = [draft.listHash(), draft.directoryHash()]
    next = draft.takeDirectory()
    isOpen = false
    const write = draft.intoWrite()
    parts.push({ write, database })
    await pace.turn()
    const list = await gathered(write.listBytes, (start, end) => write.listPart(start, end), pace)
    const changed = write.indices()
    await pace.turn()
    let made: NextDirectory | undefined
    if (next !== undefined) {
      const handle = next
      const bytes = await gathered(handle.encodedBytes, (start, end) => handle.encodePart(start, end), pace)
      made = { handle, bytes, hash: directoryHash! }
      if (blocks !== undefined) parts.push({ write: await bringing(core, handle, blocks, pace), database: blocks })
    }
    const epoch = new NextEpoch({ directory: made, list, listHash, changed }, readers, parts, pace)
    await epoch.makeReady()
    return epoch
  } catch (error) {
    if ((error as Error).name === 'RuntimeError') throw error // a trap of the core: nothing in it is of use
    if (isOpen) draft.free()
    for (const { write } of parts) write.free()
    next?.free()
    throw error
  }
}

/** What is to be written into the blocks of the directory before. */
async function bringing(
  core: Core,
  directory: ServerDirectoryHandle,
  blocks: DatabaseHandle,
  pace: Pace,
): Promise<WriteHandle> {
  const bringing = core.newBringing(directory, blocks)
  try {
    while (bringing.step(directory, blocks)) await pace.turn()
  } catch (error) {
    if ((error as Error).name !== 'RuntimeError') bringing.free()
    throw error
  }
  return bringing.intoWrite()
}
