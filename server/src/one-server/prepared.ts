// An epoch that is prepared for lookups with one server, in a thread and memory of its own. The loop goes on meanwhile, and the epoch
// before has its own thread. When an epoch is answered no more, its thread ends, and all its memory with it.

import { Worker } from 'node:worker_threads'
import type { InstantOf } from '@keyhush/protocol'
import type { CoreError } from '@keyhush/wasm'
import { BYTES_AT_ONCE, Pace } from '../base/pace.js'
import { bytesOf, type DatabaseInMemory, type Prepares, partsOf, xor } from './contents.js'
import type { Begin, Replied, Told } from './messages.js'

type State = 'preparing' | 'ready' | 'failed' | 'closed'

export class Prepared {
  readonly #worker: Worker
  /** of what the thread has been asked */
  readonly #asked: { resolve(replied: Replied): void; reject(error: Error): void }[] = []
  #state: State = 'preparing'
  #hint: Uint8Array | undefined
  #problem: string | undefined
  #busy = false
  /** Called when the thread, which was ready, has ended by itself. */
  onLost: () => void = () => {}
  /** Resolves to the public hint when it is prepared. Rejects if it cannot be. */
  made!: Promise<Uint8Array>

  private constructor(begin: Begin) {
    // Without the process's own arguments: what it was started with is no business of the thread's.
    this.#worker = new Worker(new URL('./thread.js', import.meta.url), { workerData: begin, execArgv: [] })
    this.#worker.on('message', (replied: Replied) => this.#settled()?.resolve(replied))
    this.#worker.on('error', error => this.#end(error as Error))
    this.#worker.on('exit', () =>
      this.#end(new Error('expected a thread that answers, but it ended; restart the server')),
    )
    this.#worker.unref()
  }

  /**
   * Copies the records, which must not change until this resolves, and has them prepared. `hintHash`: of the public hint that the manifest
   * names. Without it one is made. `changes`: old ⊕ new of records that are to be as they were.
   */
  static async begin(
    manifest: Prepares,
    from: DatabaseInMemory,
    hintHash?: Uint8Array,
    changes: ReadonlyMap<number, Uint8Array> = new Map(),
  ): Promise<Prepared> {
    const { databaseId, generation } = manifest
    const parts = partsOf(manifest, from)
    const sizes = parts.map(({ of, records, recordBytes }) => ({ of, records, recordBytes }))
    const prepared = new Prepared({ databaseId, generation, parts: sizes, hintHash })
    const pace = new Pace()
    for (const part of parts) {
      const { of, records, recordBytes } = part
      const together = Math.ceil(BYTES_AT_ONCE / recordBytes)
      for (let first = 0; first < records; first += together) {
        const count = Math.min(together, records - first)
        const put = bytesOf(from.core, part, first * recordBytes, count * recordBytes)
        for (const [index, change] of of === 'records' ? changes : []) {
          if (index < first || index >= first + count) continue
          const start = (index - first) * recordBytes
          put.set(xor(put.subarray(start, start + recordBytes), change), start)
        }
        prepared.#tell({ put, of }, put)
        await pace.yield()
      }
    }
    prepared.#prepare()
    return prepared
  }

  /** The public hints of records and directory, one behind the other; undefined: it is being prepared, or that has failed. */
  get hint(): Uint8Array | undefined {
    return this.#hint
  }

  /** Whether lookups can be answered. */
  get ready(): boolean {
    return this.#state === 'ready'
  }

  get preparing(): boolean {
    return this.#state === 'preparing'
  }

  /** Whether it answers one at the moment. */
  get busy(): boolean {
    return this.#busy
  }

  /** Why it cannot answer, for people; undefined: it can, or will. */
  get problem(): string | undefined {
    return this.#problem
  }

  #prepare(): void {
    this.made = this.#ask({ prepare: true }).then(
      replied => {
        if ('hint' in replied && replied.hint !== undefined) {
          this.#hint = replied.hint
          if (this.#state === 'preparing') this.#state = 'ready'
          return replied.hint
        }
        const why =
          'refused' in replied ? replied.message : 'the records have another public hint than the manifest names'
        throw this.#fail(`lookups with one server cannot be answered: ${why}; build the dataset anew`)
      },
      (error: Error) => {
        throw this.#fail(`lookups with one server cannot be answered: ${error.message}`)
      },
    )
    this.made.catch(() => {}) // `problem` says it
  }

  /** Its thread has nothing more to do, and gives its memory back. */
  #fail(problem: string): Error {
    if (this.#state !== 'closed') this.#state = 'failed'
    this.#problem = problem
    void this.#worker.terminate()
    return new Error(problem)
  }

  /** Answers requests of right lengths, one call at a time. Rejects with the core's error, or if the thread has failed. */
  async answer(of: InstantOf, requests: Uint8Array): Promise<Uint8Array> {
    this.#busy = true
    try {
      const answer = new Uint8Array(requests) // a copy, also of a Buffer, whose slice() is none
      const replied = await this.#ask({ answer, of }, answer)
      if ('answers' in replied) return replied.answers
      const { refused, message } = replied as Extract<Replied, { refused: string }>
      throw Object.assign(new Error(message), { code: refused as CoreError['code'] })
    } finally {
      this.#busy = false
    }
  }

  /** Ends the thread at once, and gives its memory back. */
  async close(): Promise<void> {
    this.#state = 'closed'
    await this.#worker.terminate()
  }

  #tell(told: Told, moved?: Uint8Array<ArrayBuffer>): void {
    this.#worker.postMessage(told, moved === undefined ? [] : [moved.buffer])
  }

  #ask(told: Told, moved?: Uint8Array<ArrayBuffer>): Promise<Replied> {
    return new Promise((resolve, reject) => {
      if (this.#state === 'closed' || this.#state === 'failed') throw new Error('the thread has ended')
      this.#asked.push({ resolve, reject })
      this.#worker.ref() // a process that is to end waits for an answer, and for nothing else here
      this.#tell(told, moved)
    })
  }

  #settled() {
    const asked = this.#asked.shift()
    if (this.#asked.length === 0) this.#worker.unref()
    return asked
  }

  #end(error: Error): void {
    const known = this.#state === 'closed' || this.#state === 'failed'
    const wasReady = this.ready
    if (!known) this.#fail(`lookups with one server cannot be answered: ${error.message}`)
    for (const { reject } of this.#asked.splice(0)) reject(error)
    this.#worker.unref()
    if (wasReady) this.onLost()
  }
}
