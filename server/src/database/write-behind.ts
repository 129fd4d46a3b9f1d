// A write-behind cache of chunks: an epoch's transaction holds its list, and the chunks that the list changes follow later,
// for many epochs at once. Until then a start applies the lists to the chunks.

import { CHUNKS_TOGETHER, chunksWith } from './chunks.js'
import type { EpochStore } from './epoch-store.js'
import type { Queue } from './queue.js'
import { ANOTHER_PROCESS } from './stored-values.js'

/** How old chunks may be: a start has to apply so much to them. */
const MOST_LIST_BYTES = 8 * 1024 * 1024
const MOST_EPOCHS = 64

/** The newest epoch as it is in memory, while that is also what is on disk. */
export interface Current {
  readonly epoch: number
  /** as `EpochStore.writeChunks` wants it */
  readonly chunk: (number: number) => Uint8Array
  readonly directoryBytes: Uint8Array
  /** with Pointproofs: row lists, and the epoch since which openings still need the lists */
  readonly proofs?: { readonly rowLists: Uint8Array; readonly foldedTo: number } | undefined
}

export class WriteBehind {
  readonly #store: EpochStore
  /** waits for its turn between batches */
  readonly #queue: Queue
  readonly #current: () => Current
  /** chunks that changed after they were written */
  readonly #chunks: Set<number>
  /** every other chunk is as it was at this epoch … */
  #base: number
  /** … and the lists since have so many bytes */
  #listBytes: number
  #catchingUp: Promise<unknown> | undefined
  /** the newest writing; an earlier one ends when it sees that */
  #round = 0

  constructor(
    store: EpochStore,
    queue: Queue,
    current: () => Current,
    from: { readonly base: number; readonly lagging: Iterable<number>; readonly listBytes: number },
  ) {
    this.#store = store
    this.#queue = queue
    this.#current = current
    this.#chunks = new Set(from.lagging)
    this.#base = from.base
    this.#listBytes = from.listBytes
  }

  /** An epoch changed these records, of ℓ bytes. */
  note(changed: Uint32Array, recordBytes: number, listBytes: number): void {
    for (const number of chunksWith(changed, recordBytes)) this.#chunks.add(number)
    this.#listBytes += listBytes
  }

  /** Writes between batches if chunks are old enough. */
  catchUp(): void {
    if (this.#listBytes <= MOST_LIST_BYTES && this.#current().epoch - this.#base <= MOST_EPOCHS) return
    // If it fails, nothing is lost: the lists are there, and the next batch tries again.
    this.#catchingUp ??= this.#write(this.#queue)
      .catch(() => {})
      .finally(() => {
        this.#catchingUp = undefined
      })
  }

  /** Brings all chunks to the newest epoch, in this turn. Throws what storage throws. */
  async flush(): Promise<void> {
    if (!(await this.#write(work => work()))) throw new Error(ANOTHER_PROCESS)
  }

  /** Nothing is written afterwards. */
  async stop(): Promise<void> {
    this.#round++
    await this.#catchingUp
  }

  async #write(queue: Queue): Promise<boolean> {
    const round = ++this.#round
    const [base, listBytes] = [this.#current().epoch, this.#listBytes]
    const numbers = [...this.#chunks]
    for (let i = 0; i < numbers.length; i += CHUNKS_TOGETHER) {
      const some = numbers.slice(i, i + CHUNKS_TOGETHER)
      const written = await queue(async () => {
        if (round !== this.#round) return false
        const { epoch, chunk } = this.#current()
        const done = await this.#store.writeChunks(epoch, some, chunk)
        if (done) for (const number of some) this.#chunks.delete(number)
        return done
      })
      if (!written) return false
    }
    const based = await queue(async () => {
      const { epoch, directoryBytes, proofs } = this.#current()
      const to = Math.min(base, proofs?.foldedTo ?? base)
      return round === this.#round && (await this.#store.rebase(to, epoch, directoryBytes, proofs?.rowLists))
    })
    if (based) {
      this.#base = base
      this.#listBytes -= listBytes
    }
    return based
  }
}
