// Worker threads that run instant passes on the one copy of the records, which is in the core's memory. A thread begins
// when it is first needed.

import { Worker } from 'node:worker_threads'
import type { Core, WorkerStackHandle } from '@keyhush/wasm'
import type { PassOptions } from '@keyhush/wasm/worker'

interface Thread {
  readonly worker: Worker
  readonly stack: WorkerStackHandle
  /** of the pass under way */
  done: { resolve(): void; reject(error: Error): void } | undefined
}

export class Threads {
  readonly #core: Core
  readonly #module: PassOptions['module']
  readonly #most: number
  readonly #threads: Thread[] = []
  #closing = false

  private constructor(core: Core, module: PassOptions['module'], most: number) {
    this.#core = core
    this.#module = module
    this.#most = most
  }

  static async of(core: Core, most: number): Promise<Threads> {
    return new Threads(core, await core.workerModule(), most)
  }

  /** Whether a pass can begin. */
  get free(): boolean {
    return this.#threads.length < this.#most || this.#threads.some(({ done }) => done === undefined)
  }

  /** Has a thread run the pass of this descriptor; only while there is a free one. Rejects if the thread has failed. */
  run(descriptor: number): Promise<void> {
    const thread = this.#threads.find(({ done }) => done === undefined) ?? this.#start()
    return new Promise((resolve, reject) => {
      thread.done = { resolve, reject }
      thread.worker.ref() // a process that is to end waits for a pass, and for nothing else here
      thread.worker.postMessage(descriptor)
    })
  }

  /** Ends all threads and gives their stacks back. No pass may be under way. */
  async close(): Promise<void> {
    this.#closing = true
    for (const { worker, stack } of this.#threads.splice(0)) {
      await worker.terminate()
      stack.free()
    }
  }

  #start(): Thread {
    const stack = this.#core.newWorkerStack()
    const { memory } = this.#core
    const workerData = { module: this.#module, memory, stackEnd: stack.end }
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
      if (!this.#closing) settle()?.reject(new Error('a worker thread has ended'))
    })
    worker.unref()
    this.#threads.push(thread)
    return thread
  }
}
