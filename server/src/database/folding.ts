// Folding edits into the openings of the rows they are of, in a thread, behind the epochs. What is folded is written with the
// epoch it is as of, and only then used; until it is, answers are corrected by those edits, which the update lists tell of.

import type { Manifest } from '@pirouette/protocol'
import type { Openings } from '../dataset/openings.js'
import { ProverThread, shapeOf } from '../dataset/proving.js'
import type { EpochStore } from './epoch-store.js'
import type { InTurn } from './write-behind.js'

export class Folding {
  readonly #store: EpochStore
  readonly #openings: Openings
  readonly #newest: () => Manifest
  #thread: ProverThread | undefined
  #running: Promise<void> | undefined
  #stopped = false

  constructor(store: EpochStore, openings: Openings, newest: () => Manifest) {
    this.#store = store
    this.#openings = openings
    this.#newest = newest
  }

  /** Goes on with rows that have many edits, or old ones. */
  catchUp(inTurn: InTurn): void {
    // Should it fail, nothing is lost: the edits are there, and it is tried again after the next batch.
    this.#running ??= this.#run(inTurn)
      .catch(() => {})
      .finally(() => {
        this.#running = undefined
      })
  }

  /** What is under way, if anything is. */
  async settled(): Promise<void> {
    await this.#running
  }

  /** Nothing is written afterwards. */
  async stop(): Promise<void> {
    this.#stopped = true
    const thread = this.#thread
    this.#thread = undefined
    await thread?.end()
    await this.#running
  }

  async #run(inTurn: InTurn): Promise<void> {
    for (;;) {
      const { epoch, generation } = this.#newest()
      // The epoch before the newest is answered as well: no later edit may be in.
      const fold = this.#stopped ? undefined : this.#openings.next(epoch - 1, epoch)
      if (fold === undefined) return
      const { row, edits } = fold
      const bytes = await this.#started().do({ openings: fold.bytes, edits })
      const folded = { epoch: fold.epoch, bytes }
      const written = await inTurn(async () => {
        if (this.#stopped || !(await this.#store.writeOpenings(generation, row, folded))) return false
        this.#openings.folded(row, folded)
        return true
      })
      if (!written) return
    }
  }

  #started(): ProverThread {
    const { setup } = this.#openings.proved
    this.#thread ??= new ProverThread({ setup, shape: shapeOf(this.#newest()) }, () => {
      this.#thread = undefined
    })
    return this.#thread
  }
}
