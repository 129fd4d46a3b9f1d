// Folding edits into the openings of the rows they are of, in a thread, behind the epochs. What is folded is as of the newest epoch;
// the one before is answered out of what was there, so it is written, with its epoch, once a later one has come: until then,
// and until it is on disk, the update lists tell of those edits.

import type { Manifest } from '@keyhush/protocol'
import type { FoldingThread, RowProofs } from '../dataset/proof-kinds.js'
import type { EpochStore } from './epoch-store.js'
import type { InTurn } from './write-behind.js'

export class Folding {
  /** told of what a thread or the disk has failed with */
  onFailure: (error: Error) => void = () => {}

  readonly #store: EpochStore
  readonly #openings: RowProofs
  readonly #newest: () => Manifest
  #thread: FoldingThread | undefined
  #running: Promise<void> | undefined
  #stopped = false
  #failure: string | undefined

  constructor(store: EpochStore, openings: RowProofs, newest: () => Manifest) {
    this.#store = store
    this.#openings = openings
    this.#newest = newest
  }

  /** Why edits are not folded at the moment, for people. Answers are right all the same, and take longer by and by. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Goes on with rows that have many edits, or old ones. */
  catchUp(inTurn: InTurn): void {
    this.#running ??= this.#run(inTurn)
      .then(
        () => {
          this.#failure = undefined
        },
        error => this.#fail(error as Error),
      )
      .finally(() => {
        this.#running = undefined
      })
  }

  /** What is under way, if anything is. */
  async settled(): Promise<void> {
    await this.#running
  }

  /** After the row that is being folded. Nothing is written afterwards. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
    this.#thread?.giveBack()
    this.#thread = undefined
  }

  async #run(inTurn: InTurn): Promise<void> {
    for (;;) {
      if (this.#stopped || !(await this.#write(inTurn))) return
      const fold = this.#openings.next(this.#newest())
      if (fold === undefined) return
      const { row, epoch, bytes, edits } = fold
      this.#thread ??= this.#openings.foldingThread()
      const folded = await this.#thread.do({ openings: bytes, edits })
      this.#openings.folded(row, { epoch, bytes: folded })
    }
  }

  /** All that has been folded and whose epoch is not the newest any more; whether it could be. */
  async #write(inTurn: InTurn): Promise<boolean> {
    const { generation, epoch } = this.#newest()
    for (const [row, folded] of [...this.#openings.settled(epoch - 1)]) {
      const written = await inTurn(async () => {
        if (this.#stopped || !(await this.#store.writeOpenings(generation, row, folded))) return false
        this.#openings.stored(row, folded)
        return true
      })
      if (!written) return false
    }
    return true
  }

  /** Nothing is lost: the edits are there, and it is tried again, in another thread, after the next batch. */
  #fail(error: Error): void {
    void this.#thread?.end()
    this.#thread = undefined
    this.#failure = `edits are not folded into openings, answers take longer: ${error.message}`
    this.onFailure(error)
  }
}
