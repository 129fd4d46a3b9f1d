// Has worker threads do what a source of tasks has for them.

import type { Core } from '@keyhush/wasm'
import { Threads } from './threads.js'

/** A pass, and who hears what becomes of it. */
export interface Work {
  /** its address in the core's memory */
  readonly descriptor: number
  /** Throws if the core has trapped. */
  done(): void
  /** The thread has failed, and may still be at it. */
  failed(error: Error): void
}

export interface Source {
  /** What a thread could do now; undefined: nothing. Throws if the core has trapped. */
  next(): Work | undefined
  /** No thread will ever do anything again. */
  stop(): void
}

export class Workers {
  /** told when the core's memory is in doubt; nothing is to be answered after that */
  onFailure: (error: Error) => void = () => {}

  readonly #most: number
  readonly #source: Source
  #threads: Threads | undefined
  readonly #tasks = new Set<Promise<void>>()
  #starting: Promise<void> | undefined
  #failed = false

  /** At most so many threads. */
  constructor(most: number, source: Source) {
    this.#most = most
    this.#source = source
  }

  /** Has free threads do what there is to do, in this core's memory. */
  wake(core: Core): void {
    if (this.#threads === undefined) {
      this.#starting ??= this.#start(core)
      return
    }
    try {
      while (!this.#failed && this.#threads.free) {
        const work = this.#source.next()
        if (work === undefined) return
        const task = this.#run(this.#threads, work).then(() => {
          this.#tasks.delete(task)
          this.wake(core)
        })
        this.#tasks.add(task)
      }
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  async #run(threads: Threads, work: Work): Promise<void> {
    try {
      await threads.run(work.descriptor).catch((error: Error) => {
        work.failed(error)
        throw error
      })
      work.done()
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  /** What is in the core's memory cannot be trusted any more. */
  #fail(error: Error): void {
    if (this.#failed) return
    this.#failed = true
    this.#source.stop()
    this.onFailure(error)
  }

  /** Ends all threads, when what they do is done. */
  async close(): Promise<void> {
    await this.#starting
    while (this.#tasks.size > 0) await Promise.allSettled(this.#tasks)
    await this.#threads?.close()
  }

  async #start(core: Core): Promise<void> {
    try {
      this.#threads = await Threads.of(core, this.#most)
      this.wake(core)
    } catch (error) {
      this.#fail(error as Error)
    }
  }
}

/** What the core refuses by a code leaves it whole; a trap, or a thread that has failed, does not. */
export function isFatal(error: unknown): error is Error {
  return error instanceof Error && typeof (error as { code?: unknown }).code !== 'string'
}
