// The next epoch, made in memory of a batch, or of the list that another process made of one. It is made in slices, so that the
// event loop goes on and epochs are answered meanwhile.
//
// 1. Drafting changes nothing: a batch can be refused.
// 2. At one go the newest epoch becomes the core's previous one.
// 3. The next one is written. Other threads wait only while the memory that they read is written.

import type {
  DatabaseHandle,
  DraftHandle,
  LayoutHandle,
  RefusedError,
  ServerDirectoryHandle,
  WriteHandle,
} from '@keyhush/wasm'
import { isTrap } from '../base/errors.js'
import { gathered, Pace } from '../base/pace.js'
import { Refusal } from '../base/refusal.js'
import { nextSlotMarks } from '../dataset/slot-marks.js'
import type { Generation } from './generation.js'
import { type Operations, refuse } from './operations.js'

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
interface Writing {
  readonly write: WriteHandle
  readonly database: DatabaseHandle
}

/** What a draft makes. */
export interface Drafted {
  /** without keys there is none */
  readonly directory: NextDirectory | undefined
  /** the update list, of records alone … */
  readonly list: Uint8Array
  /** … and its BLAKE3 */
  readonly listHash: Uint8Array
  /** records that it changes, ascending */
  readonly changed: Uint32Array
}

/** Drafts what a batch makes. Throws a `batch_refused` Refusal, or the core's errors, and then nothing has changed. */
export async function nextOfBatch(now: Generation, operations: Operations): Promise<NextEpoch> {
  const { kinds, fingerprints, indices, records } = operations
  const [pace, count] = [new Pace(), kinds.length]
  try {
    const draft = now.core.newDraft(now.database, now.directory !== undefined, count)
    return await drafted(now, draft, pace, async () => {
      for (let start = 0; start < count; start += OPERATIONS_TOGETHER) {
        const end = Math.min(count, start + OPERATIONS_TOGETHER)
        const part = (all: Uint8Array) => all.subarray((start * all.length) / count, (end * all.length) / count)
        draft.push(part(kinds), part(fingerprints), indices.subarray(start, end), part(records))
        await pace.yield()
      }
    })
  } catch (error) {
    const { code, message, operation, reason } = error as RefusedError
    if (code === 'refused') return refuse(operation + 1, reason)
    if ((code as string) === 'layout') throw new Refusal('batch_refused', message)
    throw error
  }
}

/** Drafts what a list makes that leads to layout `after`. Throws the core's errors, and then nothing has changed. */
export async function nextOfList(now: Generation, list: Uint8Array, after: LayoutHandle): Promise<NextEpoch> {
  return drafted(now, now.core.newDraftOfList(now.database, list, after), new Pace())
}

export class NextEpoch {
  readonly made: Drafted
  readonly #generation: Generation
  readonly #parts: readonly Writing[]
  readonly #pace: Pace

  constructor(made: Drafted, generation: Generation, parts: readonly Writing[], pace: Pace) {
    this.made = made
    this.#generation = generation
    this.#parts = parts
    this.#pace = pace
  }

  /** Writes it, once. `begun` is called when the newest epoch becomes the core's previous one: from then on there is no way back. */
  async write(begun: () => void): Promise<void> {
    await this.#run(() => {
      begun()
      for (const { write, database } of this.#parts) write.begin(database)
    })
    for (const { write } of this.#parts) write.free()
    const [{ directory, changed }, generation] = [this.made, this.#generation]
    if (directory === undefined) return
    generation.directory?.free()
    generation.directory = directory.handle
    if (generation.slotMarks === undefined) return
    generation.slotMarks = await nextSlotMarks(generation, generation.slotMarks, changed)
  }

  /** Gives it up, in place of `write`. */
  discard(): void {
    for (const { write } of this.#parts) write.free()
    this.made.directory?.handle.free()
  }

  /** After this `write` cannot fail. Throws the core's `layout` error, and then nothing has changed. */
  async makeReady(): Promise<void> {
    await this.#run()
  }

  /** Takes all steps, after `begin`, which no other thread may read beside. */
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
      if (beginning !== undefined || left[0]!.write.alone) await this.#generation.readers.exclusively(alone)
      else step()
      await this.#pace.yield()
    }
  }
}

async function drafted(
  now: Generation,
  draft: DraftHandle,
  pace: Pace,
  begin: () => Promise<void> = async () => {},
): Promise<NextEpoch> {
  const { database, blocks, directory } = now
  const parts: Writing[] = []
  let next: ServerDirectoryHandle | undefined
  let isOpen = true // `draft`
  try {
    await begin()
    const step = () => (directory === undefined ? draft.stepKeyless(database) : draft.stepKeyed(database, directory))
    while (step()) await pace.yield()
    const [listHash, directoryHash] = [draft.listHash(), draft.directoryHash()]
    next = draft.takeDirectory()
    isOpen = false
    const write = draft.intoWrite()
    parts.push({ write, database })
    await pace.yield()
    const list = await gathered(write.listBytes, (start, end) => write.listPart(start, end), pace)
    const changed = write.indices()
    await pace.yield()
    let made: NextDirectory | undefined
    if (next !== undefined) {
      const handle = next
      const bytes = await gathered(handle.encodedBytes, (start, end) => handle.encodePart(start, end), pace)
      made = { handle, bytes, hash: directoryHash! }
      if (blocks !== undefined) parts.push({ write: await bringing(now, handle, blocks, pace), database: blocks })
    }
    const epoch = new NextEpoch({ directory: made, list, listHash, changed }, now, parts, pace)
    await epoch.makeReady()
    return epoch
  } catch (error) {
    if (isTrap(error)) throw error
    if (isOpen) draft.free()
    for (const { write } of parts) write.free()
    next?.free()
    throw error
  }
}

/** The changes that turn the blocks of the directory before into those of the new one. */
async function bringing(
  { core }: Generation,
  directory: ServerDirectoryHandle,
  blocks: DatabaseHandle,
  pace: Pace,
): Promise<WriteHandle> {
  const bringing = core.newBringing(directory, blocks)
  try {
    while (bringing.step(directory, blocks)) await pace.yield()
  } catch (error) {
    if (!isTrap(error)) bringing.free()
    throw error
  }
  return bringing.intoWrite()
}
