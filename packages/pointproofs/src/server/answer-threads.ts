// Threads that prove answers. One stays as long as its database is open, so that a lookup seldom waits for a thread's tables.

import type { AnswerTask } from './prover-thread.js'
import { ProverThread } from './prover-threads.js'

export class AnswerThreads {
  readonly #setup: Uint8Array
  /** the one that stays, while it is idle */
  #own: ProverThread | undefined
  #isOver = false

  /** `setup`: what provers are made of. */
  constructor(setup: Uint8Array) {
    this.#setup = setup
    this.#own = ProverThread.take(setup)
  }

  /** The proof of an answer. Rejects if its thread has failed; the next has another. */
  async prove(task: AnswerTask): Promise<Uint8Array> {
    const thread = this.#own ?? ProverThread.take(this.#setup)
    this.#own = undefined
    try {
      const proof = await thread.do(task)
      if (this.#own === undefined && !this.#isOver) this.#own = thread
      else thread.giveBack()
      return proof
    } catch (error) {
      void thread.end()
      throw error
    }
  }

  /** The database is closed. */
  giveBack(): void {
    this.#isOver = true
    this.#own?.giveBack()
    this.#own = undefined
  }
}
