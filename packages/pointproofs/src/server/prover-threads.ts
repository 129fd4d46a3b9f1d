// Threads that prove partitions, or fold edits into openings. Before its first row one makes tables, which takes seconds, so who has
// no more use for it gives it back, and who is next under the same ceremony goes on with it.

import { Worker } from 'node:worker_threads'
import type { ProverData, ProverTask } from './prover-thread.js'

/** How long one that nobody wants is kept. */
const IDLE_MS = 60_000

/** By what they are made of. */
const idle = new Map<string, ProverThread[]>()

/** Does one thing at a time. */
export class ProverThread {
  readonly #worker: Worker
  readonly #name: string
  #settle: { resolve(proved: Uint8Array): void; reject(error: Error): void } | undefined
  #timer: NodeJS.Timeout | undefined
  /** or is about to */
  #hasEnded = false

  private constructor(setup: Uint8Array, name: string) {
    const workerData: ProverData = { setup }
    this.#name = name
    this.#worker = new Worker(new URL('./prover-thread.js', import.meta.url), { workerData, execArgv: [] })
    const settle = () => {
      const waiting = this.#settle
      this.#settle = undefined
      this.#worker.unref()
      return waiting
    }
    this.#worker.on('message', proved => settle()?.resolve(proved))
    this.#worker.on('error', error => {
      this.#endsNow()
      settle()?.reject(error as Error)
    })
    this.#worker.on('exit', () => {
      this.#endsNow()
      settle()?.reject(ended())
    })
    this.#worker.unref()
  }

  /** One that is idle, or another. `setup` is what a prover is made of. */
  static take(setup: Uint8Array): ProverThread {
    const name = Buffer.from(setup).toString('base64')
    const thread = idle.get(name)?.at(-1) ?? new ProverThread(setup, name)
    thread.#leave()
    return thread
  }

  /** Rejects if the thread fails, which is then of no more use, or has failed while it was idle. */
  do(task: ProverTask): Promise<Uint8Array> {
    if (this.#hasEnded) return Promise.reject(ended())
    this.#worker.ref()
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#worker.postMessage(task)
    })
  }

  /** Once it has done what it was told. */
  giveBack(): void {
    if (this.#hasEnded) return
    const others = idle.get(this.#name) ?? []
    idle.set(this.#name, others)
    others.push(this)
    this.#timer = setTimeout(() => void this.end(), IDLE_MS).unref()
  }

  async end(): Promise<void> {
    this.#endsNow()
    await this.#worker.terminate()
  }

  /** Nobody is handed it any more. */
  #endsNow(): void {
    this.#hasEnded = true
    this.#leave()
  }

  /** It is idle no longer. */
  #leave(): void {
    clearTimeout(this.#timer)
    const others = idle.get(this.#name)?.filter(thread => thread !== this) ?? []
    if (others.length > 0) idle.set(this.#name, others)
    else idle.delete(this.#name)
  }
}

function ended(): Error {
  return new Error('a thread that proves has ended')
}
