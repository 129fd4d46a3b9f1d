// Folding edits into the openings of their rows, in a thread, in the background. Folded openings are as of the newest epoch, and
// the epoch before is answered from the ones on disk: they are written once a later epoch has come. Until then lists have the edits.

import type { Manifest } from '@keyhush/protocol'
import type { Dated, Folding } from '@keyhush/server/proofs'
import { ProverThread } from './prover-threads.js'
import type { Setup } from './setup.js'

/** A row's openings, and the edits to fold into them, as far as an epoch. */
export interface Fold extends Dated {
  readonly row: number
  readonly edits: Uint8Array
}

/** The rows of a database, as `Openings` keeps them. */
export interface FoldedRows {
  readonly proved: { readonly setup: Setup }
  /** the row that needs folding most; undefined: none does */
  next(newest: Manifest): Fold | undefined
  /** A row has been folded, in memory. */
  folded(row: number, openings: Dated): void
  /** Folded rows as of `epoch` or before, to be written. */
  settled(epoch: number): Iterable<readonly [number, Dated]>
  /** A folded row has been written. */
  stored(row: number, openings: Dated): void
}

export class RowFolding implements Folding {
  onFailure: (error: Error) => void = () => {}

  readonly #openings: FoldedRows
  readonly #newest: () => Manifest
  readonly #write: (row: number, openings: Dated) => Promise<boolean>
  #thread: ProverThread | undefined
  #running: Promise<void> | undefined
  #stopped = false
  #failure: string | undefined

  constructor(openings: FoldedRows, newest: () => Manifest, write: (row: number, openings: Dated) => Promise<boolean>) {
    this.#openings = openings
    this.#newest = newest
    this.#write = write
  }

  get failure(): string | undefined {
    return this.#failure
  }

  catchUp(): void {
    this.#running ??= this.#run()
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

  async settled(): Promise<void> {
    await this.#running
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
    this.#thread?.giveBack()
    this.#thread = undefined
  }

  async #run(): Promise<void> {
    while (!this.#stopped && (await this.#writeSettled())) {
      const fold = this.#openings.next(this.#newest())
      if (fold === undefined) return
      const { row, epoch, bytes, edits } = fold
      this.#thread ??= ProverThread.take(this.#openings.proved.setup.proving)
      const folded = await this.#thread.do({ openings: bytes, edits })
      this.#openings.folded(row, { epoch, bytes: folded })
    }
  }

  /** Writes all that has been folded and whose epoch is not the newest any more. Returns whether it could. */
  async #writeSettled(): Promise<boolean> {
    for (const [row, folded] of [...this.#openings.settled(this.#newest().epoch - 1)]) {
      if (this.#stopped || !(await this.#write(row, folded))) return false
      this.#openings.stored(row, folded)
    }
    return true
  }

  /** Nothing is lost: the edits are there. Another thread tries again after the next batch. */
  #fail(error: Error): void {
    void this.#thread?.end()
    this.#thread = undefined
    this.#failure = `edits are not folded into openings, answers take longer: ${error.message}`
    this.onFailure(error)
  }
}
