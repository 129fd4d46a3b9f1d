// Threads that prove partitions, or fold edits into openings. A new thread makes tables for seconds, so idle threads are kept for the
// next caller with the same ceremony.

import { Worker } from 'node:worker_threads'
import type { ProverData, ProverTask } from './prover-thread.js'

/** How long an idle thread is kept. */
const IDLE_MS = 60_000

/** Idle threads by their setup. */
const idle = new Map<string, ProverThread[]>()

/** Does one task at a time. */
export class ProverThread {
  readonly #worker: Worker
  readonly #name: string
  #settle: { resolve(proved: Uint8Array): void; reject(error: Error): void } | undefined
  #timer: NodeJS.Timeout | undefined
  /** it has ended, or is ending */
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

  /** It does nothing any more. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** An idle thread, or a new one. `setup`: what its prover is made of. */
  static take(setup: Uint8Array): ProverThread {
    const name = Buffer.from(setup).toString('base64')
    const thread = idle.get(name)?.at(-1) ?? new ProverThread(setup, name)
    thread.#leave()
    return thread
  }

  /** Rejects if the thread fails, or has failed while it was idle. It is then useless. */
  do(task: ProverTask): Promise<Uint8Array> {
    if (this.#hasEnded) return Promise.reject(ended())
    this.#worker.ref()
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#worker.postMessage(task)
    })
  }

  /** Called when its task is done: the next caller may take it. */
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

  /** From now on nobody takes it. */
  #endsNow(): void {
    this.#hasEnded = true
    this.#leave()
  }

  /** It is no longer idle. */
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
