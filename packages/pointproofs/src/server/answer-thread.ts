// The thread that proves a database's answers, one after the other. It is there, with its tables, before the first is asked for: a new one
// takes seconds.

import type { AnswerTask } from './prover-thread.js'
import { ProverThread } from './prover-threads.js'

/** The slowest answer takes a second. A thread that takes so long does not end. */
const MOST_MS = 30_000

export class AnswerThread {
  readonly #setup: Uint8Array
  #thread: ProverThread | undefined
  /** settles when it is idle */
  #last: Promise<unknown>
  #isOver = false

  /** `setup`: what provers are made of. */
  constructor(setup: Uint8Array) {
    this.#setup = setup
    this.#last = this.#ready().catch(() => {}) // the first answer tries again
  }

  /** The proof of an answer. Rejects if its thread fails; the next has another. */
  prove(task: AnswerTask): Promise<Uint8Array> {
    const done = this.#last.then(async () => {
      const thread = await this.#ready()
      return await this.#within(thread, thread.do(task))
    })
    this.#last = done.catch(() => {})
    return done
  }

  /** The database is closed: its thread is another's once it is idle. */
  giveBack(): void {
    this.#isOver = true
    void this.#last.then(() => this.#thread?.giveBack())
  }

  async #ready(): Promise<ProverThread> {
    if (this.#isOver) throw new Error('expected a database that is open')
    if (this.#thread !== undefined && !this.#thread.hasEnded) return this.#thread
    const thread = ProverThread.take(this.#setup)
    await this.#within(thread, thread.do({ warm: true }))
    this.#thread = thread
    return thread
  }

  async #within(thread: ProverThread, work: Promise<Uint8Array>): Promise<Uint8Array> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`expected a proof within ${MOST_MS} ms`)), MOST_MS)
    })
    try {
      return await Promise.race([work, late])
    } catch (error) {
      work.catch(() => {})
      void thread.end()
      throw error
    } finally {
      clearTimeout(timer)
    }
  }
}
