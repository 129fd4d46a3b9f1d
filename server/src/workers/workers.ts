// Worker threads that run what a source has for them, on the one copy of the records, which is in the core's memory. A thread begins
// when it is first needed.

import { Worker } from 'node:worker_threads'
import type { Core, WorkerStackHandle } from '@keyhush/wasm'
import type { PassOptions } from '@keyhush/wasm/worker'

/** A pass, and what to call when it ends. */
export interface Work {
  /** its address in the core's memory */
  readonly descriptor: number
  /** Throws if the core has trapped. */
  done(): void
  /** The thread has failed, and may still run. */
  failed(error: Error): void
}

export interface Source {
  /** What a thread could do now; undefined: nothing. Throws if the core has trapped. */
  next(): Work | undefined
  /** No thread will ever do anything again. */
  stop(): void
}

interface Thread {
  readonly worker: Worker
  readonly stack: WorkerStackHandle
  /** of the pass under way */
  done: { resolve(): void; reject(error: Error): void } | undefined
}

export class Workers {
  /** Called when the core's memory is in doubt; nothing is to be answered after that. */
  onFailure: (error: Error) => void = () => {}

  readonly #most: number
  readonly #source: Source
  readonly #threads: Thread[] = []
  #module: PassOptions['module'] | undefined
  readonly #tasks = new Set<Promise<void>>()
  #starting: Promise<void> | undefined
  #failed = false
  #closing = false

  /** At most so many threads. */
  constructor(most: number, source: Source) {
    this.#most = most
    this.#source = source
  }

  /** Has free threads do what there is to do, in this core's memory. */
  wake(core: Core): void {
    if (this.#module === undefined) {
      this.#starting ??= this.#start(core)
      return
    }
    try {
      while (!this.#failed && (this.#free !== undefined || this.#threads.length < this.#most)) {
        const work = this.#source.next()
        if (work === undefined) return
        const task = this.#run(this.#free ?? this.#newThread(core, this.#module), work).then(() => {
          this.#tasks.delete(task)
          this.wake(core)
        })
        this.#tasks.add(task)
      }
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  /** Ends all threads, when what they do is done, and gives their stacks back. */
  async close(): Promise<void> {
    await this.#starting
    while (this.#tasks.size > 0) await Promise.allSettled(this.#tasks)
    this.#closing = true
    for (const { worker, stack } of this.#threads.splice(0)) {
      await worker.terminate()
      stack.free()
    }
  }

  get #free(): Thread | undefined {
    return this.#threads.find(({ done }) => done === undefined)
  }

  async #start(core: Core): Promise<void> {
    try {
      this.#module = await core.workerModule()
      this.wake(core)
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  async #run(thread: Thread, work: Work): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        thread.done = { resolve, reject }
        thread.worker.ref() // a process that is to end waits for a pass, and for nothing else here
        thread.worker.postMessage(work.descriptor)
      }).catch((error: Error) => {
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

  #newThread(core: Core, module: PassOptions['module']): Thread {
    const stack = core.newWorkerStack()
    const workerData: PassOptions = { module, memory: core.memory, stackEnd: stack.end }
    // Without the process's own arguments: what it was started with is no business of the thread's.
    const worker = new Worker(new URL('./thread.js', import.meta.url), { workerData, execArgv: [] })
    const thread: Thread = { worker, stack, done: undefined }
    const settle = () => {
      const { done } = thread
      thread.done = undefined
      worker.unref()
      return done
    }
    worker.on('message', () => settle()?.resolve())
    worker.on('error', error => settle()?.reject(error))
    worker.on('exit', () => {
      if (!this.#closing)
        settle()?.reject(new Error('expected an answer from a worker thread, but the thread ended; restart the server'))
    })
    worker.unref()
    this.#threads.push(thread)
    return thread
  }
}

/** What the core refuses by a code leaves it whole; a trap, or a thread that has failed, does not. */
export function isFatal(error: unknown): error is Error {
  return error instanceof Error && typeof (error as { code?: unknown }).code !== 'string'
}
